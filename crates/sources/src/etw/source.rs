//! The pipeline source for a live session with non-kernel providers. The caller converts events to rows.

use std::sync::Arc;

use ortscope_core::kernel::threads::Limits;
use ortscope_core::metric::Availability;
use ortscope_core::pipeline::{Control, CostClass, Emitter, Source, SourceError, SourceInfo, WhenFull};
use ortscope_decode::etw::EtwSink;

use super::api::EtwApi;
use super::session::LiveSession;
use super::settings::Settings;
use crate::kernel_source::split;

const DRAIN_NS: u64 = 100_000_000;

/// Converts the events of a session to rows.
pub trait EtwRows: Send {
    /// The sink for the events of one drain.
    fn sink<'a>(&'a mut self, out: &'a mut Emitter) -> Box<dyn EtwSink + 'a>;
    /// Called after the last event.
    fn finish(&mut self, out: &mut Emitter);
}

/// Ends only when it is stopped. A session that cannot be opened is not an error of the pipeline: its track is
/// unavailable.
pub struct EtwSource {
    info: SourceInfo,
    api: Arc<dyn EtwApi>,
    settings: Settings,
    track: &'static str,
    rows: Box<dyn EtwRows>,
}

impl std::fmt::Debug for EtwSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtwSource").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl EtwSource {
    pub fn new(
        name: &'static str,
        track: &'static str,
        api: Arc<dyn EtwApi>,
        settings: Settings,
        rows: Box<dyn EtwRows>,
    ) -> Self {
        let info = SourceInfo {
            name,
            tracks: vec![track.to_owned()],
            cost: CostClass::Low,
            when_full: WhenFull::DropAndCount,
        };
        Self { info, api, settings, track, rows }
    }

    fn open(&self) -> Result<LiveSession, (String, Option<String>)> {
        let opened = LiveSession::open(Arc::clone(&self.api), self.settings.clone(), Limits::default());
        opened.map_err(|error| split(&error.into()))
    }
}

impl Source for EtwSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    /// Always ready: opening a session as a test would cost twice, and a failure is reported when it runs.
    fn probe(&mut self) -> Availability {
        Availability::Ready
    }

    fn run(&mut self, out: &mut Emitter, control: &Control) -> Result<(), SourceError> {
        let now_ns = || control.clock().now_ns();
        super::close_orphans(&*self.api);
        let mut session = match self.open() {
            Ok(session) => session,
            Err((why, hint)) => {
                out.unavailable(now_ns(), self.track, &why, hint.as_deref());
                out.flush();
                return Ok(());
            }
        };
        let (mut next_ns, mut notes_told, mut end_told) = (now_ns(), 0, false);
        loop {
            next_ns += DRAIN_NS;
            let goes_on = control.sleep_until(next_ns);
            let stats = {
                let mut sink = self.rows.sink(out);
                if goes_on { session.drain(&mut *sink) } else { session.finish(&mut *sink) }
            };
            out.lost("session events", stats.lost);
            for note in session.notes().iter().skip(notes_told) {
                out.unavailable(now_ns(), self.track, &note.to_string(), None);
            }
            notes_told = session.notes().len();
            if let Some(why) = session.ended().filter(|_| goes_on && !std::mem::replace(&mut end_told, true))
            {
                out.unavailable(now_ns(), self.track, why, None);
            }
            if !goes_on {
                self.rows.finish(out);
            }
            out.flush();
            if !goes_on {
                return Ok(());
            }
            next_ns = next_ns.max(now_ns().saturating_sub(DRAIN_NS));
        }
    }
}
