//! Watches every thread of the machine at minimal cost: exact CPU use per thread and window from context switches, and
//! the memory of processes whose memory may have changed. The cost depends on the number of switches, not of processes
//! or windows.

use std::time::Duration;

use ortscope_core::clock::now_ns;
use ortscope_core::kernel::{Usage, Window};

use crate::kernel::{TraceError, TraceOptions};
use crate::kernel_events::{KernelTrace, ResidentMemory, ThreadSnapshot};

/// Delay after which a window is reported: by then all processors have delivered their events.
const SETTLED_NS: u64 = 5_000_000;
/// Change marks are incomplete (pages reclaimed by the kernel, or fewer than each processor's batch), so the memory of
/// processes that ran is read again after this time in any case.
const MARKS_TRUSTED_NS: u64 = 5_000_000_000;

/// Memory of a process that ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryReading {
    pub at_ns: u64,
    pub pid: u32,
    pub resident_bytes: u64,
}

/// Event stream statistics and the number of memory readings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageWatchCounts {
    pub events: u64,
    pub lost: u64,
    pub recursion_misses: u64,
    pub chain_breaks: u64,
    pub memory_reads: u64,
}

/// Watches the whole machine until it is dropped. Drain it 10 to 20 times per second.
#[derive(Debug)]
pub struct UsageWatch {
    trace: KernelTrace,
    usage: Usage,
    memory: ResidentMemory,
    memory_every_ns: u64,
    memory_read_ns: u64,
    /// Processes that ran since all were read, reported or not.
    ran: Vec<u32>,
    all_read_ns: u64,
    counts: UsageWatchCounts,
}

impl UsageWatch {
    /// The error names the missing privilege or kernel feature.
    pub fn open(
        options: &TraceOptions,
        window: Duration,
        memory_every: Duration,
    ) -> Result<Self, TraceError> {
        let trace = KernelTrace::open(options)?;
        let now_ns = now_ns();
        let mut usage = Usage::new(nanos(window), now_ns);
        let mut states = Vec::new();
        // Without a snapshot, the first switch of each thread is measured by the clock.
        if let Ok(mut snapshot) = ThreadSnapshot::open()
            && snapshot.take(&mut states).is_ok()
        {
            usage.begin(&states);
        }
        Ok(Self {
            trace,
            usage,
            memory: ResidentMemory::new(),
            memory_every_ns: nanos(memory_every),
            memory_read_ns: now_ns,
            ran: Vec::new(),
            all_read_ns: now_ns,
            counts: UsageWatchCounts::default(),
        })
    }

    pub fn counts(&self) -> UsageWatchCounts {
        UsageWatchCounts { chain_breaks: self.usage.counts().chain_breaks, ..self.counts }
    }

    pub fn ring_bytes(&self) -> usize {
        self.trace.ring_bytes()
    }

    /// Reports every settled window in which a thread ran, and memory where due. Returns the time of the oldest
    /// waiting event.
    pub fn drain(
        &mut self,
        on_window: &mut impl FnMut(Window),
        on_memory: &mut impl FnMut(MemoryReading),
    ) -> Option<u64> {
        let now_ns = now_ns();
        let usage = &mut self.usage;
        let mut oldest_ns = None;
        let stats = self.trace.drain(&mut |event| {
            oldest_ns.get_or_insert(event.at_ns());
            usage.apply(&event);
        });
        self.counts.events += stats.events;
        self.counts.lost += stats.lost;
        self.counts.recursion_misses += stats.recursion_misses;
        let ran = &mut self.ran;
        usage.settle(now_ns.saturating_sub(SETTLED_NS), &mut |window| {
            if ran.last() != Some(&window.thread.pid) {
                ran.push(window.thread.pid);
            }
            on_window(window);
        });
        if now_ns.saturating_sub(self.memory_read_ns) >= self.memory_every_ns {
            self.memory_read_ns = now_ns;
            self.read_memory(now_ns, on_memory);
        }
        oldest_ns
    }

    fn read_memory(&mut self, now_ns: u64, on_memory: &mut impl FnMut(MemoryReading)) {
        let (memory, counts) = (&mut self.memory, &mut self.counts);
        let mut read = |pid: u32| {
            counts.memory_reads += 1;
            if let Some(resident_bytes) = memory.read_bytes(pid) {
                on_memory(MemoryReading { at_ns: now_ns, pid, resident_bytes });
            }
        };
        let is_full = now_ns.saturating_sub(self.all_read_ns) >= MARKS_TRUSTED_NS;
        let ran = &mut self.ran;
        self.usage.take_memory_stale(|pid| match is_full {
            true => ran.push(pid),
            false => read(pid),
        });
        if is_full {
            self.all_read_ns = now_ns;
            ran.sort_unstable();
            ran.dedup();
            ran.drain(..).for_each(read);
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
