//! Programs that write into the memory of an input. In: a program of a graph of which outputs stand in place of inputs. Out: whether
//! every element of such an input is read before it is written. Parts of a launch, and blocks of a part, run in any order, so all
//! readings that are not of an earlier launch must be by the block that writes, before it does, at the positions that it writes. A
//! back end may read an input where it is used instead of where it is loaded, so uses count, not loads.
use super::{DimSet, Part, Program, Statement};
use crate::graph::{InputId, NodeId, Op};

/// Whether the program reads all that it overwrites before it does so.
pub fn reads_first(program: &Program) -> bool {
    each(program, &|part, output, input| in_order(part, output, input))
}

/// Whether, beyond that, each such input is read by the statement alone that writes it: then element by element is soon enough.
pub fn reads_where_it_writes(program: &Program) -> bool {
    each(program, &|part, output, input| in_order(part, output, input) && uses(part, input).iter().all(|u| u.stores == Some(output as u32)))
}

/// Whether a condition holds of every part that writes over an input, and no part of the launch or a later one reads it otherwise.
fn each(program: &Program, holds: &dyn Fn(&Part, usize, InputId) -> bool) -> bool {
    let Some(graph) = program.launches.iter().flatten().map(|p| &p.graph).next() else { return true };
    (0..graph.outputs.len()).all(|o| {
        let Some(input) = graph.outputs[o].in_place else { return true };
        let writes = |p: &Part| p.statements().iter().any(|s| matches!(s.1, Statement::Store { output, .. } if *output as usize == o));
        let mut written = false;
        program.launches.iter().all(|launch| {
            let writer = launch.iter().position(writes);
            let fine = launch.iter().enumerate().all(|(i, part)| match writer {
                Some(w) if w == i => !written && holds(part, o, input),
                None if !written => true,
                _ => uses(part, input).is_empty(),
            });
            written |= writer.is_some();
            fine
        })
    })
}

/// Within one part: one store, of the block's own tile; what is used of the input is of that same tile, and not used later.
fn in_order(part: &Part, output: usize, input: InputId) -> bool {
    let (uses, statements) = (uses(part, input), places(part));
    if uses.is_empty() {
        return true;
    }
    let stores: Vec<&Place> = statements.iter().filter(|p| p.stores == Some(output as u32)).collect();
    let [store] = stores[..] else { return false };
    let access = &part.graph.outputs[output].stores[0].access;
    let grid: DimSet = part.grid.iter().copied().collect();
    let own = grid.union(store.loops).is_subset(part.dims_of(access.axes()));
    let same = |n: &NodeId| matches!(part.graph.op(*n), Op::Input { access: a, .. } if a == access);
    own && uses.iter().all(|u| u.at <= store.at) && reads(part, input).iter().all(same)
}

/// A statement: its position in the order of all, the loops around it, the node that it makes or stores, and the output that it
/// stores to.
struct Place {
    at: usize,
    loops: DimSet,
    node: NodeId,
    stores: Option<u32>,
}

fn places(part: &Part) -> Vec<Place> {
    fn walk(part: &Part, body: &[Statement], loops: DimSet, at: &mut usize, out: &mut Vec<Place>) {
        for s in body {
            *at += 1;
            let (node, stores) = match s {
                Statement::Loop(l) => {
                    walk(part, &l.body, loops.union(DimSet::of(l.dim)), at, out);
                    continue;
                }
                Statement::Store { output, store, .. } => (part.graph.outputs[*output as usize].stores[*store as usize].node, Some(*output)),
                Statement::Map { node } | Statement::Reduce { node, .. } | Statement::Fold { node, .. } | Statement::Rebase { frame: node } => (*node, None),
                Statement::Load { .. } | Statement::Recall { .. } => continue,
            };
            out.push(Place { at: *at, loops, node, stores })
        }
    }
    let mut out = vec![];
    walk(part, &part.body, DimSet::EMPTY, &mut 0, &mut out);
    out
}

/// The statements that need elements of an input, not only values that other statements made of them.
fn uses(part: &Part, input: InputId) -> Vec<Place> {
    let all = places(part);
    let made: Vec<NodeId> = all.iter().filter(|p| p.stores.is_none()).map(|p| p.node).collect();
    let needs = |p: &Place| {
        let mut todo = if p.stores.is_some() && !made.contains(&p.node) { vec![p.node] } else { vec![] };
        if p.stores.is_none() {
            todo.extend(part.graph.operands(p.node))
        }
        while let Some(n) = todo.pop() {
            match part.graph.op(n) {
                Op::Input { input: i, .. } if *i == input => return true,
                _ if made.contains(&n) => {}
                _ => todo.extend(part.graph.operands(n)),
            }
        }
        false
    };
    all.iter().map(needs).collect::<Vec<_>>().into_iter().zip(all).filter(|u| u.0).map(|u| u.1).collect()
}

/// The readings of an input in a part.
fn reads(part: &Part, wanted: InputId) -> Vec<NodeId> {
    let stores = part.statements().into_iter().filter_map(|(_, s)| match s {
        Statement::Store { output, store, .. } => Some(part.graph.outputs[*output as usize].stores[*store as usize].node),
        _ => None,
    });
    let live = part.graph.cone(stores);
    live.into_iter().filter(|n| matches!(part.graph.op(*n), Op::Input { input, .. } if *input == wanted)).collect()
}

/// Moves stores over inputs behind the other statements of their bodies, which may still read what they overwrite.
pub fn write_last(program: &mut Program) {
    fn order(body: &mut [Statement], over: &[bool]) {
        body.sort_by_key(|s| matches!(s, Statement::Store { output, .. } if over[*output as usize]));
        for s in body {
            if let Statement::Loop(l) = s {
                order(&mut l.body, over)
            }
        }
    }
    for part in program.launches.iter_mut().flatten() {
        let over: Vec<bool> = part.graph.outputs.iter().map(|o| o.in_place.is_some()).collect();
        if over.contains(&true) {
            order(&mut part.body, &over)
        }
    }
}
