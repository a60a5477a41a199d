//! Which plans a kernel's menu holds, and the programs to try for each, the best first.
use super::shape::{Hints, Home, Plan};
use crate::dtype::DType;
use crate::emit::menu::{groups, passes};
use crate::tile::{Program, Role, Statement};

const HINTS: Hints = Hints { evict_first: true, stores: false };
/// Rows of a reduction that end in registers: by warps, by blocks. Threads that hold more share what a merge costs.
const SHORT: Plan = Plan { threads: 128, group: 32, rows: 1, few: 1, single: false, chunks: 4, home: Home::Registers, hints: HINTS };
const HALF: Plan = Plan { threads: 128, group: 128, rows: 1, few: 1, single: false, chunks: 4, home: Home::Registers, hints: HINTS };
const MIDDLE: Plan = Plan { threads: 256, group: 256, rows: 1, few: 1, single: false, chunks: 4, home: Home::Registers, hints: HINTS };
/// Rows of up to 64 KB in 16-bit types.
const LONG: Plan = Plan { threads: 512, group: 512, rows: 1, few: 1, single: false, chunks: 4, home: Home::Shared(2), hints: HINTS };
const ENDLESS: Plan = Plan { threads: 256, group: 256, rows: 1, few: 1, single: false, chunks: 4, home: Home::Stream, hints: HINTS };
/// Any strides and extents: a chunk is one element.
const ANY: Plan = Plan { threads: 256, group: 256, rows: 1, few: 1, single: true, chunks: 4, home: Home::Stream, hints: HINTS };
/// Operations on elements alone.
const FLAT: Plan = Plan { threads: 128, group: 32, rows: 1, few: 1, single: false, chunks: 2, home: Home::Stream, hints: HINTS };
const FLAT_ANY: Plan = Plan { threads: 128, group: 32, rows: 1, few: 1, single: true, chunks: 4, home: Home::Stream, hints: HINTS };
/// Products with one row: a block for the weights of a few outputs.
const PRODUCT: Plan = Plan { threads: 128, group: 128, rows: 4, few: 1, single: false, chunks: 2, home: Home::Stream, hints: HINTS };

/// Plans in the order of the menu, each with the programs to try for it.
pub fn plans(programs: &[Program], _types: &[DType]) -> Vec<(Vec<usize>, Plan)> {
    let single: Vec<usize> = (0..programs.len()).filter(|i| programs[*i].launches.len() == 1 && !on_chip(&programs[*i])).collect();
    let products = groups(programs);
    if !products.is_empty() {
        let best =
            |group: &Vec<usize>| group.iter().copied().filter(|i| single.contains(i) && !keeps(&programs[*i]) && !nests(&programs[*i])).collect::<Vec<_>>();
        return products
            .iter()
            .map(best)
            .filter(|g| !g.is_empty())
            .map(|g| {
                let rows = if streams(&programs[g[0]]) > 1 { 2 } else { 4 };
                (g, Plan { rows, ..PRODUCT })
            })
            .collect();
    }
    // with rows in registers passes cost nothing, and the first program keeps what it can; what is read again should have few
    let mut streamed: Vec<usize> = single.iter().copied().filter(|i| !keeps(&programs[*i])).collect();
    streamed.sort_by_key(|i| (programs[*i].bounds.len(), passes(&programs[*i])));
    let loops = |i: &usize| programs[*i].launches.iter().flatten().any(|p| p.split_loop().is_some());
    if !single.iter().any(loops) {
        return vec![(single.clone(), FLAT), (single, FLAT_ANY)];
    }
    if single.iter().all(|i| nests(&programs[*i])) {
        // a merge in every turn of the outer loop: by one warp
        let warps = |plan: Plan| Plan { threads: 128, group: 32, ..plan };
        return vec![(streamed.clone(), warps(ENDLESS)), (streamed, warps(ANY))];
    }
    vec![(single.clone(), SHORT), (single.clone(), HALF), (single, MIDDLE), (streamed.clone(), LONG), (streamed.clone(), ENDLESS), (streamed, ANY)]
}

/// A launch beside others that multiply matrices: rows by warps.
pub fn beside(aligned: bool) -> Plan {
    Plan { threads: 128, group: 32, ..if aligned { ENDLESS } else { ANY } }
}

fn on_chip(program: &Program) -> bool {
    program.launches.iter().flatten().any(|p| p.dims.iter().any(|d| d.role == Role::Chip))
}

fn nests(program: &Program) -> bool {
    program.launches.iter().flatten().any(|p| p.statements().iter().any(|s| s.0 > 0 && matches!(s.1, Statement::Loop(_))))
}

fn keeps(program: &Program) -> bool {
    program.launches.iter().flatten().flat_map(|p| p.statements()).any(|s| matches!(s.1, Statement::Loop(l) if !l.keep.is_empty()))
}

/// The most readings with a grid dim of their own, as weights have, that a loop of the program makes.
fn streams(program: &Program) -> usize {
    let of = |p: &crate::tile::Part| {
        let last = p.grid.last().copied();
        let reads = |s: &(usize, &Statement)| matches!(s.1, Statement::Load { node, .. } if s.0 > 0 && last.is_some_and(|d| p.of(*node).contains(d)));
        p.statements().iter().filter(|s| reads(s)).count()
    };
    program.launches.iter().flatten().map(of).max().unwrap_or(0)
}
