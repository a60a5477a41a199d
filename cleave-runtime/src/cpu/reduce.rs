//! The reductions of a group, over the rows at hand: along them, to a number for each, or across, element by element.
use super::group::{Run, Window};
use super::mask::RowMask;
use super::vector::{self, Operand, Target, Total};

impl Run<'_, '_, '_> {
    /// Adds the rows of `x`, where all of the masks hold, to a slot.
    pub fn reduce(&mut self, instruction: usize, total: Total, masks: &[u16], x: Operand, slot: usize, w: Window) {
        if self.runs_along(slot) { self.along(instruction, total, masks, x, slot, w) } else { self.across(total, masks, x, slot, w) }
    }

    /// Where all of the masks hold in a row. If that is no interval, the mask line tells.
    fn holds(&self, masks: &[u16], r: usize, w: Window) -> RowMask {
        let all = masks.iter().fold(RowMask::All, |all, m| all.and(self.masks.chunk(*m, r, w.start, w.n)));
        if all == RowMask::Mixed {
            let (line, one) = self.mask_lines(w.n);
            line.fill(1.0);
            for &m in masks {
                self.masks.fill(self.block, m, r, w.start, one);
                line.iter_mut().zip(&*one).for_each(|(l, o)| *l *= o)
            }
        }
        all
    }

    fn along(&mut self, instruction: usize, total: Total, masks: &[u16], x: Operand, slot: usize, w: Window) {
        let whole = w.start == 0 && w.n == self.length();
        if let (Operand::Rows(p, pitch), true, true) = (x, masks.is_empty(), whole) {
            // many short rows at once
            let (_, out) = self.mask_lines(w.rows);
            unsafe { vector::along(total, p, pitch, w.n, out) };
            for (r, value) in out.iter().enumerate() {
                self.join(total, slot, r, *value)
            }
            return;
        }
        for r in 0..w.rows {
            let (mask, x) = (self.holds(masks, r, w), x.at(r, 0));
            let value = match (mask, x) {
                (RowMask::Nothing, _) => total.identity() as f64,
                (RowMask::Mixed, Operand::Rows(..)) => {
                    let (line, chosen) = self.mask_lines(w.n);
                    unsafe { vector::choose(Target { pointer: chosen.as_mut_ptr(), pitch: 0, rows: 1, n: w.n }, line, x, total.identity()) };
                    of_row(total, chosen.as_ptr(), w.n)
                }
                (_, Operand::Rows(p, _)) => {
                    let (from, to) = if let RowMask::Interval(from, to) = mask { (from, to) } else { (0, w.n) };
                    of_row(total, p.wrapping_add(from), to - from)
                }
                (_, Operand::Scalar(_) | Operand::Column(_)) => {
                    let x = match x {
                        Operand::Column(x) => unsafe { *x },
                        Operand::Scalar(x) => x,
                        Operand::Rows(..) => 0.0,
                    };
                    let count = match mask {
                        RowMask::Interval(from, to) => to - from,
                        RowMask::Mixed => self.mask_lines(w.n).0.iter().filter(|m| **m != 0.0).count(),
                        _ => w.n,
                    };
                    if total == Total::Sum {
                        x as f64 * count as f64
                    } else if count > 0 {
                        x as f64
                    } else {
                        f64::NEG_INFINITY
                    }
                }
            };
            if whole {
                self.join(total, slot, r, value as f32);
                continue;
            }
            // a row of several chunks stands alone
            let so_far = if w.start == 0 { total.identity() as f64 } else { self.totals[instruction] };
            let so_far = match total {
                Total::Sum => so_far + value,
                Total::Greatest if so_far.is_nan() || value.is_nan() => f64::NAN,
                _ => so_far.max(value),
            };
            self.totals[instruction] = so_far;
            if w.start + w.n == self.length() {
                self.join(total, slot, r, so_far as f32)
            }
        }
    }

    fn join(&self, total: Total, slot: usize, r: usize, value: f32) {
        let target = self.slot_row(slot, r);
        unsafe { *target = total.join(*target, value) }
    }

    fn across(&mut self, total: Total, masks: &[u16], x: Operand, slot: usize, w: Window) {
        let stride = self.inner_stride(slot);
        if masks.is_empty() && stride == 1 {
            let to = Target { pointer: self.slot_row(slot, 0).wrapping_add(w.start), pitch: self.slot_pitch(slot), rows: w.rows, n: w.n };
            return unsafe { vector::across(total, to, x) };
        }
        for r in 0..w.rows {
            let mask = self.holds(masks, r, w);
            let target = self.slot_row(slot, r).wrapping_offset(w.start as isize * stride);
            let (from, to) = match mask {
                RowMask::Nothing => continue,
                RowMask::Interval(from, to) => (from, to),
                _ => (0, w.n),
            };
            if stride == 1 && mask != RowMask::Mixed {
                let to = Target { pointer: target.wrapping_add(from), pitch: 0, rows: 1, n: to - from };
                unsafe { vector::across(total, to, x.at(r, from)) };
                continue;
            }
            let (line, _) = self.mask_lines(w.n);
            for i in (from..to).filter(|i| mask != RowMask::Mixed || line[*i] != 0.0) {
                let x = match x.at(r, i) {
                    Operand::Scalar(x) => x,
                    Operand::Column(x) | Operand::Rows(x, _) => unsafe { *x },
                };
                unsafe {
                    let target = target.offset(i as isize * stride);
                    *target = total.join(*target, x)
                }
            }
        }
    }
}

fn of_row(total: Total, x: *const f32, n: usize) -> f64 {
    let mut out = [0.0];
    unsafe { vector::along(total, x, 0, n, &mut out) };
    out[0] as f64
}
