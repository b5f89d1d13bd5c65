//! Processor counters of processes: instructions, cycles and caches.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;

use ortscope_decode::l2_events::{L2Events, l2_events};

use super::perf_open::{self, Event};
use crate::devices::{Missing, Reader, Reading};

const SOURCE: &str = "perf";
/// Limit for processes with counters; each needs ten descriptors.
const MAX_PROCESSES: usize = 64;

/// The counted events, in this order.
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
    /// The file of each event that this processor supports.
    files: [Option<File>; EVENTS.len()],
    last: [Option<f64>; EVENTS.len()],
    /// The two L2 cache events, where the processor model has known ones.
    l2: Option<Level2>,
}

#[derive(Debug)]
struct Level2 {
    events: L2Events,
    files: [File; 2],
    last: [Option<f64>; 2],
}

impl Level2 {
    fn open(pid: u32, events: L2Events) -> io::Result<Self> {
        let files = open_pair(pid, [events.first, events.misses].map(Event::raw))?;
        Ok(Self { events, files, last: [None; 2] })
    }

    /// Emits the counts so far and the hit ratio since the last reading.
    fn read(&mut self, emit: &mut dyn FnMut(&'static str, f64)) {
        let [first, misses] = &mut self.files;
        let (Some(first), Some(misses)) = (count(first), count(misses)) else { return };
        self.advance([first, misses], emit);
    }

    fn advance(&mut self, counted: [f64; 2], emit: &mut dyn FnMut(&'static str, f64)) {
        // Scaled counts can decrease slightly; a total must not.
        let now = [0, 1].map(|of| self.last[of].map_or(counted[of], |before| counted[of].max(before)));
        let before = std::mem::replace(&mut self.last, now.map(Some));
        emit("l2_accesses_count", self.events.accesses(now[0], now[1]));
        emit("l2_misses_count", now[1]);
        if let [Some(first), Some(misses)] = before
            && let Some(ratio) = self.events.hit_ratio(now[0] - first, now[1] - misses)
        {
            emit("l2_hit_ratio", ratio);
        }
    }
}

/// Opens two events that are counted during the same intervals, so that their ratio is meaningful.
fn open_pair(pid: u32, [first, second]: [Event; 2]) -> io::Result<[File; 2]> {
    let leader = File::from(perf_open::open_process(pid, first)?);
    let member = perf_open::open_process_grouped(pid, second, Some(leader.as_fd()))?;
    Ok([leader, File::from(member)])
}

#[derive(Debug)]
struct Counters {
    processes: Vec<Process>,
    /// Why there is no L2 hit ratio, until it is reported.
    no_l2: Option<Missing>,
}

/// Counters of processes and of the threads that they start from now on.
pub fn hardware_counters(pids: &[u32]) -> Result<Box<dyn Reader>, Missing> {
    let cpuinfo = fs_err::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let l2 = l2_events(&cpuinfo);
    let mut no_l2 = l2.as_ref().err().map(|why| missing_l2(why));
    let (mut processes, mut why) = (Vec::new(), None);
    for pid in pids.iter().take(MAX_PROCESSES) {
        let mut files = [const { None }; EVENTS.len()];
        for (place, (_, event)) in files.iter_mut().zip(EVENTS) {
            match perf_open::open_process(*pid, event) {
                Ok(descriptor) => *place = Some(File::from(descriptor)),
                Err(error) => why = why.or(Some(error)),
            }
        }
        // Without the first two events there are no counters, or no permission.
        if files[0].is_some() && files[1].is_some() {
            let l2 = match l2.as_ref().map(|events| Level2::open(*pid, *events)) {
                Ok(Ok(opened)) => Some(opened),
                Ok(Err(error)) => {
                    no_l2.get_or_insert_with(|| missing_l2(&format!("its event cannot be opened: {error}")));
                    None
                }
                Err(_) => None,
            };
            let device = format!("process-{pid}");
            processes.push(Process { device, files, last: Default::default(), l2 });
        }
    }
    if processes.is_empty() {
        return Err(missing(why.as_ref()));
    }
    Ok(Box::new(Counters { processes, no_l2 }))
}

fn missing_l2(why: &str) -> Missing {
    Missing {
        what: "l2_hit_ratio",
        why: format!("L2 cache hits are not counted: {why}"),
        hint: "L1 and the last level are still counted; `perf list` shows the events of this processor"
            .to_owned(),
    }
}

fn missing(error: Option<&io::Error>) -> Missing {
    let (why, hint) = match error.and_then(io::Error::raw_os_error) {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => (
            "this machine exposes no processor counters (instructions, cycles, caches): a virtual machine without a PMU".to_owned(),
            "measure on bare metal, or enable the PMU in the hypervisor (kvm: -cpu host,pmu=on)",
        ),
        Some(libc::EACCES | libc::EPERM) => (
            "permission to use processor counters was denied".to_owned(),
            "sysctl kernel.perf_event_paranoid=2, or CAP_PERFMON; in a container allow perf_event_open",
        ),
        _ => (
            format!(
                "processor counters cannot be opened: {}",
                error.map_or_else(|| "no process to count".to_owned(), ToString::to_string)
            ),
            "`perf stat true` shows whether the kernel can count",
        ),
    };
    Missing { what: "cpu_counters", why, hint: hint.to_owned() }
}

/// A count, scaled to the whole time if the processor multiplexed events; `None` if it was never counted.
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

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), lost: &mut Vec<Missing>) {
        lost.extend(self.no_l2.take());
        for process in &mut self.processes {
            let mut steps = [None; EVENTS.len()];
            let mut emit = |metric, value| {
                out(Reading { at_ns, device: &process.device, metric, value, source: SOURCE });
            };
            for (index, file) in process.files.iter_mut().enumerate() {
                let Some(now) = file.as_mut().and_then(count) else { continue };
                // Scaled counts can decrease slightly; a total must not.
                let before = process.last[index];
                let now = before.map_or(now, |before| now.max(before));
                process.last[index] = Some(now);
                emit(EVENTS[index].0, now);
                steps[index] = before.map(|before| now - before);
            }
            let part = |part: Option<f64>, whole: Option<f64>| {
                part.zip(whole).filter(|(_, whole)| *whole > 0.0).map(|(part, whole)| part / whole)
            };
            if let Some(rate) = part(steps[0], steps[1]) {
                emit("instructions_per_cycle_ratio", rate);
            }
            for (metric, misses, accesses) in [("l1_hit_ratio", 5, 4), ("l3_hit_ratio", 7, 6)] {
                if let Some(missed) = part(steps[misses], steps[accesses]) {
                    emit(metric, (1.0 - missed).clamp(0.0, 1.0));
                }
            }
            if let Some(l2) = &mut process.l2 {
                l2.read(&mut emit);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ortscope_decode::l2_events::FirstIs;

    use super::*;

    #[test]
    fn counters_of_this_process_count_or_have_a_reason() {
        match hardware_counters(&[std::process::id()]) {
            Ok(mut counters) => {
                let mut readings = Vec::new();
                for at_ns in 1..=2 {
                    std::hint::black_box((0..100_000u64).sum::<u64>());
                    counters.read(
                        at_ns,
                        &mut |reading| readings.push(reading.metric.to_owned()),
                        &mut Vec::new(),
                    );
                }
                assert!(readings.iter().any(|metric| metric == "instructions_count"), "{readings:?}");
            }
            Err(missing) => {
                assert_eq!(missing.what, "cpu_counters");
                assert!(!missing.why.is_empty() && !missing.hint.is_empty());
            }
        }
        let gone = hardware_counters(&[]).err().expect("no process has no counters");
        assert!(gone.why.contains("no process"), "{}", gone.why);
    }

    /// Tests the handling of the numbers with software counters instead of hardware ones.
    #[test]
    fn l2_hit_ratio_covers_the_time_between_two_readings() {
        let events = L2Events { first: 1, misses: 2, first_is: FirstIs::Hits };
        let files = [(); 2].map(|()| File::open("/dev/null").expect("it is always there"));
        let mut l2 = Level2 { events, files, last: [None; 2] };
        let mut readings = Vec::new();
        for counted in [[1000.0, 500.0], [1300.0, 600.0], [1290.0, 600.0], [1300.0, 600.0]] {
            l2.advance(counted, &mut |metric, value| readings.push((metric, value)));
        }
        let of = |wanted: &str| -> Vec<f64> {
            readings.iter().filter(|(metric, _)| *metric == wanted).map(|(_, value)| *value).collect()
        };
        assert_eq!(of("l2_accesses_count"), [1500.0, 1900.0, 1900.0, 1900.0]);
        assert_eq!(of("l2_misses_count"), [500.0, 600.0, 600.0, 600.0]);
        // Without counts in between there is no ratio.
        assert_eq!(of("l2_hit_ratio"), [0.75]);
        // A file without data is not a count of 0.
        l2.read(&mut |metric, value| panic!("{metric} {value}"));
    }

    /// Regression: hits and misses were opened separately, and a multiplexing processor counted them at different
    /// times. Software counters replace the hardware here; both must be of one PMU, because a group member of
    /// another PMU (such as page faults with the task clock) does not count before the next context switch.
    #[test]
    fn two_events_are_opened_as_one_group_and_both_count() {
        let software = |config| Event { kind: 1, config };
        let (faults, minor_faults) = (software(2), software(5));
        let this_thread = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        let Ok([mut leader, mut member]) = open_pair(this_thread, [faults, minor_faults]) else {
            return println!("skipped: perf_event_open is not allowed here");
        };
        // More than the allocator keeps cached, so that new pages are touched.
        std::hint::black_box(vec![1_u8; 1 << 26]);
        for file in [&mut leader, &mut member] {
            assert!(count(file).is_some_and(|faults| faults > 0.0), "the event does not count");
        }
    }

    #[test]
    fn a_processor_without_known_l2_events_is_reported_once() {
        let mut counters = Counters { processes: Vec::new(), no_l2: Some(missing_l2("no event")) };
        let mut lost = Vec::new();
        for at_ns in 0..2 {
            counters.read(at_ns, &mut |_| {}, &mut lost);
        }
        assert_eq!(lost.len(), 1);
        assert!(lost[0].why.contains("L2 cache hits are not counted: no event"), "{lost:?}");
    }

    #[test]
    fn reasons_have_hints() {
        let why = |code| missing(Some(&io::Error::from_raw_os_error(code)));
        assert!(why(libc::ENOENT).why.contains("virtual machine"));
        assert!(why(libc::EACCES).hint.contains("perf_event_paranoid"));
        assert!(why(libc::EMFILE).why.contains("cannot be opened"));
    }
}
