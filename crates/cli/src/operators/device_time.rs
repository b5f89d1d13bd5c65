//! Whose device time, and whose energy, the operators of each provider are.

use std::collections::BTreeMap;

use ortscope_analyze::operators::{EventKind, OperatorReport};
use ortscope_analyze::providers::{Attribution, DeviceWindow, OperatorTime, adapter, split};
use ortscope_decode::qnn_profile::QnnProfile;
use serde::Serialize;

/// Operators that are listed, the costliest first; all are in the sums.
const MOST_OPERATORS: usize = 100;

/// The time of one provider's device in the profiled runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProviderTime {
    pub provider: String,
    /// Devices it may use, as the table of samples names them.
    pub devices: Vec<&'static str>,
    /// Where its own profile comes from.
    pub own_profile: &'static str,
    /// Over all profiled runs; `None` if nothing measured the device: then no operator has a figure.
    pub device_ns: Option<u64>,
    pub unattributed_ns: Option<u64>,
    pub unknown_operators: u64,
    /// How the time of operators is known, the least exact of them.
    pub method: &'static str,
    /// The costliest first; their times and `unattributed_ns` add up to `device_ns`, with those that are not listed.
    pub operators: Vec<OperatorDeviceTime>,
    pub operators_not_listed: u64,
    /// Joules of an inference that no operator accounts for: set if energy was measured.
    pub unattributed_joules: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OperatorDeviceTime {
    pub name: String,
    #[serde(flatten)]
    pub attribution: Attribution,
    /// Of an inference, by its share of the device's time: attributed, since no meter sees an operator.
    pub attributed_joules: Option<f64>,
}

/// One entry for every provider that ran operators.
pub fn device_times(report: &OperatorReport, qnn: Option<&QnnProfile>) -> Vec<ProviderTime> {
    let mut providers: BTreeMap<String, Vec<OperatorTime>> = BTreeMap::new();
    for node in report.nodes.iter().filter(|node| node.kind == EventKind::Operator) {
        providers.entry(node.provider.to_string()).or_default().push(OperatorTime {
            name: node.name.to_string(),
            host_ns: node.exclusive.total_ns,
            flops: node.flops.map(|flops| flops.saturating_mul(node.exclusive.count)),
            ..OperatorTime::default()
        });
    }
    let is_alone = providers.len() == 1;
    let mut times = Vec::new();
    for (provider, mut operators) in providers {
        let adapter = adapter(&provider);
        let mut window = DeviceWindow::default();
        // Calls that several providers share are nobody's alone: then each has what its operators took.
        let own_ns = operators.iter().fold(0u64, |sum, operator| sum.saturating_add(operator.host_ns));
        window.run_ns = if is_alone { report.time.run_ns } else { own_ns };
        if let Some(qnn) = qnn.filter(|qnn| provider == "QNNExecutionProvider" && !qnn.nodes.is_empty()) {
            window.busy_ns =
                qnn.event("Accelerator (execute) time").map(|event| event.total.saturating_mul(1000));
            window.cycles = qnn.device_cycles();
            operators = qnn
                .nodes
                .iter()
                .map(|node| OperatorTime {
                    name: node.name.clone(),
                    cycles: Some(node.cycles),
                    ..OperatorTime::default()
                })
                .collect();
        }
        let mut time = ProviderTime {
            devices: adapter.devices().to_vec(),
            own_profile: adapter.own_profile(),
            provider,
            device_ns: None,
            unattributed_ns: None,
            unknown_operators: operators.len() as u64,
            method: "unknown",
            operators: Vec::new(),
            operators_not_listed: 0,
            unattributed_joules: None,
        };
        if let Some(found) = split(adapter, &operators, &window) {
            let methods = ["unknown", "estimated", "attributed", "measured"];
            let has =
                |method: &&&str| found.operators.iter().any(|share| share.attribution.method() == **method);
            time.method = methods.iter().find(has).copied().unwrap_or("unknown");
            time.device_ns = Some(found.device_ns);
            time.unattributed_ns = Some(found.unattributed_ns);
            time.unknown_operators = found.unknown_operators;
            let mut shares = found.operators;
            shares.sort_by_key(|share| std::cmp::Reverse(share.attribution.ns()));
            time.operators_not_listed = shares.len().saturating_sub(MOST_OPERATORS) as u64;
            let listed = shares.into_iter().take(MOST_OPERATORS);
            time.operators = listed
                .map(|share| OperatorDeviceTime {
                    name: share.name,
                    attribution: share.attribution,
                    attributed_joules: None,
                })
                .collect();
        }
        times.push(time);
    }
    times
}

impl ProviderTime {
    /// Divides what an inference cost among the operators, if one provider ran them all.
    pub fn attribute(&mut self, joules_per_inference: f64) {
        let Some(device_ns) = self.device_ns.filter(|device_ns| *device_ns > 0) else { return };
        let of = |ns: u64| joules_per_inference * ns as f64 / device_ns as f64;
        for operator in &mut self.operators {
            operator.attributed_joules = operator.attribution.ns().map(of);
        }
        self.unattributed_joules = self.unattributed_ns.map(of);
    }
}
