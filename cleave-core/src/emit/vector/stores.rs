//! Stores: chunks of 16 bytes where memory allows it, else elements; what does not vary along the lane dim by one thread of the group.
use super::*;

impl Writer<'_> {
    pub(super) fn store(&mut self, output: u32, store: u32, first: DimSet) {
        let (node, access, dims) = self.cx.store_dims(output, store);
        let tensor = self.cx.output_ref(output);
        let pointer = self.cx.pointer(tensor, true);
        let mut conditions: Vec<String> = self.cx.first_condition(first).into_iter().collect();
        if self.before_split && self.cx.part.split {
            conditions.push("piece == 0".into())
        }
        let along = dims.contains(self.shape.lane);
        // groups that shared a loop hold the same after it
        let shared = self.shape.share.is_some_and(|d| !dims.contains(d)) && self.shape.groups > 1;
        if !along {
            conditions.push(self.leader())
        } else if shared {
            conditions.push(format!("cleave::thread() < {}", self.shape.group))
        }
        let mut n = 0;
        if !conditions.is_empty() {
            self.code.open(format!("if ({}) {{", conditions.join(" && ")));
            n += 1
        }
        n += self.open_unrolled(dims);
        let mut inside = self.rows_inside(dims);
        let unit = if along { self.contiguous(tensor, &access) } else { None };
        if along {
            n += self.open_chunks()
        }
        if let Some(guards) = unit {
            self.guard(guards);
            self.code.line(format!("float values[{}];", self.shape.width));
            let e = self.open_elements();
            let x = self.element(node);
            self.code.line(format!("values[e] = {x};"));
            self.close(e);
            inside.push(match self.loops.iter().rfind(|l| l.0 == self.shape.lane) {
                Some((_, _, true)) => format!("{} < {}", self.chunk_position(), self.cx.size(self.shape.lane)),
                _ => self.counts(),
            });
            let offset = self.chunk_offset(tensor, &access);
            let hint = if self.shape.hints.stores { "true" } else { "false" };
            self.code.line(format!("if ({}) cleave::store_chunk<{hint}>({pointer} + ({offset}), values);", inside.join(" && ")))
        } else {
            if along {
                n += self.open_elements();
                inside.push(self.counts())
            }
            let x = self.element(node);
            let offset = self.cx.offset(tensor, &access, &|d| Element(self).position(d), &|_| true);
            let test = if inside.is_empty() { String::new() } else { format!("if ({}) ", inside.join(" && ")) };
            self.code.line(format!("{test}cleave::put({pointer} + ({offset}), {x});"))
        }
        self.close(n)
    }
}
