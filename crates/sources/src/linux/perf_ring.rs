//! Kernel events without BPF: perf's own records of switches, starts and ends, one ring per processor.
//!
//! Needs CAP_PERFMON alone, or `kernel.perf_event_paranoid` at 0 or below. Costs the watched threads three to four times
//! what our BPF programs do, tells neither run times nor exit codes, and nothing of wake-ups, faults and I/O. A switch is
//! two records, and losses count records.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use ortscope_core::clock::now_nanos;
use ortscope_core::kernel::{KernelEvent, Switch, SwitchReason, Task};
use ortscope_decode::perf_record::{self, GONE, PerfRecord};

use super::merge::{Lane, Merge};
use super::shared::SharedMemory;
use super::{perf_open, processors, rights};
use crate::kernel::{ClassUnavailable, DrainStats, TraceError, TraceOptions};

/// The ring's control page, and where its positions stand.
const PAGE_BYTES: usize = 4096;
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;
const DATA_OFFSET: usize = 1040;
const DATA_BYTES: usize = 1048;
/// Without CAP_IPC_LOCK the kernel allows about 512 KB per processor; below this a ring is of no use.
const MIN_RING_BYTES: usize = 64 << 10;
/// A record with our settings is at most this long; a longer one is skipped.
const MAX_RECORD_BYTES: usize = 256;

/// Events by perf rings.
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
                // A number without a processor, or one that is switched off.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
                Err(error) => return Err(rights::perf_error("a ring of kernel events for every processor", error)),
            }
        }
        let why = "perf rings tell only of switches, starts and ends; BPF tells more".to_owned();
        let unavailable =
            options.classes.iter().map(|class| ClassUnavailable { class: *class, why: why.clone() }).collect();
        Ok(Self { lanes, merge: Merge::default(), unavailable, drained_ns: 0 })
    }

    pub fn unavailable(&self) -> &[ClassUnavailable] {
        &self.unavailable
    }

    pub fn ring_bytes(&self) -> usize {
        self.lanes.iter().map(|lane| lane.memory.len()).sum()
    }

    pub fn drain(&mut self, out: &mut impl FnMut(KernelEvent)) -> DrainStats {
        let until_ns = now_nanos();
        let before_ns = self.drained_ns;
        let mut stats = DrainStats::default();
        self.merge.run(&mut self.lanes, until_ns, &mut |event| {
            stats.events += 1;
            stats.late += u64::from(event.at_ns() < before_ns);
            out(event);
        });
        for lane in &mut self.lanes {
            lane.release();
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
    memory: SharedMemory,
    /// Keeps the event alive.
    _descriptor: OwnedFd,
    cpu: u32,
    data_offset: usize,
    data_bytes: usize,
    tail: u64,
    head: u64,
    lost: u64,
    damaged: u64,
    /// The thread that runs, from the last switch: one that ends and is collected has no ids in its last record.
    running: Option<Task>,
    /// The record that is being read.
    record: [u8; MAX_RECORD_BYTES],
}

impl PerfLane {
    fn map(descriptor: OwnedFd, cpu: u32, bytes: usize) -> Result<Self, TraceError> {
        // The kernel wants a power of two of pages; where it does not allow so many, half of them.
        let mut bytes = 1usize << bytes.max(MIN_RING_BYTES).ilog2();
        let memory = loop {
            match SharedMemory::map(&descriptor, bytes + PAGE_BYTES) {
                Ok(memory) => break memory,
                Err(_) if bytes > MIN_RING_BYTES => bytes /= 2,
                Err(error) => return Err(rights::perf_error("a ring of kernel events for every processor", error)),
            }
        };
        let place = |at: usize| memory.word(at).load(Ordering::Relaxed) as usize;
        let (data_offset, data_bytes) = (place(DATA_OFFSET), place(DATA_BYTES));
        // Only kernels from before 4.1 leave them empty; a ring outside the mapping would be a kernel's mistake.
        let fits = data_bytes == bytes && data_offset + data_bytes <= memory.len();
        let (data_offset, data_bytes) = if fits { (data_offset, data_bytes) } else { (PAGE_BYTES, bytes) };
        Ok(Self {
            memory,
            _descriptor: descriptor,
            cpu,
            data_offset,
            data_bytes,
            tail: 0,
            head: 0,
            lost: 0,
            damaged: 0,
            running: None,
            record: [0; MAX_RECORD_BYTES],
        })
    }

    fn release(&self) {
        self.memory.word(DATA_TAIL).store(self.tail, Ordering::Release);
    }

    /// Copies the next bytes out of the ring, over its end if they go on at its start.
    fn copy(&mut self, bytes: usize) {
        let begin = self.tail as usize & (self.data_bytes - 1);
        let first = bytes.min(self.data_bytes - begin);
        let (head, rest) = self.record[..bytes].split_at_mut(first);
        self.memory.read(self.data_offset + begin, head);
        self.memory.read(self.data_offset, rest);
    }

    /// The ids of a thread that has none any more are those of the thread that ran.
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
            if self.tail == self.head {
                self.head = self.memory.word(DATA_HEAD).load(Ordering::Acquire);
            }
            let available = self.head.wrapping_sub(self.tail);
            if available < perf_record::HEADER_BYTES as u64 {
                return None;
            }
            self.copy(perf_record::HEADER_BYTES);
            let Some(bytes) = perf_record::record_bytes(&self.record).filter(|bytes| *bytes as u64 <= available) else {
                // Nothing after it can be found: begin anew at the head.
                self.tail = self.head;
                self.damaged += 1;
                return None;
            };
            if bytes > MAX_RECORD_BYTES {
                self.tail += bytes as u64;
                self.damaged += 1;
                continue;
            }
            self.copy(bytes);
            let decoded = perf_record::decode(&self.record[..bytes]);
            let at_ns = match &decoded {
                PerfRecord::Event(event) => event.at_ns(),
                PerfRecord::Entered(switch) => switch.at_ns,
                _ => 0,
            };
            if at_ns > until_ns {
                return None;
            }
            self.tail += bytes as u64;
            match decoded {
                PerfRecord::Event(KernelEvent::Switch(switch)) => {
                    return Some(KernelEvent::Switch(Switch { cpu: self.cpu, ..self.follow(switch) }));
                }
                // The first half was there already.
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
