//! Kernel events without BPF: perf's records of switches, starts and exits, one ring per processor.
//!
//! Requires only CAP_PERFMON, or `kernel.perf_event_paranoid` at most 0. Costs the watched threads three to four times
//! as much as our BPF programs, and provides neither run times and exit codes nor wake-ups, faults and I/O. A switch
//! consists of two records, and losses count records.

use std::os::fd::OwnedFd;

use ortscope_core::clock::now_ns;
use ortscope_core::kernel::{KernelEvent, Switch, SwitchReason, Task};
use ortscope_decode::perf_record::{self, GONE, PerfRecord};

use super::merge::{Lane, Merge};
use super::perf_raw::{MIN_RING_BYTES, Next, RawRing};
use super::{perf_open, processors, rights};
use crate::kernel::{ClassUnavailable, DrainStats, TraceError, TraceOptions};

/// Maximum length of a record with our settings; longer ones are skipped.
const MAX_RECORD_BYTES: usize = 256;

#[derive(Debug)]
pub struct PerfTrace {
    lanes: Vec<PerfLane>,
    merge: Merge,
    unavailable: Vec<ClassUnavailable>,
    drained_ns: u64,
}

impl PerfTrace {
    pub fn open(options: &TraceOptions) -> Result<Self, TraceError> {
        let cpus = processors::online();
        let bytes = options.ring_bytes(cpus).max(MIN_RING_BYTES);
        let mut lanes = Vec::new();
        for cpu in 0..cpus as u32 {
            match perf_open::open_switches(cpu) {
                Ok(descriptor) => lanes.push(PerfLane::map(descriptor, cpu, bytes)?),
                // The processor does not exist or is offline.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
                Err(error) => {
                    return Err(rights::perf_error("opening a kernel event ring for every processor", error));
                }
            }
        }
        let why = "perf rings provide only switches, starts and exits; BPF provides more".to_owned();
        let unavailable = options
            .classes
            .iter()
            .map(|class| ClassUnavailable { class: *class, why: why.clone() })
            .collect();
        Ok(Self { lanes, merge: Merge::default(), unavailable, drained_ns: 0 })
    }

    pub fn unavailable(&self) -> &[ClassUnavailable] {
        &self.unavailable
    }

    pub fn ring_bytes(&self) -> usize {
        self.lanes.iter().map(|lane| lane.ring.bytes()).sum()
    }

    pub fn drain(&mut self, out: &mut impl FnMut(KernelEvent)) -> DrainStats {
        let until_ns = now_ns();
        let before_ns = self.drained_ns;
        let mut stats = DrainStats::default();
        self.merge.run(&mut self.lanes, until_ns, &mut |event| {
            stats.events += 1;
            stats.late += u64::from(event.at_ns() < before_ns);
            out(event);
        });
        for lane in &mut self.lanes {
            lane.ring.release();
            stats.lost += std::mem::take(&mut lane.lost);
            stats.unknown += std::mem::take(&mut lane.damaged);
        }
        self.drained_ns = until_ns;
        stats
    }
}

/// The reader of one processor's ring.
#[derive(Debug)]
struct PerfLane {
    ring: RawRing,
    /// Keeps the event open.
    _descriptor: OwnedFd,
    cpu: u32,
    lost: u64,
    damaged: u64,
    /// The running thread according to the last switch: the last record of an exited thread has no ids.
    running: Option<Task>,
    /// Buffer for one record.
    record: [u8; MAX_RECORD_BYTES],
}

impl PerfLane {
    fn map(descriptor: OwnedFd, cpu: u32, bytes: usize) -> Result<Self, TraceError> {
        let ring = RawRing::map(&descriptor, bytes, "opening a kernel event ring for every processor")?;
        let record = [0; MAX_RECORD_BYTES];
        Ok(Self { ring, _descriptor: descriptor, cpu, lost: 0, damaged: 0, running: None, record })
    }

    /// Fills in the ids of an exited thread with those of the thread that ran.
    fn follow(&mut self, mut switch: Switch) -> Switch {
        if switch.prev.tid == GONE {
            switch.prev = self.running.unwrap_or(Task::IDLE);
            switch.reason = SwitchReason::Ended;
        }
        self.running = (switch.next.tid != GONE).then_some(switch.next);
        switch
    }
}

impl Lane for PerfLane {
    fn next(&mut self, until_ns: u64) -> Option<KernelEvent> {
        loop {
            let bytes = match self.ring.peek() {
                Next::Nothing => return None,
                Next::Record(bytes) => bytes,
                Next::Damaged => {
                    self.damaged += 1;
                    return None;
                }
            };
            if bytes > MAX_RECORD_BYTES {
                self.ring.skip(bytes);
                self.damaged += 1;
                continue;
            }
            self.ring.copy(&mut self.record[..bytes]);
            let decoded = perf_record::decode(&self.record[..bytes]);
            let at_ns = match &decoded {
                PerfRecord::Event(event) => event.at_ns(),
                PerfRecord::Entered(switch) => switch.at_ns,
                _ => 0,
            };
            if at_ns > until_ns {
                return None;
            }
            self.ring.skip(bytes);
            match decoded {
                PerfRecord::Event(KernelEvent::Switch(switch)) => {
                    return Some(KernelEvent::Switch(Switch { cpu: self.cpu, ..self.follow(switch) }));
                }
                // The first half was already reported.
                PerfRecord::Entered(switch) if self.running == Some(switch.next) => {}
                PerfRecord::Entered(switch) => {
                    return Some(KernelEvent::Switch(Switch { cpu: self.cpu, ..self.follow(switch) }));
                }
                PerfRecord::Event(event) => return Some(event),
                PerfRecord::Lost(lost) => self.lost += lost,
                PerfRecord::Damaged => self.damaged += 1,
                PerfRecord::Other => {}
            }
        }
    }
}
