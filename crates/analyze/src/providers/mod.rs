//! Whose device time an operator used, for every execution provider.
//!
//! A provider that computes in the calling thread (CPU, XNNPACK) takes the time that its operators show. One that hands
//! work to a device shows only how long handing it over took: the device's own time comes from the provider's profile
//! (events of kernels, cycles of QNN), or from what the device was seen to be busy. Times of operators and what nobody
//! accounts for add up to the measured device time exactly; without a measured device time nothing is said.

mod adapters;
mod split;
mod ways;

use serde::Serialize;

pub use adapters::{ProviderAdapter, adapter, adapters};
pub use split::{DeviceTime, MeasuredBy, OperatorShare, split};

/// What one operator did, as far as a profile tells it. Over all runs that are looked at.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OperatorTime {
    pub name: String,
    /// Its own time in the profile of ONNX Runtime: of providers that hand over work, the handing over.
    pub host_ns: u64,
    /// What its provider says of the device: kernels or primitives that carry its name.
    pub device_ns: Option<u64>,
    /// Cycles of the device, as the provider counted them.
    pub cycles: Option<u64>,
    pub flops: Option<u64>,
}

/// What is known about the device in the same time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DeviceWindow {
    /// How long the device worked, where something measured it.
    pub busy_ns: Option<u64>,
    /// How long the calls took in which the provider may compute.
    pub run_ns: u64,
    /// Whether this provider, which can do both, computes in the calling thread here.
    pub is_in_call: bool,
    /// Cycles of whole executions, as the provider counted them.
    pub cycles: Option<u64>,
}

/// The device time of one operator, and how it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "method", rename_all = "snake_case")]
pub enum Attribution {
    /// The operator's own time was measured.
    Measured {
        ns: u64,
    },
    /// A measured time was divided by a measured share.
    Attributed {
        ns: u64,
        by: &'static str,
    },
    /// A measured time was divided by a share that is a guess.
    Estimated {
        ns: u64,
        by: &'static str,
    },
    Unknown,
}

impl Attribution {
    pub fn ns(self) -> Option<u64> {
        match self {
            Self::Measured { ns } | Self::Attributed { ns, .. } | Self::Estimated { ns, .. } => Some(ns),
            Self::Unknown => None,
        }
    }

    /// `measured`, `attributed`, `estimated` or `unknown`.
    pub fn method(self) -> &'static str {
        match self {
            Self::Measured { .. } => "measured",
            Self::Attributed { .. } => "attributed",
            Self::Estimated { .. } => "estimated",
            Self::Unknown => "unknown",
        }
    }

    /// What a measured time was divided by.
    pub fn by(self) -> Option<&'static str> {
        match self {
            Self::Attributed { by, .. } | Self::Estimated { by, .. } => Some(by),
            Self::Measured { .. } | Self::Unknown => None,
        }
    }
}
