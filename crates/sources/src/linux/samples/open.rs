//! Opens the events: for each thread on each processor, or for whole processors, with everything that is permitted.
//!
//! A thread event is inherited by everything the thread starts, needs no privileges for the user's own processes, and
//! does not affect others. It needs a descriptor per thread and processor; where those would be too many, whole
//! processors are sampled and the reader filters unwatched processes.

use std::os::fd::OwnedFd;

use ortscope_decode::perf_record_samples::{SAMPLE_TYPE, SAMPLE_TYPE_STACK};
use ortscope_decode::unwind::Machine;

use crate::kernel::{SampleOptions, TraceError};
use crate::sys::perf_open::{self, Sampling};
use crate::sys::perf_raw::RawRing;
use crate::sys::{processors, rights};

/// Limit for thread events; beyond it whole processors are sampled.
const MAX_EVENTS: usize = 2048;
/// A record is at most 64 KB long, including its other fields.
const MAX_STACK_BYTES: u32 = 56 << 10;
const WHAT: &str = "sampling processors with stacks";

#[derive(Debug)]
pub struct Opened {
    pub rings: Vec<RawRing>,
    /// Keeps the events open.
    pub events: Vec<OwnedFd>,
    pub sampling: Sampling,
    /// Whole processors are sampled; the reader filters unwatched processes.
    pub is_machine_wide: bool,
    /// What is not sampled, as messages.
    pub missing: Vec<String>,
}

/// Opens everything that is permitted. The error names the privilege missing for the minimum.
pub fn open(options: &SampleOptions) -> Result<Opened, TraceError> {
    let mut missing = Vec::new();
    let machine = Machine::native().filter(|_| options.stack_bytes > 0);
    let stack_bytes = options.stack_bytes.min(MAX_STACK_BYTES) & !7;
    let mut sampling = Sampling {
        hertz: u64::from(allowed_hertz(options.hertz, &mut missing)),
        kernel: options.kernel,
        stack: machine.map(|machine| (machine.register_mask(), stack_bytes)),
        build_ids: true,
        sample_type: if machine.is_some() { SAMPLE_TYPE_STACK } else { SAMPLE_TYPE },
    };
    let threads: Vec<u32> = options.pids.iter().flat_map(|pid| thread_ids(*pid)).collect();
    let cpus = processors::online();
    let is_machine_wide = threads.len() * cpus > MAX_EVENTS;
    let first = if is_machine_wide { None } else { Some(*threads.first().ok_or_else(ended)?) };
    probe(first, &mut sampling, &mut missing)?;
    let targets: Vec<Option<u32>> =
        if is_machine_wide { vec![None] } else { threads.into_iter().map(Some).collect() };
    raise_descriptor_limit(targets.len() * cpus);
    let ring_bytes = ring_bytes(options, &sampling, cpus);
    let mut opened = Opened { rings: Vec::new(), events: Vec::new(), sampling, is_machine_wide, missing };
    for cpu in 0..cpus as u32 {
        let mut owner: Option<usize> = None;
        for target in &targets {
            let event = match perf_open::open_samples(*target, cpu, &sampling) {
                Ok(event) => event,
                // An offline processor, or a thread that has exited meanwhile.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ESRCH)) => continue,
                Err(error) => return Err(rights::perf_error(WHAT, error)),
            };
            match owner {
                None => {
                    opened.rings.push(RawRing::map(&event, ring_bytes, WHAT)?);
                    owner = Some(opened.events.len());
                }
                Some(owner) => perf_open::share_ring(&event, &opened.events[owner])
                    .map_err(|error| rights::perf_error(WHAT, error))?,
            }
            opened.events.push(event);
        }
    }
    if opened.events.is_empty() { Err(ended()) } else { Ok(opened) }
}

fn ended() -> TraceError {
    TraceError::System {
        what: WHAT.to_owned(),
        source: std::io::Error::other("the process has already exited"),
    }
}

/// Finds what the kernel accepts, from the maximum to the minimum, with an event that is closed again.
fn probe(thread: Option<u32>, sampling: &mut Sampling, missing: &mut Vec<String>) -> Result<(), TraceError> {
    loop {
        let Err(error) = perf_open::open_samples(thread, 0, sampling) else { return Ok(()) };
        match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) if sampling.kernel && thread.is_some() => {
                sampling.kernel = false;
                let why = match rights::perf_error("sampling kernel code", error) {
                    TraceError::Permission { what, missing, .. } => format!("{what} needs {missing}"),
                    other => other.to_string(),
                };
                missing.push(format!("kernel frames: {why}"));
            }
            Some(libc::EINVAL) if sampling.build_ids => sampling.build_ids = false,
            Some(libc::EOPNOTSUPP | libc::EINVAL) if sampling.stack.is_some() => {
                sampling.stack = None;
                sampling.sample_type = SAMPLE_TYPE;
                missing.push(
                    "callers in code without frame pointers: this kernel cannot copy stacks".to_owned(),
                );
            }
            Some(libc::ESRCH) => return Err(ended()),
            _ => return Err(rights::perf_error(WHAT, error)),
        }
    }
}

fn allowed_hertz(wanted: u32, missing: &mut Vec<String>) -> u32 {
    let path = "/proc/sys/kernel/perf_event_max_sample_rate";
    let max = std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u32>().ok());
    match max {
        Some(max) if wanted > max => {
            missing
                .push(format!("{wanted} samples per second: kernel.perf_event_max_sample_rate allows {max}"));
            max.max(1)
        }
        _ => wanted.max(1),
    }
}

/// Capacity for half a second of samples; the ring is drained ten times as often.
fn ring_bytes(options: &SampleOptions, sampling: &Sampling, cpus: usize) -> usize {
    let record = 2048 + sampling.stack.map_or(0, |(_, bytes)| bytes as usize);
    let wanted = record * sampling.hertz as usize / 2;
    wanted.next_power_of_two().clamp(512 << 10, 8 << 20).min(options.ring_bytes_total / cpus.max(1))
}

fn thread_ids(pid: u32) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Raises the soft limit, which is often 1024, towards the hard limit.
fn raise_descriptor_limit(wanted: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = wanted as u64 + 256;
    if limit.current.is_some_and(|current| current < wanted) {
        let current = limit.maximum.map_or(wanted, |max| max.min(wanted));
        // If this fails, opening reports its own error.
        setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: limit.maximum }).ok();
    }
}
