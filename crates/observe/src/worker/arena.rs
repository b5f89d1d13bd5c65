//! With `--soak`: the session's arena statistics during the measurement.
//!
//! ONNX Runtime guards its arena by a lock, so reading the statistics can delay an allocating run by a few microseconds, a
//! few times a second. Other measurements read them only at the end.

use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use ortscope_analyze::leak::ArenaPoint;
use ortscope_channel::RingWriter;
use ortscope_core::clock::now_ns;
use ortscope_ort::Session;

use super::outbox::{send_through, session_id};
use crate::measure::plan::WorkerPlan;
use ortscope_analyze::facts::{ArenaSample, Fact};

/// Runs `work` while a thread reads the arena statistics of `session`, if there is a ring for them.
pub fn watched<T>(
    session: Option<&Session>,
    plan: &WorkerPlan,
    ring: Option<RingWriter>,
    work: impl FnOnce() -> T,
) -> T {
    let (Some(session), Some(every_ns), Some(ring)) = (session, plan.arena_every_ns, ring) else {
        return work();
    };
    let every = Duration::from_nanos(every_ns);
    std::thread::scope(|scope| {
        // Dropping it ends the thread, however the work ends.
        let (over, is_over) = sync_channel::<()>(0);
        let ask = move || {
            let mut ring = ring;
            while let Some(arena) = answer(session) {
                let sample = ArenaSample { timestamp_ns: now_ns(), arena };
                send_through(&mut ring, session_id(plan), Fact::Arena(sample));
                if is_over.recv_timeout(every) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
        };
        if let Err(error) = std::thread::Builder::new().name("arena".into()).spawn_scoped(scope, ask) {
            tracing::warn!(%error, "the arena is not watched");
        }
        let result = work();
        drop(over);
        result
    })
}

/// None before ONNX Runtime 1.23 and for sessions without an arena.
fn answer(session: &Session) -> Option<ArenaPoint> {
    arena_of(&session.allocator_stats().ok()??)
}

fn arena_of(statistics: &BTreeMap<String, String>) -> Option<ArenaPoint> {
    let number = |name: &str| statistics.get(name)?.parse().ok();
    Some(ArenaPoint {
        reserved_bytes: number("TotalAllocated")?,
        used_bytes: number("InUse")?,
        allocations: number("NumAllocs"),
        extensions: number("NumArenaExtensions"),
        largest_bytes: number("MaxAllocSize"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_arena_statistics() {
        let parsed = |pairs: &[(&str, &str)]| {
            arena_of(&pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
        };
        let all =
            parsed(&[("InUse", "512"), ("TotalAllocated", "4096"), ("NumAllocs", "7"), ("Limit", "-1")]);
        let all = all.expect("the two that matter are there");
        assert_eq!((all.used_bytes, all.reserved_bytes, all.allocations), (512, 4096, Some(7)));
        assert_eq!(all.extensions, None);
        assert_eq!(parsed(&[("InUse", "512")]), None);
    }
}
