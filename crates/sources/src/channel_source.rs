//! Inferences of another process, read from its channel.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ortscope_channel::rows::FrameRows;
use ortscope_channel::{ChannelReader, ControlPage, FrameKind, InferenceRecord};
use ortscope_core::metric::Availability;
use ortscope_core::pipeline::{Control, CostClass, Emitter, Source, SourceError, SourceInfo, WhenFull};
use ortscope_core::schema::{ChannelPositionRow, Text};

pub use ortscope_channel::rows::MESSAGE_KIND;

/// Read interval: short enough for a live view, long enough not to disturb the model.
const PERIOD_NS: u64 = 50_000_000;
/// Records are freed one pass after they were read, when they are in the journal. A ring that fills faster is read at
/// this interval, so that its writer drops nothing.
const BUSY_PERIOD_NS: u64 = 5_000_000;
/// Fullness from which a ring is read at the shorter interval.
const BUSY_FULLNESS: f64 = 0.25;

/// Reads a channel until its writer has ended. On stop it asks the writer to end and reads to the last record.
///
/// A record leaves its ring only after the pipeline has stored it: after a crash it is in the ring or in the journal.
#[derive(Debug)]
pub struct ChannelSource {
    info: SourceInfo,
    directory: PathBuf,
    rows: FrameRows,
    writer_ended: Arc<AtomicBool>,
}

impl ChannelSource {
    /// `session_ids[n]` is the id of the writer's session number `n`; `writer_ended` becomes true when the writer
    /// has exited.
    pub fn new(directory: &Path, session_ids: Vec<Text>, writer_ended: Arc<AtomicBool>) -> Self {
        let info = SourceInfo {
            name: "channel",
            tracks: vec!["inferences".into(), "annotations".into()],
            cost: CostClass::Low,
            when_full: WhenFull::DropAndCount,
        };
        Self { info, directory: directory.to_owned(), rows: FrameRows::new(session_ids, None), writer_ended }
    }

    fn emit(&self, kind: FrameKind, payload: &[u8], out: &mut Emitter, now: u64) {
        if kind == FrameKind::INFERENCE
            && let Some(record) = InferenceRecord::from_bytes(payload)
        {
            out.emit(&self.rows.inference(&record));
        } else if kind == FrameKind::MESSAGE {
            out.emit(&self.rows.text(payload, now));
        } else {
            out.lost(kind.name(), 1);
        }
    }

    /// Reads and sends new records. Positions are sent last: a journal with a position has everything before it.
    fn pass(&self, reader: &mut ChannelReader, out: &mut Emitter, now: u64) -> Result<(), SourceError> {
        let drained = reader
            .read(|kind, payload| self.emit(kind, payload, out, now))
            .map_err(|error| SourceError::Failed(error.to_string()))?;
        out.lost("damaged frames", drained.damaged);
        for (kind, count) in drained.lost {
            out.lost(kind.name(), count);
        }
        out.flush();
        for at in drained.positions {
            out.emit(&ChannelPositionRow { timestamp_ns: now, ring: at.ring, position: at.position });
        }
        out.flush();
        Ok(())
    }
}

impl Source for ChannelSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn probe(&mut self) -> Availability {
        Availability::Ready
    }

    fn run(&mut self, out: &mut Emitter, control: &Control) -> Result<(), SourceError> {
        let page =
            ControlPage::open(&self.directory).map_err(|error| SourceError::Failed(error.to_string()))?;
        let mut reader = ChannelReader::new(&self.directory);
        // Number of batches that must be stored before the marked records are freed.
        let mut sent_at_mark = None;
        let mut next = control.clock().now_ns();
        loop {
            // Loaded before reading, so that the last records are still read.
            let ended = self.writer_ended.load(Ordering::SeqCst);
            if control.is_stopped() {
                page.request_stop();
            }
            let now = control.clock().now_ns();
            page.beat(now);
            if sent_at_mark.is_some_and(|sent| out.kept() >= sent) {
                reader.release();
                sent_at_mark = None;
            }
            self.pass(&mut reader, out, now)?;
            if ended {
                return Ok(());
            }
            if sent_at_mark.is_none() {
                reader.mark();
                sent_at_mark = Some(out.sent());
            }
            let period = if reader.fullness() > BUSY_FULLNESS { BUSY_PERIOD_NS } else { PERIOD_NS };
            next = (next + period).max(now);
            if !control.sleep_until(next) {
                // After a stop the writer ends soon; the control's clock no longer sleeps, so poll
                // slowly.
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
    }
}
