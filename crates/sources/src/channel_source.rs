//! Inferences of another process, read from its channel.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ortscope_channel::{ChannelReader, ControlPage, FrameKind, InferenceRecord, Phase};
use ortscope_core::metric::Availability;
use ortscope_core::pipeline::{Control, CostClass, Emitter, Source, SourceError, SourceInfo, WhenFull};
use ortscope_core::schema::{AnnotationRow, InferenceRow, Text};

/// Kind of the annotation rows that carry a writer's messages.
pub const MESSAGE_KIND: &str = "message";

/// The channel is read this often: often enough for a live view, seldom enough not to disturb the model.
const PERIOD_NANOS: u64 = 50_000_000;

/// Reads a channel until its writer has ended. On stop it asks the writer to end and reads on to the last record.
#[derive(Debug)]
pub struct ChannelSource {
    info: SourceInfo,
    directory: PathBuf,
    session_ids: Vec<Text>,
    writer_ended: Arc<AtomicBool>,
    /// One shared text per phase, so that a row costs no allocation.
    phases: [(Phase, Text); 4],
}

impl ChannelSource {
    /// `session_ids[n]` names the writer's session number `n`; `writer_ended` becomes true when the writer is gone.
    pub fn new(directory: &Path, session_ids: Vec<Text>, writer_ended: Arc<AtomicBool>) -> Self {
        let info = SourceInfo {
            name: "channel",
            tracks: vec!["inferences".into(), "annotations".into()],
            cost: CostClass::Low,
            when_full: WhenFull::DropAndCount,
        };
        let phases = [Phase::First, Phase::Steady, Phase::Prefill, Phase::Token]
            .map(|phase| (phase, Text::from(phase.name())));
        Self { info, directory: directory.to_owned(), session_ids, writer_ended, phases }
    }

    fn emit(&self, kind: FrameKind, payload: &[u8], out: &mut Emitter, now: u64) {
        if kind == FrameKind::INFERENCE
            && let Some(record) = InferenceRecord::from_bytes(payload)
        {
            out.emit(&self.row(&record));
        } else if kind == FrameKind::MESSAGE {
            let text = String::from_utf8_lossy(payload);
            out.emit(&AnnotationRow { timestamp_ns: now, kind: MESSAGE_KIND.into(), text: text.into() });
        } else {
            out.lost(kind.name(), 1);
        }
    }

    fn row(&self, record: &InferenceRecord) -> InferenceRow {
        InferenceRow {
            timestamp_ns: record.start_nanos,
            planned_ns: record.planned_nanos,
            session_id: self.session_ids.get(usize::from(record.session)).cloned().unwrap_or_default(),
            sequence: record.sequence,
            stream: u64::from(record.stream),
            phase: self
                .phases
                .iter()
                .find(|(phase, _)| *phase == record.phase)
                .map_or_else(|| record.phase.name().into(), |(_, text)| Text::clone(text)),
            copy_in_ns: record.copy_in_nanos,
            run_ns: record.run_nanos,
            copy_out_ns: record.copy_out_nanos,
            batch_size: (record.batch_size > 0).then_some(u64::from(record.batch_size)),
            queue_depth: record.queue_depth.map(u64::from),
            token: record.token.map(u64::from),
            ok: record.ok,
        }
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
        let failed = |error: ortscope_channel::ChannelError| SourceError::Failed(error.to_string());
        let page = ControlPage::open(&self.directory).map_err(failed)?;
        let mut reader = ChannelReader::new(&self.directory);
        let mut next = control.clock().now_nanos();
        loop {
            // Asked before draining, so that what was written last is still read afterwards.
            let ended = self.writer_ended.load(Ordering::SeqCst);
            if control.is_stopped() {
                page.request_stop();
            }
            let now = control.clock().now_nanos();
            page.beat(now);
            let drained = reader.drain(|kind, payload| self.emit(kind, payload, out, now)).map_err(failed)?;
            out.lost("damaged frames", drained.damaged);
            for (kind, count) in drained.lost {
                out.lost(kind.name(), count);
            }
            out.flush();
            if ended {
                return Ok(());
            }
            next = (next + PERIOD_NANOS).max(now);
            if !control.sleep_until(next) {
                // Stopped: the writer ends soon; sleeping by the clock is no longer possible, so poll gently.
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
    }
}
