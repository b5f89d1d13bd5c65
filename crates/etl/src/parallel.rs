//! Unordered work, distributed over threads buffer by buffer.

use std::io;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::cursor::{BufferCursor, Shared, Tally};
use crate::index::Lane;
use crate::{EventRecord, Storage};

/// More threads than this do not help for one file.
const MAX_THREADS: usize = 64;

/// Number of threads for a request; 0 means one per processor.
pub(crate) fn threads(requested: usize) -> usize {
    let threads =
        if requested == 0 { thread::available_parallelism().map_or(1, NonZero::get) } else { requested };
    threads.clamp(1, MAX_THREADS)
}

/// Walks all buffers; `first` is the worker of the calling thread. Adds the counts of all threads to `tally`.
pub(crate) fn walk<S: Storage, W: Send>(
    shared: Shared<'_, S>,
    lanes: &[Lane],
    threads: usize,
    first: W,
    start: &(impl Fn() -> W + Sync),
    each: &(impl Fn(&mut W, &EventRecord<'_>) + Sync),
    tally: &mut Tally,
) -> io::Result<Vec<W>> {
    // Buffers are numbered across all lanes; these are the numbers after each lane's last.
    let ends: Vec<usize> = lanes
        .iter()
        .scan(0, |end, lane| {
            *end += lane.len();
            Some(*end)
        })
        .collect();
    let buffers = ends.last().copied().unwrap_or(0);
    let next = AtomicUsize::new(0);
    let offset_of = |number: usize| {
        let lane = ends.partition_point(|&end| end <= number);
        let start = lane.checked_sub(1).map_or(0, |before| ends[before]);
        lanes.get(lane).and_then(|lane| lane.buffer(number - start)).map(|(_, offset)| offset)
    };
    let work = |mut worker: W| -> io::Result<(W, Tally)> {
        let mut tally = Tally::default();
        let mut spare = Vec::new();
        while let Some(offset) = offset_of(next.fetch_add(1, Ordering::Relaxed)) {
            let Some(mut cursor) = BufferCursor::open(shared, offset, 0, spare, &mut tally.losses)? else {
                spare = Vec::new();
                continue;
            };
            cursor.run(shared, u64::MAX, &mut tally, &mut |record| {
                each(&mut worker, record);
                ControlFlow::Continue(())
            })?;
            spare = cursor.into_spare();
        }
        Ok((worker, tally))
    };
    let helpers = threads.min(buffers.max(1)) - 1;
    let results = thread::scope(|scope| {
        let handles: Vec<_> = (0..helpers)
            .map_while(|number| {
                let builder = thread::Builder::new().name(format!("etl-walk-{number}"));
                // If the thread cannot be started, the others do its share.
                builder.spawn_scoped(scope, || work(start())).ok()
            })
            .collect();
        let mut results = vec![work(first)];
        for handle in handles {
            match handle.join() {
                Ok(result) => results.push(result),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    });
    let mut workers = Vec::with_capacity(results.len());
    for result in results {
        let (worker, counted) = result?;
        tally.add(&counted);
        workers.push(worker);
    }
    Ok(workers)
}
