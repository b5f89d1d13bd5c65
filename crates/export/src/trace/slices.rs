//! Complete events on lanes where they nest.
//!
//! On one lane, two events must lie apart or one inside the other: Perfetto drops (or warns about) an event that begins
//! inside another and ends behind it, and the longer of two that begin together must come first. Recordings do not
//! promise that: ONNX Runtime writes an event when it ends, so children come before parents, and it rounds times to
//! microseconds, so a child can end behind its parent. So events are put in order within a window, and one that does not
//! nest goes to another lane of the same name.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use super::events::{Events, Lane};

/// Events that wait to be put in order: this many …
const WINDOW_EVENTS: usize = 32_768;
/// … or this many bytes of them.
const WINDOW_BYTES: usize = 16 << 20;
/// Lanes that one track may spread over; what still does not nest then goes to the last.
const MAX_LANES: usize = 64;

/// Names a track of [`Slices`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TrackId(usize);

#[derive(Debug)]
struct Track {
    process: u64,
    name: String,
    lanes: Vec<(Lane, Vec<u64>)>,
    /// For events that come so late that what was drawn meanwhile is forgotten.
    late: Option<Lane>,
    last_start: u64,
}

/// Ordered by start, the longer first, then as they came.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Slice {
    start: u64,
    duration: Reverse<u64>,
    number: u64,
    track: TrackId,
    body: Box<[u8]>,
}

#[derive(Debug, Default)]
pub(super) struct Slices {
    tracks: Vec<Track>,
    waiting: BinaryHeap<Reverse<Slice>>,
    waiting_bytes: usize,
    count: u64,
}

impl Slices {
    pub(super) fn track(&mut self, process: u64, name: String) -> TrackId {
        self.tracks.push(Track { process, name, lanes: Vec::new(), late: None, last_start: 0 });
        TrackId(self.tracks.len() - 1)
    }

    pub(super) fn tracks(&self) -> usize {
        self.tracks.len()
    }

    /// Adds an event; `false` if its time cannot be shown.
    pub(super) fn add(
        &mut self,
        events: &mut Events<'_>,
        track: TrackId,
        time_ns: u64,
        duration_ns: u64,
        body: Box<[u8]>,
    ) -> io::Result<bool> {
        let Some(start) = events.since_start(time_ns, duration_ns) else {
            return Ok(false);
        };
        self.waiting_bytes += body.len();
        let number = self.count;
        self.count += 1;
        self.waiting.push(Reverse(Slice { start, duration: Reverse(duration_ns), number, track, body }));
        while self.waiting.len() > WINDOW_EVENTS || self.waiting_bytes > WINDOW_BYTES {
            self.write_first(events)?;
        }
        Ok(true)
    }

    pub(super) fn finish(&mut self, events: &mut Events<'_>) -> io::Result<()> {
        while !self.waiting.is_empty() {
            self.write_first(events)?;
        }
        Ok(())
    }

    /// Writes what began before a time of the machine's clock.
    pub(super) fn settle(&mut self, events: &mut Events<'_>, before_ns: u64) -> io::Result<()> {
        let before = before_ns.saturating_sub(events.start_ns());
        while self.waiting.peek().is_some_and(|Reverse(slice)| slice.start < before) {
            self.write_first(events)?;
        }
        Ok(())
    }

    fn write_first(&mut self, events: &mut Events<'_>) -> io::Result<()> {
        let Some(Reverse(slice)) = self.waiting.pop() else {
            return Ok(());
        };
        self.waiting_bytes -= slice.body.len();
        let Some(track) = self.tracks.get_mut(slice.track.0) else {
            return Ok(());
        };
        let lane = track.lane_for(events, slice.start, slice.duration.0)?;
        events.slice(lane, slice.start, slice.duration.0, &slice.body)
    }
}

impl Track {
    fn lane_for(&mut self, events: &mut Events<'_>, start: u64, duration: u64) -> io::Result<Lane> {
        if start < self.last_start {
            let lane = match self.late {
                Some(lane) => lane,
                None => events.lane(self.process, &format!("{} (out of order)", self.name))?,
            };
            self.late = Some(lane);
            return Ok(lane);
        }
        self.last_start = start;
        let end = start + duration;
        for (lane, open_ends) in &mut self.lanes {
            while open_ends.last().is_some_and(|open| *open <= start) {
                open_ends.pop();
            }
            if open_ends.last().is_none_or(|open| end <= *open) {
                open_ends.push(end);
                return Ok(*lane);
            }
        }
        if self.lanes.len() >= MAX_LANES
            && let Some((lane, _)) = self.lanes.last()
        {
            return Ok(*lane);
        }
        let number = self.lanes.len() + 1;
        let name = if number == 1 { self.name.clone() } else { format!("{} ({number})", self.name) };
        let lane = events.lane(self.process, &name)?;
        self.lanes.push((lane, vec![end]));
        Ok(lane)
    }
}
