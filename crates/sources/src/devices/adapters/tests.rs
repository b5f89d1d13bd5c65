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

/// Tells one adapter, 30 ms of work more each time it is asked.
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
    let (mut told, mut lost) = (Vec::new(), Vec::new());
    let mut out =
        |reading: Reading<'_>| told.push(format!("{} {} {}", reading.device, reading.metric, reading.value));
    found.readers[0].read(at_ns, &mut out, &mut lost);
    (told, lost)
}

fn read(found: &mut Found) -> (Vec<String>, Vec<Missing>) {
    read_at(found, 1)
}

const SECOND: u64 = 1_000_000_000;

#[test]
fn an_adapter_that_tells_of_itself_is_believed_before_the_counters() {
    let mut found = Found::default();
    let states: Vec<Box<dyn StateApi>> =
        vec![Box::new(Own(0xC85A, "dxcore", 0)), Box::new(Own(0xD000, "d3dkmt", 0))];
    let counters = Counters { kelvin: 300.0, fails: false };
    find(&mut Api(Ok(adapters()), 26100, states), Ok(Box::new(counters)), 0, &mut found);
    assert!(found.readers[0].describe().ends_with("(DXCore, PDH)"), "{found:?}");
    read_at(&mut found, SECOND);
    let (told, _) = read_at(&mut found, SECOND + SECOND / 10);
    let of = |metric: &str| {
        let lines = told.iter().filter(|line| line.starts_with("gpu0 ") && line.contains(metric));
        lines.cloned().collect::<Vec<_>>()
    };
    // Twice asked (for each adapter): 60 ms of 100 ms. The counters' 0.5 is not told beside it.
    assert_eq!(of("utilization_ratio"), ["gpu0 utilization_ratio 0.6"]);
    assert_eq!(
        (of("memory_used_bytes"), of("frequency")),
        (vec!["gpu0 memory_used_bytes 77".to_owned()], vec!["gpu0 frequency_hertz 950000000".to_owned()])
    );
    assert_eq!(
        of("temperature"),
        Vec::<String>::new(),
        "0 degrees is what drivers write that do not measure"
    );
    assert!(
        told.iter().any(|line| line == "npu0 utilization_ratio 0.9"),
        "its counters come before the last resort"
    );
}

#[test]
fn without_counters_the_last_resort_tells_adapters() {
    let mut found = Found::default();
    let states: Vec<Box<dyn StateApi>> = vec![Box::new(Own(0xD000, "d3dkmt", 0))];
    let counters = Counters { kelvin: 300.0, fails: true };
    find(&mut Api(Ok(adapters()), 26100, states), Ok(Box::new(counters)), 0, &mut found);
    let (_, lost) = read_at(&mut found, SECOND);
    assert!(lost[0].why.contains("0xC0000BB8"), "{lost:?}");
    let (told, _) = read_at(&mut found, SECOND + SECOND / 10);
    assert!(told.iter().any(|line| line == "npu0 utilization_ratio 0.6"), "{told:?}");
    assert!(told.iter().all(|line| !line.starts_with("gpu0 utilization")), "nobody knows: {told:?}");
    // A unit that makes an engine work longer than the time that passed is not believed.
    let (told, _) = read_at(&mut found, SECOND + SECOND / 10 + 1);
    assert!(told.iter().all(|line| !line.starts_with("npu0 utilization")), "{told:?}");
}

/// Adapters of Windows 11 24H2 tell processes themselves; asked only where the system's counters do not.
#[test]
fn without_counters_adapters_tell_their_processes() {
    let states = || -> Vec<Box<dyn StateApi>> { vec![Box::new(Own(0xD000, "dxcore", 0))] };
    let mut found = Found::default();
    let counters = Counters { kelvin: 300.0, fails: true };
    find(&mut Api(Ok(adapters()), 26100, states()), Ok(Box::new(counters)), 0, &mut found);
    let (told, lost) = read_at(&mut found, SECOND);
    assert!(told.iter().all(|line| !line.contains("process-42/npu0 utilization")), "{told:?}");
    assert_eq!(lost.len(), 1, "the GPU is told by nobody: {lost:?}");
    let (told, _) = read_at(&mut found, SECOND + SECOND / 10);
    let of_process: Vec<&String> = told.iter().filter(|line| line.starts_with("process-42/")).collect();
    assert_eq!(of_process, ["process-42/npu0 memory_used_bytes 11", "process-42/npu0 utilization_ratio 0.3"]);

    let mut found = Found::default();
    let counters = Counters { kelvin: 300.0, fails: false };
    find(&mut Api(Ok(adapters()), 26100, states()), Ok(Box::new(counters)), 0, &mut found);
    let (told, _) = read_at(&mut found, SECOND);
    assert!(told.iter().all(|line| !line.starts_with("process-42/")), "{told:?}");
}

#[test]
fn a_gpu_and_an_npu_by_their_counters() {
    let mut found = Found::default();
    find(
        &mut Api(Ok(adapters()), 26100, vec![]),
        Ok(Box::new(Counters { kelvin: 300.0, fails: false })),
        0,
        &mut found,
    );
    assert_eq!(found.readers[0].describe(), "gpu0 RTX; npu0 AI Boost, driver 32.0.1 (PDH)");
    read(&mut found);
    let (told, lost) = read(&mut found);
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
        assert!(told.iter().any(|told| told == line), "{line} in {told:?}");
    }
    assert!(told.iter().all(|line| !line.contains("FAKE")), "a zone that never moves is no thermometer");
    assert!(told.iter().all(|line| !line.contains("cpu1.5 frequency")), "0 % is no clock: {told:?}");
    assert_eq!((found.missing.len(), lost.len()), (0, 0));
}

#[test]
fn a_card_of_nvidia_is_not_told_twice() {
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
    let (told, _) = read(&mut found);
    assert!(told.iter().all(|line| !line.starts_with("gpu0 ")), "NVML tells these: {told:?}");
    assert!(told.iter().any(|line| line == "process-7/gpu0 utilization_ratio 0.4"), "{told:?}");
    assert!(told.iter().any(|line| line == "gpu1 utilization_ratio 0"), "the other one idles: {told:?}");
}

#[test]
fn every_way_to_fail_has_its_reason() {
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
    assert_eq!((read(&mut found).1.len(), read(&mut found).1.len()), (1, 0), "told once");
}
