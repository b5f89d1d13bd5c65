//! A vendor's library that is asked by a thread of its own.
//!
//! Calls of such libraries have hung, and have taken programs with them, when a driver was reset. They are made in this
//! process, never in an observed one, and by a thread that nobody waits for: who does not get an answer goes on without.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use super::presence::Presence;
use super::{Back, Missing};

/// A library starts within this, or it is left alone.
pub(super) const STARTS_WITHIN: Duration = Duration::from_secs(3);
/// An answer that takes longer is a call that hangs.
const ANSWERS_WITHIN_NS: u64 = 2_000_000_000;

/// What the thread has: where it says how it started, the questions, and where the answers go.
pub(super) struct Thread<S, R> {
    pub say: SyncSender<S>,
    pub asked: Receiver<()>,
    pub answer: SyncSender<R>,
}

/// Why a library did not start.
#[derive(Debug)]
pub(super) enum NotStarted {
    NoThread(std::io::Error),
    Hangs,
    Failed,
}

/// A library that has started. `R` is what it tells in one round.
#[derive(Debug)]
pub(super) struct Asked<R> {
    /// In a sentence: `NVIDIA's library`.
    whose: &'static str,
    ask: SyncSender<()>,
    answers: Receiver<R>,
    /// When a question was asked that has no answer yet.
    asked_ns: Option<u64>,
    speaks: Presence,
    back: Vec<Back>,
}

/// Starts the thread and waits for what it says first.
pub(super) fn start<S: Send + 'static, R: Send + 'static>(
    thread_name: &str,
    whose: &'static str,
    work: impl FnOnce(Thread<S, R>) + Send + 'static,
) -> Result<(S, Asked<R>), NotStarted> {
    let (say, hear) = sync_channel(1);
    let (ask, asked) = sync_channel(1);
    let (answer, answers) = sync_channel(4);
    let given = Thread { say, asked, answer };
    let spawned = thread::Builder::new().name(thread_name.to_owned()).spawn(move || work(given));
    spawned.map_err(NotStarted::NoThread)?;
    match hear.recv_timeout(STARTS_WITHIN) {
        Ok(said) => {
            let speaks = Presence::default();
            Ok((said, Asked { whose, ask, answers, asked_ns: None, speaks, back: Vec::new() }))
        }
        Err(RecvTimeoutError::Timeout) => Err(NotStarted::Hangs),
        Err(RecvTimeoutError::Disconnected) => Err(NotStarted::Failed),
    }
}

impl<R> Asked<R> {
    /// Takes what was answered since, and asks again. The answer is there at the next round. That there is none is told
    /// once, as `silent` says it.
    pub fn round(
        &mut self,
        at_ns: u64,
        silent: impl Fn(String) -> Missing,
        lost: &mut Vec<Missing>,
        mut take: impl FnMut(R, &mut Vec<Missing>),
    ) {
        loop {
            match self.answers.try_recv() {
                Ok(answer) => {
                    self.asked_ns = None;
                    self.speaks.find(at_ns, &mut self.back);
                    take(answer, lost);
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    let why = || silent(format!("{} failed while it was asked", self.whose));
                    self.speaks.lose(at_ns, why, lost);
                    return;
                }
            }
        }
        if let Some(asked_ns) = self.asked_ns {
            let silence_ns = at_ns.saturating_sub(asked_ns);
            if silence_ns >= ANSWERS_WITHIN_NS {
                let seconds = silence_ns as f64 / 1e9;
                let why = || silent(format!("{} has not answered for {seconds:.1} s", self.whose));
                self.speaks.lose(at_ns, why, lost);
            }
            return;
        }
        match self.ask.try_send(()) {
            Ok(()) | Err(TrySendError::Full(())) => self.asked_ns = Some(at_ns),
            Err(TrySendError::Disconnected(())) => {}
        }
    }

    /// Hands over when it spoke again.
    pub fn came_back(&mut self, back: &mut Vec<Back>) {
        back.append(&mut self.back);
    }
}
