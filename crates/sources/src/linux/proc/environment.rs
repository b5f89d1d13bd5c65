//! Environment of the processes: limits of the container this program runs in, pressure, network traffic and load.

use ortscope_decode::procfs::{self, CpuQuota, Pressure};

use super::files::{Buffer, MachineFile};

/// Usual mount points of cgroup version 2: alone, or together with version 1.
const CGROUP_MOUNTS: &[&str] = &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

type Emit<'a> = dyn FnMut(&'static str, &'static str, f64) + 'a;

#[derive(Debug)]
pub(super) struct Environment {
    load: MachineFile,
    network: MachineFile,
    paging: MachineFile,
    pressure: [MachineFile; 3],
    cpu_stat: MachineFile,
    cpu_max: MachineFile,
    memory_current: MachineFile,
    memory_max: MachineFile,
}

/// For each resource: some tasks waited, all tasks waited.
const PRESSURE_METRICS: [[&str; 2]; 3] = [
    ["cpu_pressure_some_ratio", "cpu_pressure_full_ratio"],
    ["memory_pressure_some_ratio", "memory_pressure_full_ratio"],
    ["io_pressure_some_ratio", "io_pressure_full_ratio"],
];

impl Environment {
    pub fn open() -> Self {
        let group = own_group();
        let in_group = |file: &str| match &group {
            Some(directory) => MachineFile::open(&format!("{directory}/{file}")),
            None => MachineFile::open(""),
        };
        Self {
            load: MachineFile::open("/proc/loadavg"),
            network: MachineFile::open("/proc/net/dev"),
            paging: MachineFile::open("/proc/vmstat"),
            pressure: ["cpu", "memory", "io"]
                .map(|what| MachineFile::open(&format!("/proc/pressure/{what}"))),
            cpu_stat: in_group("cpu.stat"),
            cpu_max: in_group("cpu.max"),
            memory_current: in_group("memory.current"),
            memory_max: in_group("memory.max"),
        }
    }

    pub fn has_pressure(&self) -> bool {
        self.pressure.iter().all(MachineFile::is_there)
    }

    pub fn read(&self, buffer: &mut Buffer, emit: &mut Emit<'_>) {
        let mut some = |device, metric, value: Option<u64>| {
            if let Some(value) = value {
                emit(device, metric, value as f64);
            }
        };
        if let Some(stat) = self.cpu_stat.read(buffer).map(procfs::parse_cpu_stat) {
            some("cgroup", "cpu_throttled_periods_count", stat.throttled_periods);
            some("cgroup", "cpu_throttled_microseconds", stat.throttled_micros);
        }
        let bytes = self.memory_current.read(buffer).and_then(procfs::parse_memory_limit).flatten();
        some("cgroup", "memory_bytes", bytes);
        // Without a limit there is no row.
        let limit = self.memory_max.read(buffer).and_then(procfs::parse_memory_limit).flatten();
        some("cgroup", "memory_limit_bytes", limit);
        if let Some(totals) = self.network.read(buffer).and_then(procfs::parse_net_dev) {
            some("machine", "network_received_bytes", Some(totals.received_bytes));
            some("machine", "network_sent_bytes", Some(totals.sent_bytes));
        }
        if let Some(paging) = self.paging.read(buffer).map(procfs::parse_vmstat) {
            some("machine", "hard_faults_count", paging.major_faults);
            some("machine", "out_of_memory_kills_count", paging.out_of_memory_kills);
        }
        let quota = self.cpu_max.read(buffer).and_then(procfs::parse_cpu_max);
        if let Some(cores) = quota.and_then(CpuQuota::cores) {
            emit("cgroup", "cpu_limit_cores", cores);
        }
        if let Some(load) = self.load.read(buffer).and_then(procfs::parse_load_average) {
            emit("machine", "load_1min_threads", load.one_minute);
        }
        self.read_pressure(buffer, emit);
    }

    fn read_pressure(&self, buffer: &mut Buffer, emit: &mut Emit<'_>) {
        for (file, [some, full]) in self.pressure.iter().zip(PRESSURE_METRICS) {
            let pressure = file.read(buffer).map_or(Pressure::default(), procfs::parse_pressure);
            for (metric, line) in [(some, pressure.some), (full, pressure.full)] {
                if let Some(line) = line {
                    emit("machine", metric, line.ratio_10s);
                }
            }
        }
    }
}

/// The directory of this program's control group. Inside a container its root is the effective limit.
fn own_group() -> Option<String> {
    let groups = std::fs::read("/proc/self/cgroup").ok()?;
    let path = String::from_utf8(procfs::cgroup_v2_path(&groups)?.to_vec()).ok()?;
    CGROUP_MOUNTS
        .iter()
        .flat_map(|mount| [format!("{mount}{path}"), (*mount).to_owned()])
        .map(|directory| directory.trim_end_matches('/').to_owned())
        .find(|directory| std::path::Path::new(directory).join("cgroup.controllers").is_file())
}
