//! The language: kernels that are accepted, and what is said of those that are not.
#![cfg(feature = "compiler")]
use cleave_core::frontend;
use std::path::{Path, PathBuf};

/// The kernels of a folder, by file.
fn texts(folder: &str) -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels").join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "rs")).collect();
    files.sort();
    assert!(!files.is_empty());
    files.into_iter().map(|p| (p.clone(), std::fs::read_to_string(p).unwrap())).collect()
}

/// Compares with the file beside the kernel; `UPDATE=1` rewrites it.
fn snapshot(path: &Path, got: &str) -> Option<String> {
    let path = path.with_extension("txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, got).unwrap();
    }
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    (want != got).then(|| format!("{}: expected\n{want}\ngot\n{got}", path.display()))
}

#[test]
fn accepted_kernels_print_as_pinned() {
    let mut wrong = vec![];
    for (path, text) in texts("pass") {
        match frontend::from_source(&text) {
            Ok(kernels) => {
                let print: Vec<String> = kernels.iter().map(frontend::print).collect();
                assert!(!print.is_empty(), "{}: no kernel", path.display());
                wrong.extend(snapshot(&path, &print.join("\n")))
            }
            Err(e) => wrong.push(format!("{}:\n{}", path.display(), e.render(&text))),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"))
}

#[test]
fn refused_kernels_are_refused_in_the_pinned_words() {
    let mut wrong = vec![];
    for (path, text) in texts("fail") {
        match frontend::from_source(&text) {
            Ok(_) => wrong.push(format!("{}: accepted", path.display())),
            Err(e) => wrong.extend(snapshot(&path, &e.render(&text))),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"))
}

#[test]
fn every_message_is_pinned_whole() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut pinned = String::new();
    let places = [("cleave-core/tests/kernels/fail", "txt"), ("cleave-core/tests/kernels/rules", "txt"), ("tests/ui", "stderr")];
    for (folder, extension) in places.map(|(place, extension)| (folder.join(place), extension)) {
        for file in std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == extension)) {
            pinned += &std::fs::read_to_string(file).unwrap()
        }
    }
    let errors: Vec<&str> = pinned.lines().filter_map(|l| l.split_once("error: ")).map(|l| l.1).collect();
    let says = |line: &str, text: &str| {
        // what stands between braces is a name
        let mut rest = line;
        let mut fixed = text.split(['{', '}']).step_by(2);
        fixed.all(|part| rest.find(part).map(|at| rest = &rest[at + part.len()..]).is_some())
    };
    // needs a build script that has run without the kernel: it is asked for beside the expansion
    let elsewhere = |t: &str| t.starts_with("the build script has not compiled");
    let missing: Vec<&&str> = frontend::TEXTS.iter().filter(|t| !elsewhere(t) && !errors.iter().any(|e| says(e, t))).collect();
    assert!(missing.is_empty(), "no case pins {missing:#?}")
}

/// The first kernel of a text.
fn kernel(text: &str) -> cleave_core::kernel::Kernel {
    match frontend::from_source(text) {
        Ok(mut kernels) if !kernels.is_empty() => kernels.remove(0),
        Ok(_) => panic!("no kernel in\n{text}"),
        Err(e) => panic!("{}", e.render(text)),
    }
}

fn wrapped(body: &str) -> cleave_core::kernel::Kernel {
    kernel(&format!("#[kernel(factor(P = 2))] fn k(x: Tensor<f32, M, N, P>, y: Tensor<f32, N>, c: f32) -> Tensor<f32, M, N, P> {{ {body} }}"))
}

#[test]
fn a_composite_is_its_expansion() {
    for (composite, expansion) in [
        ("softmax::<N>(x)", "let e = exp(x - max::<N>(x)); e / sum::<N>(e)"),
        ("softmax::<(M, N)>(x)", "let m = max::<(N, M)>(x); exp(x - m) / sum::<(N, M)>(exp(x - m))"),
        ("log_softmax::<N>(x)", "let m = max::<N>(x); x - (log(sum::<N>(exp(x - m))) + m)"),
        ("logsumexp::<N>(x) + x", "fn lse<B>(x: Value) -> Value { max::<B>(x) + log(sum::<B>(exp(x - max::<B>(x)))) } x + lse::<N>(x)"),
        ("rms_norm::<N>(x, y, c)", "x / sqrt(sum::<N>(x * x) / extent::<N>() + c) * y"),
        ("layer_norm::<N>(x, y, y, c)", "let d = x - mean::<N>(x); d * y / sqrt(mean::<N>(d * d) + c) + y"),
        ("x * var::<N>(x)", "let mu = sum::<N>(x) / extent::<N>(); x * mean::<N>((x - mu) * (x - mu))"),
        ("silu(x)", "sigmoid(x) * x"),
        ("gelu(x)", "x * 0.5 * (tanh((x + 0.044715 * pow(x, 3)) * 0.7978845608028654) + 1.0)"),
        ("softcap(x, c)", "tanh(x / c) * c"),
        ("exp2(x)", "exp(log(2) * x)"),
        ("x * mean::<P>(x)", "x * (part::<P>(x, 0) + part::<P>(x, 1)) / 2.0"),
    ] {
        assert_eq!(canonical(&wrapped(composite)), canonical(&wrapped(expansion)), "{composite}")
    }
}

/// A kernel with its nodes in an order that does not depend on which operand was written first: as the set of its printed terms.
fn canonical(kernel: &cleave_core::kernel::Kernel) -> std::collections::BTreeSet<String> {
    use cleave_core::graph::{NodeId, Op};
    fn term(g: &cleave_core::graph::Graph, n: NodeId) -> String {
        let mut operands: Vec<String> = g.operands(n).iter().map(|o| term(g, *o)).collect();
        let op = match g.op(n) {
            Op::Product(e) => {
                operands = operands.iter().zip(e).map(|(o, e)| format!("{o}^{e}")).collect();
                operands.sort();
                "product".into()
            }
            Op::Linear(k, c) => {
                operands = operands.iter().zip(k).map(|(o, k)| format!("{k}*{o}")).collect();
                operands.sort();
                format!("linear {c}")
            }
            Op::Input { input, access } => format!("{} {:?}", g.input(*input).name, names(g, access)),
            Op::Sum(a) | Op::Maximum(a) => format!("{} {:?}", if matches!(g.op(n), Op::Sum(_)) { "sum" } else { "max" }, names_of(g, *a)),
            Op::Size(a) => format!("size {}", g.axis(*a)),
            other => format!("{other:?}"),
        };
        format!("{op}({})", operands.join(", "))
    }
    fn names_of(g: &cleave_core::graph::Graph, axes: cleave_core::axis::AxisSet) -> Vec<String> {
        let mut names: Vec<String> = axes.iter().map(|a| g.axis(a).to_string()).collect();
        names.sort();
        names
    }
    fn names(g: &cleave_core::graph::Graph, access: &cleave_core::graph::Access) -> Vec<String> {
        use cleave_core::graph::Factor;
        let name = |f: &Factor| if let Factor::Axis(a) = f { g.axis(*a).to_string() } else { format!("{f:?}") };
        access.dims.iter().map(|d| d.iter().map(name).collect::<Vec<_>>().join("*")).collect()
    }
    let g = &kernel.graph;
    g.stores().map(|(i, s)| format!("{i} {:?} {}", names(g, &s.access), term(g, s.node))).collect()
}

/// The tokens of a text, delimiters included.
fn tokens(text: &str) -> Vec<String> {
    fn walk(stream: proc_macro2::TokenStream, out: &mut Vec<String>) {
        use proc_macro2::{Delimiter, TokenTree};
        for t in stream {
            match t {
                TokenTree::Group(g) => {
                    let (open, close) = match g.delimiter() {
                        Delimiter::Parenthesis => ("(", ")"),
                        Delimiter::Brace => ("{", "}"),
                        Delimiter::Bracket => ("[", "]"),
                        Delimiter::None => ("", ""),
                    };
                    out.push(open.into());
                    walk(g.stream(), out);
                    out.push(close.into())
                }
                // a joint punctuation stays with what follows
                TokenTree::Punct(p) if p.spacing() == proc_macro2::Spacing::Joint => out.push(format!("{}\u{0}", p.as_char())),
                other => out.push(other.to_string()),
            }
        }
    }
    let mut out = vec![];
    walk(text.parse().unwrap(), &mut out);
    out
}

fn text(tokens: &[String]) -> String {
    tokens.join(" ").replace("\u{0} ", "").replace('\u{0}', "")
}

#[test]
fn names_of_axes_have_no_effect() {
    // the new names sort in the opposite order
    let axes = ["A", "B", "C", "D", "E", "F", "G", "H", "J", "K", "M", "N", "P", "R", "V"];
    let renamed = |t: &String| axes.iter().position(|a| a == t).map_or(t.clone(), |i| format!("Z{}", 99 - i));
    for (path, source) in texts("pass") {
        let other = text(&tokens(&source).iter().map(renamed).collect::<Vec<_>>());
        assert!(other.contains("Z9") || other.contains("Z8"), "{other}");
        let (want, mut got) = (kernel(&source), kernel(&other));
        for a in &mut got.graph.axes {
            a.name = axes[99 - a.name[1..].parse::<usize>().unwrap()].to_string()
        }
        // the text of an assertion is the user's
        got.assertions.iter_mut().zip(&want.assertions).for_each(|(g, w)| g.condition = w.condition.clone());
        assert_eq!(want, got, "{}", path.display())
    }
}

#[test]
fn the_order_of_arguments_has_no_effect() {
    for (path, source) in texts("pass") {
        let mut file: syn::File = syn::parse_str(&source).unwrap();
        let want = kernel(&source);
        for _ in 0..want.graph.inputs.len() {
            let syn::Item::Fn(f) = &mut file.items[0] else { panic!("a kernel comes first") };
            let mut inputs: Vec<syn::FnArg> = f.sig.inputs.iter().cloned().collect();
            inputs.rotate_left(1);
            f.sig.inputs = inputs.into_iter().collect();
            let got = kernel(&quote::quote!(#file).to_string());
            assert_eq!(want, got, "{}", path.display())
        }
    }
}

#[test]
fn comments_layout_and_unused_bindings_have_no_effect_on_the_key() {
    let plain = "#[kernel(dtypes(T = f32))] fn k<T>(x: Tensor<T, M, N>) -> Tensor<T, M> { sum::<N>(x * 2.0) }";
    let dressed = "
        /// Documentation.
        #[doc = \" More.\"]
        #[inline]
        #[cleave::kernel(dtypes(T = f32,),)]
        // a comment
        pub fn k<T>(
            x: Tensor<T, M, N>,
        ) -> Tensor<T, M> {
            let _unused = exp(x);
            let (doubled, _) = (x * 2e0, x);
            sum::<N>(doubled)
        }";
    assert_eq!(frontend::key(&kernel(plain)), frontend::key(&kernel(dressed)));
    for other in
        [plain.replace("2.0", "3.0"), plain.replace("T = f32", "T = f16"), plain.replace("dtypes", "bound(N <= 8), dtypes"), plain.replace("fn k", "fn l")]
    {
        assert_ne!(frontend::key(&kernel(plain)), frontend::key(&kernel(&other)), "{other}")
    }
}

#[test]
fn no_text_makes_the_front_end_panic() {
    // xorshift64*, so that every run sees the same texts
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move |n: usize| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    };
    let corpus: Vec<Vec<String>> = texts("pass").into_iter().chain(texts("fail")).filter(|t| !t.1.contains("x +\n}")).map(|t| tokens(&t.1)).collect();
    let accepted_ones = texts("pass").len();
    let delimiter = |t: &str| "()[]{}".contains(t);
    let class = |t: &str| t.chars().next().map_or(0, |c| if c.is_alphabetic() { 1 } else { c.is_numeric() as u8 * 2 });
    let words: Vec<String> = corpus.iter().flatten().filter(|t| !delimiter(t)).cloned().collect();
    let (mut accepted, mut refused) = (0, 0);
    // FUZZ: how many texts, instead of what a check of every change can afford
    let rounds = std::env::var("FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(1500);
    for round in 0..rounds {
        let mut t = corpus[random(if round % 4 == 0 { corpus.len() } else { accepted_ones })].clone();
        for _ in 0..=random(2) {
            let i = random(t.len());
            let word = words[random(words.len())].clone();
            match random(8) {
                _ if delimiter(&t[i]) && round % 10 != 0 => {}
                0 => drop(t.remove(i)),
                1 => t.insert(i, word),
                2 => {
                    let j = random(t.len());
                    t.swap(i, j)
                }
                3 => t[i] = word,
                _ if class(&t[i]) == class(&word) => t[i] = word,
                _ => {}
            }
        }
        let text = text(&t);
        match frontend::from_source(&text) {
            Ok(kernels) => {
                accepted += kernels.len();
                for k in kernels {
                    assert!(!k.graph.outputs.is_empty(), "{text}");
                    assert!(k.graph.nodes.iter().enumerate().all(|(i, n)| n.operands.iter().all(|o| o.index() < i)), "{text}");
                    assert_eq!(cleave_core::extent::solvable(&k.graph).len(), k.graph.axes.len(), "{text}");
                    assert!(!frontend::print(&k).is_empty());
                }
            }
            Err(e) => {
                refused += 1;
                assert!(!e.render(&text).is_empty(), "{text}")
            }
        }
    }
    assert!(accepted > 100 && refused > 300, "the mutations are too weak or too strong: {accepted} accepted, {refused} refused")
}

#[test]
fn editors_know_every_function_of_the_language() {
    let module = include_str!("../../cleave-runtime/src/dsl.rs");
    for name in frontend::functions() {
        assert!([format!(" {name}("), format!(" {name}<")].iter().any(|d| module.contains(d)), "{name}")
    }
}
