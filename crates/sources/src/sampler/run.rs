//! One run of a sampler: the steps of a tick and their order.

use std::collections::HashSet;

use ortscope_core::clock::{ClockStep, ClockWatch};
use ortscope_core::metric::Availability;
use ortscope_core::pipeline::{Emitter, SourceError};
use ortscope_core::rate_control::{MAX_HERTZ, MIN_HERTZ, RateControl};
use ortscope_core::schema::{AnnotationRow, DeviceSampleRow, Method, SystemSampleRow, WallAnchorRow};

use super::ProcessSampler;
use super::backend::{Missing, ReadError};
use super::cost::CostMeter;
use super::discovery::{Discovery, Found};
use super::groups::{GroupSet, MetricGroup};
use super::schedule::Schedule;
use super::watched::Watched;

/// At high rates rows are flushed in batches, which delays a live view by at most this much.
const FLUSH_NS: u64 = 20_000_000;
/// Limit for distinct reasons; there are fewer metrics.
const MAX_REASONS: usize = 256;
/// Interval for checking the clocks; also the lateness of a tick that triggers a check.
const CLOCKS_NS: u64 = 1_000_000_000;

pub(super) struct Run<'a> {
    sampler: &'a mut ProcessSampler,
    watched: Watched,
    discovery: Discovery,
    schedule: Schedule,
    meter: CostMeter,
    rate: RateControl,
    /// Rate requested from outside; `None` for the one in the options.
    requested: Option<f64>,
    system_row: SystemSampleRow,
    reported: HashSet<String>,
    found: Found,
    ended: Vec<usize>,
    flushed_ns: u64,
    clocks: ClockWatch,
    next_clocks_ns: u64,
    /// At least one process was watched.
    had_any: bool,
    /// Number of skipped samples when a backup thread was last considered.
    backup_checked_at: Option<u64>,
}

impl<'a> Run<'a> {
    pub fn new(sampler: &'a mut ProcessSampler) -> Result<Self, SourceError> {
        let options = &sampler.options;
        let rate = RateControl::new(options.fastest_hertz(), options.overhead_limit_percent)
            .map_err(|error| SourceError::Failed(error.to_string()))?;
        Ok(Self {
            watched: Watched::new(options.command_lines),
            discovery: Discovery::default(),
            schedule: Schedule::default(),
            meter: CostMeter::new(sampler.cost.clone(), options.own_cost_rows),
            rate,
            requested: None,
            system_row: SystemSampleRow::default(),
            reported: HashSet::new(),
            found: Found::default(),
            ended: Vec::new(),
            flushed_ns: 0,
            clocks: ClockWatch::default(),
            next_clocks_ns: 0,
            had_any: false,
            backup_checked_at: None,
            sampler,
        })
    }

    /// Time of the next tick.
    pub fn next_ns(&self) -> u64 {
        self.schedule.next_ns()
    }

    pub fn fastest_period_ns(&self) -> u64 {
        self.schedule.fastest_period_ns()
    }

    /// Whether ticks are missed that another thread could take. Checked again when more were skipped.
    pub fn needs_backup_thread(&mut self) -> bool {
        let skipped = self.schedule.skipped();
        self.backup_checked_at.replace(skipped) != Some(skipped)
            && self.sampler.backend.needs_backup_thread(skipped)
    }

    /// Continues after a pause.
    pub fn resume(&mut self, now_ns: u64) {
        self.schedule.restart(now_ns);
    }

    /// Reports missing metrics and finds the processes that are targeted by id.
    pub fn begin(&mut self, now_ns: u64, out: &mut Emitter) {
        if let Availability::Degraded { why, hint } = self.sampler.backend.probe() {
            self.emit_missing(now_ns, &Missing::new("processes", why, Some(&hint)), out);
        }
        for missing in self.sampler.backend.never() {
            self.emit_missing(now_ns, &missing, out);
        }
        self.apply_rates(now_ns);
        let pids = self.sampler.options.targets.pids.clone();
        let absent = self.discovery.named(&mut *self.sampler.backend, &pids, &mut self.found);
        for (pid, error) in absent {
            let why = match error {
                ReadError::Gone => format!("process {pid} does not exist"),
                error => format!("process {pid} cannot be read: {error}"),
            };
            out.unavailable(
                now_ns,
                &format!("process/{pid}"),
                &why,
                Some("`ortscope top` lists the processes"),
            );
        }
    }

    /// Applies a rate requested from outside.
    pub fn apply_requested_rate(&mut self, now_ns: u64, requested: Option<f64>) {
        if requested != self.requested {
            self.requested = requested;
            let fastest = requested.unwrap_or_else(|| self.sampler.options.fastest_hertz());
            // Clamped, so it is valid.
            self.rate.ask(fastest.clamp(MIN_HERTZ, MAX_HERTZ)).ok();
            self.apply_rates(now_ns);
        }
    }

    /// Rate of every group: the one in the options, at most the requested one, reduced by the cost limit.
    fn apply_rates(&mut self, now_ns: u64) {
        let (options, requested, factor) = (&self.sampler.options, self.requested, self.rate.factor());
        self.schedule.set_rates(now_ns, |group| {
            let own = options.rate_of(group)?;
            let wanted = match (group, requested) {
                (MetricGroup::Cpu, Some(requested)) => requested,
                (_, Some(requested)) => own.min(requested),
                (_, None) => own,
            };
            Some((wanted * factor).clamp(MIN_HERTZ, MAX_HERTZ))
        });
    }

    pub fn is_finished(&self) -> bool {
        let options = &self.sampler.options;
        let mut parents = options.targets.children_of.iter();
        options.end_with_targets
            && self.watched.is_empty()
            && (self.had_any || !options.targets.can_grow())
            && !parents.any(|pid| self.discovery.was_listed(*pid))
    }

    /// `backup_cpu_ns` is the CPU time of the backup thread so far. The backup thread itself passes `None` and
    /// leaves cost control to the first thread.
    pub fn tick(
        &mut self,
        now_ns: u64,
        backup_cpu_ns: Option<u64>,
        out: &mut Emitter,
    ) -> Result<(), SourceError> {
        if now_ns.saturating_sub(self.schedule.next_ns()) >= CLOCKS_NS && self.has_slept(now_ns, out) {
            // Samples during system sleep were not skipped.
            self.schedule.restart(now_ns);
        }
        let due = self.schedule.take_due(now_ns);
        let backend = &mut *self.sampler.backend;
        self.ended.clear();
        backend.begin_tick(now_ns, due, &mut self.ended);
        self.watched.mark_gone_slots(&self.ended);
        self.part(now_ns, out);
        if due.has(MetricGroup::Discovery) {
            self.discover(now_ns, out)?;
        }
        self.join(now_ns, out);

        let of_processes = due.and(GroupSet::OF_PROCESSES);
        let backend = &mut *self.sampler.backend;
        if !of_processes.is_empty() {
            let options = &self.sampler.options;
            let wanted = MetricGroup::ALL.into_iter().filter(|group| options.rate_of(*group).is_some());
            let wanted = wanted.fold(GroupSet::default(), GroupSet::with).and(GroupSet::OF_PROCESSES);
            self.watched.read(of_processes, wanted, backend);
        }
        if due.has(MetricGroup::Details) {
            self.watched.emit_renamed(now_ns, backend, out);
        }
        if due.has(MetricGroup::Threads) {
            let capacity = self.sampler.options.max_threads;
            let beyond = self.watched.emit_threads(now_ns, capacity, backend, out);
            out.lost("threads beyond the limit", beyond);
        }
        let mut count = 0;
        if !of_processes.is_empty() {
            count = self.watched.emit_samples(now_ns, out);
        }
        self.part(now_ns, out);
        self.emit_machine(now_ns, due, out);
        self.meter.count(count);
        self.finish_tick(now_ns, backup_cpu_ns, out);
        Ok(())
    }

    fn discover(&mut self, now_ns: u64, out: &mut Emitter) -> Result<(), SourceError> {
        let sampler = &mut *self.sampler;
        let capacity = sampler.options.max_processes.saturating_sub(self.watched.len());
        let (backend, selector) = (&mut *sampler.backend, &mut sampler.selector);
        let watched = self.watched.by_pid();
        let result = self.discovery.look(now_ns, backend, selector, watched, capacity, &mut self.found);
        match result {
            Ok(()) => {}
            Err(ReadError::Denied) => {
                return Err(SourceError::Permission {
                    what: "the process list".into(),
                    hint: "run as a user who may see all processes".into(),
                });
            }
            Err(error) => {
                return Err(SourceError::Failed(format!("the process list cannot be read: {error}")));
            }
        }
        out.lost("processes beyond the limit", std::mem::take(&mut self.found.beyond));
        self.watched.mark_gone_pids(&self.found.gone);
        self.found.gone.clear();
        self.part(now_ns, out);
        Ok(())
    }

    fn join(&mut self, now_ns: u64, out: &mut Emitter) {
        let sampler = &mut *self.sampler;
        for facts in self.found.joined.drain(..) {
            let pid = facts.pid;
            if !self.watched.join(now_ns, facts, &mut *sampler.backend, out) {
                sampler.selector.left(pid);
            }
        }
        self.had_any |= !self.watched.is_empty();
    }

    fn part(&mut self, now_ns: u64, out: &mut Emitter) {
        let sampler = &mut *self.sampler;
        let (backend, selector) = (&mut *sampler.backend, &mut sampler.selector);
        self.watched.part(now_ns, backend, out, |pid| selector.left(pid));
    }

    fn emit_machine(&mut self, now_ns: u64, due: GroupSet, out: &mut Emitter) {
        let backend = &mut *self.sampler.backend;
        if due.has(MetricGroup::System) && backend.system(&mut self.system_row).is_ok() {
            self.system_row.timestamp_ns = now_ns;
            self.system_row.process_count = self.discovery.process_count();
            out.emit(&self.system_row);
            backend.processors(&mut |number, ratio| {
                out.emit(&DeviceSampleRow {
                    timestamp_ns: now_ns,
                    device: format!("cpu{number}").into(),
                    metric: "busy_ratio".into(),
                    value: ratio,
                    source: "process-sampler".into(),
                    method: Method::Measured.into(),
                });
            });
        }
        if due.has(MetricGroup::Environment) {
            backend.environment(&mut |device, metric, value| {
                out.emit(&DeviceSampleRow {
                    timestamp_ns: now_ns,
                    device: device.into(),
                    metric: metric.into(),
                    value,
                    source: "process-sampler".into(),
                    method: Method::Measured.into(),
                });
            });
        }
    }

    fn finish_tick(&mut self, now_ns: u64, backup_cpu_ns: Option<u64>, out: &mut Emitter) {
        let mut news = Vec::new();
        self.sampler.backend.newly_missing(&mut |missing| news.push(missing));
        for missing in news {
            self.emit_missing(now_ns, &missing, out);
        }
        if now_ns >= self.next_clocks_ns {
            self.check_clocks(now_ns, out);
        }
        let (backend, rate, schedule) = (&mut *self.sampler.backend, &mut self.rate, &self.schedule);
        if let Some(elsewhere) = backup_cpu_ns
            && self.meter.after_tick(now_ns, elsewhere, backend, rate, schedule, out)
        {
            self.apply_rates(now_ns);
        }
        if now_ns.saturating_sub(self.flushed_ns) >= FLUSH_NS || self.is_finished() {
            out.flush();
            self.flushed_ns = now_ns;
        }
    }

    /// Whether the machine has just slept while our clock continued.
    fn has_slept(&mut self, now_ns: u64, out: &mut Emitter) -> bool {
        let through = |step: &ClockStep| matches!(step, ClockStep::Slept { monotonic_went_on: true, .. });
        self.check_clocks(now_ns, out).iter().any(through)
    }

    /// Emits an event for a clock change or system sleep, and updates the conversion to wall time.
    fn check_clocks(&mut self, now_ns: u64, out: &mut Emitter) -> Vec<ClockStep> {
        self.next_clocks_ns = now_ns.saturating_add(CLOCKS_NS);
        let Some(reading) = self.sampler.backend.clocks() else { return Vec::new() };
        let steps: Vec<ClockStep> = self.clocks.look(reading).collect();
        for step in &steps {
            let text = step.to_string();
            out.emit(&AnnotationRow { timestamp_ns: now_ns, kind: "clock".into(), text: text.into() });
        }
        if !steps.is_empty() {
            out.emit(&WallAnchorRow {
                timestamp_ns: reading.monotonic_ns,
                unix_ns: reading.unix_ns,
                error_ns: reading.error_ns,
            });
        }
        steps
    }

    /// Emits each reason once.
    fn emit_missing(&mut self, now_ns: u64, missing: &Missing, out: &mut Emitter) {
        let key = format!("{}: {}", missing.track, missing.why);
        if self.reported.len() < MAX_REASONS && self.reported.insert(key) {
            out.unavailable(now_ns, missing.track, &missing.why, missing.hint.as_deref());
        }
    }
}
