//! Inferences of running programs from ONNX Runtime's own events on Windows; nothing is loaded into the programs. Stock builds
//! report sessions and runs, but not operators.

use ortscope_core::pipeline::Emitter;
use ortscope_decode::etw::{EtwSink, Inference, OrtOperator, OrtRow, OrtRows, OrtSession};
use ortscope_sources::etw::{EtwRows, EtwSource, KernelFlags, ProcessFilter, Settings, providers};

/// The track that explains why there are no inferences.
pub const TRACK: &str = "inferences";

/// A trace session with ONNX Runtime's provider, on systems with event tracing. "Performance Log Users" may read it.
pub fn source(pids: &[u32]) -> Option<EtwSource> {
    let api = ortscope_sources::etw_functions()?;
    let settings = Settings {
        name: format!("ortscope-ort-{}", std::process::id()),
        kernel: KernelFlags::default(),
        providers: vec![providers::ONNX_RUNTIME],
        filter: ProcessFilter { include_pids: pids.to_vec(), ..ProcessFilter::default() },
        ..Settings::default()
    };
    Some(EtwSource::new("onnxruntime events", TRACK, api, settings, Box::new(Rows::default())))
}

#[derive(Debug, Default)]
struct Rows {
    sessions: OrtRows,
    dropped: u64,
}

struct Sink<'a> {
    rows: &'a mut Rows,
    out: &'a mut Emitter,
}

impl EtwRows for Rows {
    fn sink<'a>(&'a mut self, out: &'a mut Emitter) -> Box<dyn EtwSink + 'a> {
        Box::new(Sink { rows: self, out })
    }

    fn finish(&mut self, out: &mut Emitter) {
        self.sessions.undescribed().iter().for_each(|row| out.emit(row));
        let beyond = self.sessions.dropped - std::mem::replace(&mut self.dropped, self.sessions.dropped);
        out.lost("events of sessions beyond the limit", beyond);
    }
}

impl EtwSink for Sink<'_> {
    fn session(&mut self, session: &OrtSession) {
        self.rows.sessions.session(session).iter().for_each(|row| self.out.emit(row));
    }

    fn inference(&mut self, inference: &Inference) {
        self.rows.sessions.inference(inference).iter().for_each(|row| self.out.emit(row));
    }

    fn operator(&mut self, operator: &OrtOperator) {
        self.rows.sessions.operator(operator).iter().for_each(|row| self.out.emit(row));
    }

    fn ort(&mut self, row: &OrtRow) {
        self.rows.sessions.event(row).iter().for_each(|row| self.out.emit(row));
    }
}
