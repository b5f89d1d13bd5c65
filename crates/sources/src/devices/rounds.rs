//! Rounds over all readers, by a thread that may hang. Whoever hangs is left alone with its reader, and another thread goes on
//! with the others; when it answers after all, its reader is one of them again.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Duration;

use ortscope_core::clock::now_ns;
use ortscope_core::schema::DeviceSampleRow;

use super::presence::Back;
use super::source::ROUND_NS;
use super::{Missing, Reader};

/// A reader that takes longer hangs.
const ANSWERS_WITHIN_NS: u64 = 2_000_000_000;
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
    /// What readers said that had been given up: a loss that they have told is not told again. One for each at most.
    unsent: Mutex<Vec<Answer>>,
}

impl Shared {
    /// Numbers have no moment any more: they were asked for long ago.
    fn keep_unsent(&self, answer: Answer) {
        let mut unsent = self.unsent.lock().unwrap_or_else(PoisonError::into_inner);
        unsent.push(Answer { rows: Vec::new(), ..answer });
    }

    fn take_unsent(&self) -> Vec<Answer> {
        std::mem::take(&mut *self.unsent.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The side of whoever asks.
pub(super) struct Rounds {
    shared: Arc<Shared>,
    worker: Worker,
    /// When a round was asked for, or had its last answer; `None` if it is over.
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
        let shared =
            Arc::new(Shared { places: readers.into_iter().map(place).collect(), unsent: Mutex::default() });
        let worker = Worker::start(&shared)?;
        Ok(Self { shared, worker, asked_ns: None, stuck: Vec::new() })
    }

    /// Asks for a round and hands on what is there. Returns who has been found to hang.
    pub fn ask(&mut self, tick_ns: u64, take: &mut dyn FnMut(Answer)) -> Vec<Missing> {
        let begun_ns = now_ns();
        if self.asked_ns.is_none() && self.worker.ask.try_send(tick_ns).is_ok() {
            self.asked_ns = Some(tick_ns);
        }
        loop {
            match self.worker.answers.recv_timeout(WAIT) {
                Ok(mut answer) => {
                    let is_last = answer.is_last;
                    self.shared.take_unsent().into_iter().for_each(&mut *take);
                    self.take_back(tick_ns, &mut answer.back);
                    take(answer);
                    if is_last {
                        self.asked_ns = None;
                        return Vec::new();
                    }
                    // Many that are slow do not make one that hangs.
                    self.asked_ns = Some(tick_ns + now_ns().saturating_sub(begun_ns));
                }
                Err(RecvTimeoutError::Timeout) => break,
                // A reader that panics takes its thread with it: the same as one that hangs for ever.
                Err(RecvTimeoutError::Disconnected) => return self.go_on_without(tick_ns, "failed"),
            }
        }
        let silent_ns = self.asked_ns.map_or(0, |asked_ns| tick_ns.saturating_sub(asked_ns));
        if silent_ns < ANSWERS_WITHIN_NS {
            return Vec::new();
        }
        self.go_on_without(tick_ns, "does not answer")
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
        let begun_ns = now_ns();
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
            *due_ns = (round_ns + reader.period_ns()).saturating_sub(ROUND_NS / 2);
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
            let at_ns = round_ns + now_ns().saturating_sub(begun_ns);
            reader.read(at_ns, &mut keep, &mut found.lost);
            reader.came_back(&mut found.back);
            at.store(NOBODY, Ordering::Release);
            if let Err(SendError(found)) = answer.send(found) {
                // The reader is still held: whoever gets it next comes after this.
                shared.keep_unsent(found);
                return;
            }
        }
        if answer.send(Answer { at_ns: round_ns, is_last: true, ..Answer::default() }).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Reading;
    use super::*;

    /// Waits for so long, or until it is freed; then something is lost, which it tells once.
    struct Slow {
        name: &'static str,
        wait: Duration,
        freed: Option<Receiver<()>>,
        loses: bool,
    }

    impl Reader for Slow {
        fn describe(&self) -> String {
            self.name.to_owned()
        }

        fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), lost: &mut Vec<Missing>) {
            std::thread::sleep(self.wait);
            if let Some(freed) = self.freed.take() {
                freed.recv().ok();
            }
            if std::mem::take(&mut self.loses) {
                let why = format!("{} lost a sensor", self.name);
                lost.push(Missing { what: "gpu", why, hint: String::new() });
            }
            let device = self.name;
            out(Reading { at_ns, device, metric: "power_watts", value: 1.0, source: "test" });
        }
    }

    /// Asks as the source does, until `is_done`: who was read, what was lost, who was found to hang, and who is back.
    #[derive(Debug, Default)]
    struct Told {
        read: Vec<String>,
        lost: Vec<String>,
        stuck: Vec<String>,
        back: Vec<String>,
    }

    fn ask_until(rounds: &mut Rounds, told: &mut Told, is_done: impl Fn(&Told) -> bool) {
        let begin = std::time::Instant::now();
        while !is_done(told) {
            assert!(begin.elapsed() < Duration::from_secs(60), "it never came to that: {told:?}");
            let Told { read, lost, back, .. } = told;
            let stuck = rounds.ask(now_ns(), &mut |answer| {
                read.extend(answer.rows.iter().map(|row| row.device.to_string()));
                lost.extend(answer.lost.into_iter().map(|missing| missing.why));
                back.extend(answer.back.into_iter().map(|back| back.missing.why));
            });
            told.stuck.extend(stuck.into_iter().map(|missing| missing.why));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The time of all readers together used to be held against the one at which they were when it was over.
    #[test]
    fn readers_that_are_slow_together_do_not_hang() {
        let slow = |name| Slow { name, wait: Duration::from_millis(450), freed: None, loses: false };
        let readers = ["a", "b", "c", "d", "e", "f"].map(|name| Box::new(slow(name)) as Box<dyn Reader>);
        let mut rounds = Rounds::start(readers.into(), now_ns()).expect("a thread");
        let mut told = Told::default();
        // 2.7 s for a round, of which 2 s is what one reader may take.
        ask_until(&mut rounds, &mut told, |told| told.read.len() >= 6);
        assert_eq!((told.stuck.len(), told.read.join("")), (0, "abcdef".to_owned()), "{told:?}");
    }

    /// What a reader said when it had been given up went with its channel; a loss is told once, so nobody heard of it.
    #[test]
    fn what_a_reader_says_that_was_given_up_is_heard_later() {
        let (free, freed) = sync_channel(1);
        let stuck = Slow { name: "stuck", wait: Duration::ZERO, freed: Some(freed), loses: true };
        let fast = Slow { name: "fast", wait: Duration::ZERO, freed: None, loses: false };
        let mut rounds = Rounds::start(vec![Box::new(stuck), Box::new(fast)], now_ns()).expect("a thread");
        let mut told = Told::default();
        ask_until(&mut rounds, &mut told, |told| told.read.len() >= 2);
        assert!(told.stuck[0].starts_with("stuck does not answer since"), "{told:?}");
        assert!(told.read.iter().all(|device| device == "fast") && told.lost.is_empty(), "{told:?}");
        free.send(()).expect("it waits for this");
        ask_until(&mut rounds, &mut told, |told| told.read.iter().any(|device| device == "stuck"));
        assert_eq!((&*told.lost, &told.back), (&["stuck lost a sensor".to_owned()][..], &told.stuck));
    }
}
