//! The bounds of a loop from its predicates: positions that any row of the block's tile can reach, and those that all rows
//! reach, as integer arithmetic of the kernel.
use super::code::Code;
use super::part::Context;
use crate::axis::AxisId;
use crate::graph::{NodeId, Op};
use crate::predicate::{Atom, Table};
use crate::tile::{DimSet, Loop, Role, Statement};

/// Names of a loop's bounds: positions `[low, high)` are visited, of which `[full_low, full_high)` need no mask.
#[derive(Clone)]
pub struct Bounds {
    pub low: String,
    pub high: String,
    pub full_low: String,
    pub full_high: String,
    /// Some tiles below the full ones may need a mask.
    pub left: bool,
    /// The predicates that hold in the full ones.
    pub held: Vec<NodeId>,
    /// Of a union: what each of its conjunctions reaches.
    pub intervals: Vec<(String, String)>,
}

impl Context<'_> {
    /// The first and the last index of an axis in the tile at hand, inside the loops over `open`.
    fn range(&self, axis: AxisId, open: DimSet) -> (String, String) {
        let dim = self.part.dim_of(axis).expect("every axis of a part has a dim");
        let d = self.part.dim(dim);
        let grid = self.part.grid.contains(&dim);
        if !grid && (d.role == Role::Chip || !open.contains(dim)) {
            return ("0".into(), format!("({} - 1)", self.extent(axis)));
        }
        let (start, size, tile) = (self.start(dim), self.size(dim), self.tile(dim));
        if tile == 1 {
            let i = self.index_at(axis, &start);
            return (i.clone(), i);
        }
        let end = format!("cleave::least({start} + {}, {size} - 1)", tile - 1);
        let at = d.axes.iter().position(|a| *a == axis).expect("its own");
        if d.axes.len() == 1 {
            return (start, end);
        }
        let first = self.index_at(axis, &start);
        let last = self.index_at(axis, &end);
        if at == 0 {
            return (first, last);
        }
        // an inner axis runs through all its indices if the tile crosses a multiple of its radix
        let radix = d.axes[at..].iter().map(|a| self.extent(*a)).collect::<Vec<_>>().join(" * ");
        let whole = format!("{start} / ({radix}) == {end} / ({radix})");
        (format!("({whole} ? {first} : 0)"), format!("({whole} ? {last} : {} - 1)", self.extent(axis)))
    }
    /// A bound of an atom without its term in `axis`, over the block's tile: the greatest value or the least. `None` if a
    /// table varies within the tile. No quotient varies along the axis.
    fn rest(&self, atom: &Atom, axis: AxisId, open: DimSet, greatest: bool) -> Option<String> {
        let wide = |t: &Table| self.part.dims_of(t.access.axes()).iter().any(|d| self.tile(d) > 1 || !self.part.grid.contains(&d));
        if atom.all_tables().into_iter().any(wide) {
            return None;
        }
        let mut rest = atom.clone();
        rest.indices.retain(|i| i.0 != axis);
        let index = |a: AxisId, greatest: bool| {
            let (first, last) = self.range(a, open);
            if greatest { last } else { first }
        };
        Some(self.affine(&rest, greatest, &index, &|t| self.table(t, &|d| self.start(d))))
    }
    /// The dims of the loops around a loop; of one that stands in several places, those around all of them.
    fn around(&self, wanted: &Loop) -> DimSet {
        fn walk(body: &[Statement], wanted: &Loop, open: DimSet, found: &mut Option<DimSet>) {
            for s in body {
                let Statement::Loop(l) = s else { continue };
                if l == wanted {
                    *found = Some(found.map_or(open, |f| f.intersection(open)))
                }
                walk(&l.body, wanted, open.union(DimSet::of(l.dim)), found)
            }
        }
        let mut found = None;
        walk(&self.part.body, wanted, DimSet::EMPTY, &mut found);
        found.unwrap_or_default()
    }
    /// The atoms of every conjunction of a domain.
    fn clauses(&self, domain: &[Vec<NodeId>]) -> Vec<Vec<Atom>> {
        let g = &self.part.graph;
        let mut all = vec![];
        for conjunction in domain {
            let mut product: Vec<Vec<Atom>> = vec![vec![]];
            for p in conjunction {
                let Op::Predicate(id) = g.op(*p) else { continue };
                let clauses = &g.predicate(*id).clauses;
                product = product.iter().flat_map(|a| clauses.iter().map(move |b| [a.as_slice(), b].concat())).collect()
            }
            all.extend(product)
        }
        all
    }
    /// Declares the bounds of a loop, those of its full tiles too if they are wanted.
    pub fn loop_bounds(&self, code: &mut Code, l: &Loop, full: bool) -> Bounds {
        let (dim, size, open) = (self.dim_name(l.dim), self.size(l.dim), self.around(l));
        let names = ["low", "high", "full_low", "full_high"].map(|n| self.name(&format!("{n} of dim {}", l.dim.0), &format!("{dim}_{n}")));
        let [low, high, mut full_low, full_high] = names;
        let axes = &self.part.dim(l.dim).axes;
        let clauses = if axes.len() == 1 { self.clauses(&l.domain) } else { vec![vec![]] };
        let masked = !l.domain.is_empty();
        let (mut left, mut intervals) = (false, vec![]);
        if !masked || axes.len() > 1 {
            code.line(format!("const int {low} = 0, {high} = {size};"))
        } else if let [clause] = &clauses[..] {
            code.line(format!("int {low} = 0, {high} = {size};"));
            self.clip(code, clause, open, axes[0], true, &low, &high)
        } else {
            code.line(format!("int {low} = {size}, {high} = 0;"));
            for (i, clause) in clauses.iter().enumerate() {
                let [from, to] = ["low", "high"].map(|n| self.name(&format!("{n} {i} of dim {}", l.dim.0), &format!("{dim}_{n}_{i}")));
                code.line(format!("int {from} = 0, {to} = {size};"));
                self.clip(code, clause, open, axes[0], true, &from, &to);
                code.line(format!("if ({from} < {to}) {{ {low} = cleave::least({low}, {from}); {high} = cleave::most({high}, {to}); }}"));
                intervals.push((from, to))
            }
            // what holds everywhere along the loop or nowhere, as for rows that see all, is no interval of its own: where it holds, the others are in it
            let bounds_loop = |clause: &Vec<Atom>| clause.iter().any(|a| a.solvable(axes[0]).is_none_or(|a| a.indices.iter().any(|i| i.0 == axes[0])));
            if let Some(first) = clauses.iter().position(bounds_loop) {
                let (into_low, into_high) = intervals[first].clone();
                let mut which = clauses.iter().map(bounds_loop);
                intervals.retain(|(from, to)| {
                    let own = which.next().unwrap_or(true);
                    if !own {
                        code.line(format!("if ({from} < {to}) {into_low} = {from}, {into_high} = {to};"))
                    }
                    own
                })
            }
        }
        if masked && axes.len() == 1 {
            code.line(format!("{high} = cleave::most({high}, {low});"))
        }
        let mut held = vec![];
        if axes.len() == 1 && clauses.len() == 1 {
            let rises = |a: Atom| a.indices.iter().any(|i| i.0 == axes[0] && i.1 > 0);
            left = clauses[0].iter().any(|a| a.solvable(axes[0]).is_none_or(rises))
        }
        if !left {
            full_low = low.clone()
        } else if full {
            code.line(format!("int {full_low} = {low};"))
        }
        match &l.domain[..] {
            _ if !full => {}
            [conjunction] if axes.len() == 1 && clauses.len() == 1 => {
                code.line(format!("int {full_high} = {high};"));
                self.clip(code, &clauses[0], open, axes[0], false, &full_low, &full_high);
                held = conjunction.clone()
            }
            [] => code.line(format!("const int {full_high} = {high};")),
            _ => code.line(format!("const int {full_high} = {low};")),
        }
        Bounds { low, high, full_low, full_high, left, held, intervals }
    }
    /// Clips `[low, high)` to where every atom can hold (`any`) or holds for every row.
    #[allow(clippy::too_many_arguments)]
    fn clip(&self, code: &mut Code, clause: &[Atom], open: DimSet, axis: AxisId, any: bool, low: &str, high: &str) {
        for atom in clause {
            let atom = atom.solvable(axis);
            let k = atom.as_ref().and_then(|a| a.indices.iter().find(|i| i.0 == axis)).map_or(0, |i| i.1);
            let Some(rest) = atom.and_then(|a| self.rest(&a, axis, open, any)) else {
                if !any {
                    code.line(format!("{high} = {low};"))
                }
                continue;
            };
            code.line(match k {
                0 => format!("if ({rest} < 0) {high} = {low};"),
                -1 => format!("{high} = cleave::least({high}, cleave::most({rest} + 1, {low}));"),
                k if k < 0 => format!("{high} = cleave::within(cleave::floor_divide({rest}, {}) + 1, {low}, {high});", -k),
                1 => format!("{low} = cleave::most({low}, cleave::least(-({rest}), {high}));"),
                k => format!("{low} = cleave::within(cleave::ceil_divide(-({rest}), {k}), {low}, {high});"),
            })
        }
    }
}
