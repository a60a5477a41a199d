//! Inputs on which assumptions hold.
//!
//! Comes in: random inputs of small extents. Goes out: inputs near by at which both sides of every assumption are equal, found by Newton
//! steps of least length on the difference of the sides (Levenberg-Marquardt; Nocedal and Wright, Numerical Optimization, 10.3). Without such
//! samples an algorithm that rests on an assumption could not be compared with its source.
use crate::assumption::Assumption;
use crate::dtype::{DType, Element};
use crate::oracle::{self, Tensor};

const STEPS: usize = 40;
/// Of the difference of the sides, for sides of magnitude 1.
const PRECISION: f64 = 1e-11;
/// Of a difference quotient, for values of magnitude 1.
const WIDTH: f64 = 1e-6;
/// Keeps steps short where the sides hardly depend on an input.
const DAMPING: f64 = 1e-10;

/// Moves the inputs to where the assumptions hold; false if no way there was found. Integers stay.
pub fn meet(assumptions: &[&Assumption], extents: &[i64], inputs: &mut [Tensor]) -> bool {
    let movable = |i: &usize| assumptions[0].graph.inputs[*i].element != Element::Type(DType::I32);
    let mut read: Vec<usize> = assumptions.iter().flat_map(|a| a.reads()).filter(movable).collect();
    read.sort_unstable();
    read.dedup();
    let unknowns: Vec<(usize, usize)> = read.into_iter().flat_map(|i| (0..inputs[i].values.len()).map(move |k| (i, k))).collect();
    for _ in 0..STEPS {
        let Some((differences, scale)) = differences(assumptions, extents, inputs) else { return false };
        if differences.iter().all(|d| d.abs() <= PRECISION * scale.max(1.0)) {
            return true;
        }
        let mut columns = vec![];
        for (i, k) in &unknowns {
            let here = inputs[*i].values[*k];
            let width = WIDTH * here.abs().max(1.0);
            inputs[*i].values[*k] = here + width;
            let moved = self::differences(assumptions, extents, inputs);
            inputs[*i].values[*k] = here;
            let Some((moved, _)) = moved else { return false };
            columns.push(moved.iter().zip(&differences).map(|(m, d)| (m - d) / width).collect::<Vec<f64>>())
        }
        let Some(step) = shortest(&columns, &differences) else { return false };
        unknowns.iter().zip(step).for_each(|((i, k), s)| inputs[*i].values[*k] -= s)
    }
    false
}

/// Left less right of all assumptions, and their greatest magnitude; `None` where a side has no value.
fn differences(assumptions: &[&Assumption], extents: &[i64], inputs: &[Tensor]) -> Option<(Vec<f64>, f64)> {
    let (mut all, mut scale) = (vec![], 0f64);
    for a in assumptions {
        for sides in oracle::evaluate(&a.graph, extents, inputs).chunks_exact(3) {
            all.extend(sides[0].values.iter().zip(&sides[1].values).map(|(l, r)| if l == r { 0.0 } else { l - r }));
            scale = sides[2].values.iter().fold(scale, |s, x| s.max(*x))
        }
    }
    all.iter().all(|d| d.is_finite()).then_some((all, scale))
}

/// The shortest x with J x = d: J' (J J' + small)^-1 d, for the columns of J.
fn shortest(columns: &[Vec<f64>], d: &[f64]) -> Option<Vec<f64>> {
    let n = d.len();
    let mut rows: Vec<Vec<f64>> = (0..n).map(|i| (0..n).map(|j| columns.iter().map(|c| c[i] * c[j]).sum()).collect()).collect();
    let largest = (0..n).map(|i| rows[i][i]).fold(0.0, f64::max);
    for (i, row) in rows.iter_mut().enumerate() {
        row[i] += DAMPING * largest;
        row.push(d[i])
    }
    for i in 0..n {
        let pivot = (i..n).max_by(|a, b| rows[*a][i].abs().total_cmp(&rows[*b][i].abs()))?;
        rows.swap(i, pivot);
        if rows[i][i] == 0.0 {
            return None;
        }
        let (above, below) = rows.split_at_mut(i + 1);
        for row in below {
            let factor = row[i] / above[i][i];
            row.iter_mut().zip(&above[i]).skip(i).for_each(|(x, p)| *x -= factor * p)
        }
    }
    let mut y = vec![0.0; n];
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|j| rows[i][j] * y[j]).sum();
        y[i] = (rows[i][n] - known) / rows[i][i]
    }
    Some(columns.iter().map(|c| c.iter().zip(&y).map(|(c, y)| c * y).sum()).collect())
}
