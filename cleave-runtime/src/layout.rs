//! Shapes and strides: where the elements of a tensor lie in its memory. Every layout stays within the memory that it was
//! made for, so that no view can reach beyond it.
use crate::error::Error;
use smallvec::SmallVec;
use std::ops::Range;

/// Sizes or strides; of up to six dimensions without an allocation.
pub(crate) type Dims = SmallVec<[usize; 6]>;

/// Offset, sizes and strides of a strided tensor, in elements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub offset: usize,
    pub shape: Dims,
    pub strides: Dims,
}

/// The strides of contiguous rows: the last dimension has stride 1.
pub(crate) fn row_major(shape: &[usize]) -> Dims {
    let mut strides = Dims::from_elem(1, shape.len());
    for d in (1..shape.len()).rev() {
        strides[d - 1] = strides[d] * shape[d].max(1)
    }
    strides
}

/// The number of elements; `None` if it does not fit.
pub(crate) fn count(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1usize, |n, s| n.checked_mul(*s))
}

impl Layout {
    pub fn contiguous(shape: &[usize]) -> Result<Layout, Error> {
        match count(shape) {
            Some(n) if n <= isize::MAX as usize / 8 => Ok(Layout { offset: 0, shape: shape.into(), strides: row_major(shape) }),
            _ => Err(Error::Shape(format!("a tensor of shape {shape:?} does not fit in memory"))),
        }
    }
    /// A layout within memory of `len` elements.
    pub fn strided(shape: &[usize], strides: &[usize], len: usize) -> Result<Layout, Error> {
        if shape.len() != strides.len() {
            return Err(Error::Shape(format!("{} sizes but {} strides", shape.len(), strides.len())));
        }
        let layout = Layout { offset: 0, shape: shape.into(), strides: strides.into() };
        match layout.span() {
            Some(n) if n <= len => Ok(layout),
            _ => Err(Error::Shape(format!("shape {shape:?} with strides {strides:?} reaches beyond its {len} elements"))),
        }
    }
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }
    /// Elements from the first to the last, both included; 0 of an empty tensor. `None` if it does not fit.
    pub fn span(&self) -> Option<usize> {
        if self.shape.contains(&0) {
            return Some(0);
        }
        self.shape.iter().zip(&self.strides).try_fold(1usize, |n, (s, t)| n.checked_add((s - 1).checked_mul(*t)?))
    }
    pub fn is_contiguous(&self) -> bool {
        self.len() == 0 || self.shape.iter().zip(&self.strides).zip(row_major(&self.shape)).all(|((s, t), r)| *s == 1 || *t == r)
    }
    /// Whether two positions may share an element. Sorted by stride, each dimension must step over all the inner ones.
    pub fn overlaps_itself(&self) -> bool {
        if self.is_contiguous() {
            return false;
        }
        let mut dims: SmallVec<[(usize, usize); 6]> = self.strides.iter().copied().zip(self.shape.iter().copied()).filter(|d| d.1 > 1).collect();
        dims.sort_unstable();
        let mut reach = 0;
        self.len() > 0
            && dims.into_iter().any(|(stride, size)| {
                let clash = stride <= reach;
                reach += stride * (size - 1);
                clash
            })
    }
    fn dim(&self, dim: usize) -> Result<usize, Error> {
        self.shape.get(dim).copied().ok_or_else(|| Error::Shape(format!("no dimension {dim} in shape {:?}", self.shape)))
    }
    pub fn slice(mut self, dim: usize, range: Range<usize>) -> Result<Layout, Error> {
        let size = self.dim(dim)?;
        if range.start > range.end || range.end > size {
            return Err(Error::Shape(format!("{range:?} is no part of dimension {dim}, which has size {size}")));
        }
        self.shape[dim] = range.len();
        if self.len() > 0 {
            self.offset += range.start * self.strides[dim]
        }
        Ok(self)
    }
    pub fn permute(self, order: &[usize]) -> Result<Layout, Error> {
        let mut sorted = Dims::from(order);
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..self.shape.len()) {
            return Err(Error::Shape(format!("{order:?} is no order of {} dimensions", self.shape.len())));
        }
        let pick = |v: &[usize]| order.iter().map(|&d| v[d]).collect();
        Ok(Layout { offset: self.offset, shape: pick(&self.shape), strides: pick(&self.strides) })
    }
    pub fn reshape(self, shape: &[usize]) -> Result<Layout, Error> {
        if count(shape) != Some(self.len()) {
            return Err(Error::Shape(format!("shape {:?} has {} elements, {shape:?} has another number", self.shape, self.len())));
        }
        if !self.is_contiguous() {
            return Err(Error::Shape(format!("only a contiguous tensor can be reshaped, this one has shape {:?} and strides {:?}", self.shape, self.strides)));
        }
        Ok(Layout { offset: self.offset, shape: shape.into(), strides: row_major(shape) })
    }
    /// Calls `f(position in row-major order, offset, length)` for each run of elements that are adjacent in memory.
    pub fn runs(&self, mut f: impl FnMut(usize, usize, usize)) {
        if self.len() == 0 {
            return;
        }
        if self.is_contiguous() {
            return f(0, self.offset, self.len());
        }
        let (inner, rows) = match (self.shape.split_last(), self.strides.last()) {
            (Some((n, rows)), Some(1)) => (*n, rows),
            _ => (1, &self.shape[..]),
        };
        let mut index = vec![0; rows.len()];
        for row in 0..rows.iter().product::<usize>() {
            let offset = index.iter().zip(&self.strides).map(|(i, s)| i * s).sum::<usize>();
            f(row * inner, self.offset + offset, inner);
            for d in (0..rows.len()).rev() {
                index[d] += 1;
                if index[d] < rows[d] {
                    break;
                }
                index[d] = 0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_stays_within_its_memory() {
        assert!(Layout::strided(&[2, 3], &[3, 1], 6).is_ok());
        assert!(Layout::strided(&[2, 3], &[4, 1], 6).is_err());
        assert!(Layout::strided(&[2, 3], &[usize::MAX, 1], 6).is_err());
        assert!(Layout::strided(&[0, 3], &[100, 1], 0).is_ok());
        assert!(Layout::contiguous(&[usize::MAX, 2]).is_err());
    }

    #[test]
    fn only_layouts_that_share_no_element_may_be_written() {
        let overlaps = |shape: &[usize], strides: &[usize]| Layout::strided(shape, strides, 1000).unwrap().overlaps_itself();
        assert!(!overlaps(&[2, 3], &[3, 1]) && !overlaps(&[3, 2], &[1, 3]) && !overlaps(&[4, 1], &[1, 0]));
        assert!(overlaps(&[2, 3], &[0, 1]) && overlaps(&[2, 3], &[2, 1]));
    }

    #[test]
    fn runs_visit_every_element_in_row_major_order() {
        let l = Layout::contiguous(&[2, 3, 4]).unwrap().permute(&[1, 0, 2]).unwrap().slice(2, 1..3).unwrap();
        let mut seen = vec![];
        l.runs(|at, offset, n| {
            assert_eq!(at, seen.len());
            seen.extend(offset..offset + n)
        });
        let want: Vec<usize> = (0..3).flat_map(|j| (0..2).flat_map(move |i| (1..3).map(move |k| i * 12 + j * 4 + k))).collect();
        assert_eq!(seen, want);
    }
}
