//! Formulas on one screen and what must be found for each: the folder `formulas` has a file for each family, the expectations stand
//! before a kernel as `//=`, the algorithms beside it in a text. Every program of every algorithm gives what the oracle says.
//!
//! Expectations, about one algorithm for all of a kernel: `one pass over N` (and nothing spilled), `passes N 1 D 2`, `line t0 = ..`,
//! `without text`, `one launch`, `program text` (of one of its programs), `stores nothing over N`; `same algorithms as kernel`.
#![cfg(feature = "compiler")]
use cleave_core::algebra::{Search, search};
use cleave_core::axis::AxisId;
use cleave_core::dtype::{DType, Element};
use cleave_core::extent;
use cleave_core::frontend;
use cleave_core::kernel::{Algorithm, Kernel};
use cleave_core::oracle::{self, Tensor};
use cleave_core::schedule::interpret::{self, Arithmetic, Settings};
use cleave_core::schedule::programs;
use cleave_core::show;
use cleave_core::tile::Program;
use std::path::{Path, PathBuf};

struct Formula {
    expectations: Vec<String>,
    kernel: Kernel,
    found: Search,
    /// By algorithm.
    programs: Vec<Vec<Program>>,
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formulas");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "rs")).collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

fn formulas(file: &Path) -> Vec<Formula> {
    let text = std::fs::read_to_string(file).unwrap();
    let mut expectations: Vec<Vec<String>> = vec![vec![]];
    for line in text.lines() {
        match line.strip_prefix("//= ") {
            Some(e) => expectations.last_mut().unwrap().push(e.to_string()),
            None if line.starts_with("fn ") => expectations.push(vec![]),
            None => {}
        }
    }
    let kernels = frontend::from_source(&text).unwrap_or_else(|e| panic!("{}", e.render(&text)));
    assert_eq!(kernels.len() + 1, expectations.len(), "{}", file.display());
    let formula = |(kernel, expectations): (Kernel, Vec<String>)| {
        assert!(!expectations.is_empty(), "nothing is expected of {}", kernel.name);
        let found = search(&kernel);
        let programs = found.algorithms.iter().enumerate().map(|(i, a)| programs(i as u32, &a.graph, &kernel.bounds)).collect();
        Formula { expectations, kernel, found, programs }
    };
    kernels.into_iter().zip(expectations).map(formula).collect()
}

fn axis(kernel: &Kernel, name: &str) -> AxisId {
    kernel.graph.all_axes().find(|a| kernel.graph.axis(*a) == name).unwrap_or_else(|| panic!("no axis {name} in {}", kernel.name))
}

fn passes(kernel: &Kernel, a: &Algorithm, name: &str) -> u8 {
    a.cost.passes.iter().find(|p| p.0 == axis(kernel, name)).map_or(0, |p| p.1)
}

/// Whether an algorithm is as expected.
fn holds(kernel: &Kernel, a: &Algorithm, programs: &[Program], expectation: &str) -> bool {
    let words: Vec<&str> = expectation.split_whitespace().collect();
    match words[..] {
        ["one", "pass", "over", n] => passes(kernel, a, n) == 1 && a.cost.spills.terms.is_empty(),
        ["passes", ref pairs @ ..] => pairs.chunks(2).all(|p| passes(kernel, a, p[0]) == p[1].parse::<u8>().unwrap()),
        ["line", ..] => show::lines(&a.graph).iter().any(|l| l == &expectation["line ".len()..]),
        ["without", ..] => !show::lines(&a.graph).join("\n").contains(&expectation["without ".len()..]),
        ["one", "launch"] => programs.iter().any(|p| p.launches.len() == 1),
        ["program", ..] => programs.iter().any(|p| p.to_string().contains(&expectation["program ".len()..])),
        ["stores", "nothing", "over", n] => programs.iter().any(|p| p.workspaces.iter().all(|w| !w.axes.contains(&axis(kernel, n)))),
        _ => panic!("`{expectation}` is no expectation"),
    }
}

fn texts(found: &Search) -> Vec<Vec<String>> {
    found.algorithms[1..].iter().map(|a| show::lines(&a.graph)).collect()
}

/// What the search and the scheduler say of a kernel.
fn page(f: &Formula) -> String {
    let s = &f.found.statistics;
    let mut page = format!("{}saturated: {}, {} iterations, {} nodes, {} classes\n", f.kernel, s.saturated, s.iterations, s.nodes, s.classes);
    for (i, a) in f.found.algorithms.iter().enumerate() {
        if i > 0 {
            page += &format!("\n{a}");
            page += &a.derivation.iter().map(|s| format!("  by {}\n", s.rule)).collect::<String>();
        }
        page += &f.programs[i].iter().map(|p| format!("  program {}\n", p.name)).collect::<String>();
    }
    page
}

#[test]
fn what_must_be_found_is_found() {
    let mut wrong = vec![];
    for file in files() {
        let all = formulas(&file);
        for f in &all {
            assert_eq!(f.found.rejected, [], "{}", f.kernel.name);
            assert!(f.found.statistics.saturated, "{}", f.kernel.name);
            let (same, about_one): (Vec<_>, Vec<_>) = f.expectations.iter().partition(|e| e.starts_with("same algorithms as "));
            for e in same {
                let other = all.iter().find(|o| e.ends_with(&format!(" {}", o.kernel.name))).expect("a kernel of the file");
                if texts(&other.found) != texts(&f.found) {
                    wrong.push(format!("{}: {e}", f.kernel.name))
                }
            }
            // several expectations are about one algorithm
            let all_hold = |(a, p): (&Algorithm, &Vec<Program>)| about_one.iter().all(|e| holds(&f.kernel, a, p, e));
            if !f.found.algorithms.iter().zip(&f.programs).any(all_hold) {
                wrong.push(format!("{}: no algorithm has {about_one:?}\n{}", f.kernel.name, page(f)))
            }
        }
        let got = all.iter().map(page).collect::<Vec<_>>().join("\n");
        let path = file.with_extension("txt");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &got).unwrap()
        }
        if got != std::fs::read_to_string(&path).unwrap_or_default() {
            wrong.push(format!("{} differs (UPDATE=1 rewrites it)", path.display()))
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"))
}

#[test]
fn the_reference_has_an_example_for_every_function_of_the_language() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/language.md")).unwrap();
    let examples: String = page.split("```rust\n").skip(1).map(|b| b.split("```").next().unwrap()).collect();
    let shown = |name: &str| [format!("{name}("), format!("{name}::<")].iter().any(|call| examples.contains(call.as_str()));
    let missing: Vec<&str> = frontend::functions().filter(|name| !shown(name)).collect();
    assert!(missing.is_empty(), "{missing:?}")
}

/// Every program of a kernel gives what the oracle says, at extents of 1, at such as no tile divides, and of nothing. What rests on
/// assumptions is held against its own formula, as they do not hold of these inputs.
fn assert_equal_to_oracle(kernel: &Kernel, found: &[Algorithm], programs: &[Vec<Program>]) {
    let g = &kernel.graph;
    let cases: [&dyn Fn(usize) -> i64; 4] = [&|_| 1, &|i| [3, 2, 5, 4][i % 4], &|i| [2, 7, 1, 3, 5][i % 5], &|i| if i == 1 { 0 } else { 2 }];
    for (seed, of) in cases.iter().enumerate() {
        let mut extents: Vec<i64> = (0..g.axes.len()).map(of).collect();
        // axes that are renamed to each other, in a chain too
        g.equal.iter().for_each(|_| g.equal.iter().for_each(|(a, b)| extents[b.0 as usize] = extents[a.0 as usize]));
        g.equal.iter().for_each(|_| g.equal.iter().for_each(|(a, b)| extents[a.0 as usize] = extents[b.0 as usize]));
        let mut random = cleave_core::algebra::check::Random(seed as u64);
        let tensors = g.inputs.iter().map(|input| {
            let shape = extent::shape(&input.storage, &extents);
            let integer = input.element == Element::Type(DType::I32);
            let mut value = || if integer { random.below(4) as f64 } else { random.real() };
            Tensor { values: (0..shape.iter().product::<i64>()).map(|_| value()).collect(), shape }
        });
        let inputs: Vec<Tensor> = tensors.collect();
        let want = oracle::evaluate(g, &extents, &inputs);
        // the rules take extents to be at least 1: a call with an axis of length 0 is computed as written
        let algorithms = if extents.contains(&0) { 1 } else { programs.len() };
        for (a, p) in found.iter().zip(programs).take(algorithms).flat_map(|(a, all)| all.iter().map(move |p| (a, p))) {
            let assuming = (!a.assumptions.is_empty()).then(|| oracle::evaluate(&a.graph, &extents, &inputs));
            let want = assuming.as_ref().unwrap_or(&want);
            for (tile, pieces) in [(2, 1), (3, 2)] {
                let settings = Settings { tile: &|_, _| tile, pieces, arithmetic: Arithmetic::Double, types: None };
                let (got, _) = interpret::run(p, &extents, &inputs, &settings);
                for (g, w) in got.iter().zip(want).flat_map(|(g, w)| g.values.iter().zip(&w.values)) {
                    // where the source has no value (a mean of nothing), any is right
                    let near = g == w || w.is_nan() || (g - w).abs() <= 1e-9 * w.abs().max(1.0);
                    assert!(near, "{} is {g} instead of {w} at {extents:?}, tile {tile}, {pieces} pieces\n{p}", kernel.name)
                }
            }
        }
    }
}

#[test]
fn every_program_of_every_formula_equals_the_oracle_at_edge_extents() {
    files().iter().flat_map(|f| formulas(f)).for_each(|f| assert_equal_to_oracle(&f.kernel, &f.found.algorithms, &f.programs))
}

#[test]
fn the_examples_of_the_documentation_equal_the_oracle() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (page, least) in [("docs/language.md", 10), ("docs/variants.md", 1), ("examples/src/variants.rs", 1)] {
        let text = std::fs::read_to_string(folder.join(page)).unwrap();
        let blocks: Vec<&str> = match page.ends_with(".rs") {
            true => vec![&text],
            false => text.split("```rust\n").skip(1).map(|b| b.split("```").next().unwrap()).collect(),
        };
        assert!(blocks.len() >= least, "{page}");
        for block in blocks {
            for kernel in frontend::from_source(block).unwrap_or_else(|e| panic!("{page}: {}", e.render(block))) {
                let found = search(&kernel);
                assert_eq!(found.rejected, []);
                let programs: Vec<Vec<Program>> = found.algorithms.iter().map(|a| programs(0, &a.graph, &kernel.bounds)).collect();
                assert_equal_to_oracle(&kernel, &found.algorithms, &programs)
            }
        }
    }
}
