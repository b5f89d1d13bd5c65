//! Throughput of completed inferences over one or several streams: in total and second by second.
//!
//! The rate is completions over the time from the first start to the last end, so that idle streams count. The
//! per-second figures show what one number hides: a ramp, a pause, a clock that drops.

use serde::{Deserialize, Serialize};

/// Buckets at most; a longer recording gets wider buckets.
const MAX_BUCKETS: u64 = 3600;
const SECOND_NS: u64 = 1_000_000_000;

/// One completed inference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    pub start_ns: u64,
    pub end_ns: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    pub requests: u64,
    /// From the first start to the last end.
    pub seconds: f64,
    pub requests_per_second: f64,
    /// Requests times the batch size.
    pub samples_per_second: f64,
    /// Inferences in flight on average (Little's law): the busy streams.
    pub concurrency: f64,
    /// Width of a bucket: 1 s, more for a recording of more than an hour.
    pub bucket_seconds: u64,
    pub buckets: Vec<Bucket>,
}

/// Completions in one bucket of time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    /// Begin of the bucket, from the first start.
    pub offset_seconds: u64,
    pub requests: u64,
    /// Over the part of the bucket that was measured: the last one is usually not full.
    pub requests_per_second: f64,
}

/// Throughput of the completions of all streams, in any order; `batch_size` samples each. `None` when there are none or
/// no time passed.
pub fn throughput(completions: &[Completion], batch_size: u64) -> Option<Throughput> {
    let begin = completions.iter().map(|completion| completion.start_ns).min()?;
    let end = completions.iter().map(|completion| completion.end_ns).max()?;
    let span = end.checked_sub(begin).filter(|span| *span > 0)?;
    let seconds = span as f64 / SECOND_NS as f64;
    let busy: f64 = completions
        .iter()
        .map(|completion| completion.end_ns.saturating_sub(completion.start_ns) as f64)
        .sum();
    let requests = completions.len() as u64;
    let requests_per_second = requests as f64 / seconds;
    let bucket_seconds = span.div_ceil(SECOND_NS).div_ceil(MAX_BUCKETS).max(1);
    Some(Throughput {
        requests,
        seconds,
        requests_per_second,
        samples_per_second: requests_per_second * batch_size as f64,
        concurrency: busy / span as f64,
        bucket_seconds,
        buckets: buckets(completions, begin, span, bucket_seconds),
    })
}

fn buckets(completions: &[Completion], begin: u64, span: u64, bucket_seconds: u64) -> Vec<Bucket> {
    let width = bucket_seconds.saturating_mul(SECOND_NS);
    let mut counts = vec![0_u64; span.div_ceil(width) as usize];
    let last = counts.len() - 1;
    for completion in completions {
        // The end of the last completion closes the last bucket.
        let index = (completion.end_ns.saturating_sub(begin) / width) as usize;
        counts[index.min(last)] += 1;
    }
    (0_u64..)
        .zip(counts)
        .map(|(index, requests)| {
            let measured = width.min(span - index * width);
            Bucket {
                offset_seconds: index * bucket_seconds,
                requests,
                requests_per_second: requests as f64 * SECOND_NS as f64 / measured as f64,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_streams_over_two_and_a_half_seconds() {
        // Each stream runs 100 ms inferences back to back: 20 per second together.
        let completions: Vec<Completion> = (0..50)
            .map(|run| {
                let start_ns = 7_000_000_000 + run / 2 * 100_000_000;
                Completion { start_ns, end_ns: start_ns + 100_000_000 }
            })
            .collect();
        let throughput = throughput(&completions, 4).unwrap();
        assert_eq!((throughput.requests, throughput.seconds), (50, 2.5));
        assert_eq!((throughput.requests_per_second, throughput.samples_per_second), (20.0, 80.0));
        assert!((throughput.concurrency - 2.0).abs() < 1e-9);
        let per_bucket: Vec<u64> = throughput.buckets.iter().map(|bucket| bucket.requests).collect();
        // The completion at exactly 1 s belongs to the next second.
        assert_eq!(per_bucket, [18, 20, 12]);
        assert_eq!(throughput.buckets[2].requests_per_second, 24.0);
    }

    #[test]
    fn no_runs_or_no_time_give_no_rate() {
        assert_eq!(throughput(&[], 1), None);
        assert_eq!(throughput(&[Completion { start_ns: 5, end_ns: 5 }], 1), None);
    }

    #[test]
    fn a_very_long_span_keeps_the_buckets_bounded() {
        let throughput = throughput(&[Completion { start_ns: 0, end_ns: u64::MAX }], 1).unwrap();
        assert!(throughput.buckets.len() <= 3600);
        assert_eq!(throughput.buckets.iter().map(|bucket| bucket.requests).sum::<u64>(), 1);
    }
}
