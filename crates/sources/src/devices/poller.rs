//! Polls all readers on a thread that may hang. A hanging reader is left with its thread, and a new thread continues
//! with the others; when the reader answers again, it is polled again.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Duration;

use ortscope_core::clock::now_ns;
use ortscope_core::schema::{DeviceSampleRow, Method};

use super::source::POLL_NS;
use super::{Missing, Reader, Recovered};

/// A reader that takes longer is considered hung.
const RESPONSE_TIMEOUT_NS: u64 = 2_000_000_000;
/// Most responses arrive in a fraction of this; a later one is taken at the next poll.
const WAIT: Duration = Duration::from_millis(50);
/// No reader is being read.
const NO_READER: usize = usize::MAX;

/// Result of one reader in one poll.
#[derive(Debug, Default)]
pub(super) struct PollResult {
    pub(super) at_ns: u64,
    pub(super) rows: Vec<DeviceSampleRow>,
    pub(super) lost: Vec<Missing>,
    pub(super) back: Vec<Recovered>,
    /// The poll is complete.
    is_last: bool,
}

struct Slot {
    reader: Mutex<(u64, Box<dyn Reader>)>,
    description: String,
    is_stuck: AtomicBool,
}

struct Shared {
    slots: Vec<Slot>,
    /// Responses of readers that had been given up, at most one per reader. A loss is reported only once, so it must
    /// not get lost here.
    unsent: Mutex<Vec<PollResult>>,
}

impl Shared {
    /// The readings are dropped: they were requested too long ago.
    fn keep_unsent(&self, result: PollResult) {
        let mut unsent = self.unsent.lock().unwrap_or_else(PoisonError::into_inner);
        unsent.push(PollResult { rows: Vec::new(), ..result });
    }

    fn take_unsent(&self) -> Vec<PollResult> {
        std::mem::take(&mut *self.unsent.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The requesting side.
pub(super) struct Poller {
    shared: Arc<Shared>,
    worker: Worker,
    /// Time of the request, or of its latest response; `None` when the poll is complete.
    requested_ns: Option<u64>,
    /// Readers that hang: index, since when, and the reported loss.
    stuck: Vec<(usize, u64, Missing)>,
}

struct Worker {
    poll: SyncSender<u64>,
    results: Receiver<PollResult>,
    /// Index of the reader that is being read.
    at: Arc<AtomicUsize>,
}

impl Poller {
    pub fn start(readers: Vec<Box<dyn Reader>>, begin_ns: u64) -> std::io::Result<Self> {
        let slot = |reader: Box<dyn Reader>| Slot {
            description: reader.describe(),
            reader: Mutex::new((begin_ns, reader)),
            is_stuck: AtomicBool::new(false),
        };
        let shared =
            Arc::new(Shared { slots: readers.into_iter().map(slot).collect(), unsent: Mutex::default() });
        let worker = Worker::start(&shared)?;
        Ok(Self { shared, worker, requested_ns: None, stuck: Vec::new() })
    }

    /// Requests a poll and passes on the available results. Returns the readers that were found to hang.
    pub fn poll(&mut self, tick_ns: u64, take: &mut dyn FnMut(PollResult)) -> Vec<Missing> {
        let begin_ns = now_ns();
        if self.requested_ns.is_none() && self.worker.poll.try_send(tick_ns).is_ok() {
            self.requested_ns = Some(tick_ns);
        }
        loop {
            match self.worker.results.recv_timeout(WAIT) {
                Ok(mut result) => {
                    let is_last = result.is_last;
                    self.shared.take_unsent().into_iter().for_each(&mut *take);
                    self.take_back(tick_ns, &mut result.back);
                    take(result);
                    if is_last {
                        self.requested_ns = None;
                        return Vec::new();
                    }
                    // Several slow readers together are not one that hangs.
                    self.requested_ns = Some(tick_ns + now_ns().saturating_sub(begin_ns));
                }
                Err(RecvTimeoutError::Timeout) => break,
                // A reader that panics takes its thread with it, like one that hangs forever.
                Err(RecvTimeoutError::Disconnected) => return self.abandon(tick_ns, "failed, no result for"),
            }
        }
        let silent_ns = self.requested_ns.map_or(0, |requested_ns| tick_ns.saturating_sub(requested_ns));
        if silent_ns < RESPONSE_TIMEOUT_NS {
            return Vec::new();
        }
        self.abandon(tick_ns, "has not answered for")
    }

    /// Abandons the current reader together with its thread.
    fn abandon(&mut self, now_ns: u64, what_happened: &str) -> Vec<Missing> {
        let at = self.worker.at.load(Ordering::Acquire);
        // Without another thread everything waits; the next call tries again.
        let Ok(worker) = Worker::start(&self.shared) else { return Vec::new() };
        let requested_ns = self.requested_ns.take().unwrap_or(now_ns);
        // A later response has no use: its channel is dropped here.
        self.worker = worker;
        let Some(slot) = self.shared.slots.get(at) else { return Vec::new() };
        slot.is_stuck.store(true, Ordering::Release);
        let missing = Missing::new(
            "devices",
            format!("{} {what_happened} {:.1} s", slot.description, seconds(requested_ns, now_ns)),
            "its driver hangs, see the kernel log; other devices are still read",
        );
        self.stuck.push((at, requested_ns, missing.clone()));
        vec![missing]
    }

    /// Readers that answer again.
    fn take_back(&mut self, now_ns: u64, back: &mut Vec<Recovered>) {
        let slots = &self.shared.slots;
        self.stuck.retain(|(at, from_ns, missing)| {
            let is_stuck = slots.get(*at).is_some_and(|slot| slot.is_stuck.load(Ordering::Acquire));
            if !is_stuck {
                back.push(Recovered { missing: missing.clone(), from_ns: *from_ns, to_ns: now_ns });
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
        let (poll, requests) = sync_channel(1);
        // Capacity for a whole poll, so that the thread never blocks.
        let (result, results) = sync_channel(shared.slots.len() + 1);
        let at = Arc::new(AtomicUsize::new(NO_READER));
        let (shared, slot) = (Arc::clone(shared), Arc::clone(&at));
        let work = move || serve(&shared, &requests, &result, &slot);
        std::thread::Builder::new().name("devices".to_owned()).spawn(work)?;
        Ok(Self { poll, results, at })
    }
}

/// The thread: one poll per request, until the channel is closed.
fn serve(shared: &Shared, requests: &Receiver<u64>, result: &SyncSender<PollResult>, at: &AtomicUsize) {
    while let Ok(poll_ns) = requests.recv() {
        let begin_ns = now_ns();
        for (number, slot) in shared.slots.iter().enumerate() {
            // Another thread hangs or has panicked in this reader.
            let mut reader = match slot.reader.try_lock() {
                Ok(reader) => reader,
                Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => continue,
            };
            slot.is_stuck.store(false, Ordering::Release);
            let (due_ns, reader) = &mut *reader;
            if *due_ns > poll_ns {
                continue;
            }
            at.store(number, Ordering::Release);
            let mut found = PollResult { at_ns: poll_ns, ..PollResult::default() };
            *due_ns = (poll_ns + reader.period_ns()).saturating_sub(POLL_NS / 2);
            let rows = &mut found.rows;
            let mut keep = |reading: super::Reading<'_>| {
                rows.push(DeviceSampleRow {
                    timestamp_ns: reading.at_ns,
                    device: reading.device.into(),
                    metric: reading.metric.into(),
                    value: reading.value,
                    source: reading.source.into(),
                    method: Method::Measured.into(),
                });
            };
            let at_ns = poll_ns + now_ns().saturating_sub(begin_ns);
            reader.read(at_ns, &mut keep, &mut found.lost);
            reader.take_recovered(&mut found.back);
            at.store(NO_READER, Ordering::Release);
            if let Err(SendError(found)) = result.send(found) {
                // The reader is still locked, so the next poll sees this result first.
                shared.keep_unsent(found);
                return;
            }
        }
        if result.send(PollResult { at_ns: poll_ns, is_last: true, ..PollResult::default() }).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Reading;
    use super::*;

    /// Waits for a time, or until it is released; may then report a loss once.
    struct Slow {
        name: &'static str,
        wait: Duration,
        released: Option<Receiver<()>>,
        loses: bool,
    }

    impl Reader for Slow {
        fn describe(&self) -> String {
            self.name.to_owned()
        }

        fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), lost: &mut Vec<Missing>) {
            std::thread::sleep(self.wait);
            if let Some(released) = self.released.take() {
                released.recv().ok();
            }
            if std::mem::take(&mut self.loses) {
                let why = format!("{} lost a sensor", self.name);
                lost.push(Missing::new("gpu", why, String::new()));
            }
            let device = self.name;
            out(Reading { at_ns, device, metric: "power_watts", value: 1.0, source: "test" });
        }
    }

    /// Everything that was reported up to a moment.
    #[derive(Debug, Default)]
    struct Reports {
        read: Vec<String>,
        lost: Vec<String>,
        stuck: Vec<String>,
        back: Vec<String>,
    }

    fn poll_until(poller: &mut Poller, reports: &mut Reports, is_done: impl Fn(&Reports) -> bool) {
        let begin = std::time::Instant::now();
        while !is_done(reports) {
            assert!(begin.elapsed() < Duration::from_secs(60), "timed out: {reports:?}");
            let Reports { read, lost, back, .. } = reports;
            let stuck = poller.poll(now_ns(), &mut |result| {
                read.extend(result.rows.iter().map(|row| row.device.to_string()));
                lost.extend(result.lost.into_iter().map(|missing| missing.why));
                back.extend(result.back.into_iter().map(|back| back.missing.why));
            });
            reports.stuck.extend(stuck.into_iter().map(|missing| missing.why));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Regression: the time of all readers together was attributed to the last one.
    #[test]
    fn several_slow_readers_are_not_hanging() {
        let slow = |name| Slow { name, wait: Duration::from_millis(450), released: None, loses: false };
        let readers = ["a", "b", "c", "d", "e", "f"].map(|name| Box::new(slow(name)) as Box<dyn Reader>);
        let mut poller = Poller::start(readers.into(), now_ns()).expect("a thread");
        let mut reports = Reports::default();
        // 2.7 s per poll, although one reader may take only 2 s.
        poll_until(&mut poller, &mut reports, |reports| reports.read.len() >= 6);
        assert_eq!((reports.stuck.len(), reports.read.join("")), (0, "abcdef".to_owned()), "{reports:?}");
    }

    /// Regression: a loss reported by an abandoned reader was dropped with its channel.
    #[test]
    fn results_of_an_abandoned_reader_arrive_later() {
        let (free, released) = sync_channel(1);
        let stuck = Slow { name: "stuck", wait: Duration::ZERO, released: Some(released), loses: true };
        let fast = Slow { name: "fast", wait: Duration::ZERO, released: None, loses: false };
        let mut poller = Poller::start(vec![Box::new(stuck), Box::new(fast)], now_ns()).expect("a thread");
        let mut reports = Reports::default();
        poll_until(&mut poller, &mut reports, |reports| reports.read.len() >= 2);
        assert!(reports.stuck[0].starts_with("stuck has not answered for"), "{reports:?}");
        assert!(reports.read.iter().all(|device| device == "fast") && reports.lost.is_empty(), "{reports:?}");
        free.send(()).expect("it waits for this");
        poll_until(&mut poller, &mut reports, |reports| reports.read.iter().any(|device| device == "stuck"));
        assert_eq!(
            (&*reports.lost, &reports.back),
            (&["stuck lost a sensor".to_owned()][..], &reports.stuck)
        );
    }
}
