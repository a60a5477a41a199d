//! Several steps of a loop laid out as one, so that a left operand which passes through registers is made while the product of the step before
//! runs. In: the operations of a step. Out: those of several, one step after the other; all that is not carried has a name of its own in each.
use super::pipeline::{Kind, Operation, Value};
use super::steps::{Builder, Left, Product, Term, Work, identifiers};
use crate::emit::part::Context;
use std::collections::{BTreeSet, HashMap, HashSet};

/// The name of a value, or of a position, in a later one of the steps that are laid out as one.
pub fn later(cx: &Context, name: &str, step: u32) -> String {
    if step == 0 { name.into() } else { cx.name(&format!("{name} of step {step}"), &format!("{name}_{step}")) }
}

/// A text with other names.
fn renamed(text: &str, names: &HashMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    for word in identifiers(text) {
        let at = rest.find(word).unwrap_or(0);
        out += &rest[..at];
        out += names.get(word).map_or(word, |n| n);
        rest = &rest[at + word.len()..]
    }
    out + rest
}

impl Builder<'_, '_> {
    /// Whether products take left operands that are made of what is streamed, and give nothing to the other work of their step: then nothing of a step
    /// runs beside its product unless it is of another step.
    pub(super) fn makes_operands(&self) -> bool {
        let products = || self.work.iter().filter_map(|w| if let Work::Product(p) = w { Some(p) } else { None });
        let of_products: HashSet<Value> = self.operations.iter().filter(|o| o.kind == Kind::Product).flat_map(|o| o.writes.iter().copied()).collect();
        let reads_product = |o: &Operation| o.kind != Kind::Product && o.reads.iter().any(|v| of_products.contains(v));
        products().all(|p| p.carried && p.terms.iter().all(|t| matches!(t.left, Left::Packed(_)))) && !self.operations.iter().any(reads_product)
    }
    pub(super) fn unroll(&mut self, times: u32) {
        let cx = self.w.cx;
        let carried = self.carried();
        let written: HashSet<Value> = self.operations.iter().flat_map(|o| o.writes.iter().copied()).filter(|v| !carried.contains(v)).collect();
        let mut fresh: Vec<(String, Value)> = self.names.iter().filter(|n| written.contains(n.1)).map(|(n, v)| (n.clone(), *v)).collect();
        fresh.sort();
        let positions = [cx.start(self.l.dim), self.w.column_name(self.l.dim)];
        let one: Vec<(Operation, Work)> = self.operations.iter().cloned().zip(self.work.iter().cloned()).collect();
        let packed = self.packed.clone();
        for step in 1..times {
            let names: HashMap<String, String> = fresh.iter().map(|f| &f.0).chain(&positions).map(|name| (name.clone(), later(cx, name, step))).collect();
            let values: HashMap<Value, Value> = fresh.iter().map(|(name, v)| (*v, self.value(&names[name]))).collect();
            let moved = |all: &BTreeSet<Value>| all.iter().map(|v| values.get(v).copied().unwrap_or(*v)).collect();
            let of_step = |t: &Term| match &t.left {
                Left::Packed(name) => Term { left: Left::Packed(renamed(name, &names)), ..t.clone() },
                _ => t.clone(),
            };
            for (o, work) in &one {
                self.operations.push(Operation { kind: o.kind, label: renamed(&o.label, &names), reads: moved(&o.reads), writes: moved(&o.writes) });
                self.work.push(match work {
                    Work::Text(text) => Work::Text(text.map(|t| renamed(t, &names))),
                    Work::Read { operand, declaration, name } => {
                        Work::Read { operand: *operand, declaration: renamed(declaration, &names), name: renamed(name, &names) }
                    }
                    Work::Product(p) => Work::Product(Product { terms: p.terms.iter().map(of_step).collect(), ..p.clone() }),
                })
            }
            self.packed.extend(packed.iter().map(|line| renamed(line, &names)))
        }
        self.packed_registers *= times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_names_are_replaced_and_nothing_else() {
        let names = HashMap::from([("x".to_string(), "x_1".to_string()), ("t2".into(), "t2_1".into())]);
        assert_eq!(
            renamed("cleave::each(t2, [&](int i) { return x(i) * xx(i) + t22 + 2x; }); x", &names),
            "cleave::each(t2_1, [&](int i) { return x_1(i) * xx(i) + t22 + 2x; }); x_1"
        )
    }
}
