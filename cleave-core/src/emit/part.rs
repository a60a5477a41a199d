//! What every placement of a part shares: names, words, positions, offsets, conditions, and the part's frame
//! (prelude with the grid's position, split protocol). The text of a part is one device function.
use super::code::{Words, identifier};
use crate::absence::{Absence, absences};
use crate::axis::AxisId;
use crate::dtype::DType;
use crate::graph::{Access, Factor, InputId, NodeId, Op};
use crate::plan::{TensorRef, Word};
use crate::predicate::{Atom, Quotient, Table};
use crate::tile::{DimId, DimSet, Part, Role, Statement};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};

/// Why a part cannot be placed, for `explain`.
pub type Refusal = String;

pub struct Context<'a> {
    pub part: &'a Part,
    /// The part's number in its launch.
    pub number: u32,
    pub types: &'a [DType],
    /// The tile length of each dim.
    pub tiles: &'a [u32],
    pub words: &'a Words,
    /// Outputs of the kernel itself; the further ones are workspaces.
    pub outputs: usize,
    /// What is known of every node where predicates hold nowhere.
    pub known: Vec<Absence>,
    names: RefCell<HashMap<String, String>>,
    /// Declarations at the head of the part, after the words and the grid position: `(name, text)`.
    hoisted: RefCell<BTreeMap<String, String>>,
    /// How many rows of tiles are a group by which items of the two innermost grid dims go; 0: they do not.
    grouped: Cell<u32>,
}

/// Where the expression of one element stands.
pub trait Site {
    /// The text of a value that is held at this element.
    fn value(&self, node: NodeId) -> Option<String>;
    /// The position along a dim.
    fn position(&self, dim: DimId) -> String;
    /// The condition of a predicate as it must be tested here.
    fn tested(&self, _predicate: NodeId, condition: String) -> String {
        condition
    }
    /// Whether exp(scale x - row) is to be one multiply-add and one exponential, reading x in place of the product.
    fn folds(&self) -> bool {
        false
    }
    /// The index along an axis as a float, if there is a cheaper one than to convert it.
    fn float_index(&self, _axis: AxisId) -> Option<String> {
        None
    }
    /// A test that an atom of a predicate is not negative, if there is a cheaper one than to compute it.
    fn limited(&self, _atom: &Atom) -> Option<String> {
        None
    }
    /// Whether it does not matter what is read outside of the extents.
    fn clipped(&self) -> bool {
        false
    }
    /// The index along an axis of a packed dim, if there is a cheaper one than to divide the position.
    fn unpacked(&self, _axis: AxisId) -> Option<String> {
        None
    }
}

impl<'a> Context<'a> {
    pub fn new(part: &'a Part, number: u32, types: &'a [DType], tiles: &'a [u32], words: &'a Words, outputs: usize) -> Self {
        let known = absences(&part.graph);
        Context { part, number, types, tiles, words, outputs, known, names: Default::default(), hoisted: Default::default(), grouped: Cell::new(0) }
    }
    /// A name for `what` (a key that tells things apart) as close to `wanted` as no other thing has.
    pub fn name(&self, what: &str, wanted: &str) -> String {
        let mut names = self.names.borrow_mut();
        if let Some(n) = names.get(what) {
            return n.clone();
        }
        let wanted = identifier(wanted);
        let name = (1..).map(|i| if i == 1 { wanted.clone() } else { format!("{wanted}_{i}") }).find(|n| !names.values().any(|x| x == n)).expect("endless");
        names.insert(what.into(), name.clone());
        name
    }
    /// The name of a value: the input's, the output's that it is stored in, or its number.
    pub fn value_name(&self, node: NodeId) -> String {
        let g = &self.part.graph;
        let wanted = match g.op(node) {
            Op::Input { input, .. } => format!("{}_tile", g.input(*input).name),
            _ => match g.stores().find(|s| s.1.node == node) {
                Some((o, _)) => format!("{}_value", g.outputs[o].name),
                None => format!("t{}", node.0),
            },
        };
        self.name(&format!("value {}", node.0), &wanted)
    }
    pub fn dim_name(&self, dim: DimId) -> String {
        let axes = &self.part.dim(dim).axes;
        let wanted = axes.iter().map(|a| identifier(self.part.graph.axis(*a))).collect::<Vec<_>>().join("_");
        self.name(&format!("dim {}", dim.0), &wanted)
    }
    pub fn tile(&self, dim: DimId) -> u32 {
        self.tiles[dim.0 as usize]
    }
    /// The dims of a node that are wider than one.
    pub fn wide(&self, node: NodeId) -> DimSet {
        self.part.of(node).iter().filter(|d| self.tile(*d) > 1).collect()
    }
    pub fn wide_of(&self, dims: DimSet) -> Vec<DimId> {
        dims.iter().filter(|d| self.tile(*d) > 1).collect()
    }

    // ---- words --------------------------------------------------------------------------------------------------
    pub fn extent(&self, axis: AxisId) -> String {
        let name = self.name(&format!("extent {}", axis.0), &format!("size_{}", self.part.graph.axis(axis)));
        self.words.constant(Word::Extent(axis), |w| format!("const int {name} = (int){w};"));
        name
    }
    /// The extent of a dim.
    pub fn size(&self, dim: DimId) -> String {
        let axes = &self.part.dim(dim).axes;
        if let [a] = axes[..] {
            return self.extent(a);
        }
        let product = axes.iter().map(|a| self.extent(*a)).collect::<Vec<_>>().join(" * ");
        let name = self.name(&format!("size of dim {}", dim.0), &format!("size_{}", self.dim_name(dim)));
        self.hoist(&name, format!("const int {name} = {product};"));
        name
    }
    fn hoist(&self, name: &str, text: String) {
        self.hoisted.borrow_mut().insert(name.into(), text);
    }
    /// A constant of the part that follows from its words.
    pub fn hoist_flag(&self, name: &str, text: String) {
        self.hoist(name, text)
    }
    pub fn take_hoisted(&self) -> Vec<String> {
        std::mem::take(&mut *self.hoisted.borrow_mut()).into_values().collect()
    }
    pub fn input_ref(&self, input: InputId) -> TensorRef {
        let i = self.part.graph.input(input);
        let workspace = i.workspace.and_then(|_| i.name.strip_prefix("workspace")?.parse().ok());
        workspace.map_or(TensorRef::Input(input), TensorRef::Workspace)
    }
    pub fn output_ref(&self, output: u32) -> TensorRef {
        let o = &self.part.graph.outputs[output as usize];
        let workspace = if output as usize >= self.outputs { o.name.strip_prefix("workspace").and_then(|n| n.parse().ok()) } else { None };
        workspace.map_or(TensorRef::Output(output), TensorRef::Workspace)
    }
    pub fn tensor_name(&self, tensor: TensorRef) -> String {
        let g = &self.part.graph;
        match tensor {
            TensorRef::Input(i) => self.name(&format!("input {}", i.0), &g.input(i).name),
            TensorRef::Output(o) => self.name(&format!("output {o}"), &g.outputs[o as usize].name),
            TensorRef::Workspace(w) => self.name(&format!("workspace {w}"), &format!("workspace{w}")),
        }
    }
    pub fn dtype(&self, tensor: TensorRef) -> DType {
        match tensor {
            TensorRef::Input(i) => self.part.graph.input(i).element.resolve(self.types),
            TensorRef::Output(o) => self.part.graph.outputs[o as usize].element.resolve(self.types),
            TensorRef::Workspace(_) => DType::F32,
        }
    }
    /// Whether all tensors of the kernel have 16 bits, tables and scalars apart: then what an earlier launch left in f32 need not be multiplied as exactly.
    pub fn is_narrow(&self) -> bool {
        let g = &self.part.graph;
        let read = g.inputs.iter().filter(|i| i.workspace.is_none() && !i.storage.dims.is_empty()).map(|i| &i.element);
        let written = g.outputs.iter().take(self.outputs).map(|o| &o.element);
        read.chain(written).map(|e| e.resolve(self.types)).all(|t| t.bytes() == 2 || t == DType::I32)
    }
    /// The base pointer of a tensor.
    pub fn pointer(&self, tensor: TensorRef, written: bool) -> String {
        let name = self.tensor_name(tensor);
        let t = c_type(self.dtype(tensor));
        let constant = if written { "" } else { "const " };
        self.words.constant(Word::Address(tensor), |w| format!("{constant}{t}* const {name} = ({constant}{t}*){w};"));
        name
    }
    /// A scalar input.
    pub fn scalar(&self, input: InputId) -> String {
        let i = self.part.graph.input(input);
        let name = self.name(&format!("scalar {}", input.0), &i.name);
        let integer = i.element.resolve(self.types) == DType::I32;
        self.words.constant(Word::Scalar(input), |w| {
            if integer { format!("const int {name} = (int){w};") } else { format!("const float {name} = cleave::bits_to_float((cleave::u32){w});") }
        });
        name
    }
    pub fn stride(&self, tensor: TensorRef, dim: u32, factor: u32) -> String {
        let wanted = format!("{}_stride_{dim}{}", self.tensor_name(tensor), if factor > 0 { format!("_{factor}") } else { String::new() });
        let name = self.name(&format!("stride {tensor:?} {dim} {factor}"), &wanted);
        self.words.constant(Word::Stride { tensor, dim, factor }, |w| format!("const cleave::i64 {name} = (cleave::i64){w};"));
        name
    }
    pub fn word(&self, word: Word, name: &str) -> String {
        let name = self.name(&format!("word {word:?}"), name);
        self.words.constant(word, |w| format!("const int {name} = (int){w};"));
        name
    }

    // ---- positions ------------------------------------------------------------------------------------------------
    /// The first position of the tile at hand.
    pub fn start(&self, dim: DimId) -> String {
        match self.part.dim(dim).role {
            Role::Chip if !self.part.grid.contains(&dim) => "0".into(),
            _ => self.name(&format!("start of dim {}", dim.0), &format!("{}_at", self.dim_name(dim))),
        }
    }
    /// The index along an axis at a position of its dim.
    pub fn index_at(&self, axis: AxisId, position: &str) -> String {
        let dim = self.part.dim_of(axis).expect("every axis of a part has a dim");
        let axes = &self.part.dim(dim).axes;
        let at = axes.iter().position(|a| *a == axis).expect("its own");
        let inner: Vec<String> = axes[at + 1..].iter().map(|a| self.extent(*a)).collect();
        let quotient = if inner.is_empty() { position.to_string() } else { format!("({position}) / ({})", inner.join(" * ")) };
        match (at, inner.is_empty()) {
            (0, true) => quotient,
            (0, false) => format!("({quotient})"),
            _ => format!("(({quotient}) % {})", self.extent(axis)),
        }
    }
    pub fn index(&self, site: &dyn Site, axis: AxisId) -> String {
        let dim = self.part.dim_of(axis).expect("every axis of a part has a dim");
        site.unpacked(axis).unwrap_or_else(|| self.index_at(axis, &site.position(dim)))
    }
    /// The offset in elements of an access, in the dims of `only`.
    pub fn offset(&self, tensor: TensorRef, access: &Access, position: &dyn Fn(DimId) -> String, only: &dyn Fn(Option<DimId>) -> bool) -> String {
        self.offset_by(tensor, access, position, &|a, dim| self.index_at(a, &position(dim)), only)
    }
    fn offset_by(
        &self,
        tensor: TensorRef,
        access: &Access,
        position: &dyn Fn(DimId) -> String,
        index: &dyn Fn(AxisId, DimId) -> String,
        only: &dyn Fn(Option<DimId>) -> bool,
    ) -> String {
        let mut terms = vec![];
        for (d, factors) in access.dims.iter().enumerate() {
            let mut whole = 0;
            for (f, factor) in factors.iter().enumerate() {
                let stride = |f: usize| self.stride(tensor, d as u32, f as u32);
                match factor {
                    Factor::Axis(_) if f < whole => {}
                    Factor::Axis(a) => {
                        let dim = self.part.dim_of(*a).expect("every axis of a part has a dim");
                        let axes = &self.part.dim(dim).axes;
                        if !only(Some(dim)) {
                            continue;
                        }
                        // a packed dim that is stored as it is packed needs no division
                        if axes.len() > 1 && factors[f..].len() >= axes.len() && axes.iter().zip(&factors[f..]).all(|(a, f)| *f == Factor::Axis(*a)) {
                            whole = f + axes.len();
                            terms.push(format!("{} * {}", stride(whole - 1), position(dim)))
                        } else {
                            terms.push(format!("{} * {}", stride(f), index(*a, dim)))
                        }
                    }
                    Factor::Part { index: 0, .. } => {}
                    Factor::Part { index, .. } if only(None) => terms.push(format!("{} * {index}", stride(f))),
                    Factor::Part { .. } => {}
                }
            }
        }
        if terms.is_empty() { "0".into() } else { terms.join(" + ") }
    }

    /// The offset in elements of an access at a site.
    pub fn offset_at(&self, site: &dyn Site, tensor: TensorRef, access: &Access) -> String {
        let position = |d: DimId| if site.clipped() { format!("cleave::least({}, {} - 1)", site.position(d), self.size(d)) } else { site.position(d) };
        self.offset_by(tensor, access, &position, &|a, d| site.unpacked(a).unwrap_or_else(|| self.index_at(a, &position(d))), &|_| true)
    }

    // ---- predicates --------------------------------------------------------------------------------------------------
    /// An integer of a table, hoisted to the head of the part if it is one for the block.
    pub fn table(&self, table: &Table, position: &dyn Fn(DimId) -> String) -> String {
        let g = &self.part.graph;
        if table.access.dims.is_empty() {
            return self.scalar(table.input);
        }
        let tensor = TensorRef::Input(table.input);
        let dims = self.part.dims_of(table.access.axes());
        let pointer = self.pointer(tensor, false);
        if dims.iter().all(|d| self.tile(d) == 1 && self.part.grid.contains(&d)) {
            let name = self.name(&format!("table {table:?}"), &format!("{}_here", g.input(table.input).name));
            let inside = dims.iter().map(|d| format!("{} < {}", self.start(d), self.size(d))).collect::<Vec<_>>().join(" && ");
            let offset = self.offset(tensor, &table.access, &|d| self.start(d), &|_| true);
            self.hoist(&format!("~{name}"), format!("const int {name} = {inside} ? {pointer}[{offset}] : 0;"));
            return name;
        }
        let offset = self.offset(tensor, &table.access, &|d| format!("cleave::least({}, {} - 1)", position(d), self.size(d)), &|_| true);
        format!("{pointer}[{offset}]")
    }
    /// `coefficient * leaf + ...` of an atom, with the leaves at a site.
    pub fn atom(&self, site: &dyn Site, atom: &Atom) -> String {
        let position = |d: DimId| site.position(d);
        self.affine(atom, true, &|a, _| self.index(site, a), &|t| self.table(t, &position))
    }
    /// The sum of an atom. `index` is told whether the greatest value of the sum over a range asks for that of the index: so it is
    /// for `greatest` where the signs around the index multiply to a positive one.
    pub fn affine(&self, atom: &Atom, greatest: bool, index: &dyn Fn(AxisId, bool) -> String, table: &dyn Fn(&Table) -> String) -> String {
        let mut terms: Vec<(i64, String)> = atom.indices.iter().map(|(a, k)| (*k, index(*a, (*k > 0) == greatest))).collect();
        let quotient = |q: &Quotient, k: i64| format!("(int)cleave::floor_divide({}, {})", self.affine(&q.of, (k > 0) == greatest, index, table), q.by);
        terms.extend(atom.quotients.iter().map(|(q, k)| (*k, quotient(q, *k))));
        terms.extend(atom.tables.iter().map(|(t, k)| (*k, table(t))));
        terms.extend(atom.extents.iter().map(|(a, k)| (*k, self.extent(*a))));
        if atom.constant != 0 || terms.is_empty() {
            terms.push((atom.constant, String::new()))
        }
        let mut s = String::new();
        for (k, leaf) in terms {
            let sign = if k < 0 { "-" } else { "+" };
            s += &match (s.is_empty(), leaf.is_empty(), k.unsigned_abs()) {
                (true, true, _) => format!("{k}"),
                (true, false, 1) if k > 0 => leaf,
                (true, false, _) => format!("{k} * ({leaf})"),
                (false, true, n) => format!(" {sign} {n}"),
                (false, false, 1) => format!(" {sign} ({leaf})"),
                (false, false, n) => format!(" {sign} {n} * ({leaf})"),
            }
        }
        s
    }
    /// The condition of a predicate node.
    pub fn condition(&self, site: &dyn Site, predicate: NodeId) -> String {
        let Op::Predicate(id) = self.part.graph.op(predicate) else { return "true".into() };
        let clauses = &self.part.graph.predicate(*id).clauses;
        let clause = |c: &Vec<Atom>, and: &str| {
            if c.is_empty() {
                return "true".to_string();
            }
            c.iter().map(|a| format!("({})", site.limited(a).unwrap_or_else(|| format!("{} >= 0", self.atom(site, a))))).collect::<Vec<_>>().join(and)
        };
        let text = match &clauses[..] {
            [] => "false".into(),
            [c] => clause(c, " && "),
            // without branches: a compiler makes some of what may be left out
            many => many.iter().map(|c| format!("({})", clause(c, " & "))).collect::<Vec<_>>().join(" | "),
        };
        site.tested(predicate, text)
    }

    // ---- the frame of a part ---------------------------------------------------------------------------------------------
    /// The dims that a store covers.
    pub fn store_dims(&self, output: u32, store: u32) -> (NodeId, Access, DimSet) {
        let s = &self.part.graph.outputs[output as usize].stores[store as usize];
        let dims = self.part.dims_of(s.access.axes()).union(self.part.of(s.node));
        (s.node, s.access.clone(), dims)
    }
    /// Lets the items of the two innermost grid dims go down the columns of a group of rows before the next group.
    pub fn group_rows(&self, rows: u32) {
        self.grouped.set(rows)
    }
    /// Lines that find the tile of each grid dim: `item` counts tiles, the last grid dim innermost; pieces are innermost of all.
    pub fn grid_lines(&self) -> Vec<String> {
        let mut lines = vec![];
        let first = self.word(Word::FirstBlock(self.number), "first_block");
        if self.part.split {
            let pieces = self.word(Word::Pieces(self.number), "pieces_of_part");
            lines.push(format!("const int pieces = {pieces}, piece = (block - {first}) % pieces, item = (block - {first}) / pieces;"))
        } else {
            lines.push(format!("const int item = block - {first};"))
        }
        let mut rest = "item".to_string();
        let mut dims = &self.part.grid[..];
        if let (size @ 1.., [outer @ .., row, column]) = (self.grouped.get(), dims) {
            let tiles = |d: DimId| self.word(Word::Tiles { part: self.number, dim: d }, &format!("tiles_{}", self.dim_name(d)));
            let (rows, columns) = (tiles(*row), tiles(*column));
            let inner = if outer.is_empty() { rest.clone() } else { format!("{rest} % ({rows} * {columns})") };
            lines.push(format!("const int inner = {inner}, group = inner / ({size} * {columns}), in_group = inner % ({size} * {columns});"));
            lines.push(format!("const int group_rows = cleave::least({rows} - group * {size}, {size});"));
            lines.push(format!("const int {} = (group * {size} + in_group % group_rows) * {};", self.start(*row), self.tile(*row)));
            lines.push(format!("const int {} = in_group / group_rows * {};", self.start(*column), self.tile(*column)));
            if !outer.is_empty() {
                lines.push(format!("const int outer = item / ({rows} * {columns});"))
            }
            rest = "outer".into();
            dims = outer
        }
        for (i, d) in dims.iter().enumerate().rev() {
            let (name, tile) = (self.start(*d), self.tile(*d));
            if i == 0 {
                lines.push(format!("const int {name} = {rest} * {tile};"));
            } else {
                let tiles = self.word(Word::Tiles { part: self.number, dim: *d }, &format!("tiles_{}", self.dim_name(*d)));
                let next = format!("item_{i}");
                let index = match self.later_tiles_are_longer(*d) {
                    true => format!("({tiles} - 1 - {rest} % {tiles})"),
                    false => format!("{rest} % {tiles}"),
                };
                lines.push(format!("const int {name} = {index} * {tile}, {next} = {rest} / {tiles};"));
                rest = next
            }
        }
        if self.part.grid.is_empty() {
            lines.push("(void)item;".into())
        }
        lines
    }
    /// Whether a loop's upper bound rises with a grid dim, as that of a causal mask does: then the last tiles go first, so that
    /// short ones fill the end.
    fn later_tiles_are_longer(&self, dim: DimId) -> bool {
        let g = &self.part.graph;
        let rises = |axis: AxisId, atom: &Atom| {
            let factor = |of: AxisId| atom.indices.iter().find(|i| i.0 == of).map_or(0, |i| i.1);
            factor(axis) < 0 && self.part.dim(dim).axes.last().is_some_and(|a| factor(*a) > 0)
        };
        self.part.statements().iter().any(|(_, s)| match s {
            Statement::Loop(l) => l.domain.iter().flatten().any(|p| match g.op(*p) {
                Op::Predicate(id) => g.predicate(*id).clauses.iter().flatten().any(|atom| self.part.dim(l.dim).axes.iter().any(|a| rises(*a, atom))),
                _ => false,
            }),
            _ => false,
        })
    }
    /// The condition under which a store with `first` happens.
    pub fn first_condition(&self, first: DimSet) -> Option<String> {
        let all: Vec<String> = first.iter().map(|d| format!("{} == 0", self.start(d))).collect();
        (!all.is_empty()).then(|| all.join(" && "))
    }
    /// All contractions with the statement's `over`.
    pub fn contractions(&self) -> Vec<(NodeId, DimSet, NodeId, NodeId)> {
        let find = |s: &Statement| match s {
            Statement::Reduce { node, over } | Statement::Fold { node, over } => self.part.contraction(*node).map(|(x, y)| (*node, *over, x, y)),
            _ => None,
        };
        self.part.statements().iter().filter_map(|s| find(s.1)).collect()
    }
}

pub fn c_type(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float",
        DType::F16 => "cleave::f16",
        DType::BF16 => "cleave::bf16",
        DType::I32 => "int",
    }
}
