//! Made-up operands: normally distributed, the same at every run.
use cleave::{Device, Element, Result, Tensor};

/// Values drawn before they repeat: no power of two, so that no two rows are equal, and few enough to draw at once.
const PERIOD: usize = 1_000_003;

/// A source of normally distributed numbers.
pub struct Normal(u64);

impl Normal {
    pub fn new(seed: u64) -> Self {
        Normal(seed)
    }
    /// A uniform 64-bit number (SplitMix64).
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
    /// A number of mean 0 and deviation 1 (Box and Muller's transform).
    pub fn sample(&mut self) -> f32 {
        let uniform = |bits: u64| ((bits >> 40) as f32 + 0.5) / (1u64 << 24) as f32;
        let (u, v) = (uniform(self.bits()), uniform(self.bits()));
        (-2.0 * u.ln()).sqrt() * (std::f32::consts::TAU * v).cos()
    }
    /// A tensor of deviation `scale`.
    pub fn tensor<T: Element>(&mut self, device: &Device, shape: &[usize], scale: f32) -> Result<Tensor<T>> {
        let len = shape.iter().product();
        let drawn: Vec<T> = (0..PERIOD.min(len)).map(|_| T::from_f32(scale * self.sample())).collect();
        let values: Vec<T> = drawn.iter().copied().cycle().take(len).collect();
        Tensor::from_slice_on(device, &values, shape)
    }
}
