//! Divides the time of a device among operators so that nothing is lost and nothing is invented.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Attribution, DeviceWindow, DividedBy, OperatorTime, ProviderAdapter};

/// The time of one device by operators.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceTime {
    /// Measured.
    pub device_ns: u64,
    pub measured_by: MeasuredBy,
    /// In the order that was given.
    pub operators: Vec<OperatorShare>,
    /// Device time that no operator accounts for: all of `device_ns` that is not in `operators`.
    pub unattributed_ns: u64,
    /// Operators without any data.
    pub unknown_operators: u64,
    /// Operators ran at once: their own times were larger than the device's, and were scaled to it.
    pub is_scaled: bool,
}

/// Where a measured device time comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MeasuredBy {
    /// The device, its driver or its provider reported the busy time.
    Device,
    /// The sum of kernels that the provider reported.
    Kernels,
    /// The provider computes in the calls, whose time is ONNX Runtime's.
    Calls,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperatorShare {
    pub name: String,
    #[serde(flatten)]
    pub attribution: Attribution,
}

/// `None` if nothing measured how long the device worked: then there is nothing to divide.
pub fn split(
    adapter: &ProviderAdapter,
    operators: &[OperatorTime],
    window: &DeviceWindow,
) -> Option<DeviceTime> {
    let found: Vec<Attribution> =
        operators.iter().map(|operator| adapter.attribute(operator, window)).collect();
    let sum = |estimates: bool| -> u128 {
        let of = found.iter().filter(|found| matches!(found, Attribution::Estimated { .. }) == estimates);
        of.filter_map(|found| found.ns()).map(u128::from).sum()
    };
    // Estimates are weights so far; the others are times.
    let (known, weights) = (sum(false), sum(true));
    let has_kernels = operators.iter().any(|operator| operator.device_ns.is_some());
    let in_calls = found.iter().any(|found| matches!(found, Attribution::Measured { .. }));
    let (device_ns, measured_by) = match window.busy_ns {
        Some(busy_ns) if window.is_in_call => (busy_ns, MeasuredBy::Calls),
        Some(busy_ns) => (busy_ns, MeasuredBy::Device),
        None if has_kernels => (u64::try_from(known).unwrap_or(u64::MAX), MeasuredBy::Kernels),
        None if in_calls && window.run_ns > 0 => (window.run_ns, MeasuredBy::Calls),
        None => return None,
    };
    let room = u128::from(device_ns);
    let is_scaled = known > room;
    let left = room.saturating_sub(known);
    let mut attributed: u64 = 0;
    let mut shares = Vec::with_capacity(operators.len());
    for (operator, found) in operators.iter().zip(found) {
        // Rounded down, so that the sum is never more than there is.
        let part = |ns: u64, of: u128, whole: u128| {
            u64::try_from(u128::from(ns) * of / whole.max(1)).unwrap_or(u64::MAX)
        };
        let attribution = match found {
            Attribution::Measured { ns } if is_scaled => {
                Attribution::Attributed { ns: part(ns, room, known), by: DividedBy::Scaled }
            }
            Attribution::Attributed { ns, by } if is_scaled => {
                Attribution::Attributed { ns: part(ns, room, known), by }
            }
            Attribution::Estimated { ns, by } => Attribution::Estimated { ns: part(ns, left, weights), by },
            as_it_is => as_it_is,
        };
        attributed += attribution.ns().unwrap_or(0);
        shares.push(OperatorShare { name: operator.name.clone(), attribution });
    }
    let unknown = shares.iter().filter(|share| share.attribution == Attribution::Unknown).count();
    Some(DeviceTime {
        device_ns,
        measured_by,
        operators: shares,
        unattributed_ns: device_ns - attributed,
        unknown_operators: unknown as u64,
        is_scaled,
    })
}

impl DeviceTime {
    /// Joules of each operator by its share of the device's time, and the unattributed rest; together they equal
    /// `measured`. Attributed: no meter sees an operator.
    pub fn joules(&self, measured: f64) -> (Vec<f64>, f64) {
        let of = |ns: u64| measured * ns as f64 / self.device_ns.max(1) as f64;
        let each = self.operators.iter().map(|share| of(share.attribution.ns().unwrap_or(0))).collect();
        (each, of(self.unattributed_ns))
    }

    /// How the time of operators is known: the least exact of them.
    pub fn method(&self) -> &'static str {
        const METHODS: [&str; 4] = ["unknown", "estimated", "attributed", "measured"];
        let has = |method: &&&str| self.operators.iter().any(|of| of.attribution.method() == **method);
        METHODS.iter().find(has).copied().unwrap_or("unknown")
    }
}
