//! The menu: which placements and tiles an instance of a kernel is compiled for.
use super::code::{Code, Words};
use super::fragment::{self, Shape};
use super::hopper::wgmma::{self, Instruction};
use super::hopper::{self, Knobs};
use super::part::{Context, Refusal};
use super::{PTX, PTX_90, TILE, TILE_90, VECTOR, shared, vector};
use crate::axis::{AxisId, AxisSet};
use crate::device::Target;
use crate::dtype::DType;
use crate::graph::Op;
use crate::kernel::Kernel;
use crate::plan::{Body, Entry, Guard, Launch, TensorMap};
use crate::tile::{DimId, Part, Program, Role, Statement};
use std::collections::BTreeSet;
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Placement {
    Shared,
    Fragment(Size),
    Vector(vector::Plan),
    Hopper(Knobs),
}

/// A choice of tiles on tensor cores: how many rows a block has, and up to which extent dims are on chip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    pub rows: Height,
    pub chip: u32,
    /// Takes only tensors that can be read in chunks of 16 bytes.
    pub aligned: bool,
    /// Warps that share the loop of few rows.
    pub warps: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Height {
    /// Many rows: compute bound.
    Tall,
    /// At most 16 rows: memory bound; warps share out the loop.
    Low,
}

impl Placement {
    pub fn name(&self) -> String {
        match self {
            Placement::Shared => "shared tiles".into(),
            Placement::Vector(plan) => plan.name(),
            Placement::Hopper(knobs) => knobs.name(),
            Placement::Fragment(s) => {
                let warps = if s.warps == 4 { String::new() } else { format!(", {} warps", s.warps) };
                format!("tensor cores, {:?} tiles, on chip up to {}{}{warps}", s.rows, s.chip, if s.aligned { ", aligned" } else { "" }).to_lowercase()
            }
        }
    }
    /// Beside products of matrices a launch without any is bound by memory.
    fn of_launch(&self, parts: &[Part]) -> Placement {
        let multiplies = || parts.iter().any(Part::multiplies);
        match self {
            Placement::Hopper(_) if !multiplies() => Placement::Vector(vector::menu::beside(true)),
            Placement::Fragment(size) if !multiplies() => Placement::Vector(vector::menu::beside(size.aligned)),
            placement => *placement,
        }
    }
    fn body(&self) -> Body {
        match self {
            Placement::Shared => Body::Shared,
            Placement::Fragment(_) | Placement::Hopper(_) => Body::TensorCores,
            Placement::Vector(plan) => Body::Vector { resident: plan.home != vector::Home::Stream },
        }
    }
    fn target(&self) -> Target {
        if let Placement::Hopper(_) = self { Target::Hopper } else { Target::Portable }
    }
}

impl Size {
    /// Bytes of shared memory that a block may use.
    fn limit(self) -> u32 {
        160 * 1024
    }
    /// Tiles of a part, and how it lies on the warps.
    fn shape(self, part: &Part, types: &[DType], bound: &dyn Fn(DimId) -> Option<u32>) -> Result<(Vec<u32>, Shape), Refusal> {
        let (row, column) = fragment::roles(part)?;
        let wide = types.iter().any(|t| t.bytes() > 2) || types.is_empty();
        let work = Work::of(part, row, column);
        // without columns of the grid the loop's tiles are the columns of a first product: attention and the like
        let (blocks, warp_rows, warp_columns, warp_loop, columns, step, stages) = match (self.rows, column.is_some()) {
            (Height::Tall, false) if wide || self.chip > 128 => (1, 4, 1, 1, 0, 32, 2),
            (Height::Tall, false) => (2, 4, 1, 1, 0, 64, 2),
            (Height::Low, false) => (1, 1, 1, self.warps, 0, 16 * self.warps, if self.chip > 128 { 2 } else { 3 }),
            (Height::Tall, true) if wide => (1, 4, 2, 1, 64, if work.computed { 16 } else { 32 }, 3),
            // an operand that is computed passes through registers
            (Height::Tall, true) if work.computed => (2, 4, 2, 1, if work.products + work.read_after > 2 { 64 } else { 128 }, 32, 4),
            // accumulators of 64 x 64 a warp, or two of 64 x 32
            (Height::Tall, true) => (4, 2, 2, 1, if work.products > 1 { 64 } else { 128 }, 64, 3),
            // two blocks to a multiprocessor
            (Height::Low, true) => (1, 1, 1, 4, 64, if wide { 64 } else { 128 }, if work.products > 1 { 3 } else { 4 }),
        };
        let tile = |(d, dim): (usize, &crate::tile::Dim)| -> Result<u32, Refusal> {
            let d = DimId(d as u8);
            Ok(match dim.role {
                _ if dim.batch => 1,
                _ if d == row => 16 * blocks * warp_rows,
                _ if Some(d) == column => columns,
                Role::Grid => 1,
                Role::Loop => step,
                Role::Chip => self.chip.min(bound(d).unwrap_or(self.chip).next_multiple_of(16)),
            })
        };
        let tiles: Vec<u32> = part.dims.iter().enumerate().map(tile).collect::<Result<_, _>>()?;
        if part.dims.iter().any(|d| d.role == Role::Chip && d.axes.len() > 1) {
            return Err("packed dims on chip".into());
        }
        Ok((tiles, Shape { row, column, blocks, warp_rows, warp_columns, warp_loop, stages, aligned: self.aligned }))
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
    let mut add = |number: usize, placement: Placement| all.add(kernel, types, programs, number, placement);
    let wide = types.iter().any(|t| t.bytes() > 2) || types.is_empty();
    match target {
        Target::Cpu => return all,
        Target::Portable => {}
        Target::Hopper if wide => return all,
        Target::Hopper => {
            for group in &groups(programs) {
                // the best program that can be placed with any choice of tiles
                for &number in group {
                    let mut placed: Vec<Knobs> = vec![];
                    for list in Knobs::menu(&programs[number]) {
                        if let Some(k) = list.into_iter().find(|k| placed.contains(k) || add(number, Placement::Hopper(*k)))
                            && !placed.contains(&k)
                        {
                            placed.push(k)
                        }
                    }
                    if !placed.is_empty() {
                        break;
                    }
                }
            }
            return all;
        }
    }
    let groups = groups(programs);
    let single = groups.len() == 1;
    for group in &groups {
        // the best program that can be placed and, if that one bounds what the kernel does not, the best that takes all extents
        let bounded = |number: usize| programs[number].bounds.iter().any(|(a, n)| !kernel.bounds.iter().any(|(b, m)| a == b && m <= n));
        let mut placed: Vec<usize> = vec![];
        for &number in group {
            if !placed.is_empty() && (bounded(number) || !bounded(placed[0])) {
                continue;
            }
            let chip = programs[number].launches.iter().flatten().any(|p| p.dims.iter().any(|d| d.role == Role::Chip));
            // a few that together serve all: a long compilation is a cost, too
            let sizes: &[(Height, u32)] = match (wide, chip) {
                (true, _) => &[(Height::Tall, 128)],
                (false, true) if single => &[(Height::Tall, 64), (Height::Tall, 128), (Height::Low, 128), (Height::Low, 256)],
                (false, _) => &[(Height::Tall, 128), (Height::Low, 128)],
            };
            let entries = sizes.iter().filter(|(rows, chip)| {
                let aligned = !wide && (*rows == Height::Tall || *chip > 128);
                add(number, Placement::Fragment(Size { rows: *rows, chip: *chip, aligned, warps: 4 }))
            });
            if entries.count() > 0 {
                placed.push(number)
            }
            if placed.len() == 2 {
                break;
            }
        }
    }
    let mut takes_everything = false;
    for (candidates, plan) in vector::menu::plans(programs, types) {
        let placed = candidates.iter().any(|number| add(*number, Placement::Vector(plan)));
        takes_everything |= placed && groups.is_empty() && plan.single && plan.home == vector::Home::Stream;
    }
    if let Some(number) = plain(programs).filter(|_| !takes_everything) {
        add(number, Placement::Shared);
    }
    all
}

/// Every program under given placements, for comparing them.
pub fn variants(kernel: &Kernel, types: &[DType], programs: &[Program], placements: &[Placement]) -> Emission {
    let mut all = Emission::default();
    for group in groups(programs) {
        for placement in placements {
            let _ = group.iter().find(|number| all.add(kernel, types, programs, **number, *placement));
        }
    }
    all
}

impl Emission {
    /// Adds an entry, or the reason why there is none.
    pub fn add(&mut self, kernel: &Kernel, types: &[DType], programs: &[Program], number: usize, placement: Placement) -> bool {
        match place(kernel, types, &programs[number], number, &placement, self.modules.len() as u32) {
            Ok((entry, source)) => {
                self.entries.push(entry);
                self.modules.push((placement.target(), source));
                true
            }
            Err(reason) => {
                self.refusals.push((number as u32, placement.name(), reason));
                false
            }
        }
    }
}

/// What a program computes by products of matrices: the axes of each, sorted.
fn products(program: &Program) -> Vec<AxisSet> {
    let mut all: Vec<AxisSet> = vec![];
    for part in program.launches.iter().flatten() {
        let free = part.graph.free();
        for (_, s) in part.statements() {
            if let Statement::Reduce { node, .. } | Statement::Fold { node, .. } = s
                && let Some((x, y)) = part.contraction(*node)
            {
                all.push(free[x.index()].union(free[y.index()]))
            }
        }
    }
    all.sort();
    all.dedup();
    all
}

/// Statements that stream, and loops: of programs with the same products the one with fewest is the best.
pub(super) fn passes(program: &Program) -> (usize, usize, usize) {
    let all: Vec<&Statement> = program.launches.iter().flatten().flat_map(|p| p.statements()).map(|s| s.1).collect();
    let loops = all.iter().filter(|s| matches!(s, Statement::Loop(_))).count();
    let grid = program.launches.iter().flatten().map(|p| p.grid.iter().filter(|d| !p.dim(**d).batch).count()).sum();
    (program.launches.len() + loops, grid, all.len())
}

/// The programs worth tensor cores by the set of their products, each group with the fewest passes, and fewest grid dims, first.
pub(super) fn groups(programs: &[Program]) -> Vec<Vec<usize>> {
    let mut groups: Vec<(Vec<AxisSet>, Vec<usize>)> = vec![];
    for (i, p) in programs.iter().enumerate() {
        let work = products(p);
        match groups.iter_mut().find(|g| g.0 == work) {
            _ if work.is_empty() => {}
            Some(g) => g.1.push(i),
            None => groups.push((work, vec![i])),
        }
    }
    let sorted = groups.into_iter().map(|(_, mut group)| {
        group.sort_by_key(|i| passes(&programs[*i]));
        group
    });
    sorted.collect()
}

/// The program for shared tiles, which takes everything: of those with no bounds the one with the fewest passes.
fn plain(programs: &[Program]) -> Option<usize> {
    let all = (0..programs.len()).min_by_key(|i| (programs[*i].bounds.len(), passes(&programs[*i])));
    all.filter(|i| programs[*i].bounds.is_empty()).or(all)
}

/// What a part multiplies.
struct Work {
    products: usize,
    /// Inputs with rows and columns that are read beside the products' sums.
    read_after: usize,
    /// The operand of a product with the rows is no input.
    computed: bool,
}

impl Work {
    fn of(part: &Part, row: DimId, column: Option<DimId>) -> Work {
        let mut work = Work { products: 0, read_after: 0, computed: false };
        for (depth, s) in part.statements() {
            if let Statement::Load { node, .. } = s
                && depth == 0
                && column.is_some_and(|c| part.of(*node).contains(row) && part.of(*node).contains(c))
            {
                work.read_after += 1
            }
            if let Statement::Reduce { node, .. } | Statement::Fold { node, .. } = s
                && let Some((x, y)) = part.contraction(*node)
            {
                let a = if part.of(x).contains(row) { x } else { y };
                work.products += 1;
                work.computed |= !matches!(part.graph.op(a), Op::Input { .. })
            }
        }
        work
    }
}

/// One entry: a program under a placement.
fn place(kernel: &Kernel, types: &[DType], program: &Program, number: usize, placement: &Placement, module: u32) -> Result<(Entry, String), Refusal> {
    let bound_of = |axis: AxisId| program.bounds.iter().find(|b| b.0 == axis).map(|b| b.1 as u32);
    let (mut source, mut instructions, mut schedules) = (String::new(), Default::default(), String::new());
    let (mut launches, mut tiles, mut guards, mut vectors) = (vec![], vec![], vec![], false);
    for (l, parts) in program.launches.iter().enumerate() {
        let symbol = super::code::identifier(&format!("{}_{number}_{l}", kernel.name));
        let placement = &placement.of_launch(parts);
        vectors |= matches!(placement, Placement::Vector(_));
        let params = format!("{symbol}_params");
        let words = Words::default();
        let (mut text, mut calls, mut launch_tiles, mut partial_bytes, mut shared_bytes) = (String::new(), vec![], vec![], vec![], 0);
        let mut threads: Option<u32> = None;
        let mut maps: Vec<TensorMap> = vec![];
        for (i, part) in parts.iter().enumerate() {
            let bound = |d: DimId| {
                let product: Option<u32> = part.dim(d).axes.iter().map(|a| bound_of(*a)).product();
                product
            };
            let name = format!("{symbol}_part{i}");
            let outputs = kernel.graph.outputs.len();
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
                    instructions = &instructions | &placed.instructions;
                    placed.schedule.lines().for_each(|l| schedules += &format!("// {l}\n"));
                    let placed =
                        shared::Placed { body: Code::at(0), shared_bytes: placed.shared_bytes, partial_bytes: placed.partial_bytes, guards: placed.guards };
                    (tiles, placed, shape.threads())
                }
            };
            if *threads.get_or_insert(threads_of_part) != threads_of_part {
                return Err("parts of one launch have other numbers of threads".into());
            }
            calls.push((i, name));
            placed.guards.into_iter().for_each(|g: Guard| {
                if !guards.contains(&g) {
                    guards.push(g)
                }
            });
            partial_bytes.push(if part.split { placed.partial_bytes } else { 0 });
            shared_bytes = shared_bytes.max(placed.shared_bytes);
            launch_tiles.push(part_tiles)
        }
        let firsts: Vec<usize> = (1..parts.len()).map(|i| words.index(crate::plan::Word::FirstBlock(i as u32))).collect();
        let threads = threads.unwrap_or(32);
        let first = if maps.is_empty() { String::new() } else { format!("cleave::TensorMap maps[{}]; ", maps.len()) };
        writeln!(source, "struct {params} {{ {first}cleave::u64 w[{}]; }};\n", words.count().max(1)).expect("a string takes all text");
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
        let persistent = matches!(placement, Placement::Hopper(k) if k.persistent && parts.len() == 1);
        launches.push(Launch { module, symbol, threads, shared_bytes, body: placement.body(), maps, words: words.into_list(), persistent, partial_bytes });
        tiles.push(launch_tiles)
    }
    guards.extend(chip_guards(program, &tiles));
    let source = header(kernel, types, program, placement, vectors, &instructions) + &schedules + &source;
    Ok((Entry { program: number as u32, target: placement.target(), tiles, launches, guards }, source))
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
