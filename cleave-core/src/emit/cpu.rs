//! The menu of the CPU executor: tile lengths for each program.
//!
//! In: programs. Out: entries without launches; the executor runs the tile program itself. A block's tiles should stay in a core's second
//! cache, a row of what is streamed be long enough for vector code, and a contraction have enough of every dim to pay for packing. The
//! executor cuts tile lengths to extents, so that one entry serves a range of shapes.
use crate::device::Target;
use crate::graph::{Factor, Op};
use crate::plan::Entry;
use crate::tile::{DimId, DimSet, Loop, Part, Program, Role, Statement};

/// Tile lengths by the part that a dim plays.
struct Lengths {
    /// The innermost grid dim that is no column, and the other ones.
    row: u32,
    outer_row: u32,
    /// The grid dim that is innermost in the output.
    column: u32,
    /// A loop that sums a matrix product.
    depth: u32,
    /// A loop along which products are both made and summed (keys of attention), or with a frame.
    stream: u32,
}

/// For parts with matrix products: many rows; twice as many, for which columns are copied half as often; few rows (decoding: a packed or outer row dim
/// counts the heads of a group), which are read along whole rows of weights; small blocks, for shapes that would not give every core one.
const PRODUCTS: [Lengths; 4] = [
    Lengths { row: 192, outer_row: 1, column: 512, depth: 1024, stream: 256 },
    Lengths { row: 384, outer_row: 1, column: 256, depth: 1024, stream: 256 },
    Lengths { row: 16, outer_row: 16, column: 64, depth: 4096, stream: 512 },
    Lengths { row: 64, outer_row: 1, column: 128, depth: 1024, stream: 128 },
];

/// For parts whose every operation goes along rows: whole rows; one row, for few and long ones.
const ROWS: [Lengths; 2] =
    [Lengths { row: 8, outer_row: 1, column: 2048, depth: 4096, stream: 4096 }, Lengths { row: 1, outer_row: 1, column: 4096, depth: 8192, stream: 8192 }];

/// The entries of every program, in order; without conditions beside the program's own bounds.
pub fn entries(programs: &[Program]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = vec![];
    for (index, program) in programs.iter().enumerate() {
        for choice in 0..PRODUCTS.len() {
            let tiles = program.launches.iter().map(|l| l.iter().map(|p| tiles(p, program, choice)).collect()).collect();
            let entry = Entry { program: index as u32, target: Target::Cpu, tiles, launches: vec![], guards: vec![] };
            if !entries.contains(&entry) {
                entries.push(entry)
            }
        }
    }
    entries
}

fn tiles(part: &Part, program: &Program, choice: usize) -> Vec<u32> {
    let products: Vec<DimSet> = part.statements().iter().filter_map(|(_, s)| product(part, s)).collect();
    let lengths = if products.is_empty() { &ROWS[choice.min(ROWS.len() - 1)] } else { &PRODUCTS[choice] };
    let column = column(part);
    let rows: Vec<DimId> = part.grid.iter().copied().filter(|d| Some(*d) != column && !part.dim(*d).batch).collect();
    let length = |d: DimId| {
        let dim = part.dim(d);
        let bound = || dim.axes.iter().map(|a| program.bounds.iter().find(|b| b.0 == *a).map_or(1, |b| b.1 as u32)).product();
        match dim.role {
            Role::Chip => bound(),
            _ if dim.batch => 1,
            Role::Grid if Some(d) == column => lengths.column,
            Role::Grid if rows.last() == Some(&d) => lengths.row,
            Role::Grid => lengths.outer_row,
            Role::Loop if is_depth(part, d) => lengths.depth,
            Role::Loop => lengths.stream,
        }
    };
    (0..part.dims.len() as u8).map(|d| length(DimId(d))).collect()
}

/// The dims that a matrix product sums over.
fn product(part: &Part, statement: &Statement) -> Option<DimSet> {
    match statement {
        Statement::Reduce { node, over } | Statement::Fold { node, over } => part.contraction(*node).map(|_| *over),
        _ => None,
    }
}

/// The grid dim that holds the innermost stored axis of the first store.
fn column(part: &Part) -> Option<DimId> {
    let first = part.statements().into_iter().find_map(|(_, s)| if let Statement::Store { output, store, .. } = s { Some((*output, *store)) } else { None })?;
    let access = &part.graph.outputs[first.0 as usize].stores[first.1 as usize].access;
    let axis = access.dims.iter().flatten().rev().find_map(|f| if let Factor::Axis(a) = f { Some(*a) } else { None })?;
    part.dim_of(axis).filter(|d| part.grid.len() > 1 && part.grid.contains(d) && !part.dim(*d).batch)
}

/// Whether the loops along a dim sum matrix products of which no operand is the result of another, or no product at all.
fn is_depth(part: &Part, dim: DimId) -> bool {
    let has_inner_product = |l: &Loop| {
        l.body.iter().any(|s| match s {
            Statement::Reduce { node, over } => part.contraction(*node).is_some() && !over.contains(dim),
            Statement::Loop(_) => true,
            _ => false,
        })
    };
    let loops = part.statements();
    let mut along = loops.iter().filter_map(|(_, s)| if let Statement::Loop(l) = s { (l.dim == dim).then_some(l) } else { None });
    !along.any(|l| has_inner_product(l) || l.states.iter().any(|s| s.frame.is_some_and(|f| matches!(part.graph.op(f), Op::Frame(..)))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::AxisSet;
    use crate::dtype::{DType, Element};
    use crate::graph::{Access, Graph, Store};
    use crate::schedule::programs;

    #[test]
    fn every_program_of_a_product_has_an_entry_with_a_length_for_every_dim() {
        let mut g = Graph::default();
        let (m, k, j) = (g.add_axis("M"), g.add_axis("K"), g.add_axis("J"));
        let f32 = Element::Type(DType::F32);
        let (x, w) = (g.add_input("x", f32, Access::plain([m, k])), g.add_input("w", f32, Access::plain([j, k])));
        let (x, w) = (g.read(x, Access::plain([m, k])), g.read(w, Access::plain([j, k])));
        let p = g.mul(&[x, w]);
        let y = g.sum(AxisSet::of(k), p);
        g.add_output("y", f32, Access::plain([m, j]), vec![Store { node: y, access: Access::plain([m, j]) }]);
        let programs = programs(0, &g, &[]);
        let entries = entries(&programs);
        for (i, p) in programs.iter().enumerate() {
            let of: Vec<_> = entries.iter().filter(|e| e.program as usize == i).collect();
            assert!(!of.is_empty());
            for e in of {
                for (tiles, part) in e.tiles.iter().flatten().zip(p.launches.iter().flatten()) {
                    assert_eq!(tiles.len(), part.dims.len());
                    assert!(tiles.iter().all(|t| *t > 0))
                }
            }
        }
        let (row, depth) = (programs[0].launches[0][0].dim_of(m).expect("a dim of M"), programs[0].launches[0][0].dim_of(k).expect("a dim of K"));
        let tiles = &entries[0].tiles[0][0];
        assert_eq!((tiles[row.0 as usize], tiles[depth.0 as usize]), (192, 1024))
    }
}
