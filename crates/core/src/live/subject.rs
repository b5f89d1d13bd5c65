//! Everything that is kept about one session, process, device or the machine: its rows at the full rate and the buckets
//! of its tracks. All tracks of a subject get their values from the same rows, so they share times.

use std::collections::VecDeque;

use super::bucket::Accumulator;
use super::declared::LOAD_TRACK;
use super::limits::{Limits, Losses};
use super::mapping::Baseline;
use super::ring::Ring;
use super::tier::Tier;
use crate::identity::ProcessIdentity;
use crate::schema::Text;

pub(super) const SECOND_NS: u64 = 1_000_000_000;
pub(super) const MINUTE_SECONDS: u64 = 60;
/// Samples of one source come in order; only the end of one batch and the start of the next can overlap.
const LATE_SAMPLE_SECONDS: u64 = 2;
/// A row further ahead than this is more likely a broken clock than a long pause.
const AHEAD_SECONDS: u64 = 86_400;
/// So many rows in a row with another idea of the time are believed.
const ROWS_TO_BELIEVE: u32 = 32;

/// Names a subject inside the memory. Each sensor of a device is sampled on its own, so it is a subject of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Key {
    System,
    Session(Text),
    Process(ProcessIdentity),
    Device { device: Text, metric: Text },
}

/// Eviction order when memory is short, least important first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Importance {
    OtherProcess,
    SelectedProcess,
    Device,
    System,
    Session,
}

/// How to treat a row, depending on its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    Take,
    /// Too late for the buckets.
    RingOnly,
    Skip,
}

#[derive(Debug)]
pub(super) struct Track {
    pub baseline: Option<Baseline>,
    /// Time and value that are the newest.
    pub newest: Option<(u64, f64)>,
    pub first_ns: Option<u64>,
    pub seconds: Tier,
    pub minutes: Tier,
    /// The minute whose seconds are being closed.
    pub open_minute: Option<(u64, Accumulator)>,
}

/// A second that still takes values, one accumulator per track.
#[derive(Debug)]
pub(super) struct OpenSecond {
    pub second: u64,
    pub tracks: Box<[Accumulator]>,
    /// Memory use of a subject that is not the newest: it rarely changes.
    pub bytes: usize,
}

impl OpenSecond {
    pub fn count_bytes(&self) -> usize {
        self.tracks.iter().map(|open| size_of::<Accumulator>() + open.heap_bytes()).sum()
    }
}

#[derive(Debug)]
pub(super) struct SubjectState {
    pub key: Key,
    /// A name for people: of the program, of the model.
    pub label: Option<Text>,
    /// Source and method of a device's values.
    pub origin: Option<(Text, Text)>,
    pub newest_ns: Option<u64>,
    pub ended_ns: Option<u64>,
    /// Sequence number of the last row for this subject, for least-recently-updated eviction.
    pub updated: u64,
    pub selected: bool,
    /// How busy a process is: mean of the last seconds, the newest counting most.
    pub load: f64,
    pub tracks: Box<[Track]>,
    /// Ascending; the newest is last.
    pub open: VecDeque<OpenSecond>,
    pub ring: Option<Ring>,
    /// Values of the last row, NaN where there was none: what an unchanged tick repeats.
    pub last_row: Box<[f64]>,
    /// Memory use at the end of the last batch that touched it.
    pub bytes: usize,
    pub touched: bool,
    strange_rows: u32,
}

impl SubjectState {
    pub fn new(key: Key, tracks: usize) -> Self {
        let track = |_| Track {
            baseline: None,
            newest: None,
            first_ns: None,
            seconds: Tier::default(),
            minutes: Tier::default(),
            open_minute: None,
        };
        let ring = (!matches!(key, Key::Process(_))).then(|| Ring::new(tracks, None));
        Self {
            key,
            label: None,
            origin: None,
            newest_ns: None,
            ended_ns: None,
            updated: 0,
            selected: false,
            load: 0.0,
            tracks: (0..tracks).map(track).collect(),
            open: VecDeque::new(),
            ring,
            last_row: vec![f64::NAN; tracks].into(),
            bytes: 0,
            touched: false,
            strange_rows: 0,
        }
    }

    pub fn importance(&self) -> Importance {
        match self.key {
            Key::Process(_) if self.selected => Importance::SelectedProcess,
            Key::Process(_) => Importance::OtherProcess,
            Key::Device { .. } => Importance::Device,
            Key::System => Importance::System,
            Key::Session(_) => Importance::Session,
        }
    }

    pub fn tracks_with_data(&self) -> usize {
        self.tracks.iter().filter(|track| track.first_ns.is_some()).count()
    }

    /// Notes in the list that the bytes of this subject, which has this slot, must be counted again.
    #[inline]
    pub fn touch(&mut self, slot: usize, touched: &mut Vec<usize>) {
        if !self.touched {
            self.touched = true;
            touched.push(slot);
        }
    }

    /// Looks at the time of a row, and follows a clock that has jumped once enough rows agree.
    pub fn arrive(&mut self, time_ns: u64, limits: &Limits, losses: &mut Losses) -> Arrival {
        let Some(newest_ns) = self.newest_ns else {
            self.newest_ns = Some(time_ns);
            return Arrival::Take;
        };
        if time_ns == newest_ns && !matches!(self.key, Key::Session(_)) {
            losses.repeated_rows += 1;
            return Arrival::Skip;
        }
        let (second, newest) = (time_ns / SECOND_NS, newest_ns / SECOND_NS);
        let behind = second.saturating_add(self.late_seconds(limits)) < newest;
        let ahead = second > newest.saturating_add(AHEAD_SECONDS);
        if !behind && !ahead {
            self.strange_rows = 0;
            self.newest_ns = Some(newest_ns.max(time_ns));
            return Arrival::Take;
        }
        self.strange_rows += 1;
        if self.strange_rows < ROWS_TO_BELIEVE {
            *(if behind { &mut losses.late_rows } else { &mut losses.ahead_rows }) += 1;
            return if behind { Arrival::RingOnly } else { Arrival::Skip };
        }
        self.strange_rows = 0;
        if behind {
            losses.clock_back_buckets += self.go_back_to(second);
        }
        self.newest_ns = Some(time_ns);
        Arrival::Take
    }

    /// Adds the values of a row to its second. NaN means no value. Returns the number of new tracks.
    #[inline]
    pub fn take(&mut self, time_ns: u64, values: &[f64], limits: &Limits) -> usize {
        let index = self.open_second(time_ns / SECOND_NS, limits);
        let is_newest = index + 1 == self.open.len();
        let Some(second) = self.open.get_mut(index) else {
            return 0;
        };
        let mut new = 0;
        for ((track, open), value) in self.tracks.iter_mut().zip(&mut second.tracks).zip(values) {
            if value.is_nan() {
                continue;
            }
            open.add(*value);
            match track.newest {
                Some((newest_ns, _)) if newest_ns > time_ns => {}
                _ => track.newest = Some((time_ns, *value)),
            }
            match track.first_ns {
                Some(first_ns) if first_ns <= time_ns => {}
                first_ns => {
                    new += usize::from(first_ns.is_none());
                    track.first_ns = Some(time_ns);
                }
            }
        }
        if !is_newest {
            second.bytes = second.count_bytes();
        }
        new
    }

    fn late_seconds(&self, limits: &Limits) -> u64 {
        match self.key {
            Key::Session(_) => limits.late_seconds,
            _ => limits.late_seconds.min(LATE_SAMPLE_SECONDS),
        }
    }

    /// Index of the open bucket of this second; closes those that no row can reach any more.
    #[inline]
    fn open_second(&mut self, second: u64, limits: &Limits) -> usize {
        let index = self.open.iter().rposition(|open| open.second <= second);
        if let Some(index) = index
            && self.open[index].second == second
        {
            return index;
        }
        self.add_second(second, index.map_or(0, |index| index + 1), limits)
    }

    fn add_second(&mut self, second: u64, mut place: usize, limits: &Limits) -> usize {
        if place == self.open.len() {
            if let Some(newest) = self.open.back_mut() {
                newest.tracks.iter_mut().for_each(Accumulator::compact);
                newest.bytes = newest.count_bytes();
            }
            let closed_before = second.saturating_sub(self.late_seconds(limits));
            while let Some(mut old) = self.open.pop_front_if(|open| open.second < closed_before) {
                self.close(&mut old, limits);
                place -= 1;
            }
        }
        let like = self.open.back().map(|open| &open.tracks);
        let accumulator = |track: usize| {
            let values = like.and_then(|tracks| tracks.get(track)).map_or(0, |open| open.count);
            Accumulator::with_capacity_for(values)
        };
        let tracks = (0..self.tracks.len()).map(accumulator).collect();
        self.open.insert(place, OpenSecond { second, tracks, bytes: 0 });
        place
    }

    fn close(&mut self, old: &mut OpenSecond, limits: &Limits) {
        let minute = old.second / MINUTE_SECONDS;
        if let Some(mean) = old.tracks.get(LOAD_TRACK).and_then(Accumulator::mean) {
            self.load = 0.7 * self.load + 0.3 * mean;
        }
        for (track, values) in self.tracks.iter_mut().zip(&mut old.tracks) {
            let Some(bucket) = values.close(old.second) else {
                continue;
            };
            track.seconds.push(bucket);
            track.seconds.expire(old.second.saturating_sub(limits.retention_seconds));
            match &mut track.open_minute {
                Some((open, merged)) if *open == minute => merged.merge(values),
                open_minute => {
                    let mut merged = Accumulator::default();
                    merged.merge(values);
                    if let Some((index, mut full)) = open_minute.replace((minute, merged))
                        && let Some(bucket) = full.close(index)
                    {
                        track.minutes.push(bucket);
                        let oldest = old.second.saturating_sub(limits.retention_seconds) / MINUTE_SECONDS;
                        track.minutes.expire(oldest);
                    }
                }
            }
        }
    }

    /// The clock went back: buckets from this second on belong to a time that comes again.
    fn go_back_to(&mut self, second: u64) -> u64 {
        let minute = second / MINUTE_SECONDS;
        let mut discarded = 0;
        for open in self.open.drain(..) {
            discarded += open.tracks.iter().filter(|track| track.count > 0).count() as u64;
        }
        for track in &mut self.tracks {
            discarded += track.seconds.discard_from(second) + track.minutes.discard_from(minute);
            if track.open_minute.take_if(|(open, _)| *open >= minute).is_some() {
                discarded += 1;
            }
            track.newest = None;
            track.baseline = None;
        }
        discarded
    }

    /// Everything this subject has taken from the heap, itself included.
    pub fn count_bytes(&self) -> usize {
        let text = |text: &Text| text.len() + 2 * size_of::<usize>();
        let key = match &self.key {
            Key::System | Key::Process(_) => 0,
            Key::Session(id) => text(id),
            Key::Device { device, metric } => text(device) + text(metric),
        };
        let texts = key
            + self.label.as_ref().map_or(0, text)
            + self.origin.as_ref().map_or(0, |(source, method)| text(source) + text(method));
        let track = |track: &Track| {
            let open = track.open_minute.as_ref().map_or(0, |(_, merged)| merged.heap_bytes());
            size_of::<Track>() + track.seconds.heap_bytes() + track.minutes.heap_bytes() + open
        };
        let older = self.open.len().saturating_sub(1);
        let open = self.open.iter().take(older).map(|open| open.bytes).sum::<usize>()
            + self.open.back().map_or(0, OpenSecond::count_bytes);
        size_of::<Self>()
            + texts
            + self.tracks.iter().map(track).sum::<usize>()
            + self.open.capacity() * size_of::<OpenSecond>()
            + open
            + self.ring.as_ref().map_or(0, Ring::heap_bytes)
            + self.last_row.len() * size_of::<f64>()
    }
}
