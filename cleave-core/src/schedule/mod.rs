//! From an algorithm to tile programs. In: a graph. Out: a few [`Program`]s that compute it, the most promising first; the last
//! accepts every extent. The scheduler gives roles and lifetimes; it never asks whether two terms are equal.
//!
//! [`elaborate`] puts frames into the graph, [`variants`] lists the choices that the graph leaves open, [`roles`] makes parts and
//! dims of a choice, [`associate`] orders the factors of its products (with [`crate::absence`]), [`build`] makes the statements, with [`levels`].
//! [`in_place`] takes apart programs that would read an input after they wrote over it; [`interpret`] runs a program slowly and plainly, for tests and for the screen of a build.
pub mod associate;
pub mod build;
pub mod elaborate;
pub mod in_place;
pub mod interpret;
pub mod levels;
pub mod roles;
pub mod towers;
pub mod translate;
pub mod variants;

use crate::absence::absences;
use crate::axis::{AxisId, AxisSet};
use crate::dtype::{DType, Element};
use crate::frame::{self, Gauge, Row};
use crate::graph::{Access, Graph, Input, InputId, NodeId, Op, Output, Store};
use crate::tile::in_place::{reads_first, write_last};
use crate::tile::{DimId, DimSet, Loop, Part, Program, Role, State, Statement, Workspace, dims_of};
use elaborate::Framed;
use roles::{StoreId, Variant};
use std::cell::Cell;
use std::collections::HashMap;
use variants::Candidate;

/// The most programs that an algorithm gets.
pub const MOST_PROGRAMS: usize = 6;
/// The bound of an axis on chip, and of one along which a loop keeps values, where the kernel gives none.
const CHIP_BOUND: usize = 256;
const KEEP_BOUND: usize = 8192;

/// The programs of an algorithm that differ, most promising first; the last has no bounds.
pub fn programs(algorithm: u32, graph: &Graph, bounds: &[(AxisId, usize)]) -> Vec<Program> {
    programs_with(&frame::TABLE, algorithm, graph, bounds)
}

/// The same with the frames of another table.
pub fn programs_with(table: &[&'static Row], algorithm: u32, graph: &Graph, bounds: &[(AxisId, usize)]) -> Vec<Program> {
    let framed = variants::prepare(graph, table);
    let mut programs: Vec<Program> = vec![];
    let add = |programs: &mut Vec<Program>, position: usize, p: Program| {
        if programs.iter().all(|q| q.launches != p.launches) {
            programs.insert(position, p)
        }
    };
    for Candidate { variant, keeps } in variants::candidates(&framed, bounds) {
        let plain = program(algorithm, &framed, &variant, bounds);
        if !plain.launches.iter().flatten().all(is_sound) || parts_a_frame(&plain) {
            continue;
        }
        if !reads_first(&plain) {
            let apart = program(algorithm, &framed, &in_place::apart(&framed, &variant), bounds);
            if apart.launches.iter().flatten().all(is_sound) && reads_first(&apart) {
                let end = programs.len();
                add(&mut programs, end, apart)
            }
            continue;
        }
        let keep = repeated(&plain);
        if keeps && !keep.is_empty() {
            // before the launches that keeping may save
            let position = if variant.chip.is_empty() { 0 } else { programs.len() };
            let kept = program(algorithm, &framed, &Variant { keep, ..variant }, bounds);
            if reads_first(&kept) {
                add(&mut programs, position, kept)
            }
        }
        let end = programs.len();
        add(&mut programs, end, plain)
    }
    if programs.is_empty() && !table.is_empty() {
        return programs_with(&[], algorithm, graph, bounds);
    }
    if programs.len() > MOST_PROGRAMS {
        programs.drain(MOST_PROGRAMS - 1..programs.len() - 1);
    }
    programs
}

/// The program of one variant. A node that is cut is stored by one launch and read by the next.
pub fn program(algorithm: u32, framed: &Framed, variant: &Variant, bounds: &[(AxisId, usize)]) -> Program {
    let mut program = Program { algorithm, ..Program::default() };
    let mut framed = framed.clone();
    let mut cuts = variant.cuts.clone();
    while !cuts.is_empty() {
        // a cut that needs no other cut comes now; a frame and its members together
        let depends = |x: NodeId, y: NodeId| x != y && framed.graph.cone([x]).contains(&y) && framed.tower_of(x).is_none_or(|t| t.frame != y);
        let now: Vec<NodeId> = cuts.iter().copied().filter(|&x| !cuts.iter().any(|&y| depends(x, y))).collect();
        let (free, known) = (framed.graph.free(), absences(&framed.graph));
        let mut launch = framed.clone();
        launch.graph.outputs.iter_mut().for_each(|o| o.stores.clear());
        for &n in &now {
            let axes: Vec<AxisId> = free[n.index()].iter().collect();
            let (name, access) = (format!("workspace{}", program.workspaces.len()), Access::plain(axes.iter().copied()));
            let element = Element::Type(DType::F32);
            let stores = vec![Store { node: n, access: access.clone() }];
            launch.graph.outputs.push(Output { name: name.clone(), element, storage: access.clone(), stores, in_place: None });
            // later launches keep the output too, without a store, so that positions agree
            framed.graph.outputs.push(Output { name: name.clone(), element, storage: access.clone(), stores: vec![], in_place: None });
            let absence = Some(known[n.index()].clone());
            framed.graph.inputs.push(Input { name, element, storage: access, positive: false, extent: None, workspace: Some(n), absence });
            program.workspaces.push(Workspace { axes })
        }
        // what is whole on chip is so for products
        let (whole, streamed) = (parts(&launch, variant), parts(&launch, &Variant { chip: AxisSet::EMPTY, ..variant.clone() }));
        program.launches.push(if whole.iter().any(Part::multiplies) { whole } else { streamed });
        let inputs = framed.graph.inputs.len() - now.len();
        let before = framed;
        let mut moved: HashMap<NodeId, NodeId> = HashMap::new();
        framed = before.rebuild(|g, old, op, operands| {
            let new = match now.iter().position(|n| *n == old) {
                Some(i) => g.read(InputId((inputs + i) as u32), before.graph.inputs[inputs + i].storage.clone()),
                None => g.intern(op.clone(), operands),
            };
            moved.insert(old, new);
            new
        });
        cuts = cuts.iter().filter(|c| !now.contains(c)).filter_map(|c| moved.get(c).copied()).collect();
    }
    program.launches.push(parts(&framed, variant));
    program.bounds = limits(&program, variant, bounds);
    program.name = name(&program);
    write_last(&mut program);
    program
}

fn parts(framed: &Framed, variant: &Variant) -> Vec<Part> {
    roles::groups(framed, variant.chip).iter().map(|stores| part(framed, stores, variant)).collect()
}

fn part(framed: &Framed, stores: &[StoreId], variant: &Variant) -> Part {
    let framed = roles::restrict(framed, stores);
    let dims = roles::dims(&framed, variant);
    let framed = associate::associate(&framed, &dims);
    let node_dims = roles::node_dims(&framed.graph, &dims);
    let grid: Vec<DimId> = (0..dims.len()).filter(|&d| dims[d].role == Role::Grid).map(|d| DimId(d as u8)).collect();
    let keep = dims_of(&dims, variant.keep);
    let builder =
        build::Builder { framed: &framed, dims: &dims, node_dims: &node_dims, grid: grid.iter().copied().collect(), keep, is_cyclic: Cell::new(false) };
    let mut body = builder.body();
    if builder.is_cyclic.get() {
        body.clear()
    }
    let mut dims = dims;
    roles::bound_by_tables(&mut dims, &framed.graph, &body);
    let last = body.iter().rev().find_map(|s| if let Statement::Loop(l) = s { Some(l) } else { None });
    let split = last.is_some_and(|l| !stores_in(&l.body));
    Part { graph: framed.graph, dims, node_dims, grid, body, split }
}

fn stores_in(body: &[Statement]) -> bool {
    body.iter().any(|s| match s {
        Statement::Store { .. } => true,
        Statement::Loop(l) => stores_in(&l.body),
        _ => false,
    })
}

/// The bounds that the program's chip axes and kept values put on extents.
fn limits(program: &Program, variant: &Variant, bounds: &[(AxisId, usize)]) -> Vec<(AxisId, usize)> {
    let parts = || program.launches.iter().flatten();
    let on_chip = parts().flat_map(|p| p.dims.iter().filter(|d| d.role == Role::Chip).flat_map(|d| d.axes.iter().copied()));
    let kept = parts().flat_map(|p| {
        p.statements().into_iter().filter_map(|(_, s)| if let Statement::Loop(l) = s { (!l.keep.is_empty()).then(|| p.dim(l.dim).axes.clone()) } else { None })
    });
    let kept: Vec<AxisId> = kept.flatten().filter(|a| variant.keep.contains(*a)).collect();
    let mut limits: Vec<(AxisId, usize)> = on_chip.map(|a| (a, CHIP_BOUND)).chain(kept.into_iter().map(|a| (a, KEEP_BOUND))).collect();
    limits.sort();
    limits.dedup_by_key(|l| l.0);
    for l in &mut limits {
        if let Some(b) = bounds.iter().find(|b| b.0 == l.0) {
            l.1 = b.1
        }
    }
    limits
}

/// What distinguishes a program, in words.
fn name(program: &Program) -> String {
    let Some(graph) = program.launches.iter().flatten().map(|p| &p.graph).next() else { return String::new() };
    let names = |axes: &[AxisId]| axes.iter().map(|a| graph.axis(*a)).collect::<Vec<_>>().join(" ");
    let mut words: Vec<String> = vec![];
    let mut say = |word: String| {
        if !words.contains(&word) {
            words.push(word)
        }
    };
    for p in program.launches.iter().flatten() {
        for d in p.dims.iter().filter(|d| d.axes.len() > 1) {
            say(format!("packed ({})", names(&d.axes)))
        }
        let chip: Vec<AxisId> = p.dims.iter().filter(|d| d.role == Role::Chip).flat_map(|d| d.axes.iter().copied()).collect();
        if !chip.is_empty() {
            say(format!("on chip {}", names(&chip)))
        }
        for (_, s) in p.statements() {
            if let Statement::Loop(l) = s
                && !l.keep.is_empty()
            {
                say(format!("kept along {}", names(&p.dim(l.dim).axes)))
            }
        }
    }
    if program.launches.len() > 1 {
        say(format!("{} launches", program.launches.len()))
    }
    if words.is_empty() { "plain".into() } else { words.join(", ") }
}

/// Whether there is an order of loops, and every reduction sees the whole of what it reduces: none runs along a dim of which a loop around it has bound a tile. An
/// axis that is an output's and is reduced below other loops can ask for that. And every tower that a loop carries is whole.
fn is_sound(part: &Part) -> bool {
    fn check(body: &[Statement], bound: DimSet, own: &Loop) -> bool {
        body.iter().all(|s| match s {
            Statement::Reduce { over, .. } => !over.intersects(bound.union(DimSet::of(own.dim))),
            Statement::Fold { over, .. } => !over.intersects(bound),
            Statement::Loop(l) => {
                let bound = bound.union(DimSet::of(own.dim));
                !bound.contains(l.dim) && whole(l) && check(&l.body, bound, l)
            }
            _ => true,
        })
    }
    // a member of which another launch has stored the lower moments cannot move
    fn whole(l: &Loop) -> bool {
        l.states.iter().all(|s| s.members.iter().all(|m| s.tower_to(m).len() == m.moment as usize + 1))
    }
    !part.body.is_empty() && part.body.iter().all(|s| if let Statement::Loop(l) = s { whole(l) && check(&l.body, DimSet::EMPTY, l) } else { true })
}

/// Whether a frame of moments is found again, without its members, beside launches that have them. Where it lies depends on how a loop is divided: what is
/// made from it would be about another centre than they are.
fn parts_a_frame(program: &Program) -> bool {
    let has = |alone: bool| {
        program.launches.iter().flatten().any(|part| {
            let of_moments = |f: NodeId| matches!(part.graph.op(f), Op::Frame(row, _) if row.gauge == Gauge::Moments);
            let state = |s: &State| s.members.is_empty() == alone && s.frame.is_some_and(of_moments);
            part.statements().iter().any(|(_, s)| matches!(s, Statement::Loop(l) if l.states.iter().any(state)))
        })
    };
    has(true) && has(false)
}

/// The axes of dims that several top-level loops of a part run along.
fn repeated(program: &Program) -> AxisSet {
    let mut axes = AxisSet::EMPTY;
    for part in program.launches.iter().flatten() {
        let mut seen = DimSet::EMPTY;
        for s in &part.body {
            let Statement::Loop(l) = s else { continue };
            if seen.contains(l.dim) {
                part.dim(l.dim).axes.iter().for_each(|a| axes.insert(*a))
            }
            seen = seen.union(DimSet::of(l.dim))
        }
    }
    axes
}
