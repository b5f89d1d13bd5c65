//! `ortscope top --connect`: frames of a server become rows of the live memory, so that the same view shows them.
//!
//! Frames are read on a separate thread. A lost connection is retried with growing pauses; an error that cannot pass (the
//! token, the certificate, the name) ends the view. Only one frame is held at a time.

mod connection;
mod rows;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ortscope_core::batch::Batch;
use ortscope_core::live::LiveMemory;
use ortscope_core::pipeline::Sink as _;

use self::connection::{Address, Connection};
pub use self::connection::{RemoteError, RemoteErrorKind};
use self::rows::Rows;
use crate::facts::{OwnCost, OwnFigures};
use crate::known_processes::KnownProcesses;

const FIRST_WAIT: Duration = Duration::from_millis(500);
const MAX_WAIT: Duration = Duration::from_secs(15);
/// After a connection that lasted this long the next pause is short again.
const GOOD_AFTER: Duration = Duration::from_secs(10);
/// How often a pausing thread checks whether to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Lowest and highest rate that a server accepts.
const FRAMES_HERTZ: (f64, f64) = (0.2, 20.0);

/// Which server to show.
#[derive(Debug, Clone, Default)]
pub struct RemoteOptions {
    /// `https://box.lan:9464`
    pub url: String,
    /// Frames per second.
    pub rate_hertz: f64,
    /// File with the token; without one it is in `ORTSCOPE_TOKEN`.
    pub token_file: Option<PathBuf>,
    /// Certificates to trust, in PEM.
    pub ca: Option<PathBuf>,
    /// SHA-256 of the only certificate to trust.
    pub fingerprint: Option<String>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    failed: AtomicBool,
    /// Why reading ended.
    error: Mutex<Option<RemoteError>>,
    cost: Mutex<OwnCost>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A server whose machine is shown.
#[derive(Debug)]
pub struct Remote {
    shared: Arc<Shared>,
    processes: KnownProcesses,
    thread: Option<JoinHandle<()>>,
}

impl Remote {
    /// Connects for the first time before it returns, so that wrong settings are reported at once.
    pub fn start(
        options: &RemoteOptions,
        memory: LiveMemory,
        processes: KnownProcesses,
    ) -> Result<Self, RemoteError> {
        let address = Address::new(options)?;
        let rate = options.rate_hertz.clamp(FRAMES_HERTZ.0, FRAMES_HERTZ.1);
        let first = Connection::open(&address, rate)?;
        let shared = Arc::new(Shared::default());
        let mut reader = Reader {
            address,
            rate,
            memory,
            processes: processes.clone(),
            rows: Rows::default(),
            shared: Arc::clone(&shared),
        };
        let thread = std::thread::Builder::new().name("ortscope-remote".into());
        let thread = thread
            .spawn(move || reader.run(first))
            .map_err(|error| RemoteError::passing(format!("cannot start a thread: {error}")))?;
        Ok(Self { shared, processes, thread: Some(thread) })
    }

    /// Whether it cannot continue; [`Remote::stop`] returns the reason.
    pub fn has_failed(&self) -> bool {
        self.shared.failed.load(Ordering::SeqCst)
    }

    pub fn stop(mut self) -> Result<(), RemoteError> {
        self.shared.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.join().map_err(|_| RemoteError::passing("the thread that reads frames panicked"))?;
        }
        match locked(&self.shared.error).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

impl OwnFigures for Remote {
    /// Cost of observation on the server.
    fn own_cost(&self) -> Option<OwnCost> {
        Some(*locked(&self.shared.cost))
    }

    fn lost_records(&self) -> u64 {
        self.processes.lost()
    }
}

struct Reader {
    address: Address,
    rate: f64,
    memory: LiveMemory,
    processes: KnownProcesses,
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
            let error = match next {
                Ok(connection) => self.read(connection),
                Err(error) => error,
            };
            if self.is_over() {
                return;
            }
            if error.kind != RemoteErrorKind::Unreachable {
                *locked(&self.shared.error) = Some(error);
                self.shared.failed.store(true, Ordering::SeqCst);
                return;
            }
            let lost = self.rows.connection_lost(&error.message);
            self.take(&lost);
            wait = if began.elapsed() >= GOOD_AFTER { FIRST_WAIT } else { (wait * 2).min(MAX_WAIT) };
            let until = Instant::now() + wait;
            while Instant::now() < until && !self.is_over() {
                std::thread::sleep(LOOK_EVERY);
            }
            next = Connection::open(&self.address, self.rate);
        }
    }

    /// Reads frames until the connection ends and returns the reason.
    fn read(&mut self, mut connection: Connection) -> RemoteError {
        loop {
            match connection.next(|| self.shared.stop.load(Ordering::SeqCst)) {
                Ok(Some(frame)) => {
                    let batches = self.rows.of(&frame);
                    *locked(&self.shared.cost) = self.rows.cost;
                    self.take(&batches);
                }
                Ok(None) => return RemoteError::passing("the view has ended"),
                Err(error) => return error,
            }
        }
    }

    fn take(&mut self, batches: &[Batch]) {
        for batch in batches.iter().filter(|batch| !batch.is_empty()) {
            // Both keep what they can and count the rest.
            self.memory.consume(batch).ok();
            self.processes.consume(batch).ok();
        }
    }
}
