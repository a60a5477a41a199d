//! Extents of axes from the shapes of arguments.
use crate::axis::AxisId;
use crate::graph::{Access, Factor, Graph, InputId};

/// Why the shapes of a call do not fit its kernel.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ExtentError {
    #[error("`{tensor}` has {found} dimensions, the kernel declares {declared}")]
    Rank { tensor: String, declared: usize, found: usize },
    #[error("axis `{axis}` is {first} in `{first_tensor}` and {second} in `{second_tensor}`")]
    Mismatch { axis: String, first_tensor: String, first: i64, second_tensor: String, second: i64 },
    #[error("dimension {dim} of `{tensor}` is {size}, no multiple of {factor} ({factors})")]
    NotMultiple { tensor: String, dim: usize, size: i64, factor: i64, factors: String },
    #[error("axis `{axis}` cannot be told from the arguments")]
    Unknown { axis: String },
}

/// Axes of a declared storage that stand alone in a dimension or are found by dividing out known factors; the front end checks
/// with it that every axis can be told.
pub fn solvable(graph: &Graph) -> Vec<AxisId> {
    let mut known = vec![false; graph.axes.len()];
    loop {
        let before = known.clone();
        for dim in graph.inputs.iter().flat_map(|i| &i.storage.dims) {
            let open: Vec<AxisId> = dim.iter().filter_map(|f| if let Factor::Axis(a) = f { Some(*a) } else { None }).filter(|a| !known[a.0 as usize]).collect();
            if let [a] = open[..] {
                known[a.0 as usize] = true
            }
        }
        if known == before {
            return graph.all_axes().filter(|a| known[a.0 as usize]).collect();
        }
    }
}

/// The extent of every axis, given the shape of every tensor input (`None` for scalars and workspaces).
pub fn solve(graph: &Graph, shapes: &[Option<Vec<i64>>]) -> Result<Vec<i64>, ExtentError> {
    let mut known: Vec<Option<(i64, InputId)>> = vec![None; graph.axes.len()];
    let tensors: Vec<(InputId, &Access, &Vec<i64>)> =
        shapes.iter().enumerate().filter_map(|(i, s)| Some((InputId(i as u32), &graph.inputs[i].storage, s.as_ref()?))).collect();
    for (i, storage, shape) in &tensors {
        if storage.dims.len() != shape.len() {
            return Err(ExtentError::Rank { tensor: graph.input(*i).name.clone(), declared: storage.dims.len(), found: shape.len() });
        }
    }
    loop {
        let mut progress = false;
        for (input, storage, shape) in &tensors {
            for (d, factors) in storage.dims.iter().enumerate() {
                let mut product = 1i64;
                let mut open = vec![];
                for f in factors {
                    match f {
                        Factor::Part { of, .. } => product *= *of as i64,
                        Factor::Axis(a) => match known[a.0 as usize] {
                            Some((n, _)) => product = product.saturating_mul(n),
                            None => open.push(*a),
                        },
                    }
                }
                let names = || {
                    factors.iter().map(|f| if let Factor::Axis(a) = f { graph.axis(*a).to_string() } else { "constant".into() }).collect::<Vec<_>>().join(" * ")
                };
                let not_multiple =
                    || ExtentError::NotMultiple { tensor: graph.input(*input).name.clone(), dim: d, size: shape[d], factor: product, factors: names() };
                match open[..] {
                    [] => {
                        if product != shape[d] {
                            return Err(match factors[..] {
                                [Factor::Axis(a)] => {
                                    let (n, by) = known[a.0 as usize].unwrap_or((product, *input));
                                    ExtentError::Mismatch {
                                        axis: graph.axis(a).into(),
                                        first_tensor: graph.input(by).name.clone(),
                                        first: n,
                                        second_tensor: graph.input(*input).name.clone(),
                                        second: shape[d],
                                    }
                                }
                                _ => not_multiple(),
                            });
                        }
                    }
                    [a] => {
                        if product == 0 || shape[d] % product != 0 {
                            // an empty factor leaves the other open: 0 = 0 * n holds for any n, and nothing is computed
                            if product == 0 && shape[d] == 0 {
                                known[a.0 as usize] = Some((0, *input));
                                progress = true;
                                continue;
                            }
                            return Err(not_multiple());
                        }
                        known[a.0 as usize] = Some((shape[d] / product, *input));
                        progress = true
                    }
                    _ => {}
                }
            }
        }
        if !progress {
            break;
        }
    }
    known.iter().enumerate().map(|(i, k)| k.map(|k| k.0).ok_or_else(|| ExtentError::Unknown { axis: graph.axes[i].name.clone() })).collect()
}

/// The shape of a tensor of this storage.
pub fn shape(storage: &Access, extents: &[i64]) -> Vec<i64> {
    let size = |f: &Factor| match f {
        Factor::Axis(a) => extents[a.0 as usize],
        Factor::Part { of, .. } => *of as i64,
    };
    storage.dims.iter().map(|d| d.iter().map(size).product()).collect()
}
