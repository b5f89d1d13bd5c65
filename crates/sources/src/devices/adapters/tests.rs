use super::super::Reading;
use super::*;

struct Api(Result<Vec<Adapter>, String>, u32, Vec<Box<dyn StateApi>>);

impl AdapterApi for Api {
    fn adapters(&mut self) -> Result<Vec<Adapter>, String> {
        self.0.clone()
    }

    fn build(&self) -> Option<u32> {
        Some(self.1)
    }

    fn states(&mut self) -> Vec<Box<dyn StateApi>> {
        std::mem::take(&mut self.2)
    }
}

/// Reports one adapter, with 30 ms more work at every query.
struct Own(u64, &'static str, u64);

impl StateApi for Own {
    fn source(&self) -> &'static str {
        self.1
    }

    fn is_last_resort(&self) -> bool {
        self.1 == "d3dkmt"
    }

    fn state(&mut self, id: u64) -> Option<AdapterState> {
        self.2 += 30_000_000;
        (id == self.0).then(|| AdapterState {
            engines_ns: vec![5, self.2],
            used_bytes: Some(77),
            celsius: Some(0.0),
            hertz: Some(9.5e8),
        })
    }

    fn processes(&mut self, id: u64) -> Option<Vec<ProcessState>> {
        let state = ProcessState {
            pid: 42,
            engines_ns: vec![5, self.2 / 2],
            used_bytes: Some(11),
            committed_bytes: Some(0),
        };
        (id == self.0 && self.1 == "dxcore").then(|| vec![state])
    }
}

struct Counters {
    fails: bool,
    kelvin: f64,
}

impl CounterApi for Counters {
    fn collect(&mut self) -> Result<(), String> {
        if self.fails { Err("0xC0000BB8".to_owned()) } else { Ok(()) }
    }

    fn values(&mut self, set: CounterSet, each: &mut dyn FnMut(&str, f64)) -> Result<(), String> {
        let rows: &[(&str, f64)] = match set {
            CounterSet::EnginePercent => &[
                ("pid_7_luid_0x00000000_0x0000C85A_phys_0_eng_0_engtype_3D", 30.0),
                ("pid_8_luid_0x00000000_0x0000C85A_phys_0_eng_0_engtype_3D", 20.0),
                ("pid_7_luid_0x00000000_0x0000C85A_phys_0_eng_1_engtype_Copy", 40.0),
                ("pid_7_luid_0x00000000_0x0000D000_phys_0_eng_0_engtype_Neural", 90.0),
            ],
            CounterSet::AdapterDedicated => &[("luid_0x00000000_0x0000C85A_phys_0", 1000.0)],
            CounterSet::AdapterShared => {
                &[("luid_0x00000000_0x0000C85A_phys_0", 24.0), ("luid_0x00000000_0x0000D000_phys_0", 5.0)]
            }
            CounterSet::ProcessLocal => &[("pid_7_luid_0x00000000_0x0000C85A_phys_0", 600.0)],
            CounterSet::ProcessCommitted => return Err("PDH_NO_DATA".to_owned()),
            CounterSet::PerformanceLimit => &[("0,0", 100.0), ("0,1", 80.0), ("_Total", 0.0)],
            CounterSet::NominalMegahertz => &[("0,0", 2400.0), ("1,5", 2400.0), ("0,_Total", 2400.0)],
            CounterSet::PerformancePercent => &[("0,0", 150.0), ("1,5", 0.0), ("_Total", 90.0)],
            CounterSet::ThermalZone => {
                self.kelvin += 1.0;
                each("\\_TZ.CPU", self.kelvin);
                &[("\\_TZ.FAKE", 301.0)]
            }
        };
        rows.iter().for_each(|(name, value)| each(name, *value));
        Ok(())
    }
}

fn adapters() -> Vec<Adapter> {
    let gpu = Adapter { id: 0xC85A, name: "RTX".to_owned(), dedicated_bytes: Some(8), ..Adapter::default() };
    let npu = Adapter {
        id: 0xD000,
        name: "AI Boost".to_owned(),
        is_npu: true,
        driver: Some("32.0.1".to_owned()),
        dedicated_bytes: Some(0),
        shared_bytes: Some(16),
        ..Adapter::default()
    };
    let software =
        Adapter { id: 3, name: "Basic Render".to_owned(), is_software: true, ..Adapter::default() };
    vec![gpu.clone(), gpu, npu, software]
}

fn read_at(found: &mut Found, at_ns: u64) -> (Vec<String>, Vec<Missing>) {
    let (mut readings, mut lost) = (Vec::new(), Vec::new());
    let mut out = |reading: Reading<'_>| {
        readings.push(format!("{} {} {}", reading.device, reading.metric, reading.value));
    };
    found.readers[0].read(at_ns, &mut out, &mut lost);
    (readings, lost)
}

fn read(found: &mut Found) -> (Vec<String>, Vec<Missing>) {
    read_at(found, 1)
}

const SECOND: u64 = 1_000_000_000;

#[test]
fn adapter_states_take_precedence_over_counters() {
    let mut found = Found::default();
    let states: Vec<Box<dyn StateApi>> =
        vec![Box::new(Own(0xC85A, "dxcore", 0)), Box::new(Own(0xD000, "d3dkmt", 0))];
    let counters = Counters { kelvin: 300.0, fails: false };
    find(&mut Api(Ok(adapters()), 26100, states), Ok(Box::new(counters)), 0, &mut found);
    assert!(found.readers[0].describe().ends_with("(DXCore, PDH)"), "{found:?}");
    read_at(&mut found, SECOND);
    let (readings, _) = read_at(&mut found, SECOND + SECOND / 10);
    let of = |metric: &str| {
        let lines = readings.iter().filter(|line| line.starts_with("gpu0 ") && line.contains(metric));
        lines.cloned().collect::<Vec<_>>()
    };
    // Queried twice (once per adapter): 60 ms of 100 ms. The counters' 0.5 is not reported in addition.
    assert_eq!(of("utilization_ratio"), ["gpu0 utilization_ratio 0.6"]);
    assert_eq!(
        (of("memory_used_bytes"), of("frequency")),
        (vec!["gpu0 memory_used_bytes 77".to_owned()], vec!["gpu0 frequency_hertz 950000000".to_owned()])
    );
    assert_eq!(of("temperature"), Vec::<String>::new(), "drivers without a sensor report 0 degrees");
    assert!(
        readings.iter().any(|line| line == "npu0 utilization_ratio 0.9"),
        "its counters take precedence over the last resort"
    );
}

#[test]
fn the_last_resort_reports_adapters_without_counters() {
    let mut found = Found::default();
    let states: Vec<Box<dyn StateApi>> = vec![Box::new(Own(0xD000, "d3dkmt", 0))];
    let counters = Counters { kelvin: 300.0, fails: true };
    find(&mut Api(Ok(adapters()), 26100, states), Ok(Box::new(counters)), 0, &mut found);
    let (_, lost) = read_at(&mut found, SECOND);
    assert!(lost[0].why.contains("0xC0000BB8"), "{lost:?}");
    let (readings, _) = read_at(&mut found, SECOND + SECOND / 10);
    assert!(readings.iter().any(|line| line == "npu0 utilization_ratio 0.6"), "{readings:?}");
    assert!(readings.iter().all(|line| !line.starts_with("gpu0 utilization")), "unknown: {readings:?}");
    // A unit that makes an engine busy for longer than the elapsed time is rejected.
    let (readings, _) = read_at(&mut found, SECOND + SECOND / 10 + 1);
    assert!(readings.iter().all(|line| !line.starts_with("npu0 utilization")), "{readings:?}");
}

/// Adapters of Windows 11 24H2 report processes; they are queried only without performance counters.
#[test]
fn adapters_report_processes_without_counters() {
    let states = || -> Vec<Box<dyn StateApi>> { vec![Box::new(Own(0xD000, "dxcore", 0))] };
    let mut found = Found::default();
    let counters = Counters { kelvin: 300.0, fails: true };
    find(&mut Api(Ok(adapters()), 26100, states()), Ok(Box::new(counters)), 0, &mut found);
    let (readings, lost) = read_at(&mut found, SECOND);
    assert!(readings.iter().all(|line| !line.contains("process-42/npu0 utilization")), "{readings:?}");
    assert_eq!(lost.len(), 1, "no source reports the GPU: {lost:?}");
    let (readings, _) = read_at(&mut found, SECOND + SECOND / 10);
    let of_process: Vec<&String> = readings.iter().filter(|line| line.starts_with("process-42/")).collect();
    assert_eq!(of_process, ["process-42/npu0 memory_used_bytes 11", "process-42/npu0 utilization_ratio 0.3"]);

    let mut found = Found::default();
    let counters = Counters { kelvin: 300.0, fails: false };
    find(&mut Api(Ok(adapters()), 26100, states()), Ok(Box::new(counters)), 0, &mut found);
    let (readings, _) = read_at(&mut found, SECOND);
    assert!(readings.iter().all(|line| !line.starts_with("process-42/")), "{readings:?}");
}

#[test]
fn counters_report_a_gpu_and_an_npu() {
    let mut found = Found::default();
    find(
        &mut Api(Ok(adapters()), 26100, vec![]),
        Ok(Box::new(Counters { kelvin: 300.0, fails: false })),
        0,
        &mut found,
    );
    assert_eq!(found.readers[0].describe(), "gpu0 RTX; npu0 AI Boost, driver 32.0.1 (PDH)");
    read(&mut found);
    let (readings, lost) = read(&mut found);
    let expected = [
        "gpu0 utilization_ratio 0.5",
        "gpu0/3D utilization_ratio 0.5",
        "gpu0/Copy utilization_ratio 0.4",
        "npu0 utilization_ratio 0.9",
        "process-7/gpu0 utilization_ratio 0.4",
        "process-8/gpu0 utilization_ratio 0.2",
        "process-7/npu0 utilization_ratio 0.9",
        "gpu0 memory_used_bytes 1024",
        "npu0 memory_used_bytes 5",
        "process-7/gpu0 memory_used_bytes 600",
        "gpu0 memory_total_bytes 8",
        "npu0 memory_total_bytes 16",
        "package-0 throttled_ratio 1",
        "package-0 frequency_limit_ratio 0.8",
        "cpu0 frequency_hertz 3600000000",
        "zone/CPU temperature_celsius 29.850000000000023",
    ];
    for line in expected {
        assert!(readings.iter().any(|readings| readings == line), "{line} in {readings:?}");
    }
    assert!(readings.iter().all(|line| !line.contains("FAKE")), "a constant zone is not a sensor");
    assert!(
        readings.iter().all(|line| !line.contains("cpu1.5 frequency")),
        "0% is not a frequency: {readings:?}"
    );
    assert_eq!((found.missing.len(), lost.len()), (0, 0));
}

#[test]
fn an_nvidia_card_is_not_reported_twice() {
    let mut adapters = adapters();
    adapters[0].name = "NVIDIA RTX".to_owned();
    adapters.remove(1);
    adapters.push(Adapter { id: 9, name: "Intel Arc".to_owned(), ..Adapter::default() });
    let mut found = Found::default();
    find(
        &mut Api(Ok(adapters), 26100, vec![]),
        Ok(Box::new(Counters { kelvin: 300.0, fails: false })),
        1,
        &mut found,
    );
    let (readings, _) = read(&mut found);
    assert!(readings.iter().all(|line| !line.starts_with("gpu0 ")), "NVML reports these: {readings:?}");
    assert!(readings.iter().any(|line| line == "process-7/gpu0 utilization_ratio 0.4"), "{readings:?}");
    assert!(
        readings.iter().any(|line| line == "gpu1 utilization_ratio 0"),
        "the other one is idle: {readings:?}"
    );
}

#[test]
fn every_failure_has_a_reason() {
    let mut found = Found::default();
    find(&mut Api(Err("no dxcore.dll".to_owned()), 1, vec![]), Err("no pdh.dll".to_owned()), 0, &mut found);
    assert_eq!(
        found.missing.iter().map(|missing| missing.what).collect::<Vec<_>>(),
        ["gpu", "npu", "gpu_processes", "throttling", "temperature", "cpu_frequency"]
    );
    let mut found = Found::default();
    find(&mut Api(Ok(vec![]), 19045, vec![]), Err(String::new()), 0, &mut found);
    assert!(
        found.missing[1].why.contains("build 19045") && found.missing[1].why.contains("26100"),
        "{found:?}"
    );
    let mut found = Found::default();
    find(&mut Api(Ok(adapters()), 26100, vec![]), Err("PdhOpenQuery failed".to_owned()), 0, &mut found);
    assert!(found.readers.is_empty() && found.missing[0].why.contains("PdhOpenQuery"), "{found:?}");
    let mut found = Found::default();
    find(
        &mut Api(Ok(adapters()), 26100, vec![]),
        Ok(Box::new(Counters { fails: true, kelvin: 0.0 })),
        0,
        &mut found,
    );
    assert_eq!((read(&mut found).1.len(), read(&mut found).1.len()), (1, 0), "reported once");
}
