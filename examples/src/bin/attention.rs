//! Runs the attention kernel on made-up operands, compares it with the oracle (the formula evaluated as written, in wide f64), and shows the plan.
use anyhow::Result;
use clap::Parser;
use cleave::core::{extent, oracle};
use cleave::{Element, Tensor};
use examples::data::Normal;
use examples::device::{Kind, open};
use examples::kernels::attention;

/// Runs the attention kernel and compares it with the formula evaluated in wide f64.
#[derive(Parser)]
struct Options {
    #[arg(long, value_enum, default_value = "cpu")]
    device: Kind,
}

const BATCH: usize = 2;
const KEY_HEADS: usize = 2;
const GROUP: usize = 3;
const QUERIES: usize = 33;
const CAPACITY: usize = 160;
const DIM: usize = 64;

fn main() -> Result<()> {
    let device = open(Options::parse().device)?;
    let mut data = Normal::new(7);
    let q: Tensor<f32> = data.tensor(&device, &[BATCH, KEY_HEADS * GROUP, QUERIES, DIM], 1.0)?;
    let k: Tensor<f32> = data.tensor(&device, &[BATCH, KEY_HEADS, CAPACITY, DIM], 1.0)?;
    let v: Tensor<f32> = data.tensor(&device, &[BATCH, KEY_HEADS, CAPACITY, DIM], 1.0)?;
    // the second sequence fills only part of its cache
    let len = Tensor::from_slice_on(&device, &[CAPACITY as i32, 71], &[BATCH])?;
    let scale = 1.0 / (DIM as f32).sqrt();

    let call = attention(&q, &k, &v, &len, scale);
    println!("{}\n", call.plan()?);
    let kernel = &call.file()?.kernel;
    let (out, log_sum_exp) = call.run()?;

    // a kernel keeps its inputs in an order of its own
    let arguments = [("q", wide(&q)?), ("k", wide(&k)?), ("v", wide(&v)?), ("len", wide(&len)?), ("scale", oracle::Tensor::scalar(scale.into()))];
    let inputs: Vec<oracle::Tensor> = kernel.graph.inputs.iter().filter_map(|i| arguments.iter().find(|a| a.0 == i.name)).map(|a| a.1.clone()).collect();
    let shapes: Vec<Option<Vec<i64>>> = inputs.iter().map(|t| (!t.shape.is_empty()).then(|| t.shape.clone())).collect();
    let exact = oracle::evaluate(&kernel.graph, &extent::solve(&kernel.graph, &shapes)?, &inputs);
    for (name, computed, exact) in [("output", out.to_vec()?, &exact[0]), ("log-sum-exp", log_sum_exp.to_vec()?, &exact[1])] {
        let error = computed.iter().zip(&exact.values).map(|(c, e)| (*c as f64 - e).abs()).fold(0.0, f64::max);
        println!("{name}: {} values, greatest difference from the oracle {error:.1e}", computed.len())
    }
    Ok(())
}

fn wide<T: Element>(t: &Tensor<T>) -> Result<oracle::Tensor> {
    Ok(oracle::Tensor::new(t.shape().iter().map(|n| *n as i64).collect(), t.to_vec()?.into_iter().map(|x| x.to_f32() as f64).collect()))
}
