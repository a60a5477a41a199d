//! Tensor maps: how TMA reads the tile of a load. In: a load, the dims of its tile. Out: the map, the coordinates of a box but
//! for the first, and what tensors must be like for it.
use crate::axis::AxisId;
use crate::emit::part::{Context, Refusal};
use crate::graph::{Access, Factor};
use crate::plan::{Guard, MapDim, TensorMap, TensorRef};
use crate::tile::DimId;

/// Columns of a box: 128 bytes of a 16-bit type, the width of the swizzle.
pub const COLUMNS: u32 = 64;
/// Rows that a box may have.
pub const MOST_ROWS: u32 = 256;
const MOST_DIMS: usize = 5;
/// What TMA asks of addresses and strides, in bytes.
const ALIGNMENT: u32 = 16;

pub struct Boxes {
    pub map: TensorMap,
    /// Positions along the map's dims after the first two; the first two are the tile's columns and rows.
    pub rest: Vec<String>,
    pub guards: Vec<Guard>,
}

/// Of a tile of `tensor`, so many positions of a row dim by columns, a block of 64 columns a box. A tensor without rows has one. Each column is
/// so many parts, a constant factor of the tensor's.
pub fn boxes(cx: &Context, tensor: TensorRef, access: &Access, rows: Option<(DimId, u32)>, column: DimId, parts: u32) -> Result<Boxes, Refusal> {
    let name = cx.tensor_name(tensor);
    let multiple = ALIGNMENT / cx.dtype(tensor).bytes() as u32;
    let (mut first, mut guards) = (vec![], vec![Guard::Aligned(tensor, ALIGNMENT)]);
    let (mut columns, mut lines, mut others): (Option<MapDim>, Option<MapDim>, Vec<(MapDim, String)>) = (None, None, vec![]);
    for (d, factors) in access.dims.iter().enumerate() {
        let of = |f: usize| if let Factor::Axis(a) = factors[f] { cx.part.dim_of(a) } else { None };
        let mut at = 0;
        while at < factors.len() {
            let Some(dim) = of(at) else {
                if let Factor::Part { index, .. } = factors[at]
                    && index > 0
                {
                    first.push((d as u32, at as u32, index))
                }
                at += 1;
                continue;
            };
            // axes of one tile, or of blocks with one position, that follow each other
            let row = |x: DimId| rows.is_some_and(|r| r.0 == x);
            let alone = |x: Option<DimId>| x.is_some_and(|x| !row(x) && x != column);
            let end = (at + 1..factors.len()).find(|f| of(*f) != Some(dim) && !(alone(of(*f)) && alone(Some(dim)))).unwrap_or(factors.len());
            let axes: Vec<AxisId> = factors[at..end].iter().filter_map(|f| if let Factor::Axis(a) = f { Some(*a) } else { None }).collect();
            let of_tile = row(dim) || dim == column;
            if of_tile && cx.part.dim(dim).axes != axes {
                return Err(format!("a tile of `{name}` lies scattered"));
            }
            let length = match rows {
                _ if dim == column => COLUMNS,
                Some((row, n)) if dim == row => n,
                _ => 1,
            };
            let parts = if dim == column { parts } else { 1 };
            let end = end + (parts > 1 && matches!(factors.get(end), Some(Factor::Part { of, .. }) if *of == parts)) as usize;
            let this = MapDim { axes: axes.clone(), parts, dim: d as u32, factor: end as u32 - 1, length };
            if dim == column {
                if end != factors.len() {
                    return Err(format!("columns of `{name}` are not contiguous"));
                }
                guards.push(Guard::Contiguous(tensor, d as u32));
                // what lies outside of contiguous columns has their extent as its stride
                if at > 0 {
                    let [axis] = axes[..] else { return Err(format!("columns of `{name}` are packed")) };
                    guards.push(Guard::Multiple(axis, multiple as i64))
                }
                columns = Some(this)
            } else if row(dim) {
                lines = Some(this)
            } else {
                let mut position = String::new();
                for a in &axes {
                    let dim = cx.part.dim_of(*a).expect("every axis of a part has a dim");
                    let index = cx.index_at(*a, &cx.start(dim));
                    position = if position.is_empty() { index } else { format!("({position}) * {} + {index}", cx.extent(*a)) }
                }
                others.push((this, position))
            }
            at = end
        }
    }
    if let (None, Some(MapDim { dim, factor, .. })) = (rows, &columns) {
        lines = Some(MapDim { axes: vec![], parts: 1, dim: *dim, factor: *factor, length: 1 })
    }
    let (Some(columns), Some(lines)) = (columns, lines) else { return Err(format!("a tile of `{name}` has no rows or no columns")) };
    if others.len() + 2 > MOST_DIMS {
        return Err(format!("`{name}` has more dimensions than a tensor map"));
    }
    if rows.is_some_and(|r| r.1 > MOST_ROWS) {
        return Err(format!("a tile of `{name}` has more rows than a box"));
    }
    let (others, rest): (Vec<MapDim>, Vec<String>) = others.into_iter().unzip();
    Ok(Boxes { map: TensorMap { tensor, first, dims: [columns, lines].into_iter().chain(others).collect() }, rest, guards })
}
