//! Formulas drawn from a grammar, from source text to numbers: every program of every algorithm that a build keeps equals the oracle on
//! the CPU, in several storage types, at extents of 0, 1 and odd ones. A failure prints the seed and the text; `FORMULAS=5000` draws
//! more, `FORMULA=17` that one.
mod found;
mod grammar;
#[path = "../cpu/memory.rs"]
mod memory;

use cleave_core::algebra::check::Random;
use cleave_core::algebra::search;
use cleave_core::build::screen::admissible;
use cleave_core::dtype::DType;
use cleave_core::kernel::Kernel;
use cleave_core::oracle::{self, Tensor};
use cleave_core::schedule::interpret::{self, Arithmetic, Settings};
use cleave_core::schedule::programs;
use cleave_core::tile::Program;
use cleave_core::{extent, frontend};
use cleave_runtime::cpu::{Argument, Decoded, Tensors};
use memory::{Layout, Memory, round};

/// What a few roundings in f32 make, relative to the largest magnitude.
const ROUNDING: f64 = 3e-5;
/// Elements of the largest term, reduced axes included: the oracle takes its time.
const ELEMENTS: i64 = 3000;

fn parsed(text: &str) -> Kernel {
    frontend::from_source(text).unwrap_or_else(|e| panic!("{}", e.render(text))).remove(0)
}

/// Three shapes: odd extents, one axis 0 and one 1 among them, and all 1.
fn shapes(kernel: &Kernel, random: &mut Random) -> Vec<Vec<i64>> {
    let count = kernel.graph.axes.len();
    let free = kernel.graph.free();
    let mut drawn = || {
        let mut extents: Vec<i64> = (0..count).map(|_| [1, 2, 3, 5, 7, 8, 17, 33][random.below(8) as usize]).collect();
        let size = |e: &[i64]| free.iter().map(|f| f.iter().map(|a| e[a.0 as usize]).product::<i64>()).max().unwrap_or(1);
        while size(&extents) > ELEMENTS {
            *extents.iter_mut().max().unwrap() /= 2
        }
        extents
    };
    let (odd, mut edge) = (drawn(), drawn());
    if count > 0 {
        edge[random.below(count as u64) as usize] = 1;
        edge[random.below(count as u64) as usize] = 0
    }
    vec![odd, edge, vec![1; count]]
}

fn inputs(kernel: &Kernel, extents: &[i64], types: &[DType], random: &mut Random) -> Vec<Tensor> {
    let most = extents.iter().copied().max().unwrap_or(1) as u64;
    let tensor = |input: &cleave_core::graph::Input| {
        if let Some(a) = input.extent {
            return Tensor::scalar(extents[a.0 as usize] as f64);
        }
        let dtype = input.element.resolve(types);
        let shape = extent::shape(&input.storage, extents);
        let count = shape.iter().product::<i64>();
        let mut draw = || if dtype == DType::I32 { random.below(most + 2) as f64 } else { round(dtype, 1.5 * random.real()) };
        Tensor { values: (0..count).map(|_| draw()).collect(), shape }
    };
    kernel.graph.inputs.iter().map(tensor).collect()
}

/// How far each output moves when the inputs do by a rounding or two.
fn sensitivity(kernel: &Kernel, extents: &[i64], inputs: &[Tensor], want: &[Tensor], random: &mut Random) -> Vec<f64> {
    let mut most = vec![0f64; want.len()];
    for _ in 0..2 {
        let moved = inputs.iter().zip(&kernel.graph.inputs).map(|(t, i)| match i.element.resolve(&[DType::F32; 4]) {
            DType::I32 => t.clone(),
            _ if i.extent.is_some() => t.clone(),
            _ => Tensor { values: t.values.iter().map(|x| x + 2e-7 * random.real()).collect(), ..t.clone() },
        });
        let got = oracle::evaluate(&kernel.graph, extents, &moved.collect::<Vec<_>>());
        for ((m, g), w) in most.iter_mut().zip(&got).zip(want) {
            *m = g.values.iter().zip(&w.values).filter(|(x, y)| x.is_finite() && y.is_finite()).map(|(x, y)| (x - y).abs()).fold(*m, f64::max)
        }
    }
    most
}

struct Case<'a> {
    kernel: &'a Kernel,
    types: &'a [DType],
    extents: &'a [i64],
    inputs: &'a [Tensor],
    tile: u32,
    pieces: usize,
    layout: Layout,
}

impl Case<'_> {
    fn run(&self, program: &Program) -> Vec<Tensor> {
        let graph = &self.kernel.graph;
        let mut memories: Vec<Option<Memory>> = graph
            .inputs
            .iter()
            .zip(self.inputs)
            .map(|(i, t)| (!i.storage.dims.is_empty()).then(|| Memory::of(t, i.element.resolve(self.types), self.layout)))
            .collect();
        let empty = |o: &cleave_core::graph::Output| Memory::empty(extent::shape(&o.storage, self.extents), o.element.resolve(self.types), self.layout);
        let mut outputs: Vec<Memory> = graph.outputs.iter().map(empty).collect();
        let arguments: Vec<Argument> = memories
            .iter_mut()
            .zip(self.inputs.iter().zip(&graph.inputs))
            .map(|(m, (t, i))| match m {
                Some(m) => Argument::Tensor(m.storage()),
                None if i.element.resolve(self.types) == DType::I32 || i.extent.is_some() => Argument::Integer(t.values[0] as i32),
                None => Argument::Float(t.values[0] as f32),
            })
            .collect();
        let stores: Vec<_> = outputs.iter_mut().map(|m| m.storage()).collect();
        let tiles = program.launches.iter().map(|l| l.iter().map(|p| vec![self.tile; p.dims.len()]).collect()).collect();
        let decoded = Decoded::new(program, self.types).expect("a program decodes");
        decoded.run(&tiles, self.pieces, self.extents, &Tensors { inputs: &arguments, outputs: &stores }).expect("a program runs");
        outputs.iter().map(Memory::read).collect()
    }
}

/// Runs every program of a kernel; gives how many algorithms it has, or what differs.
fn check(text: &str, seed: u64) -> Result<usize, String> {
    // exact numbers have 64 bits: a drawn constant may need more
    if frontend::from_source(text).is_err_and(|e| e.render(text).contains("this number does not fit")) {
        return Ok(1);
    }
    let start = std::time::Instant::now();
    let kernel = parsed(text);
    let say = |stage: &str| std::env::var_os("FORMULA").map(|_| eprintln!("{stage} {:.2}", start.elapsed().as_secs_f64()));
    say(text);
    let found = search(&kernel);
    say("searched");
    if !found.rejected.is_empty() {
        return Err(format!("an algorithm is not equal to its source: {:?}", found.rejected));
    }
    let scheduled: Vec<Vec<Program>> = found.algorithms.iter().map(|a| programs(0, &a.graph, &kernel.bounds)).collect();
    say("scheduled");
    let kept = admissible(&kernel, &found.algorithms, &scheduled);
    say("screened");
    let mut random = Random(seed ^ 0x5eed);
    let types = kernel.instances().remove(0);
    for (turn, extents) in shapes(&kernel, &mut random).into_iter().enumerate() {
        let inputs = inputs(&kernel, &extents, &types, &mut random);
        let want = oracle::evaluate(&kernel.graph, &extents, &inputs);
        say("evaluated");
        let moved = sensitivity(&kernel, &extents, &inputs, &want, &mut random);
        // rules hold for reductions over at least one position: elsewhere a call takes the source's programs
        let algorithms = if extents.contains(&0) { 1 } else { scheduled.len() };
        for (a, programs) in scheduled.iter().enumerate().take(algorithms).filter(|(a, _)| kept[*a]) {
            for (p, program) in programs.iter().enumerate() {
                let tile = [1, 3, 4, 64][random.below(4) as usize];
                let pieces = [1, 1, 2, 5][random.below(4) as usize];
                let layout = [Layout::Dense, Layout::Gaps, Layout::Reversed][(turn + p) % 3];
                let got = Case { kernel: &kernel, types: &types, extents: &extents, inputs: &inputs, tile, pieces, layout }.run(program);
                for (o, output) in kernel.graph.outputs.iter().enumerate() {
                    let dtype = output.element.resolve(&types);
                    let scale = want[o].values.iter().filter(|x| x.is_finite()).fold(1f64, |m, x| m.max(x.abs()));
                    let epsilon = if dtype == DType::F32 { 0.0 } else { dtype.epsilon() };
                    let bound = scale * (ROUNDING + epsilon) + 100.0 * moved[o];
                    for (i, (g, w)) in got[o].values.iter().zip(&want[o].values).enumerate() {
                        // what has no value may become anything
                        if w.is_nan() || g == w || (g - w).abs() <= bound || w.abs() > 6e4 {
                            continue;
                        }
                        let settings = Settings { tile: &|_, _| tile as i64, pieces, arithmetic: Arithmetic::Double, types: Some(&types) };
                        let plain = interpret::run(program, &extents, &inputs, &settings).0[o].values[i];
                        return Err(format!(
                            "`{}` of algorithm `{}` is {g} (the interpreter: {plain}) instead of {w} at {i}, allowed {bound:e}; extents {extents:?}, tile {tile}, {pieces} pieces, {layout:?}, {types:?}\n{}\n{program}",
                            output.name, found.algorithms[a].name, kernel
                        ));
                    }
                }
            }
        }
    }
    Ok(found.algorithms.len())
}

#[test]
fn drawn_formulas_equal_the_oracle_in_every_program() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let seeds = match number("FORMULA") {
        Some(seed) => seed..seed + 1,
        None => 0..number("FORMULAS").unwrap_or(60),
    };
    let (mut wrong, mut algorithms, count) = (vec![], 0, seeds.end - seeds.start);
    for seed in seeds {
        let text = grammar::kernel(seed);
        let outcome = std::panic::catch_unwind(|| check(&text, seed)).unwrap_or_else(|_| Err("a stage panicked".into()));
        match outcome {
            Ok(n) => algorithms += n,
            Err(e) => wrong.push(format!("FORMULA={seed}\n{text}\n{e}")),
        }
    }
    let most = wrong.len().min(5);
    assert!(wrong.is_empty(), "{} of {count} formulas:\n{}", wrong.len(), wrong[..most].join("\n\n"));
    // the grammar must draw what has algorithms at all
    assert!(count < 10 || algorithms as u64 > count + count / 3, "{algorithms} algorithms of {count} formulas");
    println!("{count} formulas, {algorithms} algorithms")
}
