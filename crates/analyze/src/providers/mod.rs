//! Attribution of device time to operators, for every execution provider.
//!
//! For a provider that computes in the calling thread (CPU, XNNPACK), device time is the time its operators show. A
//! provider that offloads shows only the submission time: the device's own time comes from the provider's profile
//! (kernel events, QNN cycles), or from the observed device utilization. Operator times and the unattributed rest add
//! up to the measured device time exactly; without a measured device time there is no attribution.

mod adapters;
mod split;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use adapters::{ProviderAdapter, adapter, adapters};
pub use split::{DeviceTime, MeasuredBy, OperatorShare, split};

/// Profile data of one operator over all analyzed runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OperatorTime {
    pub name: String,
    /// Its own time in the profile of ONNX Runtime: of providers that hand over work, the handing over.
    pub host_ns: u64,
    /// Device time reported by its provider: kernels or primitives with its name.
    pub device_ns: Option<u64>,
    /// Cycles of the device, as the provider counted them.
    pub cycles: Option<u64>,
    pub flops: Option<u64>,
}

/// Observations of the device over the same time.
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

/// The measured or estimated share that a device time was divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DividedBy {
    #[serde(rename = "share of the FLOPs")]
    Flops,
    #[serde(rename = "share of the device's cycles")]
    DeviceCycles,
    #[serde(rename = "scaled: operators ran at once")]
    Scaled,
}

impl DividedBy {
    pub fn name(self) -> &'static str {
        match self {
            Self::Flops => "share of the FLOPs",
            Self::DeviceCycles => "share of the device's cycles",
            Self::Scaled => "scaled: operators ran at once",
        }
    }
}

/// The device time of one operator, and how it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "method", rename_all = "snake_case")]
pub enum Attribution {
    /// The operator's own time was measured.
    Measured {
        ns: u64,
    },
    /// A measured time was divided by a measured share.
    Attributed {
        ns: u64,
        by: DividedBy,
    },
    /// A measured time was divided by a share that is a guess.
    Estimated {
        ns: u64,
        by: DividedBy,
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
    pub fn by(self) -> Option<DividedBy> {
        match self {
            Self::Attributed { by, .. } | Self::Estimated { by, .. } => Some(by),
            Self::Measured { .. } | Self::Unknown => None,
        }
    }
}
