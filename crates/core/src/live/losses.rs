//! What the live memory could not keep, by reason.

use serde::Serialize;

macro_rules! declare_losses {
    ($( $(#[doc = $doc:literal])+ $field:ident, )+) => {
        /// Counts of what could not be kept since the start. Rows that a ring overwrites and buckets that reach their
        /// age are no losses.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
        pub struct Losses { $( $(#[doc = $doc])+ pub $field: u64, )+ }

        impl Losses {
            /// (name, count, what it means) of every kind, also of those that did not happen.
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
    /// Tracks that went to make room for others.
    evicted_tracks,
    /// Rows of things for which there was no room for tracks.
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
