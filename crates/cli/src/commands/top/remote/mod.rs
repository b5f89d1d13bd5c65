//! `ortscope top --connect`: the frames of a server become rows of the live memory, so that the same view shows them.
//!
//! A thread of its own reads frames. A connection that is lost is tried again, ever more slowly; what can only be wrong
//! (the token, the certificate, the name) ends the view with a sentence. Only one frame is held at a time.

mod connection;
mod rows;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ortscope_core::batch::Batch;
use ortscope_core::live::LiveMemory;
use ortscope_core::pipeline::Sink as _;
use ortscope_tui::{OwnCost, OwnFigures};

use self::connection::{Address, Connection, Problem};
use self::rows::Rows;
use super::facts::Facts;
use crate::args::TopArgs;
use crate::exit::Failure;

const FIRST_WAIT: Duration = Duration::from_millis(500);
const MAX_WAIT: Duration = Duration::from_secs(15);
/// A connection that lasted this long was a good one: the next wait is short again.
const GOOD_AFTER: Duration = Duration::from_secs(10);
/// A thread that waits looks this often whether it should end.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Frames per second that a server takes.
const FRAMES_HERTZ: (f64, f64) = (0.2, 20.0);

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    failed: AtomicBool,
    /// Why it ended.
    problem: Mutex<Option<Problem>>,
    cost: Mutex<OwnCost>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A server that is watched.
#[derive(Debug)]
pub struct Remote {
    shared: Arc<Shared>,
    facts: Facts,
    thread: Option<JoinHandle<()>>,
}

impl Remote {
    /// Connects for the first time, so that what is wrong is said at once.
    pub fn start(url: &str, args: &TopArgs, memory: LiveMemory, facts: Facts) -> Result<Self, Failure> {
        let address = Address::new(url, args)?;
        let rate = args.rate.clamp(FRAMES_HERTZ.0, FRAMES_HERTZ.1);
        let first = Connection::open(&address, rate)?;
        let shared = Arc::new(Shared::default());
        let mut reader = Reader {
            address,
            rate,
            memory,
            facts: facts.clone(),
            rows: Rows::default(),
            shared: Arc::clone(&shared),
        };
        let thread =
            std::thread::Builder::new().name("ortscope-remote".into()).spawn(move || reader.run(first))?;
        Ok(Self { shared, facts, thread: Some(thread) })
    }

    /// Whether it cannot go on: [`Remote::stop`] says why.
    pub fn has_failed(&self) -> bool {
        self.shared.failed.load(Ordering::SeqCst)
    }

    pub fn stop(mut self) -> Result<(), Failure> {
        self.shared.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.join().map_err(|_| Failure::internal("the reader of the server panicked"))?;
        }
        match locked(&self.shared.problem).take() {
            Some(problem) => Err(problem.into()),
            None => Ok(()),
        }
    }
}

impl OwnFigures for Remote {
    /// What watching costs there.
    fn own_cost(&self) -> Option<OwnCost> {
        Some(*locked(&self.shared.cost))
    }

    fn lost_records(&self) -> u64 {
        self.facts.lost()
    }
}

struct Reader {
    address: Address,
    rate: f64,
    memory: LiveMemory,
    facts: Facts,
    rows: Rows,
    shared: Arc<Shared>,
}

impl Reader {
    fn is_over(&self) -> bool {
        self.shared.stop.load(Ordering::SeqCst)
    }

    fn run(&mut self, first: Connection) {
        let mut next = Ok(first);
        let mut wait = FIRST_WAIT;
        while !self.is_over() {
            let began = Instant::now();
            let problem = match next {
                Ok(connection) => self.read(connection),
                Err(problem) => problem,
            };
            if self.is_over() {
                return;
            }
            if problem.is_final {
                *locked(&self.shared.problem) = Some(problem);
                self.shared.failed.store(true, Ordering::SeqCst);
                return;
            }
            let lost = self.rows.connection_lost(&problem.sentence);
            self.take(&lost);
            wait = if began.elapsed() >= GOOD_AFTER { FIRST_WAIT } else { (wait * 2).min(MAX_WAIT) };
            let until = Instant::now() + wait;
            while Instant::now() < until && !self.is_over() {
                std::thread::sleep(LOOK_EVERY);
            }
            next = Connection::open(&self.address, self.rate);
        }
    }

    /// Reads frames until the connection ends, and says why.
    fn read(&mut self, mut connection: Connection) -> Problem {
        loop {
            match connection.next(|| self.shared.stop.load(Ordering::SeqCst)) {
                Ok(Some(frame)) => {
                    let batches = self.rows.of(&frame);
                    *locked(&self.shared.cost) = self.rows.cost;
                    self.take(&batches);
                }
                Ok(None) => return Problem::passing("the view has ended"),
                Err(problem) => return problem,
            }
        }
    }

    fn take(&mut self, batches: &[Batch]) {
        for batch in batches.iter().filter(|batch| !batch.is_empty()) {
            // Both keep what they can and count the rest themselves.
            self.memory.consume(batch).ok();
            self.facts.consume(batch).ok();
        }
    }
}
