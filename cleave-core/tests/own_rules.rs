//! A crate's own rules: proved while it is built, used by the search, or refused at their place.
#![cfg(feature = "compiler")]
use cleave_core::build::rules::{Verdict, verdict};
use cleave_core::build::settings::Settings;
use cleave_core::build::{Report, build};
use cleave_core::frontend::expand_rule;
use cleave_core::frontend::message::Message;
use cleave_core::frontend::rule::{in_file, rule};
use cleave_core::plan::PlanFile;
use cleave_core::prove::cache;
use cleave_core::prove::solver::{PATIENCE, Solver};
use std::fs;
use std::path::{Path, PathBuf};

const RULE: &str = "cleave::rule!(magnitude: abs(x * y) == abs(x) * abs(y));\n";
const KERNEL: &str = "#[cleave::kernel]\npub fn reach(x: Tensor<f32, M>, y: Tensor<f32, N>) -> Tensor<f32, M> { sum::<N>(abs(x * y)) }\n";

struct Package(PathBuf);

impl Package {
    fn new(name: &str, text: &str) -> Package {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("own-rules-{name}-{}", std::process::id()));
        fs::create_dir_all(directory.join("src")).unwrap();
        fs::write(directory.join("src/lib.rs"), text).unwrap();
        Package(directory)
    }
    fn build(&self, proofs: bool) -> Report {
        let out = self.0.join("out/cleave");
        build(&Settings { manifest: self.0.clone(), out, cache: None, archs: vec![], jobs: 1, proofs, log: false })
    }
    fn plan(&self, key: u64) -> PlanFile {
        PlanFile::from_bytes(&fs::read(self.0.join(format!("out/cleave/{key:016x}.plan"))).unwrap()).unwrap()
    }
}

impl Drop for Package {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What rustc shows of the macro's expansion.
fn shown(text: &str, package: &Package) -> String {
    expand_rule(text.parse().unwrap(), Some(&package.0.join("out"))).to_string()
}

#[test]
fn a_true_rule_is_proved_and_leads_to_an_algorithm_that_names_it() {
    let package = Package::new("true", &format!("{RULE}{KERNEL}"));
    let report = package.build(false);
    assert_eq!(report.warnings, [""; 0]);
    let plan = package.plan(report.kernels[0].key);
    let used = plan.algorithms.iter().find(|a| a.derivation.iter().any(|s| s.rule == "magnitude")).expect("an algorithm by the rule");
    assert!(used.graph.to_string().contains("abs(x[M])"), "{}", used.graph);
    assert_eq!(shown("magnitude: abs(x * y) == abs(x) * abs(y)", &package), "");
    // without it there is none
    let without = Package::new("without", KERNEL);
    let report = without.build(false);
    assert_eq!(without.plan(report.kernels[0].key).algorithms.len(), 1)
}

#[test]
fn a_false_rule_fails_the_build_at_its_place_with_extents_and_both_values() {
    const FALSE: &str = "moved: exp(sum::<A>(x)) == sum::<A>(exp(x))";
    let package = Package::new("false", &format!("cleave::rule!({FALSE});\n{KERNEL}"));
    package.build(false);
    let text = shown(FALSE, &package);
    for part in ["compile_error", "rule `moved` is false", "with extents", "the left side is", "the right side"] {
        assert!(text.contains(part), "{text}")
    }
    // and the search does without it
    assert!(in_file(&format!("cleave::rule!({FALSE});")).len() == 1)
}

#[test]
fn conditions_make_a_rule_true() {
    let mut solver = Some(Solver::start(PATIENCE).unwrap());
    let mut judge = |text: &str| verdict(&rule(text.parse().unwrap()).unwrap().row, &mut solver, "");
    for (text, proved) in [
        ("scaled: max::<A>(c * x) == c * max::<A>(x), where c > 0.0, independent::<A>(c)", true),
        ("scaled: max::<A>(c * x) == c * max::<A>(x), where c > 0.0", false),
        ("scaled: max::<A>(c * x) == c * max::<A>(x), where independent::<A>(c)", false),
        ("root: sqrt(square(x)) == x, where x >= 0.0", true),
        ("root: sqrt(square(x)) == x", false),
        // an involution, and features that are positive
        ("involution: log(exp(-log(exp(-x)))) == x", true),
        ("involution: log(exp(-log(exp(x)))) == x", false),
        ("positive: abs(exp(x) * sigmoid(y)) == exp(x) * sigmoid(y)", true),
        ("positive: abs(tanh(x)) == tanh(x)", false),
        ("inverse: x / x == 1.0, where x != 0.0", true),
        ("inverse: x / x == 1.0", false),
        ("reflection: sigmoid(-x) == 1.0 - sigmoid(x)", true),
        ("reflection: sigmoid(-x) == sigmoid(x)", false),
        ("nested: sum::<A>(sum::<B>(x)) == sum::<A, B>(x) where disjoint::<A, B>()", true),
        ("nested: sum::<A>(sum::<B>(x)) == sum::<A, B>(x)", false),
    ] {
        let verdict = judge(text);
        match proved {
            true => assert_eq!(verdict, Verdict::Proved, "{text}"),
            false => assert!(matches!(verdict, Verdict::False(_)), "{text}: {verdict:?}"),
        }
    }
}

#[test]
fn without_a_solver_a_committed_proof_serves_and_a_false_rule_is_still_found() {
    let of = |text: &str| rule(text.parse().unwrap()).unwrap().row;
    let row = of("magnitude: abs(x * y) == abs(x) * abs(y)");
    let open = verdict(&row, &mut None, "");
    assert_eq!(open, Verdict::Open);
    let message = open.message("magnitude").unwrap();
    assert!(message.text.contains("there is no solver") && message.hint.unwrap().contains("CLEAVE_PROOFS=write"));
    assert_eq!(verdict(&row, &mut None, &cache::print([&row])), Verdict::Proved);
    // another statement under the same name is another rule
    assert!(matches!(verdict(&of("magnitude: abs(x * y) == x * abs(y)"), &mut None, &cache::print([&row])), Verdict::False(_)));
    // the file that the build writes when asked to
    let package = Package::new("proofs", &format!("{RULE}{KERNEL}"));
    package.build(true);
    assert_eq!(fs::read_to_string(package.0.join("cleave.proofs")).unwrap(), cache::print([&row]))
}

/// `UPDATE=1` rewrites the pinned texts.
#[test]
fn what_is_no_rule_is_refused_in_the_pinned_words() {
    let mut solver = Some(Solver::start(PATIENCE).unwrap());
    let mut got = String::new();
    let mut say = |text: &str, m: Message| {
        let hint = m.hint.map_or(String::new(), |h| format!("       hint: {h}\n"));
        got += &format!("{text}\nerror: {}\n{hint}\n", m.text)
    };
    for text in ["r: exp(x)", "r: x == x + 0.0", "r: exp(x) == matmul(x)", "r: exp(x) == x where x > 1.0", "r: exp(x) == if x { 1.0 } else { 0.0 }"] {
        for fault in rule(text.parse().unwrap()).err().expect(text).faults() {
            say(text, fault.message.clone())
        }
    }
    // false; true, but more than the prover knows of tanh
    for text in ["r: exp(sum::<A>(x)) == sum::<A>(exp(x))", "r: tanh(x) == 2.0 * sigmoid(2.0 * x) - 1.0"] {
        let rule = rule(text.parse().unwrap()).unwrap();
        say(text, verdict(&rule.row, &mut solver, "").message("r").unwrap());
    }
    let text = "r: exp(log(x)) == x";
    let rule = rule(text.parse().unwrap()).unwrap();
    say(text, verdict(&rule.row, &mut None, "").message("r").unwrap());
    say(text, cleave_core::frontend::message::rule_unknown("r"));
    let shown = expand_rule(text.parse().unwrap(), Some(Path::new("/nowhere"))).to_string();
    assert!(shown.contains("has not met rule `r`"), "{shown}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/rules/faults.txt");
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &got).unwrap()
    }
    assert_eq!(got, fs::read_to_string(&path).unwrap_or_default())
}
