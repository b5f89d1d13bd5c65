//! What to trace, and what a drain of the rings tells.

/// The way events come out of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackendChoice {
    /// The best that works.
    #[default]
    Auto,
    Bpf,
    PerfRing,
}

/// A way that this system has, best first.
#[derive(Debug, Clone, Copy)]
pub struct TraceWay {
    pub name: &'static str,
    pub choice: BackendChoice,
    /// What it sees.
    pub sees: &'static str,
}

/// The way that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TraceBackend {
    /// Programs in the kernel: every class, exact run times, lost events heal.
    Bpf,
    /// perf's own records: switches, starts and ends; run times from time stamps, about 0.5 % low.
    PerfRing,
    /// A session of Windows' event tracing: every class, exact times of switches.
    Etw,
    /// None on this system.
    Absent,
}

/// Kinds of events that can be switched on one by one. Switches, starts and ends always come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Who wakes whom; about as many as switches.
    Wakeups,
    Migrations,
    /// Minor and major ones with their addresses.
    PageFaults,
    BlockIo,
    /// `mmap`, `munmap` and `brk`. Makes every system call of the machine a little slower: the program looks at each one's end.
    MemoryCalls,
    /// Calls that read, write, open and sync files, added up in the kernel. Looks at both ends of every system call.
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

/// What to trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceOptions {
    pub backend: BackendChoice,
    pub classes: Vec<Class>,
    /// Ring of each processor, 2 MB: holds 32,768 events. When it is full, new events are dropped and counted.
    pub ring_bytes_per_cpu: usize,
    /// All rings together, 64 MB: on machines with many processors each ring is shortened to fit.
    pub ring_bytes_total: usize,
    /// Let the kernel measure what each program costs; that itself costs about 20 ns per event and needs CAP_SYS_ADMIN.
    pub measure_cost: bool,
    /// The same, but only for one second in ten: enough to know the cost, and a tenth of what knowing costs.
    pub sample_cost: bool,
    /// Windows: counters of the processor that every switch tells, by their names there.
    pub counters: Vec<String>,
    /// Windows: read this session, which runs already, and neither change nor stop it.
    pub session: Option<String>,
    /// Windows: what a session of our own is asked for beside the classes; `None`: the defaults, under a name of this process.
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
    /// Everything there is.
    pub fn everything() -> Self {
        Self { classes: Class::ALL.to_vec(), ..Self::default() }
    }

    /// The ring of each of so many processors, at least one page.
    pub fn ring_bytes(&self, cpus: usize) -> usize {
        self.ring_bytes_per_cpu.min(self.ring_bytes_total / cpus.max(1)).max(4096)
    }
}

/// A class that was asked for and does not work here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassUnavailable {
    pub class: Class,
    pub why: String,
}

/// What one drain of the rings found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DrainStats {
    /// Events handed out.
    pub events: u64,
    /// Events that found a full ring since the last drain.
    pub lost: u64,
    /// Times since the last drain that the kernel did not run a program because it was running already; asked once a
    /// second.
    pub recursion_misses: u64,
    /// Events older than the end of the drain before: they were being written at that moment.
    pub late: u64,
    /// Records of a kind that is not known.
    pub unknown: u64,
}

/// What a process counted by one counter of the processor since it was asked last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterSum {
    pub pid: u32,
    /// Such as `InstructionRetired`.
    pub name: String,
    pub value: u64,
}

/// What a program costs the watched threads, as the kernel measured it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramCost {
    pub program: &'static str,
    /// What it is for: the name of a class, `switches`, or `starts and ends`.
    pub class: &'static str,
    pub runs: u64,
    pub total_ns: u64,
}
