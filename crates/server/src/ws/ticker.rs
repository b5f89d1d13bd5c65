//! Builds the frames of a group at its rate.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::frames::Encoder;
use crate::app::App;
use crate::clients::{Frame, Key};

/// Maximum time that a frame waits for samples.
const MAX_PATIENCE: Duration = Duration::from_secs(2);
/// The samples of a tick arrive in several batches on several threads, within this time.
const SETTLES_WITHIN: Duration = Duration::from_millis(1);
const LIVE: &str = "live";

/// Schedule of a group's frames: at its rate, but right after samples have arrived, so that they are fresh.
struct Rhythm {
    period: Duration,
    due: Instant,
    /// `None` if no samples arrive.
    arrivals: Option<watch::Receiver<()>>,
}

impl Rhythm {
    fn new(app: &App, key: &Key) -> Self {
        let live = app.sources.live().filter(|_| key.source == LIVE);
        Self {
            period: Duration::from_secs_f64(1000.0 / key.millihertz.max(1) as f64),
            due: Instant::now(),
            arrivals: live.map(|live| live.recent.arrivals()),
        }
    }

    async fn next(&mut self) {
        sleep_until(self.due).await;
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.mark_unchanged();
            // A little more than a period: samples of the same rate arrive once per period, sometimes late. A paused
            // source must not stop the frames, which show that it is paused.
            let patience = (self.period * 5 / 4).min(MAX_PATIENCE);
            if timeout(patience, arrivals.changed()).await.is_ok() {
                // If samples arrive just when a frame is due, some frames would miss them: be due a little earlier.
                if self.due.elapsed() < self.period / 32 {
                    self.due -= self.period / 16;
                }
                // Wait for the other tables of the same tick and for the live memory.
                sleep(SETTLES_WITHIN).await;
            }
        }
        self.due = (self.due + self.period).max(Instant::now());
    }
}

/// Builds the frames of a group until it has no clients.
pub async fn tick(app: Arc<App>, key: Key, sender: watch::Sender<Frame>) {
    let mut rhythm = Rhythm::new(&app, &key);
    let mut encoder = Encoder::new(key);
    let mut sequence = 0;
    loop {
        // The first frame is built immediately.
        if sequence > 0 {
            tokio::select! {
                () = rhythm.next() => {}
                () = sender.closed() => return,
            }
        }
        sequence += 1;
        let shared = Arc::clone(&app);
        let made = spawn_blocking(move || {
            let text = encoder.encode(&shared, sequence);
            (encoder, text)
        });
        let Ok((back, text)) = made.await else { return };
        encoder = back;
        match text {
            Ok(Some(text)) => {
                sender.send_replace(Frame { sequence, text: Some(text.into()) });
            }
            // A finished recording has only one frame.
            Ok(None) => sender.closed().await,
            Err(error) => tracing::debug!(message = error.message, "no frame"),
        }
    }
}
