//! Which algorithms the known kernels have.
use crate::workloads;
use cleave_core::algebra::{Search, search};
use cleave_core::axis::AxisId;
use cleave_core::graph::{Function, Graph, NodeId, Op};
use cleave_core::kernel::{Algorithm, Kernel};
use cleave_core::show;

fn searched(kernel: &Kernel) -> Search {
    let found = search(kernel);
    assert_eq!(found.rejected, []);
    assert!(found.statistics.saturated);
    assert_eq!(found.algorithms[0].name, "source");
    assert_eq!(found.algorithms[0].graph, kernel.graph);
    found
}

fn named<'a>(found: &'a Search, name: &str) -> &'a Algorithm {
    let names: Vec<&str> = found.algorithms.iter().map(|a| a.name.as_str()).collect();
    found.algorithms.iter().find(|a| a.name == name).unwrap_or_else(|| panic!("no `{name}` among {names:?}"))
}

fn axis(graph: &Graph, name: &str) -> AxisId {
    graph.all_axes().find(|a| graph.axis(*a) == name).unwrap()
}

fn passes(algorithm: &Algorithm, name: &str) -> u8 {
    algorithm.cost.passes.iter().find(|p| p.0 == axis(&algorithm.graph, name)).map_or(0, |p| p.1)
}

fn lines(algorithm: &Algorithm) -> Vec<String> {
    show::lines(&algorithm.graph)
}

fn texts(found: &Search) -> Vec<Vec<String>> {
    found.algorithms[1..].iter().map(lines).collect()
}

/// Every node that reduces the axis.
fn reductions(graph: &Graph, name: &str) -> Vec<NodeId> {
    let a = axis(graph, name);
    graph.cone(graph.stores().map(|s| s.1.node)).into_iter().filter(|n| graph.op(*n).reduced().contains(a)).collect()
}

fn depends_on_exp(graph: &Graph, node: NodeId) -> bool {
    graph.cone([node]).into_iter().any(|n| *graph.op(n) == Op::Apply(Function::Exp))
}

#[test]
fn attention_has_a_one_pass_algorithm_that_divides_after_the_last_contraction() {
    for masked in [false, true] {
        for max in [false, true] {
            let found = searched(&workloads::attention(masked, max));
            let a = named(&found, "one pass over N");
            assert_eq!(passes(a, "N"), 1);
            assert!(a.cost.spills.terms.is_empty());
            let sums = reductions(&a.graph, "N");
            assert_eq!(sums.len(), 2, "{a}");
            for s in &sums {
                assert!(matches!(a.graph.op(*s), Op::Sum(_)));
                // no reduction over N below a sum over N, and no division
                assert!(depends_on_exp(&a.graph, *s));
                let below = a.graph.cone(a.graph.operands(*s).to_vec());
                assert!(below.iter().all(|n| !matches!(a.graph.op(*n), Op::Product(e) if e.iter().any(|e| *e < 0))), "{a}");
            }
            let out = a.graph.outputs[0].stores[0].node;
            let (numerator, denominator) = match (a.graph.op(out), a.graph.operands(out)) {
                (Op::Product(e), [x, y]) if e[..] == [2, -2] => (*x, *y),
                (Op::Product(e), [x, y]) if e[..] == [-2, 2] => (*y, *x),
                _ => panic!("{a}"),
            };
            assert!(sums.contains(&numerator) && sums.contains(&denominator));
        }
    }
}

#[test]
fn the_printed_one_pass_attention_reads_as_flash_attention() {
    let found = searched(&workloads::attention(true, true));
    let mask = "[M + len[B] - N - |M| >= 0]";
    let want = [
        "t0 = sum_{D} q[B,K,G,M,D] * k[B,K,N,D]".to_string(),
        "t1 = exp(t0 * scale)".into(),
        format!("t2 = sum_{{N}} t1 * {mask}"),
        format!("t3 = sum_{{N}} t1 * {mask} * v[B,K,N,E]"),
        "out[B,K,G,M,E] = t3 / t2".into(),
        "lse[B,K,G,M] = log(t2)".into(),
    ];
    assert_eq!(lines(named(&found, "one pass over N")), want);
}

#[test]
fn attention_with_and_without_the_maximum_has_the_same_algorithms() {
    for masked in [false, true] {
        let (with, without) = (searched(&workloads::attention(masked, true)), searched(&workloads::attention(masked, false)));
        assert_eq!(texts(&with), texts(&without));
    }
}

#[test]
fn two_matmuls_associate_both_ways() {
    let found = searched(&workloads::matmul_matmul());
    assert_eq!(lines(&found.algorithms[0]), ["t0 = sum_{D} q[M,D] * k[N,D]", "out[M,E] = sum_{N} v[N,E] * t0"]);
    assert_eq!(texts(&found), [["t0 = sum_{N} k[N,D] * v[N,E]", "out[M,E] = sum_{D} q[M,D] * t0"]]);
}

#[test]
fn a_row_sum_after_a_matmul_is_taken_of_the_weights() {
    let found = searched(&workloads::matmul_rowsum());
    assert_eq!(texts(&found), [["t0 = sum_{N} w[K,N]", "out[M] = sum_{K} x[M,K] * t0"]]);
    assert_eq!(found.algorithms[1].name, "w over N first");
}

#[test]
fn the_scale_of_rms_norm_moves_behind_all_three_projections() {
    let found = searched(&workloads::rms_norm_projections());
    let want = [
        "t0 = sum_{K} x[M,K]^2",
        "t1 = t0 / |K| + 0.00001",
        "t2 = sum_{K} x[M,K] * g[K] * wq[K,I]",
        "t3 = sum_{K} x[M,K] * g[K] * wk[K,J]",
        "t4 = sum_{K} x[M,K] * g[K] * wv[K,L]",
        "q[M,I] = t2 / sqrt(t1)",
        "k[M,J] = t3 / sqrt(t1)",
        "v[M,L] = t4 / sqrt(t1)",
    ];
    assert_eq!(lines(named(&found, "one pass over K")), want);
}

#[test]
fn rms_norm_before_a_gated_projection_takes_one_pass() {
    let found = searched(&workloads::rms_norm_swiglu());
    let a = named(&found, "one pass over K");
    assert_eq!(reductions(&a.graph, "K").len(), 3);
    assert_eq!(passes(a, "K"), 1);
}

#[test]
fn swiglu_is_computed_as_written() {
    let found = searched(&workloads::swiglu());
    assert_eq!(texts(&found), Vec::<Vec<String>>::new());
}

#[test]
fn softmax_takes_two_passes_and_logsumexp_one() {
    let found = searched(&workloads::softmax());
    assert_eq!(texts(&found), [["t0 = exp(x[M,N])", "t1 = sum_{N} t0", "y[M,N] = t0 / t1"]]);
    let found = searched(&workloads::logsumexp(false));
    assert_eq!(texts(&found), [["t0 = sum_{N} exp(x[M,N])", "y[M] = log(t0)"]]);
}

#[test]
fn latent_attention_absorbs_its_projections() {
    let found = searched(&workloads::mla());
    let absorbed = found.algorithms.iter().find(|a| a.name.contains("q * wk over D first")).expect("absorbed");
    let text = lines(absorbed);
    assert!(text.contains(&"t0 = sum_{D} q[H,M,D] * wk[H,D,C]".to_string()), "{absorbed}");
    assert!(text.contains(&"t4 = sum_{N} c[N,C] * t3".to_string()), "{absorbed}");
    assert_eq!(text.last().unwrap(), "out[H,M,E] = t5 / t6");
    assert_eq!(passes(absorbed, "N"), 1);
    // the unabsorbed one-pass algorithm stays: it is cheaper for many rows
    assert_eq!(passes(named(&found, "one pass over N"), "C"), 1);
}

#[test]
fn a_low_rank_update_can_be_merged_into_its_weights() {
    let found = searched(&workloads::lora());
    assert_eq!(texts(&found), [["t0 = sum_{R} a[K,R] * b[R,J]", "y[M,J] = sum_{K} x[M,K] * (w[K,J] + t0)"]]);
}

#[test]
fn layer_norm_before_a_matmul_takes_one_pass_by_squares_and_two_without() {
    let found = searched(&workloads::layer_norm_matmul());
    assert_eq!(passes(&found.algorithms[0], "K"), 3);
    let (one, two) = (named(&found, "one pass over K"), found.algorithms.iter().find(|a| passes(a, "K") == 2).expect("a safe form"));
    assert!(one.derivation.iter().any(|s| s.rule == "distribute a square"));
    assert!(two.derivation.iter().all(|s| s.rule != "distribute a square"));
}

#[test]
fn cross_entropy_takes_one_pass_over_the_vocabulary() {
    let found = searched(&workloads::cross_entropy());
    let a = &found.algorithms[1];
    assert_eq!((passes(&found.algorithms[0], "V"), passes(a, "V")), (3, 1));
    assert_eq!(lines(a).last().unwrap(), "loss[M] = log(t2) * t3 - t1");
}

#[test]
fn an_entropy_takes_one_pass_with_and_without_a_mask() {
    for masked in [false, true] {
        let found = searched(&workloads::entropy(masked));
        assert_eq!(passes(&found.algorithms[0], "N"), 3);
        assert_eq!(passes(named(&found, "one pass over N"), "N"), 1)
    }
}

#[test]
fn normalised_queries_and_keys_take_one_pass_over_the_head() {
    let found = searched(&workloads::qk_norm_attention());
    assert_eq!((passes(&found.algorithms[1], "D"), passes(&found.algorithms[1], "N")), (1, 1));
}

#[test]
fn the_row_part_of_a_linear_bias_leaves_the_softmax() {
    let found = searched(&workloads::alibi_attention());
    let a = named(&found, "one pass over N");
    let m = axis(&a.graph, "M");
    let indexes = |n: &NodeId| *a.graph.op(*n) == Op::Index(m);
    assert!(!a.graph.cone(a.graph.stores().map(|s| s.1.node)).iter().any(indexes), "{a}");
    // one exponential of one exponent, so that one frame serves
    let exps = a.graph.nodes.iter().filter(|n| n.op == Op::Apply(Function::Exp)).count();
    assert_eq!(exps, 1, "{a}");
}

#[test]
fn a_derivation_leads_from_the_source_to_the_algorithm() {
    let found = searched(&workloads::matmul_rowsum());
    let steps: Vec<&str> = found.algorithms[1].derivation.iter().map(|s| s.rule.as_str()).collect();
    assert_eq!(steps, ["sum of sums", "contract first"]);
    let last = &found.algorithms[1].derivation[1];
    assert_eq!(last.after, "sum_{K} x[M,K] * (sum_{N} w[K,N])");
    let attention = searched(&workloads::attention(true, true));
    let rules: Vec<&str> = named(&attention, "one pass over N").derivation.iter().map(|s| s.rule.as_str()).collect();
    for rule in ["exp of a sum", "factor out", "flatten product", "cancel", "log of a product"] {
        assert!(rules.contains(&rule), "{rules:?}")
    }
}

#[test]
fn every_known_kernel_saturates_and_passes_its_check() {
    for (name, kernel) in workloads::all() {
        let found = searched(&kernel);
        assert!(found.algorithms.len() <= cleave_core::algebra::MOST, "{name}");
        let mut names: Vec<&String> = found.algorithms.iter().map(|a| &a.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), found.algorithms.len(), "{name}: {names:?}");
    }
}

#[test]
fn two_searches_give_the_same_algorithms() {
    for kernel in [workloads::attention(true, true), workloads::mla(), workloads::cross_entropy()] {
        assert_eq!(search(&kernel).algorithms, search(&kernel).algorithms)
    }
}

#[test]
fn a_search_that_meets_its_cap_leaves_the_source() {
    let kernel = workloads::attention(true, true);
    let found = cleave_core::algebra::search_with(&kernel, cleave_core::algebra::rules::TABLE, 20);
    assert!(!found.statistics.saturated);
    assert_eq!(found.algorithms.len(), 1);
    assert_eq!(found.algorithms[0].graph, kernel.graph);
}
