//! Extents of axes from the shapes of arguments.
use crate::axis::AxisId;
use crate::graph::{Access, Factor, Graph};

/// Why the shapes of a call do not fit its kernel.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ExtentError {
    #[error("`{tensor}` has {found} dimensions, the kernel declares {declared}")]
    Rank { tensor: String, declared: usize, found: usize },
    #[error("axis `{axis}` is {first} in `{first_tensor}` and {second} in `{second_tensor}`")]
    Mismatch { axis: String, first_tensor: String, first: i64, second_tensor: String, second: i64 },
    #[error("dimension {dim} of `{tensor}` is {size}, no multiple of {factor} ({factors})")]
    NotMultiple { tensor: String, dim: usize, size: i64, factor: i64, factors: String },
    #[error("axis `{first_axis}` is {first} in `{first_tensor}`, axis `{second_axis}` {second} in `{second_tensor}`: the kernel renames one to the other")]
    Unequal { first_axis: String, first_tensor: String, first: i64, second_axis: String, second_tensor: String, second: i64 },
    #[error("axis `{axis}` cannot be told from the arguments")]
    Unknown { axis: String },
}

/// Axes of a declared storage that stand alone in a dimension or are found by dividing out known factors; the front end checks
/// with it that every axis can be told.
pub fn solvable(graph: &Graph) -> Vec<AxisId> {
    let mut known = vec![false; graph.axes.len()];
    graph.inputs.iter().filter_map(|i| i.extent).for_each(|a| known[a.0 as usize] = true);
    loop {
        let before = known.clone();
        for dim in graph.inputs.iter().flat_map(|i| &i.storage.dims) {
            let open: Vec<AxisId> = dim.iter().filter_map(|f| if let Factor::Axis(a) = f { Some(*a) } else { None }).filter(|a| !known[a.0 as usize]).collect();
            if let [a] = open[..] {
                known[a.0 as usize] = true
            }
        }
        for (a, b) in graph.equal.iter().map(|(a, b)| (a.0 as usize, b.0 as usize)) {
            let either = known[a] || known[b];
            (known[a], known[b]) = (either, either)
        }
        if known == before {
            return graph.all_axes().filter(|a| known[a.0 as usize]).collect();
        }
    }
}

/// The extent of every axis, given the shape of every tensor input (`None` for scalars and workspaces; of an input that is an extent
/// that one number).
pub fn solve(graph: &Graph, shapes: &[Option<Vec<i64>>]) -> Result<Vec<i64>, ExtentError> {
    let mut dims: Vec<Dimension> = vec![];
    let mut known: Vec<Option<(i64, &str)>> = vec![None; graph.axes.len()];
    for (i, shape) in shapes.iter().enumerate() {
        let (input, Some(shape)) = (&graph.inputs[i], shape) else { continue };
        if let (Some(a), [n]) = (input.extent, &shape[..]) {
            match known[a.0 as usize] {
                Some((first, tensor)) if first != *n => {
                    let (first_tensor, second_tensor) = (tensor.into(), input.name.clone());
                    return Err(ExtentError::Mismatch { axis: graph.axis(a).into(), first_tensor, first, second_tensor, second: *n });
                }
                _ => known[a.0 as usize] = Some((*n, &input.name)),
            }
            continue;
        }
        if input.storage.dims.len() != shape.len() {
            return Err(ExtentError::Rank { tensor: input.name.clone(), declared: input.storage.dims.len(), found: shape.len() });
        }
        dims.extend(input.storage.dims.iter().zip(shape).enumerate().map(|(dim, (factors, size))| Dimension { tensor: &input.name, dim, factors, size: *size }))
    }
    // axes that stand alone in their dimension first, then those that the known ones leave
    loop {
        let mut more = false;
        for d in &dims {
            let (product, Open::One(axis)) = d.split(&known) else { continue };
            more = true;
            known[axis.0 as usize] = match (product, d.size) {
                (0, 0) => Some((0, d.tensor)), // 0 = 0 * n holds for any n, and nothing is computed
                (0, _) => return Err(d.not_multiple(graph, product)),
                (p, n) if n % p != 0 => return Err(d.not_multiple(graph, p)),
                (p, n) => Some((n / p, d.tensor)),
            }
        }
        for (a, b) in graph.equal.iter().map(|(a, b)| (a.0 as usize, b.0 as usize)) {
            more |= known[a].is_some() != known[b].is_some();
            (known[a], known[b]) = (known[a].or(known[b]), known[b].or(known[a]))
        }
        if !more {
            break;
        }
    }
    for (a, b) in &graph.equal {
        if let (Some((x, first)), Some((y, second))) = (known[a.0 as usize], known[b.0 as usize])
            && x != y
        {
            return Err(ExtentError::Unequal {
                first_axis: graph.axis(*a).into(),
                first_tensor: first.into(),
                first: x,
                second_axis: graph.axis(*b).into(),
                second_tensor: second.into(),
                second: y,
            });
        }
    }
    for d in &dims {
        let (product, open) = d.split(&known);
        if open != Open::None || product == d.size {
            continue;
        }
        return Err(match d.factors[..] {
            [Factor::Axis(a)] => {
                let (first, tensor) = known[a.0 as usize].unwrap_or((product, d.tensor));
                ExtentError::Mismatch { axis: graph.axis(a).into(), first_tensor: tensor.into(), first, second_tensor: d.tensor.into(), second: d.size }
            }
            _ => d.not_multiple(graph, product),
        });
    }
    known.iter().enumerate().map(|(i, k)| k.map(|k| k.0).ok_or_else(|| ExtentError::Unknown { axis: graph.axes[i].name.clone() })).collect()
}

/// One stored dimension of an argument.
struct Dimension<'a> {
    tensor: &'a str,
    dim: usize,
    factors: &'a [Factor],
    size: i64,
}

/// The axes of a dimension that are not known.
#[derive(Clone, Copy, PartialEq)]
enum Open {
    None,
    One(AxisId),
    Several,
}

impl Dimension<'_> {
    /// The product of the factors that are known, and the axes that are not.
    fn split(&self, known: &[Option<(i64, &str)>]) -> (i64, Open) {
        self.factors.iter().fold((1i64, Open::None), |(product, open), f| match f {
            Factor::Part { of, .. } => (product.saturating_mul(*of as i64), open),
            Factor::Axis(a) => match known[a.0 as usize] {
                Some((n, _)) => (product.saturating_mul(n), open),
                None => (product, if open == Open::None { Open::One(*a) } else { Open::Several }),
            },
        })
    }
    fn not_multiple(&self, graph: &Graph, factor: i64) -> ExtentError {
        let name = |f: &Factor| match f {
            Factor::Axis(a) => graph.axis(*a).to_string(),
            Factor::Part { of, .. } => of.to_string(),
        };
        let factors = self.factors.iter().map(name).collect::<Vec<_>>().join(" * ");
        ExtentError::NotMultiple { tensor: self.tensor.into(), dim: self.dim, size: self.size, factor, factors }
    }
}

/// The shape of a tensor of this storage.
pub fn shape(storage: &Access, extents: &[i64]) -> Vec<i64> {
    let size = |f: &Factor| match f {
        Factor::Axis(a) => extents[a.0 as usize],
        Factor::Part { of, .. } => *of as i64,
    };
    storage.dims.iter().map(|d| d.iter().map(size).product()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::{DType, Element};

    /// q[B, (K, G)], k[B, K], r[(G, 2)]
    fn graph() -> Graph {
        let mut g = Graph::default();
        let [b, k, group] = ["B", "K", "G"].map(|n| g.add_axis(n));
        let f32 = Element::Type(DType::F32);
        g.add_input("q", f32, Access { dims: vec![vec![Factor::Axis(b)], vec![Factor::Axis(k), Factor::Axis(group)]] });
        g.add_input("k", f32, Access::plain([b, k]));
        g.add_input("r", f32, Access { dims: vec![vec![Factor::Axis(group), Factor::Part { index: 0, of: 2 }]] });
        g
    }
    fn solve_shapes(q: [i64; 2], k: [i64; 2], r: [i64; 1]) -> Result<Vec<i64>, String> {
        solve(&graph(), &[Some(q.to_vec()), Some(k.to_vec()), Some(r.to_vec())]).map_err(|e| e.to_string())
    }

    #[test]
    fn a_factor_is_what_the_others_leave() {
        assert_eq!(solve_shapes([2, 12], [2, 3], [8]), Ok(vec![2, 3, 4]))
    }

    #[test]
    fn disagreements_name_the_axis_and_both_tensors() {
        assert_eq!(solve_shapes([2, 12], [5, 3], [8]), Err("axis `B` is 2 in `q` and 5 in `k`".into()));
        assert_eq!(solve_shapes([2, 12], [2, 5], [8]), Err("dimension 1 of `q` is 12, no multiple of 20 (K * G)".into()));
        assert_eq!(solve_shapes([2, 12], [2, 3], [7]), Err("dimension 0 of `r` is 7, no multiple of 2 (G * 2)".into()));
        let rank = solve(&graph(), &[Some(vec![2]), Some(vec![2, 3]), Some(vec![8])]);
        assert_eq!(rank.unwrap_err().to_string(), "`q` has 1 dimensions, the kernel declares 2")
    }

    #[test]
    fn an_empty_factor_leaves_nothing_to_compute() {
        assert_eq!(solve_shapes([2, 0], [2, 0], [8]), Ok(vec![2, 0, 4]))
    }

    #[test]
    fn a_renamed_axis_has_the_extent_of_the_other() {
        let mut g = graph();
        let n = g.add_axis("N");
        g.equal.push((AxisId(0), n));
        let shapes = [Some(vec![2, 12]), Some(vec![2, 3]), Some(vec![8])];
        assert_eq!(solve(&g, &shapes), Ok(vec![2, 3, 4, 2]));
        g.equal.push((n, AxisId(1)));
        assert_eq!(solve(&g, &shapes).unwrap_err().to_string(), "axis `N` is 2 in `q`, axis `K` 3 in `k`: the kernel renames one to the other")
    }

    #[test]
    fn an_axis_known_only_in_products_cannot_be_told() {
        let g = graph();
        assert_eq!(solvable(&g).len(), 3);
        let unknown = solve(&g, &[Some(vec![2, 12]), None, None]);
        assert_eq!(unknown.unwrap_err(), ExtentError::Unknown { axis: "K".into() })
    }
}
