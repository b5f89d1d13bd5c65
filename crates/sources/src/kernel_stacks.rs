//! The pipeline source for stack samples: one row per sample, and their aggregate for flame graphs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ortscope_core::kernel::{CpuSample, StackProfile};
use ortscope_core::metric::Availability;
use ortscope_core::pipeline::{Control, CostClass, Emitter, Source, SourceError, SourceInfo, WhenFull};
use ortscope_core::schema::{KernelEventKind, KernelEventRow};

use crate::SampleTrace;
use crate::kernel::{SampleCounts, SampleOptions};
use crate::kernel_events::SAMPLING_HINT;
use crate::kernel_source::{source_error, split};

const DRAIN_NS: u64 = 50_000_000;

/// Result of sampling that has ended.
#[derive(Debug, Clone, Default)]
pub struct Stacks {
    pub profile: StackProfile,
    pub counts: SampleCounts,
    /// Samples per second on each processor.
    pub hertz: u32,
    /// What could not be sampled, and why.
    pub missing: Vec<String>,
}

/// Provides the [`Stacks`] after the source has ended.
#[derive(Debug, Clone, Default)]
pub struct StacksHandle(Arc<Mutex<Option<Stacks>>>, Arc<AtomicBool>);

impl StacksHandle {
    /// `None` while sampling is running or if it could not start.
    pub fn take(&self) -> Option<Stacks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether sampling has started or failed to start.
    pub fn is_ready(&self) -> bool {
        self.1.load(Ordering::Acquire)
    }

    pub(crate) fn set_ready(&self) {
        self.1.store(true, Ordering::Release);
    }

    pub(crate) fn set(&self, stacks: Stacks) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(stacks);
    }
}

/// Samples the code executed by some processes and their children.
#[derive(Debug)]
pub struct StackSource {
    info: SourceInfo,
    options: SampleOptions,
    handle: StacksHandle,
}

impl StackSource {
    pub fn new(options: SampleOptions) -> Self {
        let info = SourceInfo {
            name: "stacks",
            tracks: vec!["kernel_events/samples".to_owned()],
            cost: CostClass::Medium,
            when_full: WhenFull::DropAndCount,
        };
        Self { info, options, handle: StacksHandle::default() }
    }

    pub fn handle(&self) -> StacksHandle {
        self.handle.clone()
    }
}

impl Source for StackSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn probe(&mut self) -> Availability {
        match SampleTrace::open(&self.options) {
            Ok(trace) => match trace.missing().join("; ") {
                missing if missing.is_empty() => Availability::Ready,
                why => Availability::Degraded { why, hint: SAMPLING_HINT.to_owned() },
            },
            Err(error) => {
                let (why, hint) = split(&error);
                Availability::Unavailable { why, hint: hint.unwrap_or_default() }
            }
        }
    }

    fn run(&mut self, out: &mut Emitter, control: &Control) -> Result<(), SourceError> {
        let opened = SampleTrace::open(&self.options);
        self.handle.set_ready();
        let mut trace = opened.map_err(|error| source_error(&error))?;
        let mut profile = StackProfile::default();
        let mut next_ns = control.clock().now_ns();
        loop {
            next_ns += DRAIN_NS;
            let goes_on = control.sleep_until(next_ns);
            let before = trace.counts();
            // Frame names belong to the profile, which is mutably borrowed while it grows, so rows are
            // emitted afterwards.
            let mut rows = Vec::new();
            let mut take = |sample: &CpuSample, leaf| {
                let address = sample.kernel.first().or(sample.user.first()).copied();
                rows.push((sample.at_ns, sample.cpu, sample.thread, address, leaf));
            };
            if goes_on {
                trace.drain(&mut profile, &mut take);
            } else {
                trace.finish(&mut profile, &mut take);
            }
            for (at_ns, cpu, thread, address, leaf) in rows {
                out.emit(&KernelEventRow {
                    timestamp_ns: at_ns,
                    kind: KernelEventKind::Sample.into(),
                    processor: Some(u64::from(cpu)),
                    pid: Some(u64::from(thread.pid)),
                    tid: Some(u64::from(thread.tid)),
                    duration_ns: None,
                    value: address,
                    detail: leaf.and_then(|leaf| profile.get(leaf)).map(|frame| frame.name.clone()),
                });
            }
            let after = trace.counts();
            out.lost("CPU samples", after.lost - before.lost);
            out.lost("damaged sample records", after.damaged - before.damaged);
            out.flush();
            if !goes_on {
                break;
            }
            next_ns = next_ns.max(control.clock().now_ns().saturating_sub(DRAIN_NS));
        }
        let now_ns = control.clock().now_ns();
        for missing in trace.missing() {
            out.unavailable(now_ns, "kernel_events/samples", &missing, None);
        }
        out.flush();
        let stacks =
            Stacks { profile, counts: trace.counts(), hertz: trace.hertz(), missing: trace.missing() };
        self.handle.set(stacks);
        Ok(())
    }
}
