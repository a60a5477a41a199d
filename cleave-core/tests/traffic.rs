//! What the model counts beside loads, which the interpreter and the executor count too: the steps of loops, the states of whole tiles.
mod support;
use cleave_core::dtype::DType;
use cleave_core::frontend;
use cleave_core::tile::{DimId, Part, Role, Statement};
use cleave_core::traffic::{Case, Traffic, traffic};

const CAUSAL: &str = r#"
#[cleave::kernel(bound(D <= 64, E <= 64))]
fn causal(q: Tensor<f32, M, D>, k: Tensor<f32, N, D>, v: Tensor<f32, N, E>) -> Tensor<f32, M, E> {
    sum::<N>(softmax::<N>(mask(sum::<D>(q * k), index::<N>() <= index::<M>())) * v)
}
"#;

/// The one loop with both sums, rows and positions in tiles of 128.
fn one_pass(rows: i64, padded: bool) -> Traffic {
    let kernel = frontend::from_source(CAUSAL).unwrap_or_else(|e| panic!("{}", e.render(CAUSAL))).remove(0);
    let (_, programs) = support::programs(&kernel);
    let loops = |p: &Part| p.statements().iter().filter(|(_, s)| matches!(s, Statement::Loop(_))).count();
    let single = programs.iter().flat_map(|p| p.launches.first()).filter(|l| l.len() == 1).map(|l| &l[0]);
    let part = single.into_iter().find(|p| loops(p) == 1 && p.dims.iter().any(|d| d.role == Role::Chip)).expect("one pass over N");
    let extents: Vec<i64> = kernel.graph.axes.iter().map(|a| if a.name == "M" || a.name == "N" { rows } else { 64 }).collect();
    let tile = |d: usize| if part.dim(DimId(d as u8)).role == Role::Chip { 64 } else { 128 };
    let tiles: Vec<u32> = (0..part.dims.len()).map(tile).collect();
    traffic(part, &Case { extents: &extents, tiles: &tiles, pieces: 1, padded, types: &[DType::F32], table: &|_| None })
}

#[test]
fn a_masked_loop_takes_the_steps_that_it_visits() {
    // eight tiles of rows visit one to eight tiles of positions
    let t = one_pass(1024, true);
    assert_eq!((t.items, t.steps), (8.0, 4.5))
}

#[test]
fn compiled_code_holds_and_merges_whole_tiles_of_states() {
    // the row's greatest, its sum, and 64 columns, in f32
    let state = |rows: f64| rows * (2.0 + 64.0) * 4.0;
    assert_eq!(one_pass(5, true).carried, state(128.0));
    assert_eq!(one_pass(5, false).carried, state(5.0))
}
