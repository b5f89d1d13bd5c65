//! Attribution of device time and energy to the operators of each provider.

use std::collections::BTreeMap;

use ortscope_analyze::operators::{NodeStatistics, OperatorReport};
use ortscope_analyze::providers::{DeviceWindow, OperatorTime, ProviderAdapter, adapter, split};
use ortscope_core::schema::OperatorKind;
use ortscope_ort::ep::{DeviceClass, UsedDevice};

use super::qnn_lanes::QnnTime;
use ortscope_analyze::operators::section::{DeviceWork, OperatorDeviceTime, ProviderTime};

/// Maximum number of listed operators, the costliest first; the sums contain all.
const MAX_OPERATORS: usize = 100;

/// What is known beside ONNX Runtime's own profile.
#[derive(Debug, Default)]
pub struct Evidence<'a> {
    pub used: &'a [UsedDevice],
    /// Device rows in the runs of the report, by name.
    pub device_work: &'a [DeviceWork],
    /// The same by provider and by the node that caused them.
    pub by_node: BTreeMap<(String, u64), u64>,
    pub qnn: Option<&'a QnnTime>,
    /// By kind of device: its busy time in the runs of the report according to its driver.
    pub busy_ns: BTreeMap<&'static str, u64>,
}

/// One entry for every provider that ran operators.
pub fn device_times(report: &OperatorReport, evidence: &Evidence<'_>) -> Vec<ProviderTime> {
    let mut providers: BTreeMap<&str, Vec<&NodeStatistics>> = BTreeMap::new();
    for node in report.nodes.iter().filter(|node| node.kind == OperatorKind::Operator) {
        providers.entry(&node.provider).or_default().push(node);
    }
    let is_alone = providers.len() == 1;
    let times = providers.iter().map(|(provider, nodes)| one(report, provider, nodes, is_alone, evidence));
    times.collect()
}

fn one(
    report: &OperatorReport,
    provider: &str,
    nodes: &[&NodeStatistics],
    is_alone: bool,
    evidence: &Evidence<'_>,
) -> ProviderTime {
    let adapter = adapter(provider);
    let used = evidence.used.iter().find(|used| used.provider == provider);
    let class = used.map(|used| used.class).or_else(|| class_of(nodes));
    let own_ns = nodes.iter().fold(0u64, |sum, node| sum.saturating_add(node.exclusive.total_ns));
    let mut window = DeviceWindow {
        // If several providers share the calls, each is assigned the time of its own operators.
        run_ns: if is_alone { report.time.run_ns } else { own_ns },
        is_in_call: class == Some(DeviceClass::Cpu),
        ..DeviceWindow::default()
    };
    let of_device: Vec<&DeviceWork> = evidence
        .device_work
        .iter()
        .filter(|work| work.provider == provider && work.cycles.is_none())
        .collect();
    let mut types: Vec<&str> = Vec::new();
    let mut runs = report.runs;
    let operators = if let Some(qnn) = evidence.qnn.filter(|_| provider == "QNNExecutionProvider") {
        (window.busy_ns, window.cycles, runs) = (qnn.device_ns, qnn.cycles, qnn.runs);
        types.extend(qnn.nodes.iter().map(|node| node.op_type.as_str()));
        qnn.nodes.iter().map(|node| named(&node.name, None, Some(node.cycles))).collect()
    } else if of_device.len() > nodes.len() {
        // Whole parts of the graph were compiled; the device rows have more detail.
        window.busy_ns = window.is_in_call.then_some(own_ns);
        types.extend(of_device.iter().map(|work| work.op_type.as_str()));
        // OpenVINO's prefix of every primitive's name.
        let bare = |name: &str| name.strip_prefix("OV::").unwrap_or(name).to_owned();
        of_device.iter().map(|work| named(&bare(&work.name), Some(work.total_ns), None)).collect()
    } else {
        types.extend(nodes.iter().map(|node| &*node.op_type));
        if !of_device.is_empty() {
            window.busy_ns = Some(of_device.iter().map(|work| work.total_ns).sum());
        } else if !window.is_in_call {
            window.busy_ns = adapter.devices.iter().find_map(|kind| evidence.busy_ns.get(kind)).copied();
        }
        nodes.iter().map(|node| of_node(node, provider, evidence)).collect::<Vec<_>>()
    };
    let mut time = ProviderTime {
        provider: provider.to_owned(),
        device: class,
        device_name: used.and_then(|used| used.name.clone()),
        sampled_as: adapter.devices.iter().map(|&prefix| prefix.to_owned()).collect(),
        own_profile: adapter.own_profile.to_owned(),
        has_own_profile: !of_device.is_empty()
            || (provider == "QNNExecutionProvider" && evidence.qnn.is_some())
            || class == Some(DeviceClass::Cpu) && of_device.is_empty() && is_kernel_by_kernel(provider),
        runs,
        device_ns: None,
        measured_by: None,
        unattributed_ns: None,
        unknown_operators: operators.len() as u64,
        method: "unknown".to_owned(),
        divided_by: None,
        operators: Vec::new(),
        operators_not_listed: 0,
        not_listed_ns: 0,
        unattributed_joules: None,
        unknown: None,
    };
    fill(&mut time, adapter, &operators, &types, &window);
    if time.unknown.is_none() && !time.has_own_profile {
        time.unknown = Some(format!("its compiled parts report no details; {}", adapter.remedy));
    }
    time
}

/// Providers whose operators are the rows of ONNX Runtime's profile.
pub(super) fn is_kernel_by_kernel(provider: &str) -> bool {
    matches!(provider, "CPUExecutionProvider" | "XnnpackExecutionProvider")
}

/// The device of the profile's rows, if they agree.
fn class_of(nodes: &[&NodeStatistics]) -> Option<DeviceClass> {
    let first = nodes.first()?;
    let class = match &*first.device {
        "CPU" => DeviceClass::Cpu,
        "GPU" => DeviceClass::Gpu,
        "NPU" => DeviceClass::Npu,
        _ => return None,
    };
    nodes.iter().all(|node| node.device == first.device).then_some(class)
}

fn named(name: &str, device_ns: Option<u64>, cycles: Option<u64>) -> OperatorTime {
    OperatorTime { name: name.to_owned(), device_ns, cycles, ..OperatorTime::default() }
}

fn of_node(node: &NodeStatistics, provider: &str, evidence: &Evidence<'_>) -> OperatorTime {
    let key = |index: u64| (provider.to_owned(), index);
    OperatorTime {
        name: node.name.to_string(),
        host_ns: node.exclusive.total_ns,
        device_ns: node.node_index.and_then(|index| evidence.by_node.get(&key(index))).copied(),
        flops: node.flops.map(|flops| flops.saturating_mul(node.exclusive.count)),
        ..OperatorTime::default()
    }
}

fn fill(
    time: &mut ProviderTime,
    adapter: &ProviderAdapter,
    operators: &[OperatorTime],
    types: &[&str],
    window: &DeviceWindow,
) {
    let Some(found) = split(adapter, operators, window) else {
        time.unknown = Some(format!(
            "ONNX Runtime shows how long handing the work over took, and nothing reports how long the device worked; {}",
            adapter.remedy
        ));
        return;
    };
    time.method = found.method().to_owned();
    time.divided_by = found.operators.iter().find_map(|of| of.attribution.by());
    time.device_ns = Some(found.device_ns);
    time.measured_by = Some(found.measured_by);
    time.unattributed_ns = Some(found.unattributed_ns);
    time.unknown_operators = found.unknown_operators;
    let rows = found.operators.into_iter().zip(types).zip(operators);
    let mut rows: Vec<OperatorDeviceTime> = rows
        .map(|((share, op_type), operator)| OperatorDeviceTime {
            name: share.name,
            op_type: (*op_type).to_owned(),
            attribution: share.attribution,
            cycles: operator.cycles,
            attributed_joules: None,
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.attribution.ns()));
    let rest = rows.split_off(rows.len().min(MAX_OPERATORS));
    time.operators_not_listed = rest.len() as u64;
    time.not_listed_ns = rest.iter().filter_map(|row| row.attribution.ns()).sum();
    time.operators = rows;
}
