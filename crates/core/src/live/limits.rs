//! How much of the past is kept, and what happens when it is too much.

use serde::Serialize;

/// Bounds of the live memory. Whatever the others are set to, it is within [`Limits::total_bytes`] after every batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Total memory. Default 100 MB, at least [`Limits::MIN_TOTAL_BYTES`]. When full, the oldest data of the least
    /// important kind is dropped first: 1 s buckets of unselected processes, then of selected ones, 1 min buckets of
    /// unselected processes, 1 s buckets of devices and of the system, whole unselected processes, 1 s buckets of
    /// sessions; then minutes and whole tracks of the rest. Evictions are counted in [`Losses`](super::Losses).
    pub total_bytes: usize,
    /// Rows at the full rate, of all tracks together. Default 40 MB. When full, rings stop growing: they overwrite
    /// their oldest row earlier than their number of samples allows. Aggregates are not touched by it.
    pub full_rate_bytes: usize,
    /// Tracks with data. Default 2,000. When full, the least recently updated process that is not selected goes, and is
    /// counted; a new process that finds only live ones has to use more processor time than the idlest of them.
    pub tracks: usize,
    /// Rows at the full rate of each process, device and the system. Default 10,000. When full, the oldest is
    /// overwritten.
    pub ring_samples: usize,
    /// Inferences at the full rate, of all sessions together. Default 100,000. One session may use them all; several
    /// share them equally. A session without an inference for ten minutes gives its share back when others need it.
    pub inference_samples: usize,
    /// Processes at the full rate. Default 20: the ones that were selected, then the busiest. The others have
    /// aggregates only.
    pub selected_processes: usize,
    /// Age that aggregates reach, in seconds. Default 86,400 (24 h). Older buckets go, as is their purpose.
    pub retention_seconds: u64,
    /// How late an inference may arrive, counted from its start, and still enter its bucket. Default 30 s, at most
    /// 600 s. Later ones are kept at the full rate only, and counted. (Samples arrive in order: for them it is 2 s.)
    pub late_seconds: u64,
    /// Intervals without a value. Default 1,000. When full, the oldest that has ended goes, and is counted.
    pub unavailable_intervals: usize,
}

impl Limits {
    /// Names, intervals and lists of a busy machine need about half of this in any case.
    pub const MIN_TOTAL_BYTES: usize = 4_000_000;
    /// Seconds stay open while rows may arrive for them, which costs memory.
    pub(super) const MAX_LATE_SECONDS: u64 = 600;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            total_bytes: 100_000_000,
            full_rate_bytes: 40_000_000,
            tracks: 2_000,
            ring_samples: 10_000,
            inference_samples: 100_000,
            selected_processes: 20,
            retention_seconds: 86_400,
            late_seconds: 30,
            unavailable_intervals: 1_000,
        }
    }
}

macro_rules! declare_losses {
    ($( $(#[doc = $doc:literal])+ $field:ident, )+) => {
        /// Counts of dropped data since the start. Rows overwritten in a ring and expired buckets are not losses.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
        pub struct Losses { $( $(#[doc = $doc])+ pub $field: u64, )+ }

        impl Losses {
            /// Name, count and meaning of every kind, including zero counts.
            pub fn all(&self) -> Vec<(&'static str, u64, &'static str)> {
                vec![ $( (stringify!($field), self.$field, concat!($($doc),+).trim_ascii()), )+ ]
            }

            pub fn total(&self) -> u64 {
                0 $( + self.$field )+
            }
        }
    };
}

declare_losses! {
    /// Rows that came too late for their bucket; inferences among them are kept at the full rate.
    late_rows,
    /// Rows more than a day ahead of the row before: taken for a mistake until 32 agree.
    ahead_rows,
    /// Rows of a sampled thing that repeat the time of the row before.
    repeated_rows,
    /// Values that are not a number or too large for one.
    not_finite_values,
    /// Counters that went back: no rate for that row.
    counters_back,
    /// Buckets thrown away because the clock of their source went back.
    clock_back_buckets,
    /// 1 s buckets that went because the memory was full.
    second_buckets,
    /// 1 min buckets that went because the memory was full.
    minute_buckets,
    /// Tracks evicted for others.
    evicted_tracks,
    /// Rows of things that did not get tracks.
    refused_rows,
    /// Rows at the full rate of processes that are no longer selected.
    deselected_rows,
    /// Rows at the full rate that went to give other sessions their share.
    shared_out_rows,
    /// Rows whose process id is none.
    invalid_rows,
    /// Intervals without a value that were forgotten because there were too many.
    unavailable_intervals,
}
