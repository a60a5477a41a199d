//! Tiles of inputs: where they lie in shared memory, the copies that fill them, and their values in registers.
use super::*;

impl Writer<'_> {
    /// The dims of a tile: rows, and columns, in which the input is contiguous if in any.
    pub(in crate::emit) fn tile_dims(&self, node: NodeId, access: &Access) -> Result<(Option<DimId>, DimId), Refusal> {
        let wide = self.cx.wide(node);
        let order: Vec<AxisId> = access.dims.iter().flatten().filter_map(|f| if let Factor::Axis(a) = f { Some(*a) } else { None }).collect();
        let inner = order.iter().rev().filter_map(|a| self.cx.part.dim_of(*a)).find(|d| wide.contains(*d));
        let inner = inner.ok_or_else(|| format!("t{} has no wide dim", node.0))?;
        let rest: Vec<DimId> = wide.iter().filter(|d| *d != inner).collect();
        match rest[..] {
            [] => Ok((None, inner)),
            [outer] => Ok((Some(outer), inner)),
            _ => Err(format!("a tile of t{} has more than two dims", node.0)),
        }
    }
    pub(in crate::emit) fn tile_type(&self, t: &Shared) -> String {
        format!("cleave::Tile<{}, {}, {}>", c_type(t.dtype), t.outer.map_or(1, |d| self.cx.tile(d)), self.cx.tile(t.inner))
    }
    pub(in crate::emit) fn tile_bytes(&self, t: &Shared) -> u32 {
        let bytes = t.outer.map_or(1, |d| self.cx.tile(d)) * self.cx.tile(t.inner) * t.dtype.bytes() as u32;
        bytes.next_multiple_of(128)
    }
    /// Reserves a tile for a load.
    pub(in crate::emit) fn new_tile(&self, node: NodeId, at: u32, ring: bool) -> Result<Shared, Refusal> {
        let Op::Input { input, access } = self.cx.part.graph.op(node) else { return Err(format!("t{} is loaded but no input", node.0)) };
        let (outer, inner) = self.tile_dims(node, access)?;
        let tile = Shared { outer, inner, dtype: self.cx.dtype(self.cx.input_ref(*input)), at, ring };
        if !self.cx.tile(inner).is_multiple_of(16 / tile.dtype.bytes() as u32) || tile.dtype == DType::I32 {
            return Err(format!("a tile of `{}` is no whole number of chunks", self.cx.part.graph.input(*input).name));
        }
        Ok(tile)
    }
    /// Lines that fill the tile of a load.
    pub(in crate::emit) fn fill_tile(&self, code: &mut Code, node: NodeId, name: &str, loop_dim: Option<(DimId, &Bounds)>) {
        let Op::Input { input, access } = self.cx.part.graph.op(node) else { return };
        let t = &self.tiles[&node];
        let tensor = self.cx.input_ref(*input);
        let pointer = self.cx.pointer(tensor, false);
        let threads = self.shape.threads();
        let range = |d: DimId| -> (String, String) {
            let start = self.cx.start(d);
            match loop_dim {
                Some((l, b)) if l == d => (if b.left { format!("{} - {start}", b.low) } else { "0".into() }, format!("{} - {start}", b.high)),
                _ if start == "0" => ("0".into(), self.cx.size(d)),
                _ => ("0".into(), format!("{} - {start}", self.cx.size(d))),
            }
        };
        let at = |d: DimId, local: &str| {
            let start = self.cx.start(d);
            if start == "0" { local.to_string() } else { format!("({start} + {local})") }
        };
        // with few rows what does not vary by row is read once
        let once = self.shape.warp_loop > 1 && t.ring && !self.cx.part.of(node).contains(self.shape.row);
        if once {
            let sizes: Vec<String> = self.cx.part.of(node).iter().map(|d| self.cx.size(d)).collect();
            let bytes = format!("(cleave::i64){} * {}", sizes.join(" * "), t.dtype.bytes());
            let mut streams = self.streams.borrow_mut();
            if !streams.contains(&bytes) {
                streams.push(bytes)
            }
        }
        let policy = if once { ", policy" } else { "" };
        let (column_low, column_high) = range(t.inner);
        let (row_low, row_high) = t.outer.map_or(("0".into(), "1".into()), range);
        let position = |d: DimId| {
            if Some(d) == t.outer {
                at(d, "r")
            } else if d == t.inner {
                at(d, "k")
            } else {
                self.cx.start(d)
            }
        };
        let inner_axes = &self.cx.part.dim(t.inner).axes;
        let factors: Vec<(usize, usize, Factor)> =
            access.dims.iter().enumerate().flat_map(|(d, f)| f.iter().enumerate().map(move |(i, f)| (d, i, *f))).collect();
        let last = factors.iter().rfind(|x| matches!(x.2, Factor::Axis(a) if inner_axes.contains(&a)));
        let unit = last.filter(|_| inner_axes.len() == 1).map(|x| (x.0, x.1));
        let elements = || {
            let whole = self.cx.offset(tensor, access, &position, &|_| true);
            format!(
                "cleave::load_elements<{threads}>({name}, {pointer}, {row_low}, {row_high}, {column_low}, {column_high}, [&](int r, int k) {{ (void)r; return {whole}; }});"
            )
        };
        let Some((d, f)) = unit else { return code.line(elements()) };
        let inner_start = self.cx.start(t.inner);
        let with_start = |offset: String| if inner_start == "0" { offset } else { format!("{offset} + {inner_start}") };
        let rows = match t.outer {
            Some(o) if self.cx.part.dim(o).axes.len() > 1 => {
                let columns = with_start(self.cx.offset(tensor, access, &position, &|d| d != Some(t.inner)));
                format!("cleave::load_chunks<{threads}>({name}, {pointer}, {row_low}, {row_high}, {column_high}, [&](int r) {{ return {columns}; }}{policy});")
            }
            _ => {
                let first = with_start(self.cx.offset(tensor, access, &|d| self.cx.start(d), &|d| d != Some(t.inner)));
                let axis = t.outer.map(|o| self.cx.part.dim(o).axes[0]);
                let strides: Vec<String> = factors
                    .iter()
                    .filter(|x| matches!(x.2, Factor::Axis(a) if Some(a) == axis))
                    .map(|x| self.cx.stride(tensor, x.0 as u32, x.1 as u32))
                    .collect();
                let stride = if strides.is_empty() { "0".into() } else { strides.join(" + ") };
                format!("cleave::load_rows<{threads}>({name}, {pointer} + ({first}), {stride}, {row_low}, {row_high}, {column_high}{policy});")
            }
        };
        let bytes = 16;
        let promised = self.shape.aligned && access.dims[d].len() == 1 && matches!(tensor, TensorRef::Input(_));
        if promised {
            let mut guards = self.guards.borrow_mut();
            for g in [Guard::Contiguous(tensor, d as u32), Guard::Aligned(tensor, bytes)] {
                if !guards.contains(&g) {
                    guards.push(g)
                }
            }
            return code.line(rows);
        }
        let flag = self.vector_flag(tensor, access, (d, f), bytes as usize / t.dtype.bytes());
        code.line(format!("if ({flag}) {rows}"));
        code.line(format!("else {}", elements()))
    }
    /// A flag of the part: rows of a tensor are contiguous in the factor `unit`, and start at multiples of `multiple` elements.
    pub(in crate::emit) fn vector_flag(&self, tensor: TensorRef, access: &Access, unit: (usize, usize), multiple: usize) -> String {
        let key = format!("{}_in_{multiple}s_{:?}", self.cx.tensor_name(tensor), access);
        let name = self.cx.name(&format!("flag {key}"), &format!("{}_in_{multiple}s", self.cx.tensor_name(tensor)));
        let mut tests = vec![format!("{} == 1", self.cx.stride(tensor, unit.0 as u32, unit.1 as u32))];
        for (d, factors) in access.dims.iter().enumerate() {
            for (f, factor) in factors.iter().enumerate() {
                if (d, f) != unit && !matches!(factor, Factor::Part { index: 0, .. }) {
                    tests.push(format!("{} % {multiple} == 0", self.cx.stride(tensor, d as u32, f as u32)))
                }
            }
        }
        let pointer = self.cx.pointer(tensor, matches!(tensor, TensorRef::Output(_)));
        let bytes = multiple * self.cx.dtype(tensor).bytes();
        tests.push(format!("((cleave::u64){pointer} & {}) == 0", bytes - 1));
        self.cx.hoist_flag(&name, format!("const bool {name} = {};", tests.join(" && ")));
        name
    }
    pub(in crate::emit) fn tile_name(&self, node: NodeId) -> String {
        let name = self.cx.value_name(node);
        let shared = name.strip_suffix("_tile").map_or(name.clone(), |n| format!("{n}_shared"));
        self.cx.name(&format!("tile {}", node.0), &shared)
    }
    pub(in crate::emit) fn is_operand(&self, node: NodeId) -> bool {
        self.cx.contractions().iter().any(|c| c.2 == node || c.3 == node)
    }
    /// Declares the registers of a value and fills them.
    pub(in crate::emit) fn define(&mut self, node: NodeId, expression: impl FnOnce(&Self, Class) -> String) -> Result<(), Refusal> {
        let class = self.class(node)?;
        self.declare(node, class);
        let x = expression(self, class);
        let name = self.cx.value_name(node);
        self.code.line(format!("cleave::each({name}, [&]({}) {{ return {x}; }});", Self::indices(class)));
        self.registers.insert(node);
        Ok(())
    }
    pub(in crate::emit) fn declare(&mut self, node: NodeId, class: Class) {
        let (t, name) = (self.type_of(class), self.cx.value_name(node));
        self.code.line(format!("{t} {name};"))
    }
    /// Waits for the copies issued so far.
    pub(in crate::emit) fn settle(&mut self) {
        if std::mem::take(&mut self.pending) {
            self.code.line("cleave::copy_wait<0>();");
            self.code.line("cleave::barrier();")
        }
    }
    /// A shared tile's values in registers, where a map reads them.
    pub(in crate::emit) fn registers_of_tile(&mut self, node: NodeId) -> Result<(), Refusal> {
        let t = self.tiles[&node].clone();
        let (class, name, tile) = (self.class(node)?, self.cx.value_name(node), self.tile_name(node));
        self.declare(node, class);
        match class {
            Class::Fragment(c) => {
                let transposed = t.inner == self.shape.row;
                self.code.line(format!("cleave::read_tile<{transposed}>({name}, {tile}, warp_row, {});", self.offset(c)))
            }
            Class::Rows => self
                .code
                .line(format!("cleave::each({name}, [&](int i, int h) {{ return {tile}.get(0, warp_row + cleave::row_of_lane() + 16 * i + 8 * h); }});")),
            Class::Columns(c) => {
                let offset = self.offset(c);
                self.code.line(format!("cleave::each({name}, [&](int j, int h) {{ return {tile}.get(0, {offset} + cleave::column_of_lane() + 8 * j + h); }});"))
            }
            Class::Scalar => return Err("a shared tile of one value".into()),
        }
        self.registers.insert(node);
        Ok(())
    }
}
