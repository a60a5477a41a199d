//! The choice of the first call: an entry of the menu and a split, for concrete extents on one device. In: the plan file, the
//! extents, what is known of the tensors, a device's numbers. Out: the admissible entry that is [estimated](crate::estimate) the
//! cheapest. The choice depends on nothing else, so that it can be asked for, shown and tested without a device.
use crate::device::{DeviceModel, Target};
use crate::estimate::seconds;
use crate::plan::{Entry, Guard, PlanFile, TensorRef};
use crate::tile::{Part, Role, Statement};

/// Splits are powers of two up to this.
pub const MAX_PIECES: u32 = 64;

/// Over splits the time falls to its least and rises again: where it is this much above the least, more pieces are not looked at.
const PAST_THE_LEAST: f64 = 1.2;

/// What guards ask of a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Facts {
    /// Bit `d`: the stride of dimension `d` is 1 (or its size is, and the stride is never used). Of a scalar: 0 if it is negative.
    pub unit: u64,
    /// The greatest power of two, up to [`Facts::MOST_ALIGNED`], that divides the address and every other stride, in bytes.
    pub aligned: u32,
}

impl Facts {
    pub const MOST_ALIGNED: u32 = 256;

    /// Of a tensor at `address` with `(size, stride in elements)` of each dimension.
    pub fn of(address: u64, dims: impl Iterator<Item = (u64, u64)> + Clone, element_bytes: u64) -> Facts {
        let runs = |(size, stride): &(u64, u64)| *size > 1 && *stride == 1;
        let running = dims.clone().filter(runs).count();
        let (mut unit, mut bits) = (0, address | Self::MOST_ALIGNED as u64);
        for (d, (size, stride)) in dims.enumerate() {
            // of [2, 1] with strides 1 and 1 the first dimension is the contiguous one: rows of the second are not aligned
            if (size <= 1 || stride == 1) && running == runs(&(size, stride)) as usize {
                unit |= 1u64.checked_shl(d as u32).unwrap_or(0)
            }
            if size > 1 && stride != 1 {
                bits |= stride.wrapping_mul(element_bytes)
            }
        }
        Facts { unit, aligned: 1 << bits.trailing_zeros() }
    }
    /// Of a new row-major tensor at an address aligned to `alignment` bytes.
    pub fn row_major(shape: &[i64], element_bytes: u64, alignment: u64) -> Facts {
        let mut strides = vec![1u64; shape.len()];
        for d in (1..shape.len()).rev() {
            strides[d - 1] = strides[d] * shape[d].max(1) as u64
        }
        Self::of(alignment, shape.iter().map(|n| *n as u64).zip(strides), element_bytes)
    }
}

/// What a call asks for.
pub struct Request<'a> {
    pub instance: usize,
    pub extents: &'a [i64],
    /// Of inputs and outputs.
    pub facts: &'a dyn Fn(TensorRef) -> Facts,
    /// A split that the caller insists on.
    pub pieces: Option<u32>,
    /// Whether the code of an entry can be run where it is wanted.
    pub usable: &'a dyn Fn(&Entry) -> bool,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// Index into [`Instance::entries`](crate::plan::Instance::entries).
    pub entry: usize,
    /// The pieces of each part of each launch (1: not split).
    pub pieces: Vec<Vec<u32>>,
    /// Estimated, of the whole call.
    pub seconds: f64,
    /// The best split of every other admissible entry, and the chosen one unsplit if it is split; cheapest first.
    pub alternatives: Vec<Alternative>,
}

/// An entry with a split.
#[derive(Clone, PartialEq, Debug)]
pub struct Alternative {
    pub entry: usize,
    pub pieces: u32,
    pub seconds: f64,
}

/// Near by, as [`adapt`] takes it.
impl From<&Alternative> for Choice {
    fn from(a: &Alternative) -> Choice {
        Choice { entry: a.entry, pieces: vec![vec![a.pieces]], seconds: a.seconds, alternatives: vec![] }
    }
}

impl Choice {
    /// The greatest split of any part.
    pub fn split(&self) -> u32 {
        self.pieces.iter().flatten().copied().max().unwrap_or(1)
    }
}

/// Why nothing can be run.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Refusal {
    #[error("there is no code for this device")]
    NoCode,
    #[error("{0}")]
    Guard(String),
    #[error("the plan file contradicts itself")]
    Damaged,
}

/// Whether entries for `entry` run on a device that is described as `device`.
fn runs_on(entry: Target, device: Target) -> bool {
    entry == device || (entry == Target::Portable && device == Target::Hopper)
}

/// The cheapest admissible entry and split; of equals one made for this device, the earlier entry and the smaller split.
pub fn choose(file: &PlanFile, request: &Request, device: &DeviceModel) -> Result<Choice, Refusal> {
    let all = candidates(file, request, device)?;
    let own = |c: &&Alternative| file.instances[request.instance].entries[c.entry].target == device.target;
    let mut best = all.iter().find(own).unwrap_or(&all[0]);
    for c in &all {
        if c.seconds < best.seconds * 0.999 {
            best = c
        }
    }
    let mut alternatives: Vec<Alternative> = vec![];
    for c in &all {
        let unsplit = c.entry == best.entry && c.pieces == 1 && best.pieces > 1;
        match alternatives.iter_mut().find(|a| a.entry == c.entry) {
            Some(a) if c.entry != best.entry && c.seconds < a.seconds => *a = c.clone(),
            None if c.entry != best.entry || unsplit => alternatives.push(c.clone()),
            _ => {}
        }
    }
    alternatives.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    Ok(Choice { alternatives, ..insist(file, request, best)? })
}

/// The choice of this entry and split, which is one of the [`candidates`].
pub fn insist(file: &PlanFile, request: &Request, candidate: &Alternative) -> Result<Choice, Refusal> {
    let entry = file.instances.get(request.instance).and_then(|i| i.entries.get(candidate.entry)).ok_or(Refusal::Damaged)?;
    let pieces = pieces(file, entry, candidate.pieces, request.extents).ok_or(Refusal::Damaged)?;
    Ok(Choice { entry: candidate.entry, pieces, seconds: candidate.seconds, alternatives: vec![] })
}

/// Every admissible entry with every split worth a look, in the order of entries and splits; at least one.
pub fn candidates(file: &PlanFile, request: &Request, device: &DeviceModel) -> Result<Vec<Alternative>, Refusal> {
    let instance = file.instances.get(request.instance).ok_or(Refusal::Damaged)?;
    let mut refusal = Refusal::NoCode;
    // with whether it fits on chip
    let mut candidates: Vec<(Alternative, bool)> = vec![];
    for (index, entry) in instance.entries.iter().enumerate() {
        if !runs_on(entry.target, device.target) || !(request.usable)(entry) {
            continue;
        }
        if let Some(reason) = refused(file, entry, request, device) {
            refusal = Refusal::Guard(reason);
            continue;
        }
        let offers: Vec<u32> = match request.pieces {
            Some(n) => vec![n.max(1)],
            None => std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|n| *n <= MAX_PIECES).collect(),
        };
        let mut last = None;
        let mut least = f64::INFINITY;
        for split in offers {
            let pieces = pieces(file, entry, split, request.extents).ok_or(Refusal::Damaged)?;
            if last.as_ref() == Some(&pieces) {
                break; // no part has more tiles to share out
            }
            let (seconds, fits) = seconds(file, entry, &instance.types, &pieces, request.extents, device).ok_or(Refusal::Damaged)?;
            candidates.push((Alternative { entry: index, pieces: split, seconds }, fits));
            if seconds > PAST_THE_LEAST * least {
                break;
            }
            least = least.min(seconds);
            last = Some(pieces)
        }
    }
    // code that exists is run even where the model thinks it too big for the chip, but only if nothing else is there
    if candidates.iter().any(|c| c.1) {
        candidates.retain(|c| c.1)
    }
    // some rules need an axis to have positions: over none, the algorithm as written is run
    let of_source = |c: &(Alternative, bool)| file.programs.get(instance.entries[c.0.entry].program as usize).is_some_and(|p| p.algorithm == 0);
    if request.extents.contains(&0) && candidates.iter().any(of_source) {
        candidates.retain(of_source)
    }
    if candidates.is_empty() { Err(refusal) } else { Ok(candidates.into_iter().map(|c| c.0).collect()) }
}

/// The choice that was made for extents nearby, for these: its entry and split, if the entry's conditions hold. The estimates stay those
/// of the other extents.
pub fn adapt(file: &PlanFile, request: &Request, device: &DeviceModel, near: &Choice) -> Option<Choice> {
    let entry = file.instances.get(request.instance)?.entries.get(near.entry)?;
    if refused(file, entry, request, device).is_some() {
        return None;
    }
    Some(Choice { pieces: pieces(file, entry, near.split(), request.extents)?, ..near.clone() })
}

/// Extents that are near enough to share a choice: up to 16 each has its own, beyond there are four to an octave.
pub fn bucket(extent: i64) -> i64 {
    let bits = 64 - extent.max(0).leading_zeros() as i64;
    let shift = (bits - 3).max(0);
    if extent <= 16 { extent } else { extent >> shift << shift }
}

/// The first condition of an entry that does not hold, in the user's words.
fn refused(file: &PlanFile, entry: &Entry, request: &Request, device: &DeviceModel) -> Option<String> {
    let graph = &file.kernel.graph;
    let extent = |a: crate::axis::AxisId| request.extents.get(a.0 as usize).copied().unwrap_or(0);
    // workspaces belong to the program: they are known here, not to the caller
    let facts = |t: TensorRef| match t {
        TensorRef::Workspace(w) => {
            let axes = file.programs.get(entry.program as usize).and_then(|p| p.workspaces.get(w as usize)).map_or(&[][..], |w| &w.axes);
            Facts::row_major(&axes.iter().map(|a| extent(*a)).collect::<Vec<_>>(), 4, Facts::MOST_ALIGNED as u64)
        }
        _ => (request.facts)(t),
    };
    let name = |t: TensorRef| match t {
        TensorRef::Input(i) => graph.inputs.get(i.index()).map_or("?".into(), |i| format!("`{}`", i.name)),
        TensorRef::Output(o) => graph.outputs.get(o as usize).map_or("?".into(), |o| format!("`{}`", o.name)),
        TensorRef::Workspace(w) => format!("workspace {w}"),
    };
    let bounds = file.programs.get(entry.program as usize).map_or(&[][..], |p| &p.bounds);
    let over = bounds.iter().map(|(a, n)| (*a, *n as i64)).find(|(a, n)| extent(*a) > *n);
    if let Some((a, n)) = over {
        return Some(format!("axis `{}` is {}, at most {n} fit on chip", graph.axis(a), extent(a)));
    }
    if let Some(l) = entry.launches.iter().find(|l| l.shared_bytes as u64 > device.chip_bytes) {
        return Some(format!("it needs {} bytes of shared memory, a block may use {}", l.shared_bytes, device.chip_bytes));
    }
    let empty = entry.launches.iter().flat_map(|l| &l.maps).flat_map(|m| &m.dims).flat_map(|d| &d.axes).find(|a| extent(**a) == 0);
    if let Some(a) = empty {
        return Some(format!("axis `{}` is empty", graph.axis(*a)));
    }
    entry.guards.iter().find_map(|guard| match *guard {
        Guard::AtMost(a, n) => (extent(a) > n).then(|| format!("axis `{}` is {}, at most {n} are served", graph.axis(a), extent(a))),
        Guard::Multiple(a, n) => (n > 0 && extent(a) % n != 0).then(|| format!("axis `{}` is {}, no multiple of {n}", graph.axis(a), extent(a))),
        Guard::Contiguous(t, d) => (facts(t).unit >> d & 1 == 0).then(|| format!("dimension {d} of {} is not contiguous", name(t))),
        Guard::Aligned(t, n) => (facts(t).aligned < n).then(|| format!("{} is not aligned to {n} bytes", name(t))),
        Guard::NotNegative(i) => (facts(TensorRef::Input(i)).unit == 0).then(|| format!("{} is negative", name(TensorRef::Input(i)))),
    })
}

/// The tiles of the loop that a split of `part` cuts; 1 if there is none.
fn loop_tiles(part: &Part, tiles: &[u32], extents: &[i64]) -> u32 {
    match part.split_loop().map(|l| &part.body[l]) {
        Some(Statement::Loop(l)) if part.dim(l.dim).role != Role::Chip => {
            let tile = tiles[l.dim.0 as usize].max(1) as u64;
            (part.extent(l.dim, extents).max(0) as u64).div_ceil(tile).clamp(1, u32::MAX as u64) as u32
        }
        _ => 1,
    }
}

/// A split for every part that can be split, at most one piece for each tile of its loop. `None`: a damaged entry.
fn pieces(file: &PlanFile, entry: &Entry, split: u32, extents: &[i64]) -> Option<Vec<Vec<u32>>> {
    let program = file.programs.get(entry.program as usize)?;
    let of_part = |launch: usize, p: usize, part: &Part| -> Option<u32> {
        let tiles = entry.tiles.get(launch)?.get(p)?;
        let stored = entry.launches.get(launch).is_none_or(|l| l.partial_bytes.get(p).is_some_and(|b| *b > 0));
        (tiles.len() == part.dims.len()).then_some(if part.split && stored { split.min(loop_tiles(part, tiles, extents)) } else { 1 })
    };
    program.launches.iter().enumerate().map(|(l, parts)| parts.iter().enumerate().map(|(p, part)| of_part(l, p, part)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::{AxisId, AxisSet};
    use crate::cost::Cost;
    use crate::dtype::{DType, Element};
    use crate::graph::{Access, Graph, InputId, Store};
    use crate::kernel::{Algorithm, Kernel};
    use crate::plan::{Instance, VERSION};
    use crate::tile::{Dim, DimId, DimSet, Loop, Member, Program, State};

    #[test]
    fn only_one_dimension_of_a_tensor_is_contiguous() {
        let facts = |dims: &[(u64, u64)]| Facts::of(256, dims.iter().copied(), 2);
        assert_eq!(facts(&[(2, 1), (1, 1)]), Facts { unit: 0b01, aligned: 256 });
        assert_eq!(facts(&[(4, 8), (8, 1)]), Facts { unit: 0b10, aligned: 16 });
        assert_eq!(facts(&[(1, 8), (8, 1)]), Facts { unit: 0b10, aligned: 256 });
        assert_eq!(facts(&[(2, 3), (1, 1)]), Facts { unit: 0b10, aligned: 2 });
        assert_eq!(facts(&[(1, 1)]).unit, 1)
    }

    /// `y[M, E] = sum_N x[M, N] * v[N, E]` in f16, one part: a grid over M, a loop over N, E on chip up to 256.
    fn product(tile: u32) -> PlanFile {
        let mut graph = Graph::default();
        let [m, n, e] = ["M", "N", "E"].map(|a| graph.add_axis(a));
        let half = Element::Type(DType::F16);
        let (x, v) = (graph.add_input("x", half, Access::plain([m, n])), graph.add_input("v", half, Access::plain([n, e])));
        let (x, v) = (graph.read(x, Access::plain([m, n])), graph.read(v, Access::plain([n, e])));
        let xv = graph.mul(&[x, v]);
        let y = graph.sum(AxisSet::of(n), xv);
        graph.add_output("y", half, Access::plain([m, e]), vec![Store { node: y, access: Access::plain([m, e]) }]);
        let dim = |a: AxisId, role| Dim { axes: vec![a], role, batch: false };
        let dims = vec![dim(m, Role::Grid), dim(n, Role::Loop), dim(e, Role::Chip)];
        let node_dims = graph.free().into_iter().map(|f| crate::tile::dims_of(&dims, f)).collect();
        let body = vec![
            Statement::Loop(Loop {
                dim: DimId(1),
                domain: vec![],
                states: vec![State { frame: None, members: vec![Member { node: y, halves: 0, moment: 0, tower: 0 }] }],
                keep: vec![],
                body: vec![
                    Statement::Load { node: x, view_of: None },
                    Statement::Load { node: v, view_of: None },
                    Statement::Fold { node: y, over: DimSet::of(DimId(1)) },
                ],
            }),
            Statement::Store { output: 0, store: 0, first: DimSet::EMPTY },
        ];
        let part = Part { graph: graph.clone(), dims, node_dims, grid: vec![DimId(0)], body, split: true };
        let entry = Entry { program: 0, target: Target::Portable, tiles: vec![vec![vec![tile, 64, 256]]], launches: vec![], guards: vec![] };
        PlanFile {
            version: VERSION,
            key: 0,
            kernel: Kernel { name: "product".into(), graph: graph.clone(), params: vec![], bounds: vec![], assertions: vec![], assumptions: vec![] },
            algorithms: vec![Algorithm { name: "source".into(), graph, cost: Cost::default(), derivation: vec![], assumptions: vec![] }],
            programs: vec![Program { launches: vec![vec![part]], bounds: vec![(e, 256)], ..Default::default() }],
            instances: vec![Instance { types: vec![], entries: vec![entry], modules: vec![] }],
        }
    }

    fn device(units: u32) -> DeviceModel {
        // a multiprocessor has the same share of everything on each
        let share = units as f64 / 132.0;
        DeviceModel {
            name: format!("{units} multiprocessors"),
            target: Target::Hopper,
            units,
            chip_bytes: 228 << 10,
            half_flops: 800e12 * share,
            single_flops: 50e12 * share,
            bandwidth: 3e12 * share,
            launch_seconds: 3e-6,
            merge_seconds: 2e-6,
        }
    }

    fn chosen(file: &PlanFile, extents: [i64; 3], device: &DeviceModel, pieces: Option<u32>) -> Result<Choice, Refusal> {
        let facts = |_| Facts { unit: 0b10, aligned: 16 };
        choose(file, &Request { instance: 0, extents: &extents, facts: &facts, pieces, usable: &|_| true }, device)
    }

    #[test]
    fn few_rows_over_a_long_loop_split_the_more_the_wider_the_device() {
        let file = product(64);
        let splits = [8, 132, 1000].map(|units| chosen(&file, [64, 1 << 16, 128], &device(units), None).unwrap().split());
        assert!(splits[0] > 1 && splits[0] < splits[1] && splits[1] <= splits[2], "{splits:?}");
    }

    #[test]
    fn rows_that_fill_the_device_are_not_split() {
        let file = product(64);
        for units in [8, 132, 1000] {
            // 64,000 tiles of rows: many waves on each
            assert_eq!(chosen(&file, [64 * 64_000, 8192, 128], &device(units), None).unwrap().split(), 1, "{units}")
        }
    }

    #[test]
    fn a_split_leaves_a_tile_to_every_piece() {
        let file = product(64);
        assert_eq!(chosen(&file, [1, 130, 128], &device(1000), Some(50)).unwrap().pieces, [[3]]);
        assert_eq!(chosen(&file, [1, 0, 128], &device(1000), Some(50)).unwrap().pieces, [[1]]);
    }

    #[test]
    fn the_caller_may_insist_on_a_split() {
        let choice = chosen(&product(64), [64, 1 << 16, 128], &device(132), Some(1)).unwrap();
        assert_eq!((choice.split(), choice.alternatives.len()), (1, 0));
        assert_eq!(chosen(&product(64), [64, 1 << 16, 128], &device(132), Some(7)).unwrap().split(), 7);
    }

    #[test]
    fn an_entry_that_does_not_fit_on_chip_yields_to_one_that_does() {
        let mut file = product(1024);
        let mut small = file.instances[0].entries[0].clone();
        small.tiles[0][0][0] = 16;
        file.instances[0].entries.push(small);
        let extents = [1 << 20, 4096, 256];
        assert_eq!(chosen(&file, extents, &device(132), None).unwrap().entry, 1);
        file.instances[0].entries.pop();
        assert_eq!(chosen(&file, extents, &device(132), None).unwrap().entry, 0);
    }

    #[test]
    fn code_is_chosen_only_where_it_runs_and_its_guards_hold() {
        let refusal = |guard: Option<Guard>, target: Target, extents: [i64; 3]| {
            let mut file = product(64);
            file.instances[0].entries[0].guards.extend(guard);
            chosen(&file, extents, &DeviceModel { target, ..device(132) }, None).err().map(|r| r.to_string())
        };
        let small = [64, 64, 64];
        assert_eq!(refusal(None, Target::Hopper, small), None);
        assert_eq!(refusal(None, Target::Portable, small), None);
        assert_eq!(refusal(None, Target::Cpu, small).unwrap(), "there is no code for this device");
        assert_eq!(refusal(None, Target::Portable, [64, 64, 257]).unwrap(), "axis `E` is 257, at most 256 fit on chip");
        assert_eq!(refusal(Some(Guard::Multiple(AxisId(1), 24)), Target::Portable, small).unwrap(), "axis `N` is 64, no multiple of 24");
        let (x, y) = (TensorRef::Input(InputId(0)), TensorRef::Output(0));
        assert_eq!(refusal(Some(Guard::Contiguous(x, 0)), Target::Portable, small).unwrap(), "dimension 0 of `x` is not contiguous");
        assert_eq!(refusal(Some(Guard::Aligned(y, 32)), Target::Portable, small).unwrap(), "`y` is not aligned to 32 bytes");
        assert_eq!(refusal(Some(Guard::Aligned(y, 16)), Target::Portable, small), None);
    }

    #[test]
    fn code_that_needs_more_shared_memory_than_a_block_may_use_is_passed_over() {
        let mut file = product(64);
        let launch = |shared_bytes| crate::plan::Launch {
            module: 0,
            symbol: "product".into(),
            threads: 128,
            shared_bytes,
            body: crate::plan::Body::TensorCores,
            maps: vec![],
            words: vec![],
            persistent: false,
            partial_bytes: vec![0],
        };
        let mut small = file.instances[0].entries[0].clone();
        file.instances[0].entries[0].launches = vec![launch(100 << 10)];
        (small.tiles[0][0][0], small.launches) = (16, vec![launch(40 << 10)]);
        file.instances[0].entries.push(small);
        let smaller = DeviceModel { chip_bytes: 99 << 10, ..device(108) };
        assert_eq!(chosen(&file, [1 << 20, 4096, 64], &device(108), None).map(|c| c.entry), Ok(0));
        assert_eq!(chosen(&file, [1 << 20, 4096, 64], &smaller, None).map(|c| c.entry), Ok(1));
        file.instances[0].entries.pop();
        assert!(matches!(chosen(&file, [1 << 20, 4096, 64], &smaller, None), Err(Refusal::Guard(_))));
    }
    #[test]
    fn code_for_the_device_itself_comes_before_portable_code_where_its_conditions_hold() {
        let mut file = product(128);
        let (x, mut own) = (TensorRef::Input(InputId(0)), file.instances[0].entries[0].clone());
        own.target = Target::Hopper;
        own.guards.push(Guard::Aligned(x, 16));
        file.instances[0].entries.push(own);
        let entry = |aligned, target| {
            let facts = move |_| Facts { unit: 0b10, aligned };
            let request = Request { instance: 0, extents: &[8192, 8192, 256], facts: &facts, pieces: None, usable: &|_| true };
            choose(&file, &request, &DeviceModel { target, ..device(132) }).unwrap().entry
        };
        assert_eq!((entry(16, Target::Hopper), entry(8, Target::Hopper), entry(16, Target::Portable)), (1, 0, 0))
    }

    #[test]
    fn a_negative_scalar_is_refused_where_its_sign_is_promised() {
        let mut file = product(64);
        file.instances[0].entries[0].guards = vec![Guard::NotNegative(InputId(0))];
        let refusal = |unit| {
            let facts = move |_| Facts { unit, aligned: 16 };
            choose(&file, &Request { instance: 0, extents: &[64, 64, 64], facts: &facts, pieces: None, usable: &|_| true }, &device(132))
                .err()
                .map(|r| r.to_string())
        };
        assert_eq!((refusal(u64::MAX), refusal(0)), (None, Some("`x` is negative".into())))
    }

    #[test]
    fn a_choice_serves_the_extents_near_by_as_far_as_its_conditions_hold() {
        let file = product(64);
        let facts = |_| Facts { unit: 0b10, aligned: 16 };
        let request = |extents| Request { instance: 0, extents, facts: &facts, pieces: None, usable: &|_| true };
        let near = choose(&file, &request(&[64, 1 << 16, 128]), &device(132)).unwrap();
        let other = adapt(&file, &request(&[64, (1 << 16) + 5, 128]), &device(132), &near).unwrap();
        assert_eq!((other.entry, other.split()), (near.entry, near.split()));
        assert_eq!(adapt(&file, &request(&[64, 130, 128]), &device(132), &near).unwrap().split(), 3, "no piece without a tile");
        assert_eq!(adapt(&file, &request(&[64, 130, 257]), &device(132), &near), None);
    }

    #[test]
    fn buckets_are_a_quarter_of_an_octave_wide() {
        assert_eq!([0, 1, 16, 17, 19, 20, 1000, 1024, 1279, 1280].map(bucket), [0, 1, 16, 16, 16, 20, 896, 1024, 1024, 1280]);
    }

    #[test]
    fn facts_tell_unit_strides_and_the_alignment_of_the_others() {
        let of = |address: u64, dims: &[(u64, u64)]| Facts::of(address, dims.iter().copied(), 2);
        assert_eq!(of(4096, &[(3, 64), (64, 1)]), Facts { unit: 0b10, aligned: 128 });
        assert_eq!(of(4096, &[(3, 65), (64, 1)]), Facts { unit: 0b10, aligned: 2 });
        assert_eq!(of(4104, &[(3, 64), (64, 1)]), Facts { unit: 0b10, aligned: 8 });
        // a dimension of one counts as contiguous only where no other one is
        assert_eq!(of(4096, &[(1, 7), (64, 1)]), Facts { unit: 0b10, aligned: 256 });
        assert_eq!(of(4096, &[(1, 7), (64, 2)]), Facts { unit: 0b01, aligned: 4 });
        assert_eq!(Facts::row_major(&[3, 24], 2, 256), of(256, &[(3, 24), (24, 1)]));
    }
}
