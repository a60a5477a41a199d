use candle_core::quantized::{GgmlDType, QTensor, gguf_file};
use candle_core::{Device, Tensor};
use candle_transformers::models::quantized_llama::ModelWeights;
use examples::{fetch, tokenizer::Tokenizer, weights::*};
use std::io::{BufReader, Cursor};

fn candle(exact: bool) -> ModelWeights {
    let mut file = BufReader::new(std::fs::File::open(fetch::gguf().unwrap()).unwrap());
    let content = gguf_file::Content::read(&mut file).unwrap();
    if !exact {
        return ModelWeights::from_gguf(content, &mut file, &Device::Cpu).unwrap();
    }
    let tensors: Vec<(String, QTensor)> = content
        .tensor_infos
        .keys()
        .map(|name| {
            let t = content.tensor(&mut file, name, &Device::Cpu).unwrap().dequantize(&Device::Cpu).unwrap();
            (name.clone(), QTensor::quantize(&t, GgmlDType::F32).unwrap())
        })
        .collect();
    let mut bytes = Cursor::new(vec![]);
    let meta: Vec<_> = content.metadata.iter().filter(|(k, _)| !k.starts_with("tokenizer")).map(|(k, v)| (k.as_str(), v)).collect();
    let ts: Vec<_> = tensors.iter().map(|(n, t)| (n.as_str(), t)).collect();
    gguf_file::write(&mut bytes, &meta, &ts).unwrap();
    drop(tensors);
    bytes.set_position(0);
    let content = gguf_file::Content::read(&mut bytes).unwrap();
    ModelWeights::from_gguf(content, &mut bytes, &Device::Cpu).unwrap()
}

// plain loops
struct Layer {
    n1: Vec<f32>,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    o: Vec<f32>,
    n2: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
    down: Vec<f32>,
}
fn halves(w: Vec<f32>, d: usize, e: usize) -> Vec<f32> {
    let mut out = vec![0.0; w.len()];
    for (h, block) in w.chunks(d * e).enumerate() {
        for r in 0..d {
            let (f, p) = (r / 2, r % 2);
            let to = h * d + p * d / 2 + f;
            out[to * e..(to + 1) * e].copy_from_slice(&block[r * e..(r + 1) * e]);
        }
    }
    out
}
fn mv(w: &[f32], x: &[f32]) -> Vec<f32> {
    w.chunks(x.len())
        .map(|r| {
            let mut acc = [0f32; 16];
            for (a, b) in r.chunks(16).zip(x.chunks(16)) {
                for i in 0..16 {
                    acc[i] += a[i] * b[i]
                }
            }
            acc.iter().sum()
        })
        .collect()
}
fn norm(x: &[f32], g: &[f32], eps: f32) -> Vec<f32> {
    let m = x.iter().map(|v| v * v).sum::<f32>() / x.len() as f32;
    let s = 1.0 / (m + eps).sqrt();
    x.iter().zip(g).map(|(v, g)| v * s * g).collect()
}

#[test]
fn plain_loops_reproduce_candle() {
    let path = fetch::gguf().unwrap();
    let mut file = Gguf::open(&path).unwrap();
    let c = file.config().unwrap();
    let tok = Tokenizer::new(&file).unwrap();
    let (e, d, kd, i) = (c.hidden, c.head_dim, c.kv_heads * c.head_dim, c.intermediate);
    let emb = file.tensor("token_embd.weight", &[c.vocabulary, e]).unwrap();
    let fin = file.tensor("output_norm.weight", &[e]).unwrap();
    let layers: Vec<Layer> = (0..c.layers)
        .map(|l| {
            let mut t = |n: &str, s: &[usize]| file.tensor(&format!("blk.{l}.{n}.weight"), s).unwrap();
            Layer {
                n1: t("attn_norm", &[e]),
                q: halves(t("attn_q", &[e, e]), d, e),
                k: halves(t("attn_k", &[kd, e]), d, e),
                v: t("attn_v", &[kd, e]),
                o: t("attn_output", &[e, e]),
                n2: t("ffn_norm", &[e]),
                gate: t("ffn_gate", &[i, e]),
                up: t("ffn_up", &[i, e]),
                down: t("ffn_down", &[e, i]),
            }
        })
        .collect();
    let mut exact = candle(true);
    let mut quant = candle(false);
    for text in ["The capital of France is", "def fibonacci(n):\n    if n < 2:\n        return n\n    return"] {
        let ids = tok.encode(text).unwrap();
        exact.clear_kv_cache();
        quant.clear_kv_cache();
        let mut kc: Vec<Vec<Vec<f32>>> = vec![vec![]; c.layers];
        let mut vc = kc.clone();
        let mut ids = ids;
        let n0 = ids.len();
        let mut pos = 0;
        while pos < ids.len() && pos < n0 + 24 {
            let id = ids[pos];
            let mut x = emb[id as usize * e..][..e].to_vec();
            for (l, w) in layers.iter().enumerate() {
                let n = norm(&x, &w.n1, c.epsilon);
                let rope = |mut y: Vec<f32>| {
                    for h in y.chunks_mut(d) {
                        for f in 0..d / 2 {
                            let th = pos as f32 * (1f32 / c.rope_base.powf(2.0 * f as f32 / d as f32));
                            let (s, co) = th.sin_cos();
                            let (a, b) = (h[f], h[f + d / 2]);
                            h[f] = a * co - b * s;
                            h[f + d / 2] = a * s + b * co;
                        }
                    }
                    y
                };
                let q = rope(mv(&w.q, &n));
                kc[l].push(rope(mv(&w.k, &n)));
                vc[l].push(mv(&w.v, &n));
                let mut o = vec![0f32; e];
                for h in 0..c.query_heads {
                    let g = h / (c.query_heads / c.kv_heads);
                    let s: Vec<f32> =
                        kc[l].iter().map(|k| k[g * d..][..d].iter().zip(&q[h * d..]).map(|(a, b)| a * b).sum::<f32>() / (d as f32).sqrt()).collect();
                    let m = s.iter().fold(f32::MIN, |a, b| a.max(*b));
                    let p: Vec<f32> = s.iter().map(|s| (s - m).exp()).collect();
                    let z: f32 = p.iter().sum();
                    for (p, v) in p.iter().zip(&vc[l]) {
                        for j in 0..d {
                            o[h * d + j] += p / z * v[g * d + j]
                        }
                    }
                }
                for (x, y) in x.iter_mut().zip(mv(&w.o, &o)) {
                    *x += y
                }
                let n = norm(&x, &w.n2, c.epsilon);
                let hid: Vec<f32> = mv(&w.gate, &n).iter().zip(mv(&w.up, &n)).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
                for (x, y) in x.iter_mut().zip(mv(&w.down, &hid)) {
                    *x += y
                }
            }
            let ours = mv(&emb, &norm(&x, &fin, c.epsilon));
            let input = Tensor::new(&[id], &Device::Cpu).unwrap().unsqueeze(0).unwrap();
            let theirs: Vec<f32> = exact.forward(&input, pos).unwrap().flatten_all().unwrap().to_vec1().unwrap();
            let q: Vec<f32> = quant.forward(&input, pos).unwrap().flatten_all().unwrap().to_vec1().unwrap();
            let err = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
            let arg = |a: &[f32]| a.iter().enumerate().max_by(|x, y| x.1.total_cmp(y.1)).unwrap().0 as u32;
            let mut sorted = theirs.clone();
            sorted.sort_by(|a, b| b.total_cmp(a));
            println!(
                "{pos} max|logit| {:.2} gap {:.3} err exact {:.2e} quant {:.2e} argmax {} {} {}",
                theirs.iter().fold(0f32, |a, b| a.max(b.abs())),
                sorted[0] - sorted[1],
                err(&ours, &theirs),
                err(&ours, &q),
                arg(&ours),
                arg(&theirs),
                arg(&q)
            );
            pos += 1;
            if pos == ids.len() {
                ids.push(arg(&ours))
            }
        }
        println!("{:?}", tok.decode(&ids).unwrap());
    }
}
