//! Trace and sampling options, and their results.

/// The requested backend for kernel events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackendChoice {
    /// The best one that works.
    #[default]
    Auto,
    Bpf,
    PerfRing,
}

/// A backend of this system.
#[derive(Debug, Clone, Copy)]
pub struct TraceWay {
    pub name: &'static str,
    pub choice: BackendChoice,
    /// The events that it observes.
    pub sees: &'static str,
}

/// The backend in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TraceBackend {
    /// Programs in the kernel: every class, exact run times, and lost events are compensated.
    Bpf,
    /// perf's own records: switches, starts and ends; run times from timestamps are about 0.5% low.
    PerfRing,
    /// A Windows event tracing session: every class, exact switch times.
    Etw,
}

/// Event classes that can be enabled individually. Switches, starts and ends are always included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Which thread wakes which; about as frequent as switches.
    Wakeups,
    Migrations,
    /// Minor and major page faults with their addresses.
    PageFaults,
    BlockIo,
    /// `mmap`, `munmap` and `brk`. Slows down every system call of the machine slightly, because the program runs at
    /// the end of each one.
    MemoryCalls,
    /// Calls that read, write, open and sync files, aggregated in the kernel. The program runs at both ends of every
    /// system call.
    FileIo,
    /// Programs and libraries that are mapped.
    Images,
}

impl Class {
    pub const ALL: [Self; 7] = [
        Self::Wakeups,
        Self::Migrations,
        Self::PageFaults,
        Self::BlockIo,
        Self::MemoryCalls,
        Self::FileIo,
        Self::Images,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Wakeups => "wake-ups",
            Self::Migrations => "migrations",
            Self::PageFaults => "page faults",
            Self::BlockIo => "block I/O",
            Self::MemoryCalls => "memory calls",
            Self::FileIo => "file I/O",
            Self::Images => "image loads",
        }
    }
}

/// Trace options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceOptions {
    pub backend: BackendChoice,
    pub classes: Vec<Class>,
    /// Ring size per processor, 2 MB: holds 32,768 events. When it is full, new events are dropped and counted.
    pub ring_bytes_per_cpu: usize,
    /// Limit for all rings together, 64 MB: on machines with many processors each ring is shortened to fit.
    pub ring_bytes_total: usize,
    /// Let the kernel measure the overhead of each program, which costs about 20 ns per event and needs
    /// CAP_SYS_ADMIN.
    pub measure_cost: bool,
    /// The same for only one second in ten: enough to know the overhead, at a tenth of the cost.
    pub sample_cost: bool,
    /// Windows: names of processor counters recorded with every switch.
    pub counters: Vec<String>,
    /// Windows: attach to this running session, without changing or stopping it.
    pub session: Option<String>,
    /// Windows: settings of our own session in addition to the classes; `None` for the defaults, with a name derived
    /// from this process.
    pub etw: Option<crate::etw::Settings>,
}

impl Default for TraceOptions {
    fn default() -> Self {
        Self {
            backend: BackendChoice::Auto,
            classes: Vec::new(),
            ring_bytes_per_cpu: 2 << 20,
            ring_bytes_total: 64 << 20,
            measure_cost: false,
            sample_cost: false,
            counters: Vec::new(),
            session: None,
            etw: None,
        }
    }
}

impl TraceOptions {
    /// Enables every class.
    pub fn everything() -> Self {
        Self { classes: Class::ALL.to_vec(), ..Self::default() }
    }

    /// Ring size per processor for `cpus` processors, at least one page.
    pub fn ring_bytes(&self, cpus: usize) -> usize {
        self.ring_bytes_per_cpu.min(self.ring_bytes_total / cpus.max(1)).max(4096)
    }
}

/// A requested class that does not work on this system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassUnavailable {
    pub class: Class,
    pub why: String,
}

/// Result of draining the rings once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DrainStats {
    /// Delivered events.
    pub events: u64,
    /// Events that found a full ring since the last drain.
    pub lost: u64,
    /// How often since the last drain the kernel skipped a program because it was already running; updated once per
    /// second.
    pub recursion_misses: u64,
    /// Events older than the end of the previous drain: they were being written at that moment.
    pub late: u64,
    /// Records of an unknown kind.
    pub unknown: u64,
}

/// Growth of a processor counter in one process since it was last read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterSum {
    pub pid: u32,
    /// For example `InstructionRetired`.
    pub name: String,
    pub value: u64,
}

/// Overhead of a program in the watched threads, measured by the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramCost {
    pub program: &'static str,
    /// Its purpose: the name of a class, `switches`, or `starts and ends`.
    pub class: &'static str,
    pub runs: u64,
    pub total_ns: u64,
}

/// Options for processor samples with stacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleOptions {
    /// These processes with all their threads and descendants.
    pub pids: Vec<u32>,
    /// Samples per second on each processor, 1 to 20,000. Reduced to the kernel's limit, which is reported.
    pub hertz: u32,
    /// Bytes of the stack copied with every sample, to unwind code without frame pointers: 16 KB by default, at most
    /// 56 KB. 0 for frame pointers only.
    pub stack_bytes: u32,
    /// Include kernel frames where permitted.
    pub kernel: bool,
    /// All rings together: 32 MB. When one is full, new samples are dropped and counted.
    pub ring_bytes_total: usize,
}

impl Default for SampleOptions {
    fn default() -> Self {
        Self { pids: Vec::new(), hertz: 99, stack_bytes: 16 << 10, kernel: true, ring_bytes_total: 32 << 20 }
    }
}

/// Counts of a sampling run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SampleCounts {
    pub samples: u64,
    /// Samples and other records that found a full ring.
    pub lost: u64,
    /// How often the kernel throttled sampling because it took too long.
    pub throttled: u64,
    /// User stacks unwound by frame pointers, by tables, and by tables but not to the outermost function.
    pub by_frame_pointers: u64,
    pub by_tables: u64,
    pub cut: u64,
    /// Records that could not be decoded.
    pub damaged: u64,
}
