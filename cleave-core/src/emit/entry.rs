//! One entry: a program under a placement, as a translation unit. Each launch is placed by itself: what multiplies nothing by vectors, and what the code of
//! compute capability 9.0 does not take, beside a launch that it takes, by fragments.
use super::code::{Code, Words, identifier};
use super::hopper::wgmma::{self, Instruction};
use super::hopper::{self, Knobs};
use super::menu::{Height, Placement, Size};
use super::part::{Context, Refusal};
use super::{PTX, PTX_90, TILE, TILE_90, VECTOR, fragment, shared, vector};
use crate::axis::AxisId;
use crate::dtype::DType;
use crate::kernel::Kernel;
use crate::plan::{Entry, Guard, Launch, TensorMap, Tiles};
use crate::tile::{DimId, Part, Program, Role};
use std::collections::BTreeSet;
use std::fmt::Write;

/// What a program is placed for.
struct Job<'a> {
    kernel: &'a Kernel,
    types: &'a [DType],
    program: &'a Program,
    /// Of the program, and of the translation unit.
    number: usize,
    module: u32,
}

/// A launch that was placed.
struct Unit {
    placement: Placement,
    launch: Launch,
    tiles: Vec<Vec<u32>>,
    guards: Vec<Guard>,
    instructions: BTreeSet<Instruction>,
    schedule: String,
    source: String,
}

pub(super) fn place(
    kernel: &Kernel,
    types: &[DType],
    program: &Program,
    number: usize,
    placement: &Placement,
    module: u32,
) -> Result<(Entry, String), Refusal> {
    let job = Job { kernel, types, program, number, module };
    let mut units: Vec<Unit> = vec![];
    let mut refused: Option<Refusal> = None;
    for (l, parts) in program.launches.iter().enumerate() {
        let own = of_launch(placement, parts);
        let unit = match (job.launch(l, parts, &own), beside(&own)) {
            (Err(reason), Some(other)) if program.launches.len() > 1 => {
                let unit = job.launch(l, parts, &other).map_err(|_| reason.clone());
                refused.get_or_insert(reason);
                unit
            }
            (unit, _) => unit,
        };
        units.push(unit?)
    }
    if let Some(reason) = refused.filter(|_| !units.iter().any(|u| u.placement == *placement)) {
        return Err(reason);
    }
    let (mut source, mut schedules, mut instructions) = (String::new(), String::new(), BTreeSet::new());
    let (mut launches, mut tiles, mut guards) = (vec![], vec![], vec![]);
    let vectors = units.iter().any(|u| matches!(u.placement, Placement::Vector(_)));
    for u in units {
        source += &u.source;
        schedules += &u.schedule;
        instructions.extend(u.instructions);
        launches.push(u.launch);
        tiles.push(u.tiles);
        for g in u.guards {
            if !guards.contains(&g) {
                guards.push(g)
            }
        }
    }
    guards.extend(chip_guards(program, &tiles));
    let source = header(kernel, types, program, placement, vectors, &instructions) + &schedules + &source;
    Ok((Entry { program: number as u32, target: placement.target(), tiles, launches, guards }, source))
}

/// Beside products of matrices a launch without any is bound by memory.
fn of_launch(placement: &Placement, parts: &[Part]) -> Placement {
    let multiplies = || parts.iter().any(Part::multiplies);
    match placement {
        Placement::Hopper(_) if !multiplies() => Placement::Vector(vector::menu::beside(true)),
        Placement::Fragment(size) if !multiplies() => Placement::Vector(vector::menu::beside(size.aligned)),
        placement => *placement,
    }
}

/// How a launch is placed that a placement does not take. Of tiles of the grid the widest, a middle one and the narrowest do beside other code.
fn beside(placement: &Placement) -> Option<Placement> {
    match placement {
        Placement::Hopper(k) if k.chip > 0 || [Knobs::WIDE, Knobs::MIDDLE, Knobs::NARROW].contains(k) => {
            Some(Placement::Fragment(Size { rows: Height::Tall, chip: if k.chip > 0 { k.chip } else { 128 }, aligned: true, warps: 4 }))
        }
        _ => None,
    }
}

impl Job<'_> {
    fn launch(&self, l: usize, parts: &[Part], placement: &Placement) -> Result<Unit, Refusal> {
        let symbol = identifier(&format!("{}_{}_{l}", self.kernel.name, self.number));
        let params = format!("{symbol}_params");
        let words = Words::default();
        let (mut text, mut calls, mut tiles, mut guards, mut partial_bytes, mut shared_bytes) = (String::new(), vec![], vec![], vec![], vec![], 0);
        let (mut instructions, mut schedule) = (BTreeSet::new(), String::new());
        let mut threads: Option<u32> = None;
        let mut maps: Vec<TensorMap> = vec![];
        for (i, part) in parts.iter().enumerate() {
            let bound_of = |axis: AxisId| self.program.bounds.iter().find(|b| b.0 == axis).map(|b| b.1 as u32);
            let bound = |d: DimId| {
                let product: Option<u32> = part.dim(d).axes.iter().map(|a| bound_of(*a)).product();
                product
            };
            let name = format!("{symbol}_part{i}");
            let (types, outputs) = (self.types, self.kernel.graph.outputs.len());
            let (part_tiles, placed, threads_of_part) = match placement {
                Placement::Shared => {
                    let mut found = Err("the tiles do not fit in shared memory".to_string());
                    for tiles in shared::tiles(part, &bound) {
                        // a trial writes its words nowhere
                        let trial = Words::default();
                        let placed = shared::place(&Context::new(part, i as u32, types, &tiles, &trial, outputs), &bound);
                        found = placed.map(|_| tiles);
                        if found.is_ok() {
                            break;
                        }
                    }
                    let tiles = found?;
                    let cx = Context::new(part, i as u32, types, &tiles, &words, outputs);
                    let placed = shared::place(&cx, &bound)?;
                    write_part(&mut text, &cx, part, &name, &params, placed.body.text());
                    (tiles, placed, shared::THREADS)
                }
                Placement::Vector(plan) => {
                    let (tiles, shape) = plan.shape(part, types)?;
                    let cx = Context::new(part, i as u32, types, &tiles, &words, outputs);
                    let placed = vector::place(&cx, shape)?;
                    write_part(&mut text, &cx, part, &name, &params, placed.body.text());
                    (tiles, placed, shape.threads())
                }
                Placement::Fragment(size) => {
                    let (tiles, shape) = size.shape(part, types, &bound)?;
                    let cx = Context::new(part, i as u32, types, &tiles, &words, outputs);
                    let placed = fragment::place(&cx, shape, size.limit())?;
                    write_part(&mut text, &cx, part, &name, &params, placed.body.text());
                    (tiles, placed, shape.threads())
                }
                Placement::Hopper(knobs) => {
                    // blocks claim tiles of one part
                    let knobs = Knobs { persistent: knobs.persistent && parts.len() == 1, ..*knobs };
                    let part = Part { split: part.split && knobs.split, ..part.clone() };
                    let (tiles, shape) = knobs.shape(&part, &bound)?;
                    let cx = Context::new(&part, i as u32, types, &tiles, &words, outputs);
                    let mut placed = hopper::place(&cx, shape, maps.len())?;
                    let body = std::mem::take(&mut placed.body);
                    write_function(&mut text, &cx, &part, &name, &params, vec![], &body);
                    maps.append(&mut placed.maps);
                    instructions.extend(placed.instructions);
                    placed.schedule.lines().for_each(|l| schedule += &format!("// {l}\n"));
                    let placed =
                        shared::Placed { body: Code::at(0), shared_bytes: placed.shared_bytes, partial_bytes: placed.partial_bytes, guards: placed.guards };
                    (tiles, placed, shape.threads())
                }
            };
            if *threads.get_or_insert(threads_of_part) != threads_of_part {
                return Err("parts of one launch have other numbers of threads".into());
            }
            calls.push((i, name));
            guards.extend(placed.guards);
            partial_bytes.push(if part.split { placed.partial_bytes } else { 0 });
            shared_bytes = shared_bytes.max(placed.shared_bytes);
            tiles.push(part_tiles)
        }
        let firsts: Vec<usize> = (1..parts.len()).map(|i| words.index(crate::plan::Word::FirstBlock(i as u32))).collect();
        let threads = threads.unwrap_or(32);
        let first = if maps.is_empty() { String::new() } else { format!("cleave::TensorMap maps[{}]; ", maps.len()) };
        let mut source = format!("struct {params} {{ {first}cleave::u64 w[{}]; }};\n\n{text}", words.count().max(1));
        let mut line = |text: String| writeln!(source, "{text}").expect("a string takes all text");
        line(format!("CLEAVE_KERNEL({threads}, 1) {symbol}(CLEAVE_PARAMS {params} p) {{"));
        line("  const int block = cleave::block();".into());
        for (i, name) in calls.iter().rev() {
            line(match i {
                0 => format!("  {name}(p, block);"),
                i => format!("  if (block >= (int)p.w[{}]) {{ {name}(p, block); return; }}", firsts[i - 1]),
            })
        }
        line("}\n".into());
        let persistent = matches!(placement, Placement::Hopper(k) if k.persistent && parts.len() == 1);
        let (body, words) = (placement.body(), words.into_list());
        let launch = Launch { module: self.module, symbol, threads, shared_bytes, body, maps, words, persistent, partial_bytes };
        Ok(Unit { placement: *placement, launch, tiles, guards, instructions, schedule, source })
    }
}

/// On-chip axes are at most as long as their tiles.
fn chip_guards(program: &Program, tiles: &Tiles) -> Vec<Guard> {
    let mut guards: Vec<Guard> = vec![];
    let mut add = |axis: AxisId, bound: i64| match guards.iter_mut().find(|g| matches!(g, Guard::AtMost(a, _) if *a == axis)) {
        Some(Guard::AtMost(_, b)) => *b = bound.min(*b),
        _ => guards.push(Guard::AtMost(axis, bound)),
    };
    for (axis, bound) in &program.bounds {
        add(*axis, *bound as i64)
    }
    for (parts, tiles) in program.launches.iter().zip(tiles) {
        for (part, tiles) in parts.iter().zip(tiles) {
            for (dim, tile) in part.dims.iter().zip(tiles) {
                if let (Role::Chip, [axis]) = (dim.role, &dim.axes[..]) {
                    add(*axis, *tile as i64)
                }
            }
        }
    }
    guards
}

fn header(kernel: &Kernel, types: &[DType], program: &Program, placement: &Placement, vectors: bool, instructions: &BTreeSet<Instruction>) -> String {
    let types = kernel.params.iter().zip(types).map(|(p, t)| format!("{} = {t}", p.name)).collect::<Vec<_>>().join(", ");
    let name: String = program.name.chars().map(|c| if c == '\n' || c == '\\' { ' ' } else { c }).collect();
    let types = if types.is_empty() { String::new() } else { format!(" ({types})") };
    let more = match placement {
        Placement::Hopper(_) => format!("{PTX_90}{}{TILE_90}", wgmma::wrappers(instructions)),
        _ => String::new(),
    };
    let more = more + if vectors { VECTOR } else { "" };
    format!("// {}{types}: {name}; {}\n{PTX}{TILE}{more}\n", kernel.name, placement.name())
}

fn write_part(text: &mut String, cx: &Context, part: &Part, name: &str, params: &str, body: &str) {
    // extents of packed dims first, then the position, then tables read at it
    let grid = cx.grid_lines();
    let (late, early): (Vec<String>, Vec<String>) = cx.take_hoisted().into_iter().partition(|h| h.contains(" ? "));
    write_function(text, cx, part, name, params, early.into_iter().chain(grid).chain(late).collect(), body)
}

fn write_function(text: &mut String, cx: &Context, part: &Part, name: &str, params: &str, head: Vec<String>, body: &str) {
    let mut w = |s: String| writeln!(text, "{s}").expect("a string takes all text");
    let dims: Vec<String> = part.grid.iter().map(|d| cx.dim_name(*d)).collect();
    w(format!("// grid: {}", if dims.is_empty() { "one item".into() } else { dims.join(", ") }));
    w(format!("static CLEAVE_DEVICE void {name}(const {params}& p, int block) {{"));
    cx.words.take_constants().into_iter().for_each(|c| w(format!("  {c}")));
    head.into_iter().for_each(|l| w(format!("  {l}")));
    text.push_str(body);
    text.push_str("}\n\n")
}
