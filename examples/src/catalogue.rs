//! Every kernel of this package with what its build found.
use crate::bench::kernels as bench;
use crate::facts;
use crate::kernels as model;
use crate::variants;
use anyhow::Result;
use cleave::core::plan::PlanFile;
use cleave::{Device, Tensor};

/// The plan files of all kernels, in the order in which the sources state them.
pub fn plan_files() -> Result<Vec<&'static PlanFile>> {
    // a call knows its kernel before it knows whether its arguments fit
    let x = &Tensor::<f32>::zeros(&Device::cpu(), &[0])?;
    let i = &Tensor::<i32>::zeros(&Device::cpu(), &[0])?;
    let files = [
        model::attention(x, x, x, i, 1.0).file(),
        model::attention_step(x, x, x, x, x, i, 1.0).file(),
        model::append(x, x).file(),
        model::norm_qkv(x, x, x, x, x, x, x, 1.0).file(),
        model::project_add(x, x, x).file(),
        model::norm_swiglu(x, x, x, x, 1.0).file(),
        model::norm_logits(x, x, x, 1.0).file(),
        model::attention_full(x, x, x, 1.0).file(),
        model::matmul(x, x).file(),
        model::matmul_matmul(x, x, x).file(),
        model::matmul_rowsum(x, x).file(),
        model::softmax_rows(x).file(),
        model::logsumexp_rows(x).file(),
        model::rms_norm_rows(x, x, 1.0).file(),
        variants::causal(x, x, x, 1.0).file(),
        variants::decode(x, x, x, i).file(),
        variants::window(x, x, x, 1, 1).file(),
        variants::alibi(x, x, x, x).file(),
        variants::capped(x, x, x, 1.0).file(),
        variants::sink(x, x, x, x).file(),
        variants::documents(x, x, x, i, i).file(),
        variants::strided(x, x, x).file(),
        variants::differential(x, x, x, x).file(),
        variants::latent(x, x, x, x, x).file(),
        facts::project_twice(x, x).file(),
        bench::product(x, x).file(),
        bench::product_product(x, x, x).file(),
        bench::product_rowsum(x, x).file(),
        bench::swiglu(x, x, x).file(),
        bench::gated_mlp(x, x, x).file(),
        bench::norm_product(x, x, 1.0).file(),
        bench::norm_linear(x, x, x, 1.0).file(),
        bench::attention_grouped(x, x, x, 1.0).file(),
        bench::layer_norm_rows(x, x, x, 1.0).file(),
    ];
    Ok(files.into_iter().collect::<cleave::Result<_>>()?)
}
