//! Stores of values in registers, each element by one lane of one warp.
use super::*;

impl Writer<'_> {
    pub(in crate::emit) fn store(&mut self, output: u32, store: u32, first: DimSet) -> Result<(), Refusal> {
        let (node, access, dims) = self.cx.store_dims(output, store);
        let tensor = self.cx.output_ref(output);
        let pointer = self.cx.pointer(tensor, true);
        let wide: DimSet = dims.iter().filter(|d| self.cx.tile(*d) > 1).collect();
        let class = self.class_of(wide)?;
        let s = self.shape;
        let mut guards: Vec<String> = self.cx.first_condition(first).into_iter().collect();
        if self.before_split && self.cx.part.split {
            guards.push("piece == 0".into())
        }
        if s.warp_loop > 1 {
            guards.push("warp_loop == 0".into())
        }
        let column = match class {
            Class::Fragment(c) | Class::Columns(c) => Some(c),
            _ => None,
        };
        if s.warp_columns > 1 && column != s.column {
            guards.push("warp_column == 0".into())
        }
        match class {
            Class::Rows => guards.push("(cleave::lane() & 3) == 0".into()),
            Class::Columns(_) => guards.push("cleave::lane() < 4 && warp_row == 0".into()),
            Class::Scalar => guards.push("cleave::thread() == 0".into()),
            Class::Fragment(_) => {}
        }
        if !guards.is_empty() {
            self.code.open(format!("if ({}) {{", guards.join(" && ")))
        }
        let site = Lane { writer: self, class };
        let position = |d: DimId| site.position(d);
        let x = self.cx.element(&site, node);
        let single = column.filter(|c| self.cx.part.dim(*c).axes.len() == 1);
        let line = match (class, single) {
            (Class::Fragment(c), Some(_)) if self.class(node) == Ok(class) && self.registers.contains(&node) => {
                let axis = self.cx.part.dim(c).axes[0];
                let unit = access
                    .dims
                    .iter()
                    .enumerate()
                    .flat_map(|(d, f)| f.iter().enumerate().map(move |(i, f)| (d, i, *f)))
                    .find(|(_, _, f)| *f == Factor::Axis(axis));
                let Some((d, f, _)) = unit else { return Err("a store that lacks its columns".into()) };
                let stride = self.cx.stride(tensor, d as u32, f as u32);
                let pairs = self.vector_flag(tensor, &access, (d, f), 2);
                let rows = Lane { writer: self, class: Class::Rows };
                let inside = self.cx.inside(dims.difference(DimSet::of(c)), &|d| rows.position(d));
                let offset = self.cx.offset(tensor, &access, &|d| rows.position(d), &|d| d != Some(c));
                let name = self.cx.value_name(node);
                format!(
                    "cleave::store_rows({pointer}, {name}, {}, {}, {stride}, {pairs}, [&](int i, int h) {{ return {inside} ? (cleave::i64)({offset}) : -1; }});",
                    self.column_name(c),
                    self.cx.size(c)
                )
            }
            _ => {
                let inside = self.cx.inside(dims, &position);
                let offset = self.cx.offset(tensor, &access, &position, &|_| true);
                let kind = self.type_of(class);
                format!("cleave::visit({kind}(), [&]({}) {{ if ({inside}) cleave::put({pointer} + ({offset}), {x}); }});", Self::indices(class))
            }
        };
        self.code.line(line);
        if !guards.is_empty() {
            self.code.close("}")
        }
        Ok(())
    }
}
