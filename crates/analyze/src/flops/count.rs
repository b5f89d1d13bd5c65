//! Numbers that cannot overflow unnoticed, and the result of a formula.

use std::iter::Product;
use std::ops::{Add, Mul};

use super::Method;

/// Why something could not be counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gap(pub String);

impl Gap {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// A count in 128 bits that stays at the largest number instead of wrapping; [`Count::fits`] then refuses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Count(pub u128);

impl Count {
    /// The product of dimensions; of none it is 1, a scalar.
    pub(super) fn of(dims: &[u64]) -> Self {
        // A zero anywhere makes the tensor empty, however absurd its other dimensions are.
        if dims.contains(&0) { Self(0) } else { dims.iter().map(|dim| Self::from(*dim)).product() }
    }

    pub(super) fn fits(self) -> Result<u64, Gap> {
        u64::try_from(self.0).map_err(|_| Gap::new("the count exceeds 64 bits: a shape is absurd"))
    }

    /// Rounds up; a division by zero leaves nothing.
    pub(super) fn div_ceil(self, divisor: u64) -> Self {
        if divisor == 0 { Self(0) } else { Self(self.0.div_ceil(u128::from(divisor))) }
    }

    /// Exact division; a remainder means that the shapes contradict each other.
    pub(super) fn divided_by(self, divisor: Count, what: &str) -> Result<Self, Gap> {
        match self.0.checked_rem(divisor.0) {
            Some(0) => Ok(Self(self.0 / divisor.0)),
            _ => Err(Gap::new(format!("{what}: {} cannot be divided by {}", self.0, divisor.0))),
        }
    }
}

impl From<u64> for Count {
    fn from(value: u64) -> Self {
        Self(u128::from(value))
    }
}

impl Mul for Count {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self(self.0.saturating_mul(other.0))
    }
}

impl Mul<u64> for Count {
    type Output = Self;

    fn mul(self, other: u64) -> Self {
        self * Self::from(other)
    }
}

impl Add for Count {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Product for Count {
    fn product<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self(1), Mul::mul)
    }
}

/// The result of a formula.
#[derive(Debug, Clone)]
pub(super) struct Work {
    pub macs: Option<Count>,
    /// FLOPs besides the MACs.
    pub other: Count,
    pub method: Method,
    pub note: Option<&'static str>,
}

impl Work {
    pub(super) fn macs(macs: Count) -> Self {
        Self { macs: Some(macs), other: Count(0), method: Method::Counted, note: None }
    }

    /// FLOPs by a formula, without MACs.
    pub(super) fn counted(flops: Count) -> Self {
        Self { macs: None, other: flops, method: Method::Counted, note: None }
    }

    pub(super) fn elementwise(flops: Count) -> Self {
        Self { macs: None, other: flops, method: Method::Elementwise, note: None }
    }

    pub(super) fn movement() -> Self {
        Self { macs: None, other: Count(0), method: Method::DataMovement, note: None }
    }

    pub(super) fn plus(mut self, flops: Count) -> Self {
        self.other = self.other + flops;
        self
    }

    pub(super) fn plus_macs(mut self, macs: Count) -> Self {
        self.macs = Some(self.macs.unwrap_or_default() + macs);
        self
    }

    pub(super) fn estimated(mut self, how: &str) -> Self {
        self.method = Method::Estimated { how: how.to_owned() };
        self
    }

    pub(super) fn noted(mut self, note: &'static str) -> Self {
        self.note = Some(note);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_saturate_and_are_rejected() {
        let huge = Count::of(&[u64::MAX; 9]);
        assert_eq!(huge, Count(u128::MAX));
        assert!(huge.fits().is_err());
        assert!((huge + huge).fits().is_err());
        assert_eq!(Count::of(&[u64::MAX, u64::MAX, 0]), Count(0));
        assert_eq!(Count::of(&[]).fits(), Ok(1));
        assert_eq!(Count::from(u64::MAX).fits(), Ok(u64::MAX));
    }

    #[test]
    fn division_says_when_shapes_contradict() {
        assert_eq!(Count(12).divided_by(Count(4), "rows"), Ok(Count(3)));
        assert!(Count(12).divided_by(Count(5), "rows").is_err());
        assert!(Count(12).divided_by(Count(0), "rows").is_err());
        assert_eq!(Count(7).div_ceil(2), Count(4));
        assert_eq!(Count(7).div_ceil(0), Count(0));
    }
}
