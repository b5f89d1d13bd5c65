//! Counters of the processor itself: instructions, cycles and caches of processes.

use std::fs::File;
use std::io::{self, Read as _};

use super::perf_open::{self, Event};
use crate::devices::{Missing, Reader, Reading};

const SOURCE: &str = "perf";
/// Processes whose counters are opened; each takes seven descriptors.
const MOST_PROCESSES: usize = 64;

/// What is counted, in this order.
const EVENTS: [(&str, Event); 8] = [
    ("instructions_count", Event::hardware(1)),
    ("cycles_count", Event::hardware(0)),
    ("cache_references_count", Event::hardware(2)),
    ("cache_misses_count", Event::hardware(3)),
    ("l1_accesses_count", Event::cache(0, false)),
    ("l1_misses_count", Event::cache(0, true)),
    ("l3_accesses_count", Event::cache(2, false)),
    ("l3_misses_count", Event::cache(2, true)),
];

#[derive(Debug)]
struct Process {
    device: String,
    /// The file of each event that this processor has.
    files: [Option<File>; EVENTS.len()],
    last: [Option<f64>; EVENTS.len()],
}

#[derive(Debug)]
struct Counters(Vec<Process>);

/// Counters of processes and of the threads that they start from now on.
pub fn hardware_counters(pids: &[u32]) -> Result<Box<dyn Reader>, Missing> {
    let (mut processes, mut why) = (Vec::new(), None);
    for pid in pids.iter().take(MOST_PROCESSES) {
        let mut files = [const { None }; EVENTS.len()];
        for (place, (_, event)) in files.iter_mut().zip(EVENTS) {
            match perf_open::open_process(*pid, event) {
                Ok(descriptor) => *place = Some(File::from(descriptor)),
                Err(error) => why = why.or(Some(error)),
            }
        }
        // Without the first two there is no counter at all, or no right to it.
        if files[0].is_some() && files[1].is_some() {
            processes.push(Process { device: format!("process-{pid}"), files, last: Default::default() });
        }
    }
    if processes.is_empty() {
        return Err(missing(why.as_ref()));
    }
    Ok(Box::new(Counters(processes)))
}

fn missing(error: Option<&io::Error>) -> Missing {
    let (why, hint) = match error.and_then(io::Error::raw_os_error) {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => (
            "this machine shows no counters of its processor (instructions, cycles, caches): a virtual machine without a PMU".to_owned(),
            "measure on the machine itself, or let the hypervisor pass the PMU on (kvm: -cpu host,pmu=on)",
        ),
        Some(libc::EACCES | libc::EPERM) => (
            "counters of the processor are not allowed here".to_owned(),
            "sysctl kernel.perf_event_paranoid=2, or CAP_PERFMON; in a container allow perf_event_open",
        ),
        _ => (
            format!(
                "counters of the processor do not open: {}",
                error.map_or_else(|| "no process to count".to_owned(), ToString::to_string)
            ),
            "`perf stat true` says whether the kernel can count here",
        ),
    };
    Missing { what: "cpu_counters", why, hint: hint.to_owned() }
}

/// A count, scaled to the whole time where the processor counted other events in between; `None`: not counted at all.
pub(super) fn count(file: &mut File) -> Option<f64> {
    let mut bytes = [0; 24];
    file.read_exact(&mut bytes).ok()?;
    let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
    let (value, enabled, running) = (word(0) as f64, word(8), word(16));
    (running > 0).then(|| value * enabled as f64 / running as f64)
}

impl Reader for Counters {
    fn describe(&self) -> String {
        "instructions, cycles and caches of the watched processes (perf)".to_owned()
    }

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), _lost: &mut Vec<Missing>) {
        for process in &mut self.0 {
            let mut steps = [None; EVENTS.len()];
            let mut tell = |metric, value| {
                out(Reading { at_ns, device: &process.device, metric, value, source: SOURCE });
            };
            for (index, file) in process.files.iter_mut().enumerate() {
                let Some(now) = file.as_mut().and_then(count) else { continue };
                // Scaled counts can go back a little: a total never does.
                let before = process.last[index];
                let now = before.map_or(now, |before| now.max(before));
                process.last[index] = Some(now);
                tell(EVENTS[index].0, now);
                steps[index] = before.map(|before| now - before);
            }
            let part = |part: Option<f64>, whole: Option<f64>| {
                part.zip(whole).filter(|(_, whole)| *whole > 0.0).map(|(part, whole)| part / whole)
            };
            if let Some(rate) = part(steps[0], steps[1]) {
                tell("instructions_per_cycle_ratio", rate);
            }
            for (metric, misses, accesses) in [("l1_hit_ratio", 5, 4), ("l3_hit_ratio", 7, 6)] {
                if let Some(missed) = part(steps[misses], steps[accesses]) {
                    tell(metric, (1.0 - missed).clamp(0.0, 1.0));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_this_process_count_or_say_why_not() {
        match hardware_counters(&[std::process::id()]) {
            Ok(mut counters) => {
                let mut told = Vec::new();
                for at_ns in 1..=2 {
                    std::hint::black_box((0..100_000u64).sum::<u64>());
                    counters.read(
                        at_ns,
                        &mut |reading| told.push(reading.metric.to_owned()),
                        &mut Vec::new(),
                    );
                }
                assert!(told.iter().any(|metric| metric == "instructions_count"), "{told:?}");
            }
            Err(missing) => {
                assert_eq!(missing.what, "cpu_counters");
                assert!(!missing.why.is_empty() && !missing.hint.is_empty());
            }
        }
        let gone = hardware_counters(&[]).err().expect("no process has no counters");
        assert!(gone.why.contains("no process"), "{}", gone.why);
    }

    #[test]
    fn reasons_name_what_would_change_them() {
        let why = |code| missing(Some(&io::Error::from_raw_os_error(code)));
        assert!(why(libc::ENOENT).why.contains("virtual machine"));
        assert!(why(libc::EACCES).hint.contains("perf_event_paranoid"));
        assert!(why(libc::EMFILE).why.contains("do not open"));
    }
}
