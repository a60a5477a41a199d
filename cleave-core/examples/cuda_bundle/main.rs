fn main() {
    let out = std::path::PathBuf::from(std::env::args().nth(1).expect("a folder"));
    let only = std::env::args().nth(2);
    std::fs::create_dir_all(&out).unwrap();
    let mut files: Vec<_> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernels/pass"))
        .unwrap()
        .map(|f| f.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "rs"))
        .collect();
    files.sort();
    for f in files {
        let text = std::fs::read_to_string(&f).unwrap();
        for kernel in cleave_core::frontend::from_source(&text).map_err(|e| e.render(&text)).unwrap() {
            if only.as_ref().is_some_and(|o| *o != kernel.name) {
                continue;
            }
            let t = std::time::Instant::now();
            let search = cleave_core::algebra::search(&kernel);
            eprintln!("{}: search {:?}, {} algorithms", kernel.name, t.elapsed(), search.algorithms.len());
            let mut programs = vec![];
            for (i, a) in search.algorithms.iter().enumerate() {
                let p = cleave_core::schedule::programs(i as u32, &a.graph, &kernel.bounds);
                eprintln!("  {}: {} programs", a.name, p.len());
                for p in &p {
                    println!("{} / {}: {}", kernel.name, a.name, p.name);
                    show(p)
                }
                programs.extend(p)
            }
            for types in kernel.instances() {
                let e = cleave_core::emit::emission(&kernel, &types, &programs, cleave_core::device::Target::Portable);
                for (p, w, r) in &e.refusals {
                    eprintln!("  {p} {w}: {r}")
                }
                for (i, m) in e.modules.iter().enumerate() {
                    let name = format!("{}_{}_{i}.cu", kernel.name, types.iter().map(|t| t.name()).collect::<Vec<_>>().join("_"));
                    std::fs::write(out.join(name), &m.1).unwrap()
                }
            }
        }
    }
}

fn show(p: &cleave_core::tile::Program) {
    use cleave_core::tile::Statement;
    for (l, parts) in p.launches.iter().enumerate() {
        for part in parts {
            let name = |n: cleave_core::graph::NodeId| format!("t{}{:?}", n.0, part.of(n).iter().map(|d| d.0).collect::<Vec<_>>());
            let dims: Vec<String> = part
                .dims
                .iter()
                .enumerate()
                .map(|(i, d)| {
                    format!("{i}:{}{:?}{}", d.axes.iter().map(|a| part.graph.axis(*a)).collect::<Vec<_>>().join("*"), d.role, if d.batch { "!" } else { "" })
                })
                .collect();
            println!("  launch {l} dims {} grid {:?} split {}", dims.join(" "), part.grid.iter().map(|d| d.0).collect::<Vec<_>>(), part.split);
            for (depth, s) in part.statements() {
                let pad = "  ".repeat(depth + 2);
                match s {
                    Statement::Load { node, view_of } => println!("{pad}load {} {:?} {view_of:?}", name(*node), part.graph.op(*node)),
                    Statement::Map { node } => println!("{pad}map {} = {:?} {:?}", name(*node), part.graph.op(*node), part.graph.operands(*node)),
                    Statement::Reduce { node, over } | Statement::Fold { node, over } => println!(
                        "{pad}{} {} = {:?} over {:?}: {:?} contraction {:?}",
                        if matches!(s, Statement::Fold { .. }) { "fold" } else { "reduce" },
                        name(*node),
                        part.graph.op(*node),
                        over.iter().map(|d| d.0).collect::<Vec<_>>(),
                        part.graph.operands(*node),
                        part.contraction(*node)
                    ),
                    Statement::Rebase { frame } => println!("{pad}rebase {} {:?} {:?}", name(*frame), part.graph.op(*frame), part.graph.operands(*frame)),
                    Statement::Loop(l) => println!("{pad}loop {} domain {:?} states {:?} keep {:?}", l.dim.0, l.domain, l.states, l.keep),
                    s => println!("{pad}{s:?}"),
                }
            }
        }
    }
}
