//! Tensors in strided memory of a storage type, with NaN in the gaps.
use cleave_core::dtype::DType;
use cleave_core::oracle::Tensor;
use cleave_runtime::cpu::Storage;
use half::{bf16, f16};

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Layout {
    /// Row-major.
    Dense,
    /// Row-major with unused elements after each row of every dimension.
    Gaps,
    /// The first dimension innermost.
    Reversed,
}

pub struct Memory {
    shape: Vec<i64>,
    strides: Vec<i64>,
    dtype: DType,
    bytes: Vec<u8>,
}

/// The nearest value of a storage type.
pub fn round(dtype: DType, x: f64) -> f64 {
    match dtype {
        DType::F32 => x as f32 as f64,
        DType::F16 => f16::from_f32(x as f32).to_f64(),
        DType::BF16 => bf16::from_f32(x as f32).to_f64(),
        DType::I32 => x,
    }
}

impl Memory {
    pub fn empty(shape: Vec<i64>, dtype: DType, layout: Layout) -> Self {
        let rank = shape.len();
        let mut strides = vec![0; rank];
        let mut size = 1;
        for i in 0..rank {
            let d = if layout == Layout::Reversed { i } else { rank - 1 - i };
            strides[d] = size;
            size *= shape[d].max(1) + if layout == Layout::Gaps { 2 } else { 0 }
        }
        let mut memory = Memory { bytes: vec![0; size as usize * dtype.bytes()], shape, strides, dtype };
        for i in 0..size as usize {
            memory.set(i, f64::NAN)
        }
        memory
    }
    pub fn of(t: &Tensor, dtype: DType, layout: Layout) -> Self {
        let mut memory = Self::empty(t.shape.clone(), dtype, layout);
        for (place, x) in memory.places().into_iter().zip(&t.values) {
            memory.set(place, *x)
        }
        memory
    }
    pub fn storage(&mut self) -> Storage<'_> {
        Storage { address: self.bytes.as_mut_ptr(), dtype: self.dtype, strides: &self.strides }
    }
    /// The values; nothing may have been written into a gap.
    pub fn read(&self) -> Tensor {
        let places = self.places();
        for i in (0..self.bytes.len() / self.dtype.bytes()).filter(|i| !places.contains(i)) {
            assert!(self.get(i).is_nan(), "element {i} is outside of the tensor, and was written")
        }
        Tensor { shape: self.shape.clone(), values: places.iter().map(|p| self.get(*p)).collect() }
    }
    /// Where the elements are, in row-major order.
    fn places(&self) -> Vec<usize> {
        let count: i64 = self.shape.iter().product();
        let place = |mut i: i64| {
            let mut at = 0;
            for (n, s) in self.shape.iter().zip(&self.strides).rev() {
                at += i % n * s;
                i /= n
            }
            at as usize
        };
        (0..count).map(place).collect()
    }
    fn set(&mut self, i: usize, x: f64) {
        let at = i * self.dtype.bytes();
        match self.dtype {
            DType::F32 => self.bytes[at..at + 4].copy_from_slice(&(x as f32).to_ne_bytes()),
            DType::F16 => self.bytes[at..at + 2].copy_from_slice(&f16::from_f32(x as f32).to_ne_bytes()),
            DType::BF16 => self.bytes[at..at + 2].copy_from_slice(&bf16::from_f32(x as f32).to_ne_bytes()),
            DType::I32 => self.bytes[at..at + 4].copy_from_slice(&(if x.is_nan() { i32::MIN } else { x as i32 }).to_ne_bytes()),
        }
    }
    fn get(&self, i: usize) -> f64 {
        let at = i * self.dtype.bytes();
        match self.dtype {
            DType::F32 => f32::from_ne_bytes([self.bytes[at], self.bytes[at + 1], self.bytes[at + 2], self.bytes[at + 3]]) as f64,
            DType::F16 => f16::from_ne_bytes([self.bytes[at], self.bytes[at + 1]]).to_f64(),
            DType::BF16 => bf16::from_ne_bytes([self.bytes[at], self.bytes[at + 1]]).to_f64(),
            DType::I32 => i32::from_ne_bytes([self.bytes[at], self.bytes[at + 1], self.bytes[at + 2], self.bytes[at + 3]]) as f64,
        }
    }
}
