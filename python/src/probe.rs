//! The probe of one session: numbers its inferences, notices when the shapes of its inputs change, writes the records.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use ortscope_channel::{InferenceRecord, Phase};
use ortscope_core::clock::now_ns;
use ortscope_sources::programs::{NamedShape, ProgramMessage, SessionNote};
use pyo3::prelude::*;

use crate::call::hot::HOT;
use crate::call::session_counters::SessionCounters;
use crate::ndarray::LastShapes;
use crate::output;

/// Maximum number of reported shape changes per session. After that, one note is written: a session whose shapes
/// change with every inference would otherwise write more messages than records.
const MAX_SHAPE_CHANGES: u32 = 100_000;

/// Belongs to one session, or to one function that was given a name.
#[pyclass(frozen, module = "ortscope._native")]
#[derive(Debug)]
#[repr(C)]
pub struct Probe {
    /// The counters that change with every inference.
    counters: &'static SessionCounters,
    number: u16,
    /// How often shapes were reported.
    shape_changes: AtomicU32,
    /// Runs until the next profiled one; negative: none is.
    until_profile: AtomicI64,
    pub shapes: LastShapes,
    profile_every: AtomicI64,
    /// Takes the inputs of sampled runs where runs themselves cannot be profiled.
    shadow: Mutex<Option<Py<PyAny>>>,
}

/// Details of an inference besides its times.
#[derive(Debug, Clone, Copy, Default)]
pub struct Context {
    /// 0 = unknown.
    pub batch_size: u32,
    pub queue_depth: Option<u32>,
    pub profiled: bool,
}

impl Probe {
    pub fn number_of(&self) -> u16 {
        self.number
    }

    /// The number of the next inference, which is the caller's.
    #[inline]
    pub fn next(&self) -> u64 {
        self.counters.next()
    }

    pub fn counters(&self) -> &'static SessionCounters {
        self.counters
    }

    #[inline]
    pub fn record(
        &self,
        py: Python<'_>,
        sequence: u64,
        (start_ns, end_ns): (u64, u64),
        ok: bool,
        context: Context,
    ) {
        let phase = match (context.profiled, sequence) {
            (true, _) => Phase::Profiled,
            (false, 0) => Phase::First,
            (false, _) => Phase::Steady,
        };
        let record = InferenceRecord {
            start_ns,
            planned_ns: start_ns,
            copy_in_ns: 0,
            run_ns: end_ns.saturating_sub(start_ns),
            copy_out_ns: 0,
            sequence,
            batch_size: context.batch_size,
            queue_depth: context.queue_depth,
            token: None,
            stream: output::stream(),
            session: self.number,
            phase,
            ok,
        };
        HOT.write_inference(py, &record);
    }

    /// Tells that the shapes are others from this inference on.
    #[cold]
    pub fn tell_shapes(
        &self,
        py: Python<'_>,
        sequence: u64,
        timestamp_ns: u64,
        shapes: impl FnOnce() -> Vec<NamedShape>,
    ) {
        let session = self.number;
        let changes = self.shape_changes.load(Ordering::Relaxed);
        if changes > MAX_SHAPE_CHANGES {
            return;
        }
        self.shape_changes.store(changes + 1, Ordering::Relaxed);
        if changes == MAX_SHAPE_CHANGES {
            let text =
                format!("session {session} changes its shapes too often: further changes are not reported");
            output::send(py, &ProgramMessage::Note { timestamp_ns, name: "input_shapes".into(), text });
            return;
        }
        let shapes = shapes();
        output::send(
            py,
            &ProgramMessage::InputShapes { timestamp_ns, session, from_sequence: sequence, shapes },
        );
    }

    /// The receiver of the inputs of sampled runs, if any.
    pub fn shadow(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let shadow = self.shadow.lock().unwrap_or_else(PoisonError::into_inner);
        shadow.as_ref().map(|shadow| shadow.clone_ref(py))
    }

    #[cold]
    pub fn report_error(&self, py: Python<'_>, sequence: u64, timestamp_ns: u64, exception: String) {
        let session = self.number;
        output::send(py, &ProgramMessage::InferenceError { timestamp_ns, session, sequence, exception });
    }

    #[cold]
    pub fn tell_profile(&self, py: Python<'_>, sequence: u64, timestamp_ns: u64, prefix: std::path::PathBuf) {
        let session = self.number;
        output::send(py, &ProgramMessage::Profile { timestamp_ns, session, sequence, prefix });
    }

    /// Whether some runs are profiled.
    pub fn has_profiles(&self) -> bool {
        self.until_profile.load(Ordering::Relaxed) >= 0
    }

    /// Counts a run that is not to be profiled; `false`: it is, and is not counted.
    #[inline]
    pub fn passes_unprofiled(&self) -> bool {
        // With the GIL held, the two steps are not interrupted.
        let left = self.until_profile.load(Ordering::Relaxed);
        if left > 0 {
            self.until_profile.store(left - 1, Ordering::Relaxed);
        }
        left != 0
    }

    /// Whether this run is one to profile; counts it.
    pub fn is_profile_due(&self) -> bool {
        let due = !self.passes_unprofiled();
        if due {
            self.until_profile.store(self.profile_every.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        }
        due
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        HOT.forget_probes();
        self.counters.leave();
        output::forget(self.number);
    }
}

#[pymethods]
impl Probe {
    #[new]
    #[pyo3(signature = (model_name, providers, requested_providers, ort_version, options, memory_before, memory_after))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn new(
        py: Python<'_>,
        model_name: String,
        providers: Vec<String>,
        requested_providers: Vec<String>,
        ort_version: Option<String>,
        options: Option<String>,
        memory_before: Option<u64>,
        memory_after: Option<u64>,
    ) -> Self {
        let number = output::register(
            py,
            SessionNote {
                timestamp_ns: now_ns(),
                session: 0,
                model_name,
                execution_providers: providers,
                requested_providers,
                ort_version,
                options,
                memory_before_bytes: memory_before,
                memory_after_bytes: memory_after,
            },
        );
        HOT.forget_probes();
        Self {
            counters: SessionCounters::take(number),
            number,
            shape_changes: AtomicU32::new(0),
            until_profile: AtomicI64::new(-1),
            shapes: LastShapes::default(),
            profile_every: AtomicI64::new(0),
            shadow: Mutex::default(),
        }
    }

    /// Profiles one run of `every`, the second and from there on: the first is unlike all others, and a program may be
    /// over before `every` have passed. 0: none.
    fn profile_every(&self, every: u32) {
        self.profile_every.store(i64::from(every), Ordering::Relaxed);
        self.until_profile.store((i64::from(every) - 1).min(1), Ordering::Relaxed);
        HOT.forget_probes();
    }

    /// Calls `shadow(sequence, feed)` before one run of `every`, instead of profiling it.
    fn shadow_every(&self, every: u32, shadow: Py<PyAny>) {
        let old = self.shadow.lock().unwrap_or_else(PoisonError::into_inner).replace(shadow);
        drop(old);
        self.profile_every(every);
    }

    /// When the clock was read before a call.
    fn begin(&self) -> u64 {
        now_ns()
    }

    /// Records a call that began at `start_ns`.
    #[pyo3(signature = (start_ns, ok=true, batch_size=0, queue_depth=None))]
    fn end(&self, py: Python<'_>, start_ns: u64, ok: bool, batch_size: u32, queue_depth: Option<u32>) {
        let context = Context { batch_size, queue_depth, profiled: false };
        self.record(py, self.next(), (start_ns, now_ns()), ok, context);
    }

    /// Number of the session in this process.
    #[getter]
    fn number(&self) -> u16 {
        self.number
    }

    /// Inferences so far.
    #[getter]
    fn count(&self) -> u64 {
        self.counters.inferences()
    }
}
