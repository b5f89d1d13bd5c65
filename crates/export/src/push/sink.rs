//! Pushes live: a sink that makes values of the rows every step, and a thread that takes them to the far end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ortscope_core::batch::Batch;
use ortscope_core::clock::WallAnchor;
use ortscope_core::pipeline::{FlushError, Sink, SinkError};

use super::otlp::{PendingMetrics, Resource};
use super::queue::{Queue, Route};
use super::remote_write::Pending;
use super::sender::{Sender, Tried};
use super::{Protocol, PushError, PushOptions};
use crate::metrics::{Metrics, Window};

/// How often the thread looks for something to send.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How the push goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PushState {
    pub delivered: u64,
    pub refused: u64,
    pub waiting: u64,
    pub dropped: u64,
    /// The last trouble; `None` when the last request was taken.
    pub trouble: Option<String>,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    state: Mutex<PushState>,
    stop: AtomicBool,
}

/// The sink. It never waits for the far end.
#[derive(Debug)]
pub struct PushSink {
    options: PushOptions,
    metrics: Metrics,
    resource: Resource,
    started: WallAnchor,
    next: Instant,
    shared: Arc<Shared>,
    sending: Option<JoinHandle<()>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PushSink {
    pub fn start(options: PushOptions) -> Result<Self, PushError> {
        let queue = Queue::open(&options.queue, options.queue_bytes)?;
        let shared = Arc::new(Shared {
            queue: Mutex::new(queue),
            state: Mutex::default(),
            stop: AtomicBool::new(false),
        });
        let (of_thread, destination) = (Arc::clone(&shared), options.destination.clone());
        let sending = std::thread::Builder::new()
            .name("ortscope-push".into())
            .spawn(move || send(&of_thread, Sender::new(destination)))
            .map_err(|error| PushError::Export(error.into()))?;
        Ok(Self {
            metrics: Metrics::new(Window::MINUTE),
            resource: Resource::new(&options.host, &std::collections::BTreeMap::new()),
            started: WallAnchor::now(),
            next: Instant::now() + options.step,
            options,
            shared,
            sending: Some(sending),
        })
    }

    /// A way to look at it from elsewhere.
    pub fn handle(&self) -> PushHandle {
        PushHandle(Arc::clone(&self.shared))
    }

    /// Puts the values of this moment into the queue.
    fn step(&mut self) -> Result<(), PushError> {
        let now = WallAnchor::now();
        let families = self.metrics.families();
        let made = match self.options.protocol {
            Protocol::RemoteWrite => {
                let mut pending = Pending::default();
                pending.add(now.unix_ns / 1_000_000, &self.options.host, &families);
                pending.take().map(|request| (Route::RemoteWrite, request))
            }
            Protocol::Otlp => {
                let mut pending = PendingMetrics::default();
                pending.add(self.started.unix_ns, now.unix_ns, &families);
                pending.take(&self.resource).map(|request| (Route::Metrics, request))
            }
        };
        self.metrics.begin_window();
        if let Some((route, (body, samples))) = made {
            lock(&self.shared.queue).push(route, samples, &body)?;
        }
        Ok(())
    }
}

/// How a push goes, seen from outside of the pipeline.
#[derive(Debug, Clone)]
pub struct PushHandle(Arc<Shared>);

impl PushHandle {
    pub fn state(&self) -> PushState {
        state(&self.0)
    }
}

fn state(shared: &Shared) -> PushState {
    let queue = lock(&shared.queue);
    PushState { waiting: queue.waiting(), dropped: queue.dropped(), ..lock(&shared.state).clone() }
}

/// The thread: sends until it is told to stop.
fn send(shared: &Shared, mut sender: Sender) {
    while !shared.stop.load(Ordering::Relaxed) {
        // The queue is not held while a request is on its way: the sink must not wait for the far end.
        let first = {
            let queue = lock(&shared.queue);
            queue.first().cloned().map(|entry| (queue.body(&entry), entry))
        };
        let Some((body, entry)) = first.filter(|_| sender.pause().is_zero()) else {
            std::thread::sleep(LOOK_EVERY);
            continue;
        };
        let tried = sender.send(&entry, body);
        let done = matches!(tried, Tried::Delivered | Tried::Refused);
        let tried = if done { lock(&shared.queue).pop().map(|()| tried) } else { Ok(tried) };
        let mut state = lock(&shared.state);
        (state.delivered, state.refused) = (sender.delivered, sender.refused);
        match tried {
            Ok(Tried::Delivered | Tried::Nothing) => state.trouble = None,
            Ok(Tried::Refused) => state.trouble = sender.refused_why.clone(),
            Ok(Tried::Later(why)) => state.trouble = Some(why),
            Ok(Tried::Denied(why)) => {
                state.trouble = Some(why);
                drop(state);
                // Somebody may correct it at the far end.
                std::thread::sleep(LOOK_EVERY * 50);
            }
            Err(error) => {
                state.trouble = Some(error.to_string());
                drop(state);
                std::thread::sleep(LOOK_EVERY * 10);
            }
        }
    }
}

impl Sink for PushSink {
    fn name(&self) -> &str {
        "push"
    }

    fn consume(&mut self, batch: &Batch) -> Result<(), SinkError> {
        self.metrics.take(batch);
        if Instant::now() >= self.next {
            self.next = Instant::now() + self.options.step;
            self.step().map_err(|error| SinkError::Failed(error.to_string()))?;
        }
        Ok(())
    }

    /// The last values go into the queue; what the far end does not take in time waits there.
    fn flush(&mut self, deadline: Instant) -> Result<(), FlushError> {
        self.step().map_err(|error| FlushError::Failed(error.to_string()))?;
        while !lock(&self.shared.queue).is_empty() && Instant::now() < deadline {
            if state(&self.shared).trouble.is_some() {
                break;
            }
            std::thread::sleep(LOOK_EVERY.min(deadline.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }
}

impl Drop for PushSink {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(sending) = self.sending.take() {
            sending.join().ok();
        }
    }
}
