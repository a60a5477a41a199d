//! What a kernel assumes of its data: the search uses it, an algorithm names it and is compared with its source where it holds, and a
//! look at a call's inputs finds where it does not.
#![cfg(feature = "compiler")]
use cleave_core::algebra::check::{difference, samples, samples_meeting};
use cleave_core::algebra::{Search, search};
use cleave_core::assumption::{Assumption, Broken};
use cleave_core::build::pipeline::plan;
use cleave_core::dtype::DType;
use cleave_core::frontend;
use cleave_core::kernel::Kernel;
use cleave_core::oracle::Elements;
use cleave_core::prove::page::page;

fn kernel(text: &str) -> Kernel {
    frontend::from_source(text).unwrap_or_else(|e| panic!("{}", e.render(text))).remove(0)
}

/// The kernel with other assumptions, and without.
fn assuming(signature: &str, statements: &str, value: &str) -> [Kernel; 2] {
    [statements, ""].map(|s| kernel(&format!("#[kernel] fn k{signature} {{ {s} {value} }}")))
}

const SQUARE: &str = "(p: Tensor<f32, M, N>, x: Tensor<f32, N, C>) -> Tensor<f32, M, C>";
const PROJECTION: &str = "assume!(sum::<K>(rename::<N, K>(p) * rename::<M, K>(p)) == p, \"p is a projection\");";
const TWICE: &str = "sum::<K>(rename::<N, K>(p) * sum::<N>(rename::<M, K>(p) * x))";

fn projecting() -> [Kernel; 2] {
    assuming(SQUARE, PROJECTION, TWICE)
}

fn assuming_algorithms(found: &Search) -> Vec<String> {
    found.algorithms.iter().filter(|a| !a.assumptions.is_empty()).map(|a| a.graph.to_string()).collect()
}

#[test]
fn facts_about_data_lead_to_algorithms_that_nothing_else_leads_to() {
    const ROWS: &str = "(p: Tensor<f32, M, N>, x: Tensor<f32, M, C>) -> Tensor<f32, M, C>";
    const VECTOR: &str = "(a: Tensor<f32, M, N>, x: Tensor<f32, N>) -> Tensor<f32, M>";
    const TURNED: &str = "let turned = rename::<T, N>(rename::<N, M>(rename::<M, T>(a)));";
    for (signature, statements, value, wanted) in [
        (SQUARE, PROJECTION.to_string(), TWICE, "output[M,C] = sum_{N} p[M,N] * x[N,C]"),
        // rows that sum to 1, and rows of length 1
        (ROWS, "assume!(sum::<N>(p) == 1.0);".into(), "x / sum::<N>(p)", "output[M,C] = x[M,C]"),
        (ROWS, "assume!(sum::<C>(x * x) == 1.0);".into(), "x * rsqrt(sum::<C>(x * x))", "output[M,C] = x[M,C]"),
        // a symmetric operand
        (
            VECTOR,
            format!("{TURNED} assume!(a == turned);"),
            "sum::<N>(a * x) + sum::<N>(rename::<T, N>(rename::<N, M>(rename::<M, T>(a))) * x)",
            "output[M] = 2 * t0",
        ),
        // a known inverse
        (
            "(a: Tensor<f32, M, K>, b: Tensor<f32, K, N>, x: Tensor<f32, N, C>) -> Tensor<f32, M, C>",
            "assume!(sum::<K>(a * b) == if index::<M>() == index::<N>() { 1.0 } else { 0.0 });".into(),
            "sum::<K>(a * sum::<N>(b * x))",
            "output[M,C] = sum_{N} [N - M >= 0 && M - N >= 0] * x[N,C]",
        ),
    ] {
        let [with, without] = assuming(signature, &statements, value);
        let (found, other) = (search(&with), search(&without));
        assert_eq!((&found.rejected[..], &found.unused[..]), (&[][..], &[][..]), "{with}");
        let (graphs, wanted) = (assuming_algorithms(&found), &format!("{wanted}\n"));
        assert!(graphs.iter().any(|g| g.contains(wanted)), "no `{wanted}` of\n{with}in\n{}", graphs.join("\n"));
        assert!(!other.algorithms.iter().any(|a| a.graph.to_string().contains(wanted)), "{without}");
        // what needs no assumption is found as before
        let plain = |s: &Search| s.algorithms.iter().filter(|a| a.assumptions.is_empty()).map(|a| a.graph.to_string()).collect::<Vec<_>>();
        assert_eq!(plain(&found), plain(&other), "{with}");
    }
}

#[test]
fn a_derivation_and_its_page_begin_with_what_is_assumed() {
    let [with, without] = projecting();
    let found = search(&with);
    let algorithm = found.algorithms.iter().find(|a| a.assumptions == [0]).expect("an algorithm that assumes something");
    let step = &algorithm.derivation[0];
    assert_eq!((step.rule.as_str(), step.assumed), ("assumption `p is a projection`", true));
    assert_eq!((step.before.as_str(), step.after.as_str()), ("sum_{K} p[M,K] * p[K,N]", "p[M,N]"));
    assert!(algorithm.derivation[1..].iter().all(|s| !s.assumed));
    let text = page(&with, &found.algorithms);
    for part in ["(ASSUMED of the data, not proved;", "equal to the source where the data are as assumed", "proved for all ranks and extents"] {
        assert!(text.contains(part), "no `{part}` in\n{text}")
    }
    assert!(!page(&without, &search(&without).algorithms).contains("ASSUMED"));
    assert!(with.to_string().contains("  assuming sum::<K>(rename::<N, K>(p) * rename::<M, K>(p)) == p (p is a projection)\n"), "{with}")
}

#[test]
fn an_algorithm_names_no_assumption_that_it_does_not_need() {
    let statements = "assume!(sum::<N>(p) == 1.0, \"rows\"); assume!(sum::<C>(x) == 0.0, \"columns\");";
    let [with, _] = assuming("(p: Tensor<f32, M, N>, x: Tensor<f32, M, C>) -> Tensor<f32, M, C>", statements, "x / sum::<N>(p)");
    let needed: Vec<Vec<u32>> = search(&with).algorithms.into_iter().map(|a| a.assumptions).filter(|a| !a.is_empty()).collect();
    assert_eq!(needed, [vec![0]])
}

#[test]
fn what_no_inputs_meet_is_not_used_and_said() {
    let [with, _] = assuming("(p: Tensor<f32, M, N>) -> Tensor<f32, M>", "assume!(sum::<N>(exp(p)) == -1.0);", "sum::<N>(p) / sum::<N>(exp(p))");
    let found = search(&with);
    assert_eq!(assuming_algorithms(&found), [""; 0]);
    let said: Vec<String> = found.unused.iter().map(|u| u.to_string()).collect();
    assert_eq!(
        said,
        ["`k`: the assumption `sum::<N>(exp(p)) == -1` is not used, as no inputs were found on which it holds: nothing that rests on it could be checked"]
    )
}

#[test]
fn what_rests_on_an_assumption_is_compared_with_its_source_where_it_holds() {
    let [with, without] = projecting();
    let assumed: Vec<&Assumption> = with.assumptions.iter().collect();
    let found = search(&with);
    let right = &found.algorithms.iter().find(|a| a.assumptions == [0]).expect("an algorithm that assumes something").graph;
    let wrong = &assuming(SQUARE, PROJECTION, &format!("{TWICE} * 1.001"))[0].graph;
    let (met, any) = (samples_meeting(&with.graph, &assumed, 1), samples(&with.graph, 1));
    assert!(met.len() > 1);
    assert_eq!(difference(&met, right), None);
    assert!(difference(&met, wrong).is_some() && difference(&any, right).is_some());
    // other inputs than zeros were found
    assert!(difference(&met, &assuming(SQUARE, PROJECTION, "sum::<N>(p * x) * 2.0")[0].graph).is_some());
    assert_eq!(difference(&any, &without.graph), None)
}

#[test]
fn a_plan_keeps_what_assumes_something_beside_the_source() {
    let planned = plan(&projecting()[0], &[]);
    let assumed: Vec<&[u32]> = planned.file.algorithms.iter().map(|a| &a.assumptions[..]).collect();
    assert!(assumed.contains(&&[0][..]) && assumed[0].is_empty(), "{assumed:?}");
    let text = planned.file.to_string();
    assert!(text.contains("  step 1, assumption `p is a projection`\n    sum_{K} p[M,K] * p[K,N]\n    = p[M,N]\n"), "{text}");
    // axes that are renamed to each other have one extent wherever inputs are drawn
    let turned = "sum::<N>(p * x) * sum::<N>(rename::<T, N>(rename::<N, M>(rename::<M, T>(p))))";
    assert_eq!(plan(&assuming(SQUARE, "", turned)[1], &[]).rejected, [])
}

#[test]
fn the_canonical_print_holds_what_is_assumed() {
    let [with, without] = projecting();
    let other = assuming(SQUARE, &PROJECTION.replace("== p", "== p * 1.5"), TWICE)[0].clone();
    let print = frontend::print(&with);
    assert!(print.contains("assume `sum::<K>(rename::<N, K>(p) * rename::<M, K>(p)) == p` Some(\"p is a projection\")\n  %0 = "), "{print}");
    assert!(frontend::key(&with) != frontend::key(&without) && frontend::key(&with) != frontend::key(&other))
}

// ---- looking ------------------------------------------------------------------------------------------------------------

/// One input in memory.
struct Memory {
    strides: Vec<i64>,
    values: Vec<f64>,
}

impl Elements for Memory {
    fn strides(&self, _: usize) -> &[i64] {
        &self.strides
    }
    fn element(&self, _: usize, offset: i64) -> f64 {
        self.values[offset as usize]
    }
}

/// Looks at what a kernel of `p: Tensor<T, M, N>` assumes, in a call.
fn look(statement: &str, extents: [i64; 2], memory: &Memory, call: u64) -> Option<Broken> {
    let [k, _] = assuming("(p: Tensor<f32, M, N>) -> Tensor<f32, M, N>", statement, "p * 2.0");
    let a = &k.assumptions[0];
    a.broken(&extents, memory, a.tolerance(&[]), call)
}

#[test]
fn the_place_where_the_sides_differ_is_found_whatever_the_strides() {
    // rows lie five elements apart, of which three are theirs
    let row = |m: usize| [0.25, 0.5, if m == 2 { 0.75 } else { 0.25 }, f64::NAN, f64::NAN];
    let memory = Memory { strides: vec![5, 1], values: (0..4).flat_map(row).collect() };
    let found = look("assume!(sum::<N>(p) == 1.0);", [4, 3], &memory, 0);
    assert_eq!(found, Some(Broken { place: vec![("M".into(), 2)], left: 1.5, right: 1.0 }));
    // without that row
    assert_eq!(look("assume!(sum::<N>(p) == 1.0);", [2, 3], &memory, 0), None);
    // nothing is there to look at
    assert_eq!(look("assume!(sum::<N>(p) == 1.0);", [0, 3], &memory, 0), None)
}

#[test]
fn a_difference_is_measured_by_what_was_added_up() {
    let memory = |values: Vec<f64>| Memory { strides: vec![values.len() as i64, 1], values };
    // 1e6 - 1e6 + 1: an error of a rounding is none
    assert_eq!(look("assume!(sum::<N>(p) == 0.0);", [1, 3], &memory(vec![1e6, -1e6, 1.0]), 0), None);
    assert!(look("assume!(sum::<N>(p) == 0.0);", [1, 3], &memory(vec![1.0, -1.0, 1.0]), 0).is_some());
    // one side has no value
    assert!(look("assume!(sum::<N>(log(p)) == 0.0);", [1, 2], &memory(vec![-1.0, 1.0]), 0).is_some());
    // both are -inf
    assert_eq!(look("assume!(log(sum::<N>(p)) == log(sum::<N>(p * p)));", [1, 2], &memory(vec![0.0, 0.0]), 0), None)
}

#[test]
fn data_of_sixteen_bits_may_differ_by_their_roundings() {
    let text = "#[kernel(dtypes(T = f16, bf16, f32))] fn k<T>(p: Tensor<T, M, N>, c: f32) -> Tensor<T, M> { assume!(sum::<N>(p) == 1.0); sum::<N>(p) * c }";
    let a = &kernel(text).assumptions[0];
    let tolerances = [DType::F16, DType::BF16, DType::F32].map(|t| a.tolerance(&[t]));
    assert_eq!(tolerances, [2f64.powi(-9), 2f64.powi(-6), 1e-4])
}

#[test]
fn later_calls_look_at_other_places() {
    // a thousand rows of one element, all but one of them 1
    for odd in [0, 999, 500, 17] {
        let values = (0..1000).map(|m| if m == odd { 2.0 } else { 1.0 }).collect();
        let memory = Memory { strides: vec![1, 1], values };
        let calls: Vec<u64> = (0..40).filter(|call| look("assume!(sum::<N>(p) == 1.0);", [1000, 1], &memory, *call).is_some()).collect();
        assert!(!calls.is_empty() && calls.len() < 40, "{odd}: {calls:?}")
    }
}
