//! Device lanes of providers that report nothing about their compiled parts but compute synchronously: the device is busy
//! for the duration of the call.

use std::collections::BTreeSet;

use ortscope_core::schema::{OperatorKind, OperatorRow};
use ortscope_ort::ep::{DeviceClass, UsedDevice};

use super::device_time::is_kernel_by_kernel;

/// Maximum number of calls; a window has at most 100,000 events.
const MAX_CALLS: usize = 100_000;

#[derive(Debug)]
pub struct CallLanes {
    /// Providers that compute synchronously and have reported no device rows so far.
    silent: BTreeSet<String>,
    calls: Vec<OperatorRow>,
}

impl CallLanes {
    pub fn new(used: &[UsedDevice]) -> Self {
        let in_call = used.iter().filter(|used| {
            used.class == DeviceClass::Cpu && !used.is_simulated && !is_kernel_by_kernel(&used.provider)
        });
        Self { silent: in_call.map(|used| used.provider.clone()).collect(), calls: Vec::new() }
    }

    /// This provider reports its own device rows.
    pub fn has_own(&mut self, provider: &str) {
        if self.silent.remove(provider) {
            self.calls.retain(|row| &*row.execution_provider != provider);
        }
    }

    /// A row of the profile.
    pub fn add(&mut self, row: &OperatorRow) {
        let is_call = row.kind == OperatorKind::Operator && row.run.is_some();
        if is_call && self.silent.contains(&*row.execution_provider) && self.calls.len() < MAX_CALLS {
            self.calls.push(OperatorRow {
                kind: "other".into(),
                thread: 0,
                // These belong to the row of the call.
                parameter_bytes: None,
                flops: None,
                ..row.clone()
            });
        }
    }

    /// The device rows, after the last row of the profile.
    pub fn rows(&self) -> impl Iterator<Item = &OperatorRow> {
        self.calls.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(provider: &str, class: DeviceClass) -> UsedDevice {
        UsedDevice {
            provider: provider.to_owned(),
            class,
            name: None,
            is_simulated: false,
            facts: Default::default(),
        }
    }

    fn call(provider: &str) -> OperatorRow {
        OperatorRow {
            timestamp_ns: 5,
            duration_ns: 70,
            run: Some(1),
            kind: "operator".into(),
            name: "part".into(),
            thread: 9,
            device: "CPU".into(),
            execution_provider: provider.into(),
            ..OperatorRow::default()
        }
    }

    #[test]
    fn a_provider_that_computes_in_the_call_has_a_lane() {
        let used = [
            used("OpenVINOExecutionProvider", DeviceClass::Cpu),
            used("CPUExecutionProvider", DeviceClass::Cpu),
            used("QNNExecutionProvider", DeviceClass::Npu),
        ];
        let mut lanes = CallLanes::new(&used);
        for provider in ["OpenVINOExecutionProvider", "CPUExecutionProvider", "QNNExecutionProvider"] {
            lanes.add(&call(provider));
        }
        let rows: Vec<_> =
            lanes.rows().map(|row| (&*row.kind, &*row.execution_provider, row.thread)).collect();
        assert_eq!(rows, [("other", "OpenVINOExecutionProvider", 0)]);
        // The provider's own rows are better.
        lanes.has_own("OpenVINOExecutionProvider");
        lanes.add(&call("OpenVINOExecutionProvider"));
        assert_eq!(lanes.rows().count(), 0);
    }
}
