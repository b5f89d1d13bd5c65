//! A sampler whose processor stalls: the backup thread takes its ticks. In real time, because two threads share it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ortscope_core::clock::Clock;
use ortscope_core::schema::ProcessSampleRow;
use ortscope_sources::SamplerOptions;

use super::skips;
use super::world::{BEGIN, Event, FakeProcess, MS, SECOND, World, watch_by};

const SAMPLING_THREAD: &str = "source-process-sampler";

/// Blocks the sampler's first thread between two moments, when it computes its waiting time.
#[derive(Debug)]
struct StallFirstThread {
    begun: Instant,
    from: Duration,
    to: Duration,
}

impl Clock for StallFirstThread {
    fn now_ns(&self) -> u64 {
        BEGIN + self.begun.elapsed().as_nanos() as u64
    }

    fn real_wait(&self, deadline_ns: u64) -> Duration {
        let now = self.begun.elapsed();
        if now >= self.from && std::thread::current().name() == Some(SAMPLING_THREAD) {
            std::thread::sleep(self.to.saturating_sub(now));
        }
        Duration::from_nanos(deadline_ns.saturating_sub(self.now_ns()))
    }
}

fn watch(clock: StallFirstThread, script: Vec<(u64, Event)>, ends_after: u64) -> Option<super::world::Seen> {
    if std::thread::available_parallelism().is_ok_and(|count| count.get() == 1) {
        skips::skipped("this machine has one processor");
        return None;
    }
    let processes = [(7, FakeProcess::named("a", 1))].into();
    let world = World { processes, script, ends_after, needs_backup_thread: true, ..World::default() };
    Some(watch_by(
        Arc::new(clock),
        SamplerOptions { end_with_targets: true, ..SamplerOptions::default() },
        world,
    ))
}

fn stalled(from_ms: u64, to_ms: u64) -> StallFirstThread {
    let (from, to) = (Duration::from_millis(from_ms), Duration::from_millis(to_ms));
    StallFirstThread { begun: Instant::now(), from, to }
}

fn ticks(rows: &[ProcessSampleRow]) -> Vec<u64> {
    rows.iter().map(|row| row.timestamp_ns - BEGIN).collect()
}

#[test]
fn the_backup_thread_takes_ticks_of_a_stalled_thread() {
    let Some(seen) = watch(stalled(200, 1500), Vec::new(), 2 * SECOND) else { return };
    let ticks = ticks(&seen.rows::<ProcessSampleRow>());
    assert!(ticks.is_sorted(), "{ticks:?}");
    assert_eq!(ticks.iter().collect::<BTreeSet<_>>().len(), ticks.len(), "none twice");
    // Only the backup thread runs between these moments; the number of its ticks depends on the machine.
    let alone = ticks.iter().filter(|at| (250 * MS..1400 * MS).contains(at)).count();
    assert!(alone > 0, "{ticks:?}");
    assert!(ticks.iter().any(|at| *at > 1900 * MS), "the first thread continues: {ticks:?}");
    assert!(seen.report.source_errors.is_empty() && seen.report.losses.is_empty(), "{:?}", seen.report);
}

#[test]
fn an_exit_noticed_by_the_backup_thread_ends_the_run() {
    let ends = vec![(600 * MS, Event::End(7))];
    let Some(seen) = watch(stalled(200, 1000), ends, 60 * SECOND) else { return };
    let ticks = ticks(&seen.rows::<ProcessSampleRow>());
    assert!(ticks.last().is_some_and(|last| *last < 60 * SECOND), "{ticks:?}");
    assert!(seen.report.source_errors.is_empty(), "{:?}", seen.report);
}
