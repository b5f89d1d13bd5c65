//! The ways in which an operator's device time can be known. Each provider has one.

use super::{Attribution, DeviceWindow, OperatorTime};

/// One of the functions below.
pub(super) type Way = fn(&OperatorTime, &DeviceWindow) -> Attribution;

/// Computes in the calling thread: the time in the profile is the device's.
pub(super) fn in_the_call(operator: &OperatorTime, _window: &DeviceWindow) -> Attribution {
    Attribution::Measured { ns: operator.host_ns }
}

/// Hands work over: kernels that name the operator, otherwise its part of the device's busy time by FLOPs, a guess.
pub(super) fn by_kernels(operator: &OperatorTime, window: &DeviceWindow) -> Attribution {
    if let Some(ns) = operator.device_ns {
        return Attribution::Measured { ns };
    }
    // A weight so far: `split`, which knows all operators, makes times of them.
    match (window.busy_ns, operator.flops) {
        (Some(_), Some(flops)) => Attribution::Estimated { ns: flops, by: "share of the FLOPs" },
        _ => Attribution::Unknown,
    }
}

/// The device counts cycles by node.
pub(super) fn by_cycles(operator: &OperatorTime, window: &DeviceWindow) -> Attribution {
    match (operator.cycles, window.cycles, window.busy_ns) {
        (Some(cycles), Some(all @ 1..), Some(busy_ns)) => {
            let ns = u128::from(busy_ns) * u128::from(cycles) / u128::from(all);
            let ns = u64::try_from(ns).unwrap_or(u64::MAX);
            Attribution::Attributed { ns, by: "share of the device's cycles" }
        }
        _ => by_kernels(operator, window),
    }
}

/// Computes in the call on a CPU and hands over to other devices: which of both is known by the session's device.
pub(super) fn by_device_or_call(operator: &OperatorTime, window: &DeviceWindow) -> Attribution {
    match operator.device_ns {
        None if window.is_in_call => in_the_call(operator, window),
        _ => by_kernels(operator, window),
    }
}

/// Nothing is known beforehand: the most exact that a profile offers.
pub(super) fn by_what_is_there(operator: &OperatorTime, window: &DeviceWindow) -> Attribution {
    match by_cycles(operator, window) {
        Attribution::Unknown => by_device_or_call(operator, window),
        Attribution::Estimated { .. } if window.is_in_call => in_the_call(operator, window),
        known => known,
    }
}
