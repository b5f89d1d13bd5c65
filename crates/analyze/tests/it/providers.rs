//! Attribution of device time to operators: nothing is lost or invented, for any profile.

use ortscope_analyze::providers::{
    Attribution, DeviceWindow, DividedBy, MeasuredBy, OperatorTime, adapter, adapters, split,
};
use ortscope_decode::qhas;
use proptest::prelude::*;

fn operator(name: &str, host_ns: u64) -> OperatorTime {
    OperatorTime { name: name.to_owned(), host_ns, ..OperatorTime::default() }
}

#[test]
fn every_provider_names_its_devices_and_where_its_profile_comes_from() {
    let names: Vec<&str> = adapters().map(|adapter| adapter.name).collect();
    for wanted in [
        "CPU", "CUDA", "Tensorrt", "Dml", "QNN", "OpenVINO", "VitisAI", "MIGraphX", "ROCM", "Xnnpack",
        "CoreML",
    ] {
        assert!(names.contains(&format!("{wanted}ExecutionProvider").as_str()), "{wanted} in {names:?}");
    }
    let says = |texts: [&str; 2]| texts.iter().all(|text| !text.is_empty());
    assert!(adapters().all(|adapter| says([adapter.own_profile, adapter.remedy])));
    assert!(adapters().all(|adapter| !adapter.devices.is_empty()));
    assert_eq!(adapter("SomebodysExecutionProvider").devices[0], "npu", "unknown ones adapt");
}

#[test]
fn the_cpu_computes_in_its_calls() {
    let window = DeviceWindow { run_ns: 1000, ..DeviceWindow::default() };
    let operators = [operator("a", 300), operator("b", 500)];
    let time = split(adapter("CPUExecutionProvider"), &operators, &window).unwrap();
    assert_eq!((time.device_ns, time.unattributed_ns, time.is_scaled), (1000, 200, false));
    assert_eq!(time.operators[1].attribution, Attribution::Measured { ns: 500 });
    let (joules, rest) = time.joules(10.0);
    assert!((joules[1] - 5.0).abs() < 1e-9 && (rest - 2.0).abs() < 1e-9);
}

#[test]
fn a_gpu_without_kernel_events_is_unknown_or_estimated() {
    let cuda = adapter("CUDAExecutionProvider");
    let handed_over = [operator("a", 300)];
    let blind = DeviceWindow { run_ns: 1000, ..DeviceWindow::default() };
    assert_eq!(split(cuda, &handed_over, &blind), None, "nothing measured the device");
    let busy = DeviceWindow { busy_ns: Some(900), ..blind };
    let time = split(cuda, &handed_over, &busy).unwrap();
    assert_eq!((time.unknown_operators, time.unattributed_ns), (1, 900));
    let counted = [
        OperatorTime { flops: Some(2), ..operator("a", 1) },
        OperatorTime { flops: Some(1), ..operator("b", 1) },
    ];
    let time = split(cuda, &counted, &busy).unwrap();
    assert_eq!(time.operators[0].attribution, Attribution::Estimated { ns: 600, by: DividedBy::Flops });
    assert_eq!(time.unattributed_ns, 0);
    let kernels = [OperatorTime { device_ns: Some(700), ..operator("a", 1) }, operator("b", 1)];
    let time = split(cuda, &kernels, &busy).unwrap();
    assert_eq!(time.operators[0].attribution.method(), "measured");
    assert_eq!((time.unattributed_ns, time.unknown_operators), (200, 1));
}

#[test]
fn mixed_providers_are_attributed_by_their_device() {
    let openvino = adapter("OpenVINOExecutionProvider");
    let part = [operator("part", 900)];
    let on_cpu = DeviceWindow { busy_ns: Some(900), is_in_call: true, ..DeviceWindow::default() };
    let time = split(openvino, &part, &on_cpu).unwrap();
    assert_eq!((time.measured_by, time.unattributed_ns), (MeasuredBy::Calls, 0));
    // Its primitives are inside the call: time between them is unattributed.
    let primitives = [
        OperatorTime { device_ns: Some(500), ..operator("conv", 0) },
        OperatorTime { device_ns: Some(300), ..operator("add", 0) },
    ];
    let time = split(openvino, &primitives, &on_cpu).unwrap();
    assert_eq!((time.device_ns, time.unattributed_ns, time.method()), (900, 100, "measured"));
    // On a GPU the call is waiting: the device's time is that of its primitives, and without them unknown.
    let on_gpu = DeviceWindow { run_ns: 900, ..DeviceWindow::default() };
    let time = split(openvino, &primitives, &on_gpu).unwrap();
    assert_eq!((time.device_ns, time.measured_by), (800, MeasuredBy::Kernels));
    assert_eq!(split(openvino, &part, &on_gpu), None);
}

#[test]
fn an_unknown_provider_uses_the_most_exact_data() {
    let adaptive = adapter("SomebodysExecutionProvider");
    let counted = [
        OperatorTime { cycles: Some(30), flops: Some(1), ..operator("a", 5) },
        OperatorTime { cycles: Some(10), flops: Some(9), ..operator("b", 5) },
    ];
    let window = DeviceWindow { busy_ns: Some(1000), cycles: Some(50), ..DeviceWindow::default() };
    let time = split(adaptive, &counted, &window).unwrap();
    assert_eq!(time.operators[0].attribution.ns(), Some(600));
    assert_eq!((time.method(), time.unattributed_ns), ("attributed", 200));
    let without_cycles = DeviceWindow { cycles: None, ..window };
    assert_eq!(split(adaptive, &counted, &without_cycles).unwrap().method(), "estimated");
    let in_call = DeviceWindow { run_ns: 20, is_in_call: true, ..DeviceWindow::default() };
    assert_eq!(split(adaptive, &counted, &in_call).unwrap().unattributed_ns, 10);
    assert_eq!(split(adaptive, &counted, &DeviceWindow { run_ns: 20, ..DeviceWindow::default() }), None);
}

/// An analysis of Qualcomm's viewer, of a real ResNet-50. It lists the ten costliest operators only: the rest of the run
/// must not be given to them.
#[test]
fn npu_time_of_a_recorded_run_is_divided_by_cycles() {
    let corpus = std::env::var_os("ORTSCOPE_CORPUS").map_or_else(
        || std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        std::path::PathBuf::from,
    );
    let Ok(text) = std::fs::read_to_string(corpus.join("hardware/qhas_resnet50.json")) else {
        crate::skips::skipped("no analysis of QNN; set ORTSCOPE_CORPUS");
        return;
    };
    let qhas = qhas::read(&text).unwrap();
    let busy_ns = (qhas.summary.time_us.unwrap() * 1e3) as u64;
    let operators: Vec<OperatorTime> = qhas
        .operators
        .iter()
        .map(|node| OperatorTime { cycles: node.dominant_path_cycles, ..operator(&node.name, 0) })
        .collect();
    let cycles = qhas.summary.timeline_cycles;
    let window = DeviceWindow { busy_ns: Some(busy_ns), cycles, ..DeviceWindow::default() };
    let time = split(adapter("QNNExecutionProvider"), &operators, &window).unwrap();
    let sum: u64 = time.operators.iter().filter_map(|share| share.attribution.ns()).sum();
    assert_eq!(sum + time.unattributed_ns, busy_ns);
    assert_eq!((time.method(), time.is_scaled), ("attributed", false));
    // 548,512 of 1,582,526 cycles are of the ten.
    assert!((0.34..0.35).contains(&(sum as f64 / busy_ns as f64)), "{sum} of {busy_ns}");
}

fn any_operator() -> impl Strategy<Value = OperatorTime> {
    let number = || prop_oneof![0u64..10_000_000, any::<u64>()];
    (number(), prop::option::of(number()), prop::option::of(number()), prop::option::of(number())).prop_map(
        |(host_ns, device_ns, cycles, flops)| OperatorTime {
            device_ns,
            cycles,
            flops,
            ..operator("x", host_ns)
        },
    )
}

proptest! {
    #[test]
    fn operators_and_the_rest_add_up_to_the_measured_time(
        operators in prop::collection::vec(any_operator(), 0..40),
        busy_ns in prop::option::of(any::<u64>()),
        run_ns in any::<u64>(),
        is_in_call in any::<bool>(),
        cycles in prop::option::of(any::<u64>()),
        provider in 0usize..13,
    ) {
        let window = DeviceWindow { busy_ns, run_ns, is_in_call, cycles };
        let adapter = adapters().nth(provider).unwrap_or_else(|| adapter("unknown"));
        let Some(time) = split(adapter, &operators, &window) else { return Ok(()) };
        let sum: u128 = time.operators.iter().filter_map(|share| share.attribution.ns()).map(u128::from).sum();
        prop_assert_eq!(sum + u128::from(time.unattributed_ns), u128::from(time.device_ns));
        if let Some(busy_ns) = busy_ns {
            prop_assert_eq!(time.device_ns, busy_ns);
        }
        prop_assert_eq!(time.operators.len(), operators.len());
        let (joules, rest) = time.joules(100.0);
        prop_assert!(time.device_ns == 0 || (joules.iter().sum::<f64>() + rest - 100.0).abs() < 1e-6);
    }
}
