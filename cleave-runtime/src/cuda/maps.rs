//! Tensor maps: how TMA reads the tensors of a launch. What the extents tell is worked out once; a call encodes a map anew only where its
//! tensor has moved, or has other strides than at the call before.
use crate::error::{Doing, Result};
use cleave_core::dtype::DType;
use cleave_core::graph::{Access, Factor};
use cleave_core::plan::{TensorMap, TensorRef};
use cudarc::driver::sys;
use std::sync::{Mutex, PoisonError};

/// 64-bit words of an encoded map.
pub(super) const WORDS: usize = 16;
const MOST_DIMS: usize = 5;
/// The stride in bytes of a dim of one position, which is never used but must be one that could be.
const ANY_STRIDE: u64 = 16;

/// A dim of a map, as far as the extents tell it: its stride is `inner` times that of the tensor's dimension `dim`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Dim {
    size: u64,
    dim: usize,
    inner: u64,
    length: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Map {
    pub tensor: TensorRef,
    dtype: DType,
    /// The first element lies at the sum of the dimension's stride times this.
    first: Vec<(usize, u64)>,
    dims: Vec<Dim>,
}

/// What a map was encoded from, and the result.
#[derive(Clone, Copy, Debug, Default)]
struct Encoded {
    address: u64,
    strides: [u64; MOST_DIMS],
    words: [u64; WORDS],
}

/// The maps of a launch with what the last call made of them.
#[derive(Default)]
pub(super) struct Maps {
    maps: Vec<Map>,
    encoded: Mutex<Vec<Encoded>>,
}

impl Map {
    /// `None` if the map contradicts the storage of its tensor.
    pub fn new(map: &TensorMap, storage: &Access, dtype: DType, extents: &[i64]) -> Option<Map> {
        let size = |f: &Factor| match f {
            Factor::Axis(a) => extents.get(a.0 as usize).map(|n| (*n).max(0) as u64),
            Factor::Part { of, .. } => Some(*of as u64),
        };
        let inner = |dim: u32, factor: u32| storage.dims.get(dim as usize)?.get(factor as usize + 1..)?.iter().map(size).product::<Option<u64>>();
        let first = map.first.iter().map(|(d, f, index)| Some((*d as usize, inner(*d, *f)? * *index as u64))).collect::<Option<_>>()?;
        let dim = |d: &cleave_core::plan::MapDim| {
            let size: u64 = d.axes.iter().map(|a| extents.get(a.0 as usize).map(|n| (*n).max(0) as u64)).product::<Option<u64>>()?;
            let size = size * d.parts as u64;
            Some(Dim { size: size.max(1), dim: d.dim as usize, inner: inner(d.dim, d.factor)?, length: d.length })
        };
        let dims: Vec<Dim> = map.dims.iter().map(dim).collect::<Option<_>>()?;
        (2..=MOST_DIMS).contains(&dims.len()).then_some(Map { tensor: map.tensor, dtype, first, dims })
    }
    /// The address of the first element and the strides of the dims in bytes.
    fn place(&self, address: u64, strides: &[usize]) -> (u64, [u64; MOST_DIMS]) {
        let bytes = self.dtype.bytes() as u64;
        let stride = |dim: usize| strides.get(dim).copied().unwrap_or(0) as u64 * bytes;
        let first: u64 = self.first.iter().map(|(dim, n)| stride(*dim) * n).sum();
        let mut all = [ANY_STRIDE; MOST_DIMS];
        for (s, d) in all.iter_mut().zip(&self.dims) {
            if d.size > 1 {
                *s = stride(d.dim) * d.inner
            }
        }
        (address + first, all)
    }
    fn encode(&self, address: u64, strides: &[u64; MOST_DIMS]) -> Result<[u64; WORDS]> {
        let dtype = match self.dtype {
            DType::F16 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
            DType::BF16 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
            DType::F32 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
            DType::I32 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_INT32,
        };
        let (mut sizes, mut boxes) = ([1u64; MOST_DIMS], [1u32; MOST_DIMS]);
        for (i, d) in self.dims.iter().enumerate() {
            (sizes[i], boxes[i]) = (d.size, d.length)
        }
        let mut map = sys::CUtensorMap { opaque: [0; WORDS] };
        // SAFETY: all arrays hold as many elements as the rank asks for; the driver checks the values and keeps no reference
        unsafe {
            sys::cuTensorMapEncodeTiled(
                &mut map,
                dtype,
                self.dims.len() as u32,
                address as *mut std::ffi::c_void,
                sizes.as_ptr(),
                strides[1..].as_ptr(),
                boxes.as_ptr(),
                [1u32; MOST_DIMS].as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
                sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        }
        .result()
        .doing(|| "encoding a tensor map".into())?;
        Ok(map.opaque)
    }
}

impl Maps {
    pub fn new(maps: Vec<Map>) -> Maps {
        Maps { maps, encoded: Mutex::default() }
    }
    pub fn is_empty(&self) -> bool {
        self.maps.is_empty()
    }
    /// Appends the maps for tensors at these places: `(address, strides in elements)`.
    pub fn write<'a>(&self, place: impl Fn(TensorRef) -> (u64, &'a [usize]), words: &mut Vec<u64>) -> Result<()> {
        if self.maps.is_empty() {
            return Ok(());
        }
        let mut encoded = self.encoded.lock().unwrap_or_else(PoisonError::into_inner);
        encoded.resize(self.maps.len(), Encoded::default());
        for (map, last) in self.maps.iter().zip(encoded.iter_mut()) {
            let (address, strides) = place(map.tensor);
            let (address, strides) = map.place(address, strides);
            if last.address != address || last.strides != strides {
                *last = Encoded { address, strides, words: map.encode(address, &strides)? }
            }
            words.extend(last.words)
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cleave_core::axis::AxisId;
    use cleave_core::graph::InputId;
    use cleave_core::plan::MapDim;

    #[test]
    fn a_map_follows_from_extents_and_strides() {
        let [k, g, m, d] = [0, 1, 2, 3].map(AxisId);
        let storage =
            Access { dims: vec![vec![Factor::Axis(k), Factor::Axis(g)], vec![Factor::Axis(m), Factor::Part { index: 1, of: 2 }], vec![Factor::Axis(d)]] };
        let dim = |axes: &[AxisId], dim, factor, length| MapDim { axes: axes.to_vec(), parts: 1, dim, factor, length };
        let map = TensorMap {
            tensor: TensorRef::Input(InputId(0)),
            first: vec![(1, 1, 1)],
            dims: vec![dim(&[d], 2, 0, 64), dim(&[m], 1, 0, 128), dim(&[k, g], 0, 1, 1)],
        };
        let map = Map::new(&map, &storage, DType::BF16, &[3, 1, 70, 72]).unwrap();
        assert_eq!(map.dims.iter().map(|d| d.size).collect::<Vec<_>>(), [72, 70, 3]);
        // rows of the second dimension lie 80 elements apart, every other one belongs to the part
        assert_eq!(map.place(4096, &[11200, 80, 1]), (4096 + 160, [2, 320, 22400, ANY_STRIDE, ANY_STRIDE]));
        assert_eq!(map.place(4096, &[7, 80, 1]).1[2], 14)
    }

    #[test]
    fn parts_that_are_taken_whole_lie_side_by_side() {
        let [m, f] = [0, 1].map(AxisId);
        let storage = Access { dims: vec![vec![Factor::Axis(m)], vec![Factor::Axis(f), Factor::Part { index: 0, of: 2 }]] };
        let dims = vec![MapDim { axes: vec![f], parts: 2, dim: 1, factor: 1, length: 64 }, MapDim { axes: vec![m], parts: 1, dim: 0, factor: 0, length: 64 }];
        let map = Map::new(&TensorMap { tensor: TensorRef::Output(0), first: vec![], dims }, &storage, DType::F16, &[5, 48]).unwrap();
        assert_eq!(map.dims.iter().map(|d| d.size).collect::<Vec<_>>(), [96, 5]);
        assert_eq!(map.place(0, &[96, 1]).1[..2], [2, 192])
    }

    #[test]
    fn a_map_of_dims_that_the_tensor_lacks_is_a_damaged_plan() {
        let map =
            TensorMap { tensor: TensorRef::Output(0), first: vec![], dims: vec![MapDim { axes: vec![AxisId(0)], parts: 1, dim: 4, factor: 0, length: 64 }] };
        assert_eq!(Map::new(&map, &Access::plain([AxisId(0)]), DType::F16, &[64]), None)
    }
}
