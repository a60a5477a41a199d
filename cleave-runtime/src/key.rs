//! What the plan of a call depends on, read off its arguments and targets: types, shapes, device, and what guards and assertions ask. A call whose key is known needs no
//! check but of where its memory lies.
use crate::argument::{ArgumentKind, Target};
use crate::call::{Call, Checked, negative};
use crate::device::Device;
use crate::embedded::Decoded;
use crate::outputs::Outputs;
use cleave_core::choose::Facts;
use cleave_core::dtype::DType;

pub(crate) type Key = Vec<u64>;

/// One tensor of a key.
fn push(key: &mut Key, dtype: DType, shape: &[usize], facts: Facts) {
    key.extend([shape.len() as u64 | (dtype as u64) << 8 | (facts.aligned as u64) << 16, facts.unit]);
    key.extend(shape.iter().map(|n| *n as u64))
}

impl<O: Outputs> Call<'_, O> {
    /// `None` of a call that fits no kernel of this signature: its number of arguments is wrong, or they are on several devices.
    pub(crate) fn key(&self, decoded: &Decoded, returned: &[Target]) -> Option<Key> {
        let mut key = self.key_of_arguments(decoded, &self.device())?;
        let device = self.device();
        for (t, dtype) in returned.iter().zip(O::TYPES) {
            if t.dtype != *dtype || t.device() != device {
                return None;
            }
            push(&mut key, t.dtype, &t.layout.shape, t.facts())
        }
        (returned.len() == decoded.returned && returned.len() == O::TYPES.len()).then_some(key)
    }

    /// The key of a call whose outputs are new tensors.
    pub(crate) fn key_of_new(&self, checked: &Checked) -> Key {
        let mut key = self.key_of_arguments(checked.decoded, &checked.device).unwrap_or_default();
        for (shape, dtype) in checked.returned().iter().zip(O::TYPES) {
            let extents: Vec<i64> = shape.iter().map(|n| *n as i64).collect();
            push(&mut key, *dtype, shape, Facts::row_major(&extents, dtype.bytes() as u64, checked.alignment()))
        }
        key
    }

    fn key_of_arguments(&self, decoded: &Decoded, device: &Device) -> Option<Key> {
        let mut key = Vec::with_capacity(64);
        let types = self.types.iter().fold(1, |types, t| types << 4 | *t as u64);
        key.extend([device.id(), self.pieces.unwrap_or(0) as u64, types]);
        for (argument, asked) in self.arguments.iter().zip(&decoded.asked) {
            match &argument.kind {
                ArgumentKind::Scalar { dtype: dtype @ DType::F32, word } => key.push((*dtype as u64) << 8 | negative(*word) as u64),
                ArgumentKind::Scalar { dtype, word } => key.extend([(*dtype as u64) << 8 | 2, if *asked { *word } else { 0 }]),
                ArgumentKind::Tensor(t) | ArgumentKind::InPlace(t, _) if t.device() == *device => push(&mut key, t.dtype, &t.layout.shape, t.facts()),
                _ => return None,
            }
        }
        (self.arguments.len() == decoded.asked.len()).then_some(key)
    }
}
