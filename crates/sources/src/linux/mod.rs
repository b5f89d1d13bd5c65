//! Linux: /proc and /sys, parsed by `ortscope_decode::procfs`; kernel events through BPF or perf rings (`kernel`).

mod proc;

mod accel;
mod amd_smi;
mod bandwidth;
mod bpf;
mod counters;
mod heap;
mod image_loads;
pub mod kernel;
pub mod key_store;
mod merge;
mod perf_open;
mod perf_raw;
mod perf_ring;
mod power_events;
pub mod privileges;
mod processors;
mod rights;
mod samples;
mod shared;
mod thread_priority;

use std::io::ErrorKind;

use ortscope_core::identity::ProcessIdentity;
use ortscope_decode::procfs;

pub use accel::amdxdna_query;
pub(crate) use amd_smi::amd_smi;
pub use bandwidth::memory_bandwidth;
pub use counters::hardware_counters;
pub use power_events::energy_events;
pub use processors::Processors;
pub use thread_priority::prefer_this_thread;

use crate::machine::MachineFacts;
use crate::machine::{ProcessUsage, UsageError};
use crate::sampler::ProcessBackend;

/// The unprivileged backend of the process sampler.
pub fn process_backend() -> Box<dyn ProcessBackend> {
    Box::new(proc::ProcBackend::new())
}

/// A closed terminal answers every read immediately with no data; polling distinguishes it from an idle one.
pub fn terminal_closed_within(wait: std::time::Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let input = std::io::stdin();
    let mut descriptors = [PollFd::new(&input, PollFlags::IN)];
    let wait = Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: wait.subsec_nanos().into() };
    // Interrupted by a signal: the result is unknown, and the caller handles the signal.
    poll(&mut descriptors, Some(&wait)).is_ok()
        && descriptors[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
}

pub fn release_memory_automatically() {
    heap::limit_retained();
}

pub fn release_memory_now() {
    heap::trim();
}

pub fn pin_to_processor(index: usize) -> Option<u32> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let allowed = sched_getaffinity(None).ok()?;
    let numbers: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|number| allowed.is_set(*number)).collect();
    let number = *numbers.get(index.checked_rem(numbers.len())?)?;
    let mut one = CpuSet::new();
    one.set(number);
    sched_setaffinity(None, &one).ok()?;
    u32::try_from(number).ok()
}

pub fn processors_online() -> Vec<crate::machine::Processor> {
    proc::processors()
}

pub fn process_usage(pid: u32) -> Result<ProcessUsage, UsageError> {
    usage(pid, &format!("/proc/{pid}"))
}

/// Uses the process's own CPU clock, which has nanosecond resolution; /proc counts in steps of 10 ms.
pub fn own_usage() -> Result<ProcessUsage, UsageError> {
    let mut usage = usage(std::process::id(), "/proc/self")?;
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    usage.cpu_time_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
    Ok(usage)
}

fn usage(pid: u32, directory: &str) -> Result<ProcessUsage, UsageError> {
    let read = |file: &str| {
        std::fs::read(format!("{directory}/{file}")).map_err(|error| match error.kind() {
            ErrorKind::NotFound => UsageError::NoSuchProcess(pid),
            ErrorKind::PermissionDenied => UsageError::Permission { pid, why: error.to_string() },
            // A process that exits while it is read returns ESRCH.
            _ if error.raw_os_error() == Some(3) => UsageError::NoSuchProcess(pid),
            _ => UsageError::Unreadable { pid, why: error.to_string() },
        })
    };
    let unreadable =
        |file: &str| UsageError::Unreadable { pid, why: format!("/proc/{pid}/{file} has an unknown format") };
    let stat = read("stat")?;
    let stat = procfs::parse_stat(&stat).ok_or_else(|| unreadable("stat"))?;
    // A zombie has no memory; zeros would be wrong.
    if matches!(stat.state, 'Z' | 'X') {
        return Err(UsageError::NoSuchProcess(pid));
    }
    let status = procfs::parse_status(&read("status")?);
    let ticks_per_second = rustix::param::clock_ticks_per_second();
    Ok(ProcessUsage {
        identity: ProcessIdentity { pid, start: stat.start_ticks },
        cpu_time_ns: (stat.user_ticks + stat.system_ticks)
            .saturating_mul(1_000_000_000 / ticks_per_second.max(1)),
        working_set_bytes: status.resident_bytes.unwrap_or(0),
        peak_working_set_bytes: status.peak_resident_bytes,
        private_bytes: status.anonymous_bytes,
        thread_count: status.threads,
    })
}

pub fn boot_id() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
}

pub fn environment_variable(pid: u32, name: &str) -> Option<String> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = environment.split(|byte| *byte == 0);
    let value = variables
        .find_map(|variable| std::str::from_utf8(variable).ok()?.strip_prefix(name)?.strip_prefix('='))?;
    (!value.is_empty()).then(|| value.to_owned())
}

pub fn machine_facts() -> MachineFacts {
    let text = |path: &str| std::fs::read_to_string(path).ok();
    let line = |path: &str| text(path).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let cpuinfo = text("/proc/cpuinfo").unwrap_or_default();
    MachineFacts {
        os_version: line("/proc/sys/kernel/osrelease"),
        cpu_model: procfs::cpuinfo_value(&cpuinfo, "model name"),
        memory_bytes: text("/proc/meminfo").and_then(|text| procfs::meminfo_bytes(&text, "MemTotal")),
        governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        virtual_machine: procfs::cpuinfo_value(&cpuinfo, "flags")
            .map(|flags| flags.split_ascii_whitespace().any(|flag| flag == "hypervisor")),
        drivers: drivers(std::path::Path::new("/sys/module")),
        ..MachineFacts::basic()
    }
}

/// Ticks of all processors since boot.
pub fn machine_times() -> Option<crate::devices::MachineTimes> {
    let all = procfs::parse_machine_stat(&std::fs::read("/proc/stat").ok()?).all?;
    Some(crate::devices::MachineTimes { busy: all.busy, idle: all.idle })
}

/// Linux devices are found through files.
pub fn find_devices(_nvidia: usize, _found: &mut crate::devices::Found) -> &'static [&'static str] {
    &[]
}

/// Linux has no slower source.
pub fn inventory() -> Option<Result<crate::machine::Inventory, String>> {
    None
}

pub fn machine_model() -> crate::machine::MachineModel {
    let line = |path: &str| {
        let text = std::fs::read_to_string(path).ok()?;
        Some(text.trim_matches(['\0', '\n', ' ']).to_owned()).filter(|text| !text.is_empty())
    };
    let chassis = line("/sys/class/dmi/id/chassis_type").and_then(|number| number.parse().ok());
    let is_virtual = machine_facts().virtual_machine == Some(true);
    crate::machine::MachineModel {
        kind: crate::machine::MachineModel::kind_of(chassis, is_virtual),
        maker: line("/sys/class/dmi/id/sys_vendor"),
        // Machines without SMBIOS have a device tree.
        model: line("/sys/class/dmi/id/product_name").or_else(|| line("/proc/device-tree/model")),
    }
}

/// Loaded GPU and NPU kernel modules, with their own version if they have one.
fn drivers(modules: &std::path::Path) -> std::collections::BTreeMap<String, String> {
    const NAMES: [&str; 9] =
        ["nvidia", "amdgpu", "i915", "xe", "intel_vpu", "amdxdna", "qaic", "habanalabs", "rknpu"];
    let version = |name: &str| {
        let directory = modules.join(name);
        let own = std::fs::read_to_string(directory.join("version")).ok();
        let own = own.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        directory.is_dir().then(|| own.unwrap_or_else(|| "built into the kernel".to_owned()))
    };
    NAMES.iter().filter_map(|name| Some(((*name).to_owned(), version(name)?))).collect()
}

pub fn etw_functions() -> Option<std::sync::Arc<dyn crate::etw::EtwApi>> {
    None
}

#[cfg(test)]
mod tests {
    use super::drivers;

    #[test]
    fn drivers_have_their_own_version_or_the_kernels() {
        let root = tempfile::tempdir().expect("a temporary directory");
        for (module, version) in [("nvidia", Some("550.54.14\n")), ("xe", None), ("snd", Some("1"))] {
            let directory = root.path().join(module);
            std::fs::create_dir(&directory).expect("a directory");
            if let Some(version) = version {
                std::fs::write(directory.join("version"), version).expect("a file");
            }
        }
        let found: Vec<(String, String)> = drivers(root.path()).into_iter().collect();
        let expected = [("nvidia", "550.54.14"), ("xe", "built into the kernel")];
        assert_eq!(found, expected.map(|(name, version)| (name.to_owned(), version.to_owned())));
        assert!(drivers(&root.path().join("none")).is_empty());
    }
}
