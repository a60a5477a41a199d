//! The menu: which placements and tiles an instance of a kernel is compiled for.
use super::entry::place;
use super::fragment::{self, Shape};
use super::hopper::Knobs;
use super::part::Refusal;
use super::vector;
use crate::axis::{AxisId, AxisSet};
use crate::device::Target;
use crate::dtype::DType;
use crate::graph::Op;
use crate::kernel::Kernel;
use crate::plan::{Body, Entry};
use crate::tile::{Dim, DimId, Part, Program, Role, Statement};
use crate::traffic::{Case, traffic};

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
    pub(super) fn body(&self) -> Body {
        match self {
            Placement::Shared => Body::Shared,
            Placement::Fragment(_) | Placement::Hopper(_) => Body::TensorCores,
            Placement::Vector(plan) => Body::Vector { resident: plan.home != vector::Home::Stream },
        }
    }
    pub(super) fn target(&self) -> Target {
        if let Placement::Hopper(_) = self { Target::Hopper } else { Target::Portable }
    }
}

impl Size {
    /// Bytes of shared memory that a block may use.
    pub(super) fn limit(self) -> u32 {
        160 * 1024
    }
    /// Tiles of a part, and how it lies on the warps.
    pub(super) fn shape(self, part: &Part, types: &[DType], bound: &dyn Fn(DimId) -> Option<u32>) -> Result<(Vec<u32>, Shape), Refusal> {
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
            (Height::Tall, true) if work.computed => (2, 4, 2, 1, if work.products + work.read_after > 2 || work.chained { 64 } else { 128 }, 32, 4),
            // accumulators of 64 x 64 a warp, or two of 64 x 32; an operand of four bytes takes the room of two
            (Height::Tall, true) => (4, 2, 2, 1, if work.products > 1 || work.stored { 64 } else { 128 }, 64, 3),
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
                // of the programs of one launch, and of those of several, the best that can be placed with any choice of tiles
                let mut found = [false; 2];
                for &number in group {
                    let several = programs[number].launches.len() > 1;
                    // several launches are worth their code where they multiply less: what one launch would compute again for every tile is stored
                    let of = |number: usize| multiplied(kernel, &programs[number], types);
                    let single = || group.iter().filter(|g| programs[**g].launches.len() == 1).filter_map(|g| of(*g)).reduce(f64::min);
                    let less = || of(number).is_some_and(|n| single().is_none_or(|single| n < LESS * single));
                    if found[several as usize] || (several && found[false as usize] && !less()) {
                        continue;
                    }
                    let lists = match several && found[false as usize] {
                        true => [Knobs::MIDDLE, Knobs::NARROW].map(|k| vec![k]).into(),
                        false => Knobs::menu(&programs[number]),
                    };
                    let mut placed: Vec<Knobs> = vec![];
                    for list in lists {
                        if let Some(k) = list.into_iter().find(|k| placed.contains(k) || add(number, Placement::Hopper(*k)))
                            && !placed.contains(&k)
                        {
                            placed.push(k)
                        }
                    }
                    found[several as usize] = !placed.is_empty()
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

/// Operations of a program's products at extents such as a model has, if it takes them.
fn multiplied(kernel: &Kernel, program: &Program, types: &[DType]) -> Option<f64> {
    const NOMINAL: i64 = 4096;
    let axes = program.launches.iter().flatten().map(|p| p.graph.axes.len()).max().unwrap_or(0);
    let bound = |bounds: &[(AxisId, usize)], a: usize| bounds.iter().find(|b| b.0.0 as usize == a).map_or(i64::MAX, |b| b.1 as i64);
    let extents: Vec<i64> = (0..axes).map(|a| NOMINAL.min(bound(&kernel.bounds, a))).collect();
    let of = |part: &Part| {
        let tile = |(d, dim): (usize, &Dim)| match dim.role {
            _ if dim.batch => 1,
            Role::Chip => part.extent(DimId(d as u8), &extents) as u32,
            Role::Grid | Role::Loop => 128,
        };
        let tiles: Vec<u32> = part.dims.iter().enumerate().map(tile).collect();
        traffic(part, &Case { extents: &extents, tiles: &tiles, pieces: 1, padded: false, types, table: &|_| None }).contracted
    };
    let takes = extents.iter().enumerate().all(|(a, n)| *n <= bound(&program.bounds, a));
    takes.then(|| program.launches.iter().flatten().map(of).sum())
}

/// Of how many operations several launches may at most have to be worth it.
const LESS: f64 = 0.75;

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
    /// A product of the same step is in it.
    chained: bool,
    /// The other one is what an earlier launch left, in f32.
    stored: bool,
}

impl Work {
    fn of(part: &Part, row: DimId, column: Option<DimId>) -> Work {
        let mut work = Work { products: 0, read_after: 0, computed: false, chained: false, stored: false };
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
                let (a, b) = if part.of(x).contains(row) { (x, y) } else { (y, x) };
                work.products += 1;
                work.chained |= depth > 0 && matches!(s, Statement::Reduce { .. });
                work.computed |= !matches!(part.graph.op(a), Op::Input { .. });
                work.stored |= matches!(part.graph.op(b), Op::Input { input, .. } if part.graph.input(*input).workspace.is_some())
            }
        }
        work
    }
}
