//! The corpus of the front end through the search: algorithms as pinned, and the same whatever the axes are called, in whatever
//! order the arguments stand, and however a composite is written.
use cleave_core::algebra::{Search, search};
use cleave_core::frontend;
use cleave_core::kernel::Kernel;
use cleave_core::show;
use std::path::Path;

fn kernels() -> Vec<(String, Vec<Kernel>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/pass");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "rs")).collect();
    files.sort();
    assert!(!files.is_empty());
    files.into_iter().map(|p| (p.file_stem().unwrap().to_string_lossy().into_owned(), parsed(&std::fs::read_to_string(&p).unwrap()))).collect()
}

fn parsed(text: &str) -> Vec<Kernel> {
    frontend::from_source(text).unwrap_or_else(|e| panic!("{}", e.render(text)))
}

fn one(text: &str) -> Search {
    search(&parsed(text)[0])
}

/// What the search says of a kernel, to be read by people.
fn page(kernel: &Kernel, found: &Search) -> String {
    let mut page = format!("{kernel}");
    for a in &found.algorithms[1..] {
        page += &format!("\n{a}");
        for s in &a.derivation {
            page += &format!("  by {}\n", s.rule)
        }
    }
    page
}

/// `UPDATE=1` rewrites the pinned texts.
#[test]
fn the_algorithms_of_the_corpus_are_as_pinned() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/algorithms");
    let mut wrong = vec![];
    for (name, kernels) in kernels() {
        let mut pages = vec![];
        for kernel in &kernels {
            let found = search(kernel);
            assert_eq!(found.rejected, [], "{name}");
            assert!(found.statistics.saturated, "{name}");
            pages.push(page(kernel, &found))
        }
        let got = pages.join("\n");
        let path = folder.join(format!("{name}.txt"));
        if std::env::var_os("UPDATE").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &got).unwrap()
        }
        let want = std::fs::read_to_string(&path).unwrap_or_default();
        if want != got {
            wrong.push(format!("{name}: expected\n{want}\ngot\n{got}"))
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"))
}

const ATTENTION: &str = "#[kernel(bound(D <= 256, E <= 256))]
fn attention(q: Tensor<f32, B, (K, G), M, D>, k: Tensor<f32, B, K, N, D>, v: Tensor<f32, B, K, N, E>, len: Tensor<i32, B>, scale: f32)
-> (Tensor<f32, B, (K, G), M, E>, Tensor<f32, B, (K, G), M>) {
    let s = mask(sum::<D>(q * k) * scale, index::<N>() - len <= index::<M>() - extent::<M>());
    (sum::<N>(softmax::<N>(s) * v), logsumexp::<N>(s))
}";

/// Names and lines of all algorithms, costs and rules.
fn summary(found: &Search) -> Vec<String> {
    let of = |a: &cleave_core::kernel::Algorithm| {
        let rules: Vec<&str> = a.derivation.iter().map(|s| s.rule.as_str()).collect();
        format!("{}\n{}\n{}", a.name, show::lines(&a.graph).join("\n"), rules.join("\n"))
    };
    found.algorithms.iter().map(of).collect()
}

#[test]
fn renamed_axes_leave_the_algorithms_the_same_modulo_names() {
    let names = [("D", "Zd"), ("E", "Ye"), ("K", "Ak"), ("G", "Bg"), ("M", "Qm"), ("N", "Cn"), ("B", "Xb")];
    let mut renamed = ATTENTION.to_string();
    for (from, to) in names {
        for (open, close) in [("<", ">"), ("<", ","), (", ", ","), (", ", ">"), ("(", ","), (", ", ")"), ("(", " <"), (", ", " <")] {
            renamed = renamed.replace(&format!("{open}{from}{close}"), &format!("{open}{to}{close}"))
        }
    }
    let back = |text: String| names.iter().fold(text, |t, (from, to)| t.replace(to, from));
    assert_ne!(renamed, ATTENTION);
    let found: Vec<String> = summary(&one(&renamed)).into_iter().map(back).collect();
    assert_eq!(found, summary(&one(ATTENTION)));
}

#[test]
fn permuted_arguments_leave_the_algorithms_the_same() {
    let arguments = "q: Tensor<f32, B, (K, G), M, D>, k: Tensor<f32, B, K, N, D>, v: Tensor<f32, B, K, N, E>, len: Tensor<i32, B>, scale: f32";
    let permuted = "scale: f32, v: Tensor<f32, B, K, N, E>, len: Tensor<i32, B>, k: Tensor<f32, B, K, N, D>, q: Tensor<f32, B, (K, G), M, D>";
    let text = ATTENTION.replace(arguments, permuted);
    assert_ne!(text, ATTENTION);
    assert_eq!(summary(&one(&text)), summary(&one(ATTENTION)));
}

#[test]
fn a_composite_and_its_expansion_have_the_same_algorithms() {
    let expanded = ATTENTION.replace("softmax::<N>(s) * v", "exp(s - max::<N>(s)) / sum::<N>(exp(s - max::<N>(s))) * v");
    assert_ne!(expanded, ATTENTION);
    assert_eq!(summary(&one(&expanded)), summary(&one(ATTENTION)));
    // without the maximum the source differs, and what is found does not
    let bare = ATTENTION.replace("softmax::<N>(s) * v", "exp(s) / sum::<N>(exp(s)) * v").replace("logsumexp::<N>(s)", "log(sum::<N>(exp(s)))");
    let graphs = |found: Search| found.algorithms[1..].iter().map(|a| (a.name.clone(), show::lines(&a.graph))).collect::<Vec<_>>();
    assert_eq!(graphs(one(&bare)), graphs(one(ATTENTION)));
}
