//! The start of a profile on our clock.

use ortscope_core::clock::{ClockDomain, WallAnchor};

/// Times in a profile are truncated to microseconds.
const RESOLUTION_NS: u64 = 1000;

/// The start of a profile on the monotonic clock. Times in the profile are relative to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProfileStart {
    /// Unknown, as for an imported file: times are relative to the start of the profile.
    #[default]
    Unknown,
    At {
        monotonic_ns: u64,
        /// Uncertainty.
        error_ns: u64,
    },
}

impl ProfileStart {
    /// From `SessionGetProfilingStartTimeNs` on Windows, where ONNX Runtime uses the monotonic clock.
    pub fn from_monotonic_ns(monotonic_ns: u64) -> Self {
        Self::At { monotonic_ns, error_ns: 0 }
    }

    /// From `SessionGetProfilingStartTimeNs` elsewhere, where ONNX Runtime uses the wall clock. `None` if the
    /// profile started before the machine did.
    pub fn from_unix_ns(unix_ns: u64, anchor: &WallAnchor) -> Option<Self> {
        let since_anchor = i128::from(unix_ns) - i128::from(anchor.unix_ns);
        let monotonic_ns = u64::try_from(i128::from(anchor.monotonic_ns) + since_anchor).ok()?;
        Some(Self::At { monotonic_ns, error_ns: anchor.error_ns })
    }

    /// The profile's clock: `monotonic = time in the profile + offset`.
    pub fn clock_domain(&self) -> ClockDomain {
        let (offset_ns, error_ns) = match self {
            Self::Unknown => (0, 0),
            Self::At { monotonic_ns, error_ns } => (*monotonic_ns, *error_ns),
        };
        ClockDomain {
            name: "onnxruntime profile".to_owned(),
            offset_ns: i64::try_from(offset_ns).unwrap_or(i64::MAX),
            error_ns: error_ns.saturating_add(RESOLUTION_NS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_time_is_converted_by_the_anchor() {
        let anchor = WallAnchor { monotonic_ns: 1_000, unix_ns: 50_000, error_ns: 7 };
        let start = ProfileStart::from_unix_ns(50_500, &anchor).unwrap();
        assert_eq!(start, ProfileStart::At { monotonic_ns: 1_500, error_ns: 7 });
        let domain = start.clock_domain();
        assert_eq!((domain.to_monotonic(20), domain.error_ns), (Some(1_520), 1_007));
        assert_eq!(ProfileStart::from_unix_ns(48_000, &anchor), None);
        assert_eq!(ProfileStart::Unknown.clock_domain().to_monotonic(5), Some(5));
        assert_eq!(ProfileStart::from_monotonic_ns(9).clock_domain().offset_ns, 9);
    }
}
