//! Rounds over all readers, by a thread that may hang. Whoever hangs is left alone with its reader, and another thread goes on
//! with the others; when it answers after all, its reader is one of them again.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;

use ortscope_core::clock::now_nanos;
use ortscope_core::schema::DeviceSampleRow;

use super::presence::Back;
use super::source::ROUND_NANOS;
use super::{Missing, Reader};

/// A round that takes longer has a reader that hangs.
const ANSWERS_WITHIN_NANOS: u64 = 2_000_000_000;
/// An answer is usually there in a fraction of this; a later one is taken with the next round.
const WAIT: Duration = Duration::from_millis(50);
/// Nobody is read.
const NOBODY: usize = usize::MAX;

/// What one reader brought in a round.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) at_ns: u64,
    pub(super) rows: Vec<DeviceSampleRow>,
    pub(super) lost: Vec<Missing>,
    pub(super) back: Vec<Back>,
    /// The round is over.
    is_last: bool,
}

struct Place {
    reader: Mutex<(u64, Box<dyn Reader>)>,
    description: String,
    is_stuck: AtomicBool,
}

struct Shared {
    places: Vec<Place>,
}

/// The side of whoever asks.
pub(super) struct Rounds {
    shared: Arc<Shared>,
    worker: Worker,
    /// When a round was asked for that has no answer yet.
    asked_ns: Option<u64>,
    /// Readers that hang: since when, and how that was told.
    stuck: Vec<(usize, u64, Missing)>,
}

struct Worker {
    ask: SyncSender<u64>,
    answers: Receiver<Answer>,
    /// Which reader it is at.
    at: Arc<AtomicUsize>,
}

impl Rounds {
    pub fn start(readers: Vec<Box<dyn Reader>>, begin_ns: u64) -> std::io::Result<Self> {
        let place = |reader: Box<dyn Reader>| Place {
            description: reader.describe(),
            reader: Mutex::new((begin_ns, reader)),
            is_stuck: AtomicBool::new(false),
        };
        let shared = Arc::new(Shared { places: readers.into_iter().map(place).collect() });
        let worker = Worker::start(&shared)?;
        Ok(Self { shared, worker, asked_ns: None, stuck: Vec::new() })
    }

    /// Asks for a round and hands on what is there. Returns who has been found to hang.
    pub fn ask(&mut self, now_ns: u64, take: &mut dyn FnMut(Answer)) -> Vec<Missing> {
        if self.asked_ns.is_none() && self.worker.ask.try_send(now_ns).is_ok() {
            self.asked_ns = Some(now_ns);
        }
        loop {
            match self.worker.answers.recv_timeout(WAIT) {
                Ok(mut answer) => {
                    let is_last = answer.is_last;
                    self.take_back(now_ns, &mut answer.back);
                    take(answer);
                    if is_last {
                        self.asked_ns = None;
                        return Vec::new();
                    }
                }
                Err(RecvTimeoutError::Timeout) => break,
                // A reader that panics takes its thread with it: the same as one that hangs for ever.
                Err(RecvTimeoutError::Disconnected) => return self.go_on_without(now_ns, "failed"),
            }
        }
        let silent_ns = self.asked_ns.map_or(0, |asked_ns| now_ns.saturating_sub(asked_ns));
        if silent_ns < ANSWERS_WITHIN_NANOS {
            return Vec::new();
        }
        self.go_on_without(now_ns, "does not answer")
    }

    /// Leaves the reader that is being read to its thread.
    fn go_on_without(&mut self, now_ns: u64, what_happened: &str) -> Vec<Missing> {
        let at = self.worker.at.load(Ordering::Acquire);
        // Without another thread everything waits; the next call tries again.
        let Ok(worker) = Worker::start(&self.shared) else { return Vec::new() };
        let asked_ns = self.asked_ns.take().unwrap_or(now_ns);
        // What it says later is of no use: the old channel goes with it.
        self.worker = worker;
        let Some(place) = self.shared.places.get(at) else { return Vec::new() };
        place.is_stuck.store(true, Ordering::Release);
        let missing = Missing {
            what: "devices",
            why: format!("{} {what_happened} since {:.1} s", place.description, seconds(asked_ns, now_ns)),
            hint: "its driver hangs: the kernel's log says more; the other devices are read".to_owned(),
        };
        self.stuck.push((at, asked_ns, missing.clone()));
        vec![missing]
    }

    /// Readers that answer again.
    fn take_back(&mut self, now_ns: u64, back: &mut Vec<Back>) {
        let places = &self.shared.places;
        self.stuck.retain(|(at, from_ns, missing)| {
            let is_stuck = places.get(*at).is_some_and(|place| place.is_stuck.load(Ordering::Acquire));
            if !is_stuck {
                back.push(Back { missing: missing.clone(), from_ns: *from_ns, to_ns: now_ns });
            }
            is_stuck
        });
    }
}

fn seconds(from_ns: u64, to_ns: u64) -> f64 {
    to_ns.saturating_sub(from_ns) as f64 / 1e9
}

impl Worker {
    fn start(shared: &Arc<Shared>) -> std::io::Result<Self> {
        let (ask, asked) = sync_channel(1);
        // Room for a whole round: the thread waits for nobody.
        let (answer, answers) = sync_channel(shared.places.len() + 1);
        let at = Arc::new(AtomicUsize::new(NOBODY));
        let (shared, place) = (Arc::clone(shared), Arc::clone(&at));
        let work = move || serve(&shared, &asked, &answer, &place);
        std::thread::Builder::new().name("devices".to_owned()).spawn(work)?;
        Ok(Self { ask, answers, at })
    }
}

/// The thread: a round for every question, until nobody asks.
fn serve(shared: &Shared, asked: &Receiver<u64>, answer: &SyncSender<Answer>, at: &AtomicUsize) {
    while let Ok(round_ns) = asked.recv() {
        let begun_ns = now_nanos();
        for (number, place) in shared.places.iter().enumerate() {
            // Somebody else hangs in it, or has come to harm in it.
            let mut reader = match place.reader.try_lock() {
                Ok(reader) => reader,
                Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => continue,
            };
            place.is_stuck.store(false, Ordering::Release);
            let (due_ns, reader) = &mut *reader;
            if *due_ns > round_ns {
                continue;
            }
            at.store(number, Ordering::Release);
            let mut found = Answer { at_ns: round_ns, ..Answer::default() };
            *due_ns = (round_ns + reader.period_nanos()).saturating_sub(ROUND_NANOS / 2);
            let rows = &mut found.rows;
            let mut keep = |reading: super::Reading<'_>| {
                rows.push(DeviceSampleRow {
                    timestamp_ns: reading.at_ns,
                    device: reading.device.into(),
                    metric: reading.metric.into(),
                    value: reading.value,
                    source: reading.source.into(),
                    method: "measured".into(),
                });
            };
            let at_ns = round_ns + now_nanos().saturating_sub(begun_ns);
            reader.read(at_ns, &mut keep, &mut found.lost);
            reader.came_back(&mut found.back);
            at.store(NOBODY, Ordering::Release);
            if answer.send(found).is_err() {
                return;
            }
        }
        if answer.send(Answer { at_ns: round_ns, is_last: true, ..Answer::default() }).is_err() {
            return;
        }
    }
}
