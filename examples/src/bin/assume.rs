//! What is known of the data leads to another algorithm: two products with a projection are one. Prints how it was found, the plan, and the
//! error that a debug build gives where the data are not as assumed.
use anyhow::{Result, ensure};
use clap::Parser;
use cleave::{Device, Tensor};
use examples::device::{Kind, open};
use examples::facts::project_twice;

/// Shows what an assumption leads to.
#[derive(Parser)]
struct Options {
    #[arg(long, value_enum, default_value = "cpu")]
    device: Kind,
}

const ROWS: usize = 96;
const COLUMNS: usize = 5;

/// length^2 * u u^T for a vector u of length 1.
fn along(length: f32, device: &Device) -> Result<Tensor<f32>> {
    let u = |i: usize| if i.is_multiple_of(2) { 0.6 } else { -0.8 } / (ROWS as f32 / 2.0).sqrt();
    Ok(Tensor::from_fn(&[ROWS, ROWS], |i| length * length * u(i[0]) * u(i[1]))?.to_device(device)?)
}

fn main() -> Result<()> {
    let device = open(Options::parse().device)?;
    let x = Tensor::from_fn(&[ROWS, COLUMNS], |i| ((i[0] * 7 + i[1] * 3) as f32).sin())?.to_device(&device)?;
    let projection = along(1.0, &device)?;
    let call = project_twice(&projection, &x);
    println!("{}", call.file()?.kernel);
    let plan = call.plan()?;
    println!("{plan}\n");
    let y = call.run()?.to_vec()?;

    let (p, x64) = (projection.to_vec()?, x.to_vec()?);
    let product = |b: &[f64], i: usize| (0..ROWS).map(|k| p[i / COLUMNS * ROWS + k] as f64 * b[k * COLUMNS + i % COLUMNS]).sum::<f64>();
    let times = |b: Vec<f64>| (0..ROWS * COLUMNS).map(|i| product(&b, i)).collect::<Vec<f64>>();
    let exact = times(times(x64.iter().map(|x| *x as f64).collect()));
    let error = y.iter().zip(&exact).map(|(y, e)| (*y as f64 - e).abs()).fold(0.0, f64::max);
    println!("greatest difference from both products: {error:.1e}");
    ensure!(error < 1e-5, "off by {error}");

    match project_twice(&along(2.0, &device)?, &x).run() {
        Err(e) => println!("of a matrix that is no projection: {e}"),
        Ok(_) => println!("a release build does not look at the data"),
    }
    Ok(())
}
