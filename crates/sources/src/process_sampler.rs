//! Samples CPU time and memory of a few processes at a steady rate.

use ortscope_core::metric::Availability;
use ortscope_core::pipeline::{Control, CostClass, Emitter, Source, SourceError, SourceInfo, WhenFull};
use ortscope_core::schema::ProcessSampleRow;

use crate::process::UsageError;
use crate::process_usage;

/// A source that polls the given processes until they have all ended.
#[derive(Debug)]
pub struct ProcessSampler {
    info: SourceInfo,
    pids: Vec<u32>,
    rate_hertz: f64,
}

impl ProcessSampler {
    pub fn new(pids: Vec<u32>, rate_hertz: f64) -> Self {
        let info = SourceInfo {
            name: "process-sampler",
            tracks: vec!["process_samples".into()],
            cost: CostClass::Low,
            when_full: WhenFull::DropAndCount,
        };
        Self { info, pids, rate_hertz }
    }
}

impl Source for ProcessSampler {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn probe(&mut self) -> Availability {
        match process_usage(std::process::id()) {
            Err(UsageError::Unsupported) => Availability::Unavailable {
                why: UsageError::Unsupported.to_string(),
                hint: "Linux and Windows are supported".into(),
            },
            _ => Availability::Ready,
        }
    }

    fn run(&mut self, out: &mut Emitter, control: &Control) -> Result<(), SourceError> {
        let mut next = control.clock().now_nanos();
        loop {
            let now = control.clock().now_nanos();
            // A process that has ended, or was replaced by another with its number, leaves the list.
            self.pids.retain(|pid| match process_usage(*pid) {
                Ok(usage) => {
                    out.emit(&ProcessSampleRow {
                        timestamp_ns: now,
                        pid: u64::from(usage.identity.pid),
                        process_start: usage.identity.start,
                        cpu_time_ns: usage.cpu_time_nanos,
                        working_set_bytes: usage.working_set_bytes,
                        peak_working_set_bytes: usage.peak_working_set_bytes,
                        private_bytes: usage.private_bytes,
                        thread_count: usage.thread_count,
                        ..ProcessSampleRow::default()
                    });
                    true
                }
                Err(_) => false,
            });
            out.flush();
            if self.pids.is_empty() {
                return Ok(());
            }
            let hertz = control.rate_hertz().unwrap_or(self.rate_hertz).clamp(0.01, 1000.0);
            next += (1e9 / hertz) as u64;
            // A tick that came late is not made up for: two samples at once would say nothing.
            next = next.max(now);
            if !control.sleep_until(next) {
                return Ok(());
            }
        }
    }
}
