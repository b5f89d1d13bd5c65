//! Windows of profiled runs during a long measurement.
//!
//! From 1.25 on ONNX Runtime profiles single runs of the measured session itself. Older versions profile a session from
//! its beginning to its end or not at all: there a window is a second session with the profiler on, made and ended between
//! two measured runs. File names contain the window, run and start time, so no other description is needed, and the files of
//! a worker that dies are not lost.

use std::path::PathBuf;

use ortscope_channel::{InferenceRecord, Phase, RingWriter};
use ortscope_core::clock::now_ns;
use ortscope_core::tensor::Value;
use ortscope_ort::{Binding, Environment, OrtError, Session, SessionOptions};

use super::profile::on_our_clock;
use super::streams::Lap;
use crate::measure::plan::{WindowsPlan, WorkerPlan};

/// The first run of a second session prepares kernels and is added to the window's runs.
const WARM_UP: u64 = 1;

#[derive(Debug)]
pub struct Windows<'a> {
    plan: &'a WorkerPlan,
    windows: &'a WindowsPlan,
    environment: &'a Environment,
    inputs: &'a [(String, Value)],
    next_ns: Option<u64>,
    done: u64,
}

impl<'a> Windows<'a> {
    pub fn new(
        plan: &'a WorkerPlan,
        windows: &'a WindowsPlan,
        environment: &'a Environment,
        inputs: &'a [(String, Value)],
    ) -> Self {
        Self { plan, windows, environment, inputs, next_ns: None, done: 0 }
    }

    /// Profiles a window if it is due; measured runs continue afterwards.
    #[inline]
    pub fn when_due(
        &mut self,
        now: u64,
        binding: &mut Binding<'_>,
        lap: Lap,
        ring: &mut RingWriter,
    ) -> Result<(), OrtError> {
        let due = *self.next_ns.get_or_insert(now.saturating_add(self.windows.every_ns));
        if now < due || self.done >= self.windows.most {
            return Ok(());
        }
        if binding.can_profile_runs() {
            self.runs(binding, lap, ring)?;
        } else {
            self.twin(ring, lap)?;
        }
        self.done += 1;
        self.next_ns = Some(now_ns().saturating_add(self.windows.every_ns));
        Ok(())
    }

    fn runs(&self, binding: &mut Binding<'_>, lap: Lap, ring: &mut RingWriter) -> Result<(), OrtError> {
        for run in 0..self.windows.runs {
            binding.copy_inputs()?;
            let start = now_ns();
            binding.run_profiled(&self.file(&format!("r{run:04}"), start))?;
            ring.write_inference(&record(lap, run, start, now_ns()));
            binding.copy_outputs()?;
        }
        Ok(())
    }

    fn twin(&self, ring: &mut RingWriter, lap: Lap) -> Result<(), OrtError> {
        let prefix = self.windows.directory.join(format!("making-{}", self.done));
        let options = SessionOptions { profiling_prefix: Some(prefix), ..self.plan.options.clone() };
        let mut session = Session::create(self.environment, &self.plan.model, &options)?;
        let started = on_our_clock(session.profiling_start_ns()?).unwrap_or(0);
        {
            let mut binding = session.bind(self.inputs)?;
            for run in 0..self.windows.runs + WARM_UP {
                let start = now_ns();
                binding.run()?;
                ring.write_inference(&record(lap, run, start, now_ns()));
            }
        }
        let file = session.end_profiling()?;
        // Only complete files get the final name; a file that cannot be renamed is left out.
        let named = self.file("twin", started).with_extension("json");
        std::fs::rename(file, named).ok();
        Ok(())
    }

    fn file(&self, what: &str, start: u64) -> PathBuf {
        self.windows.directory.join(format!("window-{:06}-{what}-{start}", self.done))
    }
}

fn record(lap: Lap, run: u64, start: u64, end: u64) -> InferenceRecord {
    InferenceRecord {
        start_ns: start,
        planned_ns: start,
        copy_in_ns: 0,
        run_ns: end - start,
        copy_out_ns: 0,
        sequence: run,
        batch_size: lap.batch_size,
        queue_depth: None,
        token: None,
        stream: lap.stream,
        session: lap.session,
        phase: Phase::Profiled,
        ok: true,
    }
}
