//! The menu: which placements and tiles an instance of a kernel is compiled for.
use super::code::Words;
use super::part::{Context, Refusal};
use super::{PTX, TILE, shared};
use crate::axis::AxisId;
use crate::device::Target;
use crate::dtype::DType;
use crate::kernel::Kernel;
use crate::plan::{Entry, Guard, Launch};
use crate::tile::{DimId, Part, Program, Role};
use std::fmt::Write;

/// Entries, the translation units that they name, and why placements were not possible.
#[derive(Default)]
pub struct Emission {
    pub entries: Vec<Entry>,
    pub modules: Vec<(Target, String)>,
    /// `(program, placement, reason)`.
    pub refusals: Vec<(u32, String, Refusal)>,
}

/// How the parts of a program are placed.
#[derive(Clone, Debug, PartialEq)]
pub enum Placement {
    Shared,
}

impl Placement {
    pub fn name(&self) -> String {
        match self {
            Placement::Shared => "shared tiles".into(),
        }
    }
}

/// The menu of an instance: entries and translation units.
pub fn instance(kernel: &Kernel, types: &[DType], programs: &[Program], target: Target) -> (Vec<Entry>, Vec<(Target, String)>) {
    let e = emission(kernel, types, programs, target);
    (e.entries, e.modules)
}

/// [`instance`], with the reasons for what is missing.
pub fn emission(kernel: &Kernel, types: &[DType], programs: &[Program], target: Target) -> Emission {
    let mut all = Emission::default();
    if target != Target::Portable {
        return all;
    }
    for (number, program) in programs.iter().enumerate() {
        for placement in [Placement::Shared] {
            match place(kernel, types, program, number, &placement, all.modules.len() as u32) {
                Ok((entry, source)) => {
                    all.entries.push(entry);
                    all.modules.push((target, source))
                }
                Err(reason) => all.refusals.push((number as u32, placement.name(), reason)),
            }
        }
    }
    all
}

/// One entry: a program under a placement.
fn place(kernel: &Kernel, types: &[DType], program: &Program, number: usize, placement: &Placement, module: u32) -> Result<(Entry, String), Refusal> {
    let bound_of = |axis: AxisId| program.bounds.iter().find(|b| b.0 == axis).map(|b| b.1 as u32);
    let mut source = header(kernel, types, program, placement);
    let (mut launches, mut tiles) = (vec![], vec![]);
    for (l, parts) in program.launches.iter().enumerate() {
        let symbol = super::code::identifier(&format!("{}_{number}_{l}", kernel.name));
        let params = format!("{symbol}_params");
        let words = Words::default();
        let (mut text, mut calls, mut launch_tiles, mut partial_bytes, mut shared_bytes) = (String::new(), vec![], vec![], vec![], 0);
        for (i, part) in parts.iter().enumerate() {
            let bound = |d: DimId| {
                let product: Option<u32> = part.dim(d).axes.iter().map(|a| bound_of(*a)).product();
                product
            };
            let part_tiles = shared::tiles(part, &|d| bound(d).unwrap_or(u32::MAX / 1024)).ok_or("the tiles do not fit in shared memory")?;
            let cx = Context::new(part, i as u32, types, &part_tiles, &words, kernel.graph.outputs.len());
            let placed = shared::place(&cx, &bound)?;
            let name = format!("{symbol}_part{i}");
            write_part(&mut text, &cx, part, &name, &params, placed.body.text());
            calls.push((i, name));
            partial_bytes.push(if part.split { placed.partial_bytes } else { 0 });
            shared_bytes = shared_bytes.max(placed.shared_bytes);
            launch_tiles.push(part_tiles)
        }
        let firsts: Vec<usize> = (1..parts.len()).map(|i| words.index(crate::plan::Word::FirstBlock(i as u32))).collect();
        let threads = shared::THREADS;
        writeln!(source, "struct {params} {{ cleave::u64 w[{}]; }};\n", words.len().max(1)).expect("a string takes all text");
        source += &text;
        writeln!(source, "CLEAVE_KERNEL({threads}, 1) {symbol}(CLEAVE_PARAMS {params} p) {{").expect("a string takes all text");
        writeln!(source, "  const int block = cleave::block();").expect("a string takes all text");
        for (i, name) in calls.iter().rev() {
            let call = match i {
                0 => format!("  {name}(p, block);"),
                i => format!("  if (block >= (int)p.w[{}]) {{ {name}(p, block); return; }}", firsts[i - 1]),
            };
            writeln!(source, "{call}").expect("a string takes all text")
        }
        source += "}\n\n";
        launches.push(Launch { module, symbol, threads, shared_bytes, words: words.into_list(), partial_bytes });
        tiles.push(launch_tiles)
    }
    let guards = chip_guards(program, &tiles);
    Ok((Entry { program: number as u32, target: Target::Portable, tiles, launches, guards }, source))
}

/// On-chip axes are at most as long as their tiles.
fn chip_guards(program: &Program, tiles: &crate::plan::Tiles) -> Vec<Guard> {
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

fn header(kernel: &Kernel, types: &[DType], program: &Program, placement: &Placement) -> String {
    let types = kernel.params.iter().zip(types).map(|(p, t)| format!("{} = {t}", p.name)).collect::<Vec<_>>().join(", ");
    let name: String = program.name.chars().map(|c| if c == '\n' || c == '\\' { ' ' } else { c }).collect();
    format!("// {}{}: {name}; {}\n{PTX}{TILE}\n", kernel.name, if types.is_empty() { String::new() } else { format!(" ({types})") }, placement.name())
}

fn write_part(text: &mut String, cx: &Context, part: &Part, name: &str, params: &str, body: &str) {
    let grid = cx.grid_lines();
    let hoisted = cx.take_hoisted();
    let mut w = |s: String| writeln!(text, "{s}").expect("a string takes all text");
    let dims: Vec<String> = part.grid.iter().map(|d| cx.dim_name(*d)).collect();
    w(format!("// grid: {}", if dims.is_empty() { "one item".into() } else { dims.join(", ") }));
    w(format!("static CLEAVE_DEVICE void {name}(const {params}& p, int block) {{"));
    cx.words.take_constants().into_iter().for_each(|c| w(format!("  {c}")));
    // extents of packed dims first, then the position, then tables read at it
    let (late, early): (Vec<String>, Vec<String>) = hoisted.into_iter().partition(|h| h.contains(" ? "));
    early.into_iter().chain(grid).chain(late).for_each(|l| w(format!("  {l}")));
    text.push_str(body);
    text.push_str("}\n\n")
}
