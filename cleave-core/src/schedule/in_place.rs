//! Programs that write into the memory of an input. In: a program of a graph of which outputs stand in place of inputs. Out: whether
//! every element of such an input is read before it is written. Parts of a launch, and blocks of a part, run in any order, so all
//! readings that are not of an earlier launch must be by the block that writes, before it does, at the positions that it writes.
use super::elaborate::Framed;
use super::roles::Variant;
use crate::graph::{Access, Factor, InputId, NodeId, Op};
use crate::tile::{DimSet, Part, Program, Statement};

/// Whether the program reads all that it overwrites before it does so.
pub fn reads_first(program: &Program) -> bool {
    let Some(graph) = program.launches.iter().flatten().map(|p| &p.graph).next() else { return true };
    (0..graph.outputs.len()).all(|o| match graph.outputs[o].in_place {
        Some(input) => (0..program.launches.len()).all(|l| {
            let writes = |p: &&Part| !stores(p, o).is_empty();
            let written = program.launches[..l].iter().flatten().any(|p| writes(&p));
            let writer = program.launches[l].iter().position(|p| writes(&p));
            program.launches[l].iter().enumerate().all(|(i, part)| match writer {
                _ if written => loads(part, input).is_empty(),
                Some(w) if w == i => in_order(part, o, input),
                Some(_) => loads(part, input).is_empty(),
                None => true,
            })
        }),
        None => true,
    })
}

/// Within one part: each store is of the block's own tile, and each load, of that same tile, comes before all stores.
fn in_order(part: &Part, output: usize, input: InputId) -> bool {
    let (stores, loads) = (stores(part, output), loads(part, input));
    let first = stores.iter().map(|s| s.at).min().unwrap_or(usize::MAX);
    let grid: DimSet = part.grid.iter().copied().collect();
    let own = |s: &Place| grid.union(s.loops).is_subset(part.dims_of(s.access.axes()));
    let same = |l: &Place| stores.iter().all(|s| whole(&s.access) == whole(&l.access));
    stores.iter().all(own) && loads.iter().all(|l| l.at < first && same(l))
}

/// A statement that moves a tile: its position in the order of statements, the loops around it, and the access.
struct Place {
    at: usize,
    loops: DimSet,
    access: Access,
}

fn places(part: &Part, access: &dyn Fn(&Statement) -> Option<Access>) -> Vec<Place> {
    fn walk(body: &[Statement], loops: DimSet, at: &mut usize, access: &dyn Fn(&Statement) -> Option<Access>, out: &mut Vec<Place>) {
        for s in body {
            *at += 1;
            out.extend(access(s).map(|access| Place { at: *at, loops, access }));
            if let Statement::Loop(l) = s {
                walk(&l.body, loops.union(DimSet::of(l.dim)), at, access, out)
            }
        }
    }
    let mut out = vec![];
    walk(&part.body, DimSet::EMPTY, &mut 0, access, &mut out);
    out
}

fn stores(part: &Part, output: usize) -> Vec<Place> {
    places(part, &|s| match s {
        Statement::Store { output: o, store, .. } if *o as usize == output => Some(part.graph.outputs[output].stores[*store as usize].access.clone()),
        _ => None,
    })
}

fn loads(part: &Part, wanted: InputId) -> Vec<Place> {
    places(part, &|s| match s {
        Statement::Load { node, .. } => match part.graph.op(*node) {
            Op::Input { input, access } if *input == wanted => Some(access.clone()),
            _ => None,
        },
        _ => None,
    })
}

/// An access whatever the index of its constant factors.
fn whole(access: &Access) -> Access {
    let factor = |f: &Factor| if let Factor::Part { of, .. } = f { Factor::Part { index: 0, of: *of } } else { *f };
    Access { dims: access.dims.iter().map(|d| d.iter().map(factor).collect()).collect() }
}

/// A variant that is in order whatever the graph: all that is read from such inputs goes to workspaces, and a last launch writes.
pub fn apart(framed: &Framed, variant: &Variant) -> Variant {
    let graph = &framed.graph;
    let overwritten: Vec<InputId> = graph.outputs.iter().filter_map(|o| o.in_place).collect();
    let reads = |n: &NodeId| matches!(graph.op(*n), Op::Input { input, .. } if overwritten.contains(input));
    let mut cuts = variant.cuts.clone();
    for n in graph.stores().map(|s| s.1.node).filter(|n| graph.cone([*n]).iter().any(reads)) {
        if !cuts.contains(&n) {
            cuts.push(n)
        }
    }
    Variant { cuts, ..variant.clone() }
}
