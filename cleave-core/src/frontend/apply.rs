//! Types of the language's own functions.
use super::builtin::{Builtin, Row};
use super::check::Checker;
use super::message;
use super::report::Place;
use super::scope::Value;
use super::term::*;
use crate::axis::{AxisId, AxisSet};
use crate::rational::Rational;

/// A value and where it stands.
type Placed = (Value, Place);

impl Checker<'_> {
    /// A call with as many axes and arguments as the row says.
    pub fn builtin(&mut self, place: Place, row: &Row, axes: &[Vec<AxisId>], arguments: Vec<Placed>) -> Value {
        match (row.builtin, &arguments[..]) {
            (Builtin::Index, _) => self.position(place, axes, Op::Index),
            (Builtin::Extent, _) => self.position(place, axes, Op::Size),
            (Builtin::Mask, [x, condition]) => {
                let (x, condition) = (self.number_argument(x), self.truth_argument(condition));
                let (Some(x), Some(condition)) = (x, condition) else { return Value::Faulty };
                let axes = self.ty(x).axes.union(self.ty(condition).axes);
                self.push(Op::Mask, vec![x, condition], Type { kind: Kind::Number, axes, masked: true }, place)
            }
            (Builtin::Pow, [x, exponent]) => {
                let (x, exponent) = (self.number_argument(x), self.number_argument(exponent));
                let (Some(x), Some(exponent)) = (x, exponent) else { return Value::Faulty };
                let halves = self.formula.number(exponent).and_then(|r| r.mul(Rational::integer(2))).filter(|h| h.denominator() == 1);
                match halves.map(|h| i8::try_from(h.numerator())) {
                    Some(Ok(0)) => self.number(Rational::ONE, false, place),
                    Some(Ok(halves)) => self.power(x, halves, place),
                    _ => self.fault(arguments[1].1, message::exponent()),
                }
            }
            (Builtin::Part, [x, index]) => {
                let (x, index) = (self.number_argument(x), self.number_argument(index));
                let (Some(x), Some(index)) = (x, index) else { return Value::Faulty };
                let Some((factor, extent)) = self.factor(&axes[0], place) else { return Value::Faulty };
                let number = self.formula.number(index).filter(|r| r.denominator() == 1).and_then(|r| u32::try_from(r.numerator()).ok());
                match number {
                    Some(i) if i < extent => {
                        if !self.varies(x, AxisSet::of(factor), arguments[0].1) {
                            return Value::Faulty;
                        }
                        let Type { kind, axes, masked } = self.ty(x);
                        self.push(Op::Part(factor, i), vec![x], Type { kind, axes: axes.difference(AxisSet::of(factor)), masked }, place)
                    }
                    _ => self.fault(arguments[1].1, message::part_index(self.formula.axis(factor).name.clone(), extent)),
                }
            }
            (Builtin::Stack, [(Value::Tuple(members), at)]) => {
                let members: Option<Vec<TermId>> = members.iter().map(|m| self.number_argument(&(m.clone(), *at))).collect();
                let (Some(members), Some((factor, extent))) = (members, self.factor(&axes[0], place)) else { return Value::Faulty };
                let name = self.formula.axis(factor).name.clone();
                if members.len() != extent as usize {
                    return self.fault(*at, message::stack_length(name, extent, members.len()));
                }
                if members.iter().any(|m| self.ty(*m).axes.contains(factor)) {
                    return self.fault(*at, message::stack_varies(name));
                }
                let axes = members.iter().fold(AxisSet::of(factor), |s, m| s.union(self.ty(*m).axes));
                let masked = members.iter().any(|m| self.ty(*m).masked);
                self.push(Op::Stack(factor), members, Type { kind: Kind::Number, axes, masked }, place)
            }
            (Builtin::Stack, [(Value::Term(_), at)]) => self.fault(*at, message::stack_of_one()),
            (Builtin::Max | Builtin::Min, [x, y]) => {
                let (x, y) = (self.number_argument(x), self.number_argument(y));
                let (Some(x), Some(y)) = (x, y) else { return Value::Faulty };
                let op = if matches!(row.builtin, Builtin::Max) { Op::Max } else { Op::Min };
                self.elementwise(op, Kind::Number, vec![x, y], place)
            }
            (_, [x]) => match self.number_argument(x) {
                Some(term) => self.of_one(place, row.builtin, axes, (term, x.1)),
                None => Value::Faulty,
            },
            _ => Value::Faulty,
        }
    }

    fn of_one(&mut self, place: Place, builtin: Builtin, axes: &[Vec<AxisId>], (x, at): (TermId, Place)) -> Value {
        let ty = self.ty(x);
        match builtin {
            Builtin::Apply(function) => self.elementwise(Op::Apply(function), Kind::Number, vec![x], place),
            Builtin::Power(halves) => self.power(x, halves, place),
            Builtin::Reduce(reduction) => {
                let over: AxisSet = axes[0].iter().copied().collect();
                if !self.varies(x, over, at) {
                    return Value::Faulty;
                }
                let unrolled = self.formula.constants(over);
                if ty.masked && !unrolled.is_empty() && !matches!(reduction, Reduction::Sum) {
                    return self.fault(at, message::masked_factor());
                }
                self.push(Op::Reduce(reduction, over), vec![x], Type { kind: Kind::Number, axes: ty.axes.difference(over), masked: false }, place)
            }
            Builtin::Reverse => {
                let Some((factor, _)) = self.factor(&axes[0], place) else { return Value::Faulty };
                if !self.varies(x, AxisSet::of(factor), at) {
                    return Value::Faulty;
                }
                self.push(Op::Reverse(factor), vec![x], ty, place)
            }
            Builtin::Rename => self.rename(place, axes, (x, at)),
            _ => Value::Faulty,
        }
    }

    fn rename(&mut self, place: Place, axes: &[Vec<AxisId>], (x, at): (TermId, Place)) -> Value {
        let ([from], [to]) = (&axes[0][..], &axes[1][..]) else { return self.fault(place, message::one_axis()) };
        let (from, to) = (*from, *to);
        if !self.varies(x, AxisSet::of(from), at) {
            return Value::Faulty;
        }
        if from == to {
            return Value::Term(x);
        }
        let [name, target] = [from, to].map(|a| self.formula.axis(a).clone());
        if name.constant.is_some() || target.constant.is_some() {
            return self.fault(place, message::rename_factor());
        }
        let ty = self.ty(x);
        if ty.axes.contains(to) {
            return self.fault(at, message::rename_varies(target.name));
        }
        if self.formula.reduction_over(x, to).is_some() {
            return self.fault(at, message::rename_captured(target.name));
        }
        let axes = ty.axes.difference(AxisSet::of(from)).union(AxisSet::of(to));
        self.push(Op::Rename(from, to), vec![x], Type { axes, ..ty }, place)
    }

    fn power(&mut self, x: TermId, halves: i8, place: Place) -> Value {
        if halves < 0 && self.formula.number(x).is_some_and(|r| r.is_zero()) {
            return self.fault(place, message::division_by_zero());
        }
        self.elementwise(Op::Power(halves), Kind::Number, vec![x], place)
    }

    /// `index` and `extent`.
    fn position(&mut self, place: Place, axes: &[Vec<AxisId>], op: fn(AxisId) -> Op) -> Value {
        let [axis] = axes[0][..] else { return self.fault(place, message::one_axis()) };
        let axes = if matches!(op(axis), Op::Index(_)) { AxisSet::of(axis) } else { AxisSet::EMPTY };
        self.push(op(axis), vec![], Type { kind: Kind::Integer, axes, masked: false }, place)
    }

    /// The constant factor that an axis argument names, and its extent.
    fn factor(&mut self, axes: &[AxisId], place: Place) -> Option<(AxisId, u32)> {
        let [axis] = axes[..] else {
            self.fault(place, message::one_axis());
            return None;
        };
        let declared = self.formula.axis(axis).clone();
        if declared.constant.is_none() {
            self.fault(place, message::not_a_factor(declared.name));
        }
        declared.constant.map(|n| (axis, n))
    }

    pub fn number_argument(&mut self, (value, place): &Placed) -> Option<TermId> {
        match value {
            Value::Term(t) if self.ty(*t).kind != Kind::Truth => return Some(*t),
            Value::Term(_) => drop(self.fault(*place, message::condition_as_value())),
            Value::Tuple(_) => drop(self.fault(*place, message::tuple_as_value())),
            Value::Faulty => {}
        }
        None
    }

    fn truth_argument(&mut self, (value, place): &Placed) -> Option<TermId> {
        match value {
            Value::Term(t) if self.ty(*t).kind == Kind::Truth => return Some(*t),
            Value::Faulty => {}
            _ => drop(self.fault(*place, message::value_as_condition())),
        }
        None
    }

    /// Whether a value varies along all of some axes; a fault if not.
    fn varies(&mut self, x: TermId, axes: AxisSet, place: Place) -> bool {
        let missing = axes.difference(self.ty(x).axes);
        for a in missing.iter() {
            let name = self.formula.axis(a).name.clone();
            self.fault(place, message::does_not_vary(name));
        }
        missing.is_empty()
    }
}
