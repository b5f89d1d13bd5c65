//! Total order: a merge over the processors.
//!
//! The records of one processor are already in order. The merge follows the processor with the earliest record until
//! another one's is due, so that most records cost only one comparison.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::ops::ControlFlow;
use std::thread;

use crate::cursor::{BufferCursor, Outcome, Shared, Tally};
use crate::index::{Index, Lane};
use crate::read_ahead::{self, ReadAhead, StopAtEnd};
use crate::{EventRecord, Storage};

/// Approximate memory of the windows of all processors together.
const WINDOWS_BYTES: usize = 16 << 20;
const MIN_WINDOW: usize = 8 << 10;
const MAX_WINDOW: usize = 1 << 20;

/// Window size for a number of open buffers.
pub(crate) fn window_bytes(lanes: usize) -> usize {
    (WINDOWS_BYTES / lanes.max(1)).clamp(MIN_WINDOW, MAX_WINDOW)
}

/// The position in one processor's buffers.
struct LaneCursor<'s> {
    number: usize,
    lane: &'s Lane,
    next: usize,
    buffer: Option<BufferCursor<'s>>,
    latest: u64,
    spare: Vec<u8>,
}

impl<'s> LaneCursor<'s> {
    fn run<S: Storage>(
        &mut self,
        shared: Shared<'s, S>,
        ahead: Option<&ReadAhead<'s>>,
        limit: u64,
        tally: &mut Tally,
        each: &mut impl FnMut(&EventRecord<'_>) -> ControlFlow<()>,
    ) -> io::Result<Outcome> {
        loop {
            let Some(buffer) = &mut self.buffer else {
                let Some((_, offset)) = self.lane.buffer(self.next) else { return Ok(Outcome::Ended) };
                if let Some((buffer, counted)) = ahead.and_then(|ahead| ahead.take(self.number, self.next)) {
                    tally.add(&counted);
                    self.buffer = buffer;
                    if let Some(buffer) = &mut self.buffer {
                        buffer.continue_from(self.latest);
                    }
                } else {
                    let spare = std::mem::take(&mut self.spare);
                    self.buffer = BufferCursor::open(shared, offset, self.latest, spare, &mut tally.losses)?;
                }
                self.next += 1;
                continue;
            };
            match buffer.run(shared, limit, tally, each)? {
                Outcome::Ended => {
                    self.latest = buffer.latest();
                    self.spare = self.buffer.take().map(BufferCursor::into_spare).unwrap_or_default();
                }
                other => return Ok(other),
            }
        }
    }
}

/// Walks all lanes in chronological order. Returns true if `each` requested a stop.
pub(crate) fn walk<S: Storage>(
    shared: Shared<'_, S>,
    index: &Index,
    tally: &mut Tally,
    each: &mut impl FnMut(&EventRecord<'_>) -> ControlFlow<()>,
) -> io::Result<bool> {
    let helpers = read_ahead::helpers_for(index);
    // If only windows of the buffers fit into memory, whole buffers must not be read ahead either.
    if helpers == 0 || shared.window_bytes < index.largest_buffer {
        return walk_lanes(shared, &index.lanes, None, tally, each);
    }
    let ahead = ReadAhead::new(index);
    thread::scope(|scope| {
        let _stop = StopAtEnd(&ahead);
        for number in 0..helpers {
            let builder = thread::Builder::new().name(format!("etl-ahead-{number}"));
            if builder.spawn_scoped(scope, || ahead.help(shared)).is_err() {
                // The walk continues with fewer helpers.
                break;
            }
        }
        walk_lanes(shared, &index.lanes, Some(&ahead), tally, each)
    })
}

fn walk_lanes<'s, S: Storage>(
    shared: Shared<'s, S>,
    lanes: &'s [Lane],
    ahead: Option<&ReadAhead<'s>>,
    tally: &mut Tally,
    each: &mut impl FnMut(&EventRecord<'_>) -> ControlFlow<()>,
) -> io::Result<bool> {
    let mut cursors: Vec<_> = lanes
        .iter()
        .enumerate()
        .map(|(number, lane)| LaneCursor {
            number,
            lane,
            next: 0,
            buffer: None,
            latest: 0,
            spare: Vec::new(),
        })
        .collect();
    // Every lane starts as due and then finds the time of its first record.
    let mut due: BinaryHeap<_> = (0..cursors.len()).map(|lane| Reverse((0_u64, lane))).collect();
    while let Some(Reverse((_, lane))) = due.pop() {
        // Of two records with the same time the one of the lower processor comes first.
        let limit = due.peek().map_or(
            u64::MAX,
            |&Reverse((time, other))| {
                if lane < other { time } else { time.saturating_sub(1) }
            },
        );
        match cursors[lane].run(shared, ahead, limit, tally, each)? {
            Outcome::Ended => {}
            Outcome::Later(time) => due.push(Reverse((time, lane))),
            Outcome::Stopped => return Ok(true),
        }
    }
    Ok(false)
}
