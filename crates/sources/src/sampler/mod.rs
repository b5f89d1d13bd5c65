//! Samples processes, their threads and the machine, each metric group at its own rate.
//!
//! ```text
//! schedule ─► tick: exits and new processes ─► read due groups ─► one full row per process ─► measure own cost
//! ```
//! Rows are always full: a group that was not due repeats its last values, and the store drops unchanged ones. All rows
//! of a tick have the same time. A missing metric is reported once, with the reason and a hint. Reading is behind
//! [`ProcessBackend`]; everything here is the same on every system and is tested with a simulated backend.

mod backend;
mod command_line;
mod cost;
mod discovery;
mod glob;
mod groups;
mod options;
mod run;
mod schedule;
mod targets;
mod tick_threads;
mod watched;

use ortscope_core::metric::Availability;
use ortscope_core::pipeline::{Control, CostClass, Emitter, Source, SourceError, SourceInfo, WhenFull};

pub(crate) use backend::MANY_SKIPPED;
pub use backend::{Missing, ProcessBackend, ProcessFacts, ReadError, ThreadReading, ThreadState};
pub use command_line::{command_shown, own_command_shown};
pub use cost::{OwnCost, OwnCostHandle};
pub use glob::{Glob, GlobError, MAX_PATTERN_BYTES};
pub use groups::{GroupSet, MetricGroup};
pub use options::{CommandLines, OptionsError, Rates, SamplerOptions};
pub use targets::{Exclude, Targets};

use run::Run;
use targets::Selector;

/// A source of process samples.
#[derive(Debug)]
pub struct ProcessSampler {
    info: SourceInfo,
    options: SamplerOptions,
    backend: Box<dyn ProcessBackend>,
    selector: Selector,
    cost: OwnCostHandle,
}

impl ProcessSampler {
    /// CPU time and memory of some processes until all have exited. A rate outside the valid range is clamped.
    pub fn new(mut pids: Vec<u32>, rate_hertz: f64) -> Self {
        pids.retain(|pid| *pid != 0);
        let options = SamplerOptions::of_pids(pids, rate_hertz);
        let selector = Selector::of_pids(options.targets.clone());
        Self::assemble(options, selector, crate::sys::process_backend())
    }

    /// Uses the best unprivileged backend of this system.
    pub fn with_options(options: SamplerOptions) -> Result<Self, OptionsError> {
        Self::with_backend(options, crate::sys::process_backend())
    }

    pub fn with_backend(
        options: SamplerOptions,
        backend: Box<dyn ProcessBackend>,
    ) -> Result<Self, OptionsError> {
        options.check()?;
        let selector = Selector::new(options.targets.clone(), options.exclude.clone())?;
        Ok(Self::assemble(options, selector, backend))
    }

    fn assemble(options: SamplerOptions, selector: Selector, mut backend: Box<dyn ProcessBackend>) -> Self {
        if options.cycles {
            backend.count_cycles();
        }
        let mut tracks = vec!["processes".to_owned(), "process_samples".to_owned()];
        if options.threads {
            tracks.push("thread_samples".to_owned());
        }
        if options.system {
            tracks.push("system_samples".to_owned());
        }
        let info = SourceInfo {
            name: "process-sampler",
            tracks,
            cost: if options.targets.can_grow() { CostClass::Medium } else { CostClass::Low },
            when_full: WhenFull::DropAndCount,
        };
        Self { info, options, backend, selector, cost: OwnCostHandle::default() }
    }

    /// Cost of sampling; also readable while it runs on another thread.
    pub fn own_cost(&self) -> OwnCostHandle {
        self.cost.clone()
    }

    pub fn backend_name(&self) -> &'static str {
        self.backend.name()
    }
}

impl Source for ProcessSampler {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn probe(&mut self) -> Availability {
        self.backend.probe()
    }

    fn run(&mut self, out: &mut Emitter, control: &Control) -> Result<(), SourceError> {
        let mut run = Run::new(self)?;
        // A tick that waits behind the observed program would leave a gap at the most interesting moment. If the
        // system refuses the priority, gaps are counted.
        crate::sys::prefer_this_thread();
        run.begin(control.clock().now_ns(), out);
        tick_threads::run_ticks(run, out, control)
    }
}
