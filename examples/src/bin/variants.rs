//! Ten variants of attention: the formula of each, the algorithm that the build found and the first call chose, and the greatest
//! difference from the formula evaluated as written, in wide f64.
use anyhow::{Result, ensure};
use cleave::core::{extent, oracle};
use cleave::{Call, Device, Element, Tensor};
use examples::data::Normal;
use examples::variants;

const HEADS: usize = 2;
const ROWS: usize = 70;
const DIM: usize = 32;

/// An argument by its name, as the oracle takes it.
type Argument<'a> = (&'a str, oracle::Tensor);

fn tensor<'a, T: Element>(name: &'a str, t: &Tensor<T>) -> Result<Argument<'a>> {
    let values = t.to_vec()?.into_iter().map(|x| x.to_f32() as f64).collect();
    Ok((name, oracle::Tensor::new(t.shape().iter().map(|n| *n as i64).collect(), values)))
}

fn number(name: &str, x: f64) -> Result<Argument<'_>> {
    Ok((name, oracle::Tensor::scalar(x)))
}

/// Prints a variant and compares its result with the oracle's.
fn show<const N: usize>(call: Call<Tensor<f32>>, arguments: [Result<Argument>; N]) -> Result<()> {
    let arguments: Vec<Argument> = arguments.into_iter().collect::<Result<_>>()?;
    let (file, plan) = (call.file()?, call.plan()?);
    println!("{}", file.kernel);
    if let Some(a) = file.algorithms.iter().find(|a| a.name == plan.algorithm) {
        println!("{a}")
    }
    let graph = &file.kernel.graph;
    // a kernel keeps its inputs in an order of its own
    let inputs: Vec<oracle::Tensor> = graph.inputs.iter().filter_map(|i| arguments.iter().find(|a| a.0 == i.name)).map(|a| a.1.clone()).collect();
    let shapes: Vec<Option<Vec<i64>>> = inputs.iter().map(|t| (!t.shape.is_empty()).then(|| t.shape.clone())).collect();
    let exact = oracle::evaluate(graph, &extent::solve(graph, &shapes)?, &inputs);
    let computed = call.run()?.to_vec()?;
    let error = computed.iter().zip(&exact[0].values).map(|(c, e)| (*c as f64 - e).abs()).fold(0.0, f64::max);
    println!("greatest difference from the oracle: {error:.1e}\n");
    ensure!(error < 1e-4, "`{}` is off by {error}", file.kernel.name);
    Ok(())
}

fn main() -> Result<()> {
    let device = Device::cpu();
    let mut data = Normal::new(3);
    let mut draw = |shape: &[usize]| data.tensor::<f32>(&device, shape, 0.5);
    let [q, k, v] = [draw(&[HEADS, ROWS, DIM])?, draw(&[HEADS, ROWS, DIM])?, draw(&[HEADS, ROWS, DIM])?];
    let qkv = || [tensor("q", &q), tensor("k", &k), tensor("v", &v)];
    let [a, b, c] = qkv();
    show(variants::causal(&q, &k, &v, 0.5), [a, b, c, number("scale", 0.5)])?;

    let (one, cache_k, cache_v) = (draw(&[2, 6, DIM])?, draw(&[2, HEADS, ROWS, DIM])?, draw(&[2, HEADS, ROWS, DIM])?);
    let len = Tensor::from_slice(&[ROWS as i32, 9], &[2])?;
    show(variants::decode(&one, &cache_k, &cache_v, &len), [tensor("q", &one), tensor("k", &cache_k), tensor("v", &cache_v), tensor("len", &len)])?;

    let [a, b, c] = qkv();
    show(variants::window(&q, &k, &v, 12, 3), [a, b, c, number("width", 12.0), number("sinks", 3.0)])?;

    let slope = Tensor::from_slice(&[0.25f32, 0.0625], &[HEADS])?;
    let [a, b, c] = qkv();
    show(variants::alibi(&q, &k, &v, &slope), [a, b, c, tensor("slope", &slope)])?;

    let [a, b, c] = qkv();
    show(variants::capped(&q, &k, &v, 2.0), [a, b, c, number("cap", 2.0)])?;

    let [a, b, c] = qkv();
    show(variants::sink(&q, &k, &v, &slope), [a, b, c, tensor("logit", &slope)])?;

    let document = Tensor::from_slice(&(0..ROWS as i32).map(|i| i / 25).collect::<Vec<_>>(), &[ROWS])?;
    let [a, b, c] = qkv();
    show(variants::documents(&q, &k, &v, &document, &document), [a, b, c, tensor("of_query", &document), tensor("of_key", &document)])?;

    let [a, b, c] = qkv();
    show(variants::strided(&q, &k, &v), [a, b, c])?;

    let (two_q, two_k, weight) = (draw(&[HEADS, 2 * ROWS, DIM])?, draw(&[HEADS, 2 * ROWS, DIM])?, Tensor::from_slice(&[1.0f32, -0.4], &[2])?);
    let arguments = [tensor("q", &two_q), tensor("k", &two_k), tensor("v", &v), tensor("weight", &weight)];
    show(variants::differential(&two_q, &two_k, &v, &weight), arguments)?;

    let (cache, up_k, up_v, gain) = (draw(&[ROWS, 24])?, draw(&[HEADS, DIM, 24])?, draw(&[HEADS, DIM, 24])?, draw(&[DIM])?);
    let arguments = [tensor("q", &q), tensor("cache", &cache), tensor("up_k", &up_k), tensor("up_v", &up_v), tensor("gain", &gain)];
    show(variants::latent(&q, &cache, &up_k, &up_v, &gain), arguments)
}
