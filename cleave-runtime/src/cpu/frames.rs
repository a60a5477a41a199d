//! Carried states: fresh ones, the move of a state into another frame, the merge of partial states. Frames are known by the rows of
//! [`cleave_core::frame`] only.
//!
//! A transport is linear in the members. A member alone in its tower is therefore scaled by what the row makes of 1, a whole line of it at
//! a time; members that share a tower are moved element by element.
use super::block::{Block, Value};
use super::decode::{Loop, MAX_DIMS, Step};
use super::vector::{self, Operand, Target, Total};
use cleave_core::dtype::DType;
use cleave_core::frame::{Frame, Row, SHIFT, Statistic};
use cleave_core::graph::{NodeId, Op};
use cleave_core::tile::{DimId, DimSet, State};
use smallvec::SmallVec;

/// Carried nodes with where they are.
type Places = SmallVec<[(NodeId, usize); 8]>;

/// The buffers of a loop's states: where each carried node is, in elements from the start.
pub fn places(block: &Block, l: &Loop) -> Places {
    let mut offset = 0;
    let places = l.carried.iter().map(|(n, _)| {
        let (_, size) = block.packed(&block.part().layout[n.index()]);
        let at = offset;
        offset += size.next_multiple_of(16);
        (*n, at)
    });
    places.collect()
}

/// Elements of a loop's states over the tiles at hand.
pub fn size(block: &Block, l: &Loop) -> usize {
    l.carried.iter().map(|(n, _)| block.packed(&block.part().layout[n.index()]).1.next_multiple_of(16)).sum()
}

fn row(block: &Block, frame: NodeId) -> Frame {
    match block.part().graph().op(frame) {
        Op::Frame(row, _) => *row,
        _ => Frame(&SHIFT),
    }
}

/// States of no elements.
pub fn fresh(block: &mut Block, l: &Loop) {
    let base = block.buffer(l.buffer);
    for (n, at) in places(block, l) {
        let (strides, size) = block.packed(&block.part().layout[n.index()]);
        let pointer = unsafe { base.add(at) };
        let identity = match block.part().graph().op(n) {
            Op::Frame(row, _) => row.nothing as f32,
            Op::Maximum(_) => f32::NEG_INFINITY,
            _ => 0.0,
        };
        unsafe { std::slice::from_raw_parts_mut(pointer, size).fill(identity) };
        if !block.is_frame(n) {
            block.values[n.index()] = Value { pointer: pointer.cast(), dtype: DType::F32, strides, irregular: DimSet::EMPTY }
        }
    }
}

/// After the loop: frames are seen in the form that may be used.
pub fn publish(block: &mut Block, l: &Loop) {
    let base = block.buffer(l.buffer);
    for (n, at) in places(block, l) {
        if block.is_frame(n) {
            let from = unsafe { base.add(at) };
            usable(block, n, from)
        }
    }
}

fn usable(block: &mut Block, frame: NodeId, from: *const f32) {
    let row = row(block, frame);
    let (_, size) = block.packed(&block.part().layout[frame.index()]);
    let to = block.fresh(frame).pointer.cast::<f32>();
    for i in 0..size {
        unsafe { *to.add(i) = row.usable(*from.add(i) as f64) as f32 }
    }
}

/// What the groups before reduced a tile's keys to: by element of the frame.
struct Keys {
    row: &'static Row,
    total: *const f32,
    count: *const f32,
}

impl Keys {
    fn new(block: &Block, frame: NodeId, row: &'static Row) -> Option<Keys> {
        let part = block.part();
        let at = |index: Option<usize>| index.map(|b| block.buffer(b).cast_const());
        let (total, count) = (at(part.tiles[frame.index()])?, at(part.counts[frame.index()]));
        Some(Keys { row, total, count: count.unwrap_or(total) })
    }
    /// The frame that suits the keys.
    unsafe fn frame(&self, i: usize) -> f64 {
        let total = unsafe { *self.total.add(i) } as f64;
        let statistic = match self.row.statistic {
            Statistic::Greatest => total,
            Statistic::Mean => total / unsafe { *self.count.add(i) } as f64,
        };
        (self.row.suited)(statistic)
    }
}

/// A frame that is whole within a tile.
pub fn settle(block: &mut Block, frame: NodeId, row: Frame) {
    let (_, size) = block.packed(&block.part().layout[frame.index()]);
    let to = block.fresh(frame).pointer.cast::<f32>();
    let Some(keys) = Keys::new(block, frame, row.0) else { return };
    for i in 0..size {
        unsafe { *to.add(i) = row.usable(keys.frame(i)) as f32 }
    }
}

/// The loop with an index among steps.
fn find(body: &[Step], index: usize) -> Option<&Loop> {
    body.iter().find_map(|s| match s {
        Step::Loop(l) if l.index == index => Some(l),
        Step::Loop(l) => find(&l.body, index),
        _ => None,
    })
}

/// frame := merge(frame, frame of the tile); every member is transported.
pub fn rebase(block: &mut Block, frame: NodeId, row: Frame, the_loop: usize, state: usize) {
    let part = block.part();
    let Some(l) = find(&part.body, the_loop) else { return };
    let places = places(block, l);
    let base = block.buffer(l.buffer);
    let own = unsafe { base.add(place(&places, frame)) };
    let (_, size) = block.packed(&part.layout[frame.index()]);
    let Some(tile) = part.tiles[frame.index()] else { return };
    // the tile's statistic becomes the new frame, in place
    let to = block.buffer(tile);
    let Some(keys) = Keys::new(block, frame, row.0) else { return };
    let mut moves = false;
    for i in 0..size {
        unsafe {
            let from = *own.add(i);
            let merged = row.merge(from as f64, keys.frame(i)) as f32;
            moves |= !same(from, merged);
            *to.add(i) = merged
        }
    }
    if moves {
        transport(block, &l.source.states[state], base, &places, to)
    }
    usable(block, frame, own)
}

fn same(x: f32, y: f32) -> bool {
    x == y || x.is_nan() && y.is_nan()
}

fn place(places: &[(NodeId, usize)], node: NodeId) -> usize {
    places.iter().find(|p| p.0 == node).map_or(0, |p| p.1)
}

/// Moves the members of one state, which lie at `base`, from the frame there to the frame `to`, and sets the frame.
fn transport(block: &Block, state: &State, base: *mut f32, places: &[(NodeId, usize)], to: *const f32) {
    let Some(frame) = state.frame else { return };
    let part = block.part();
    let row = row(block, frame);
    let frame_dims = &part.layout[frame.index()];
    let (frame_strides, frame_size) = block.packed(frame_dims);
    let from = unsafe { base.add(place(places, frame)) };
    let mut towers: SmallVec<[u32; 8]> = state.members.iter().map(|m| m.tower).collect();
    towers.sort();
    towers.dedup();
    for tower in towers {
        let members: SmallVec<[_; 8]> = state.members.iter().filter(|m| m.tower == tower).collect();
        let pointer = |n: NodeId| unsafe { base.add(place(places, n)) };
        if let [m] = members[..] {
            let dims = &part.layout[m.node.index()];
            let (strides, _) = block.packed(dims);
            let shared = frame_dims.iter().all(|d| dims.contains(d));
            if !shared {
                continue; // the same under every frame
            }
            // the dims that the frame lacks are scaled together where they are innermost
            let line: SmallVec<[DimId; MAX_DIMS]> = dims.iter().rev().take_while(|d| !frame_dims.contains(d)).copied().collect();
            let length: usize = line.iter().map(|d| block.length(*d)).product();
            let outer: SmallVec<[DimId; MAX_DIMS]> = dims.iter().filter(|d| !line.contains(d)).copied().collect();
            positions(block, &outer, &mut |p| {
                let i = offset(&frame_strides, frame_dims, p);
                let (old, new) = unsafe { (*from.offset(i), *to.offset(i)) };
                if same(old, new) {
                    return;
                }
                let weight = row.weight(old as f64, new as f64, m.halves);
                if weight != 1.0 {
                    let at = offset(&strides, dims, p);
                    vector::scale(unsafe { std::slice::from_raw_parts_mut(pointer(m.node).offset(at), length) }, weight as f32)
                }
            });
            continue;
        }
        // a member is moved by those below it, which must still be where they were
        for m in state.in_order().iter().filter(|m| m.tower == tower) {
            let dims = &part.layout[m.node.index()];
            let shares_frame = frame_dims.iter().all(|d| dims.contains(d));
            if !shares_frame {
                continue;
            }
            let below = state.tower_to(m);
            let (strides, _) = block.packed(dims);
            let mut values: Vec<f64> = vec![];
            positions(block, dims, &mut |p| {
                let i = offset(&frame_strides, frame_dims, p);
                let (old, new) = unsafe { (*from.offset(i) as f64, *to.offset(i) as f64) };
                values.clear();
                for x in &below {
                    let dims = &part.layout[x.node.index()];
                    let (strides, _) = block.packed(dims);
                    values.push(unsafe { *pointer(x.node).offset(offset(&strides, dims, p)) } as f64)
                }
                row.transport(old, new, m.halves, &mut values);
                if let Some(moved) = values.last() {
                    unsafe { *pointer(m.node).offset(offset(&strides, dims, p)) = *moved as f32 }
                }
            })
        }
    }
    unsafe { std::ptr::copy(to, from, frame_size) }
}

fn offset(strides: &[isize], dims: &[DimId], position: &[usize]) -> isize {
    dims.iter().map(|d| position[d.0 as usize] as isize * strides[d.0 as usize]).sum()
}

/// Calls `visit` with the position, by dim, of every element of a tile over `dims`.
fn positions(block: &Block, dims: &[DimId], visit: &mut dyn FnMut(&[usize])) {
    let count: usize = dims.iter().map(|d| block.length(*d)).product();
    let mut position = [0usize; MAX_DIMS];
    for _ in 0..count {
        visit(&position);
        for d in dims.iter().rev() {
            let p = &mut position[d.0 as usize];
            *p += 1;
            if *p < block.length(*d) {
                break;
            }
            *p = 0
        }
    }
}

/// Merges the partial states at `piece`, which it uses up, into those of the loop's buffer.
pub fn merge(block: &mut Block, l: &Loop, piece: *mut f32) {
    let places = places(block, l);
    let total = block.buffer(l.buffer);
    let part = block.part();
    for state in &l.source.states {
        if let Some(frame) = state.frame {
            let row = row(block, frame);
            let (_, size) = block.packed(&part.layout[frame.index()]);
            let at = place(&places, frame);
            let common: Vec<f32> = (0..size).map(|i| unsafe { row.merge(*total.add(at + i) as f64, *piece.add(at + i) as f64) as f32 }).collect();
            transport(block, state, total, &places, common.as_ptr());
            transport(block, state, piece, &places, common.as_ptr());
        }
        for m in &state.members {
            let (_, size) = block.packed(&part.layout[m.node.index()]);
            let at = place(&places, m.node);
            let maximum = matches!(part.graph().op(m.node), Op::Maximum(_));
            unsafe {
                let into = Target { pointer: total.add(at), pitch: 0, rows: 1, n: size };
                vector::across(if maximum { Total::Greatest } else { Total::Sum }, into, Operand::Rows(piece.add(at), 0))
            }
        }
    }
}
