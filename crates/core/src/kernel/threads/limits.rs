//! What the accounts may hold, and what they had to leave out.

/// Bounds of the accounts. What does not fit is counted in [`Counts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How far back slices are kept, 10 s.
    pub horizon_ns: u64,
    /// Slices of one thread, 4096: when full, those of one millisecond are joined, then the oldest half is dropped.
    pub slices_per_thread: usize,
    /// Slices of all threads, 400,000 (10 MB): when full, all are joined, then the horizon is halved.
    pub slices: usize,
    /// Threads, ended ones included, 100,000: events of more are counted and left out.
    pub threads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { horizon_ns: 10_000_000_000, slices_per_thread: 4096, slices: 400_000, threads: 100_000 }
    }
}

/// What happened to the stream of events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub events: u64,
    /// Switches whose previous thread was not the one that ran there, of `chain_checked`.
    pub chain_breaks: u64,
    pub chain_checked: u64,
    /// Events that came after newer ones of the same thread, or after a snapshot that knew more; sums are right, the place
    /// in time may not be.
    pub late: u64,
    /// Switches away from a thread of which it is not known how long it ran.
    pub unmeasured: u64,
    /// Threads whose end was only known by another one with their id.
    pub missed_exits: u64,
    /// Events left out because there are too many threads.
    pub untracked: u64,
    /// Slices dropped before the horizon, because there were too many.
    pub dropped_slices: u64,
}
