//! One run of a sampler: what happens at a tick, in which order.

use std::collections::HashSet;

use ortscope_core::clock::{ClockStep, ClockWatch};
use ortscope_core::metric::Availability;
use ortscope_core::pipeline::{Emitter, SourceError};
use ortscope_core::rate_control::{MAX_HERTZ, MIN_HERTZ, RateControl};
use ortscope_core::schema::{AnnotationRow, DeviceSampleRow, SystemSampleRow, WallAnchorRow};

use super::ProcessSampler;
use super::backend::{Missing, ReadError};
use super::cost::CostMeter;
use super::discovery::{Discovery, Found};
use super::groups::{GroupSet, MetricGroup};
use super::schedule::Schedule;
use super::watched::Watched;

/// At high rates rows are handed on in portions: a viewer sees them this late at most.
const FLUSH_NS: u64 = 20_000_000;
/// Reasons that are kept apart; there are fewer metrics than this, and further ones are not told.
const MAX_REASONS: usize = 256;
/// How often the clocks are looked at; also when a tick comes this late.
const CLOCKS_NS: u64 = 1_000_000_000;

/// One run of a sampler.
pub(super) struct Run<'a> {
    sampler: &'a mut ProcessSampler,
    watched: Watched,
    discovery: Discovery,
    schedule: Schedule,
    meter: CostMeter,
    rate: RateControl,
    /// The rate that was asked for from outside; `None` is the options'.
    asked: Option<f64>,
    system_row: SystemSampleRow,
    told: HashSet<String>,
    found: Found,
    ended: Vec<usize>,
    flushed_ns: u64,
    clocks: ClockWatch,
    next_clocks_ns: u64,
    /// At least one process was watched.
    had_any: bool,
    /// How many samples had been left out when a second thread was thought of last.
    thought_at: Option<u64>,
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
            asked: None,
            system_row: SystemSampleRow::default(),
            told: HashSet::new(),
            found: Found::default(),
            ended: Vec::new(),
            flushed_ns: 0,
            clocks: ClockWatch::default(),
            next_clocks_ns: 0,
            had_any: false,
            thought_at: None,
            sampler,
        })
    }

    /// When the next tick is due.
    pub fn next_ns(&self) -> u64 {
        self.schedule.next_ns()
    }

    pub fn fastest_period_ns(&self) -> u64 {
        self.schedule.fastest_period_ns()
    }

    /// Ticks are missed here, or will be, that another thread could take. Asked again when more were.
    pub fn wants_stand_in(&mut self) -> bool {
        let skipped = self.schedule.skipped();
        self.thought_at.replace(skipped) != Some(skipped) && self.sampler.backend.wants_stand_in(skipped)
    }

    /// After a pause.
    pub fn resume(&mut self, now_ns: u64) {
        self.schedule.restart(now_ns);
    }

    /// Says what will be missing, and finds the processes that were named by their ids.
    pub fn begin(&mut self, now_ns: u64, out: &mut Emitter) {
        if let Availability::Degraded { why, hint } = self.sampler.backend.probe() {
            self.tell_missing(now_ns, &Missing::new("processes", why, Some(&hint)), out);
        }
        for missing in self.sampler.backend.never() {
            self.tell_missing(now_ns, &missing, out);
        }
        self.apply_rates(now_ns);
        let pids = self.sampler.options.targets.pids.clone();
        let absent = self.discovery.named(&mut *self.sampler.backend, &pids, &mut self.found);
        for (pid, error) in absent {
            let why = match error {
                ReadError::Gone => format!("there is no process {pid}"),
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

    /// Takes over a rate that was asked for from outside.
    pub fn obey(&mut self, now_ns: u64, asked: Option<f64>) {
        if asked != self.asked {
            self.asked = asked;
            let fastest = asked.unwrap_or_else(|| self.sampler.options.fastest_hertz());
            // Clamped, so it cannot be refused.
            self.rate.ask(fastest.clamp(MIN_HERTZ, MAX_HERTZ)).ok();
            self.apply_rates(now_ns);
        }
    }

    /// Every group's rate: what the options say, at most what was asked from outside, lowered by the limit of cost.
    fn apply_rates(&mut self, now_ns: u64) {
        let (options, asked, factor) = (&self.sampler.options, self.asked, self.rate.factor());
        self.schedule.set_rates(now_ns, |group| {
            let own = options.rate_of(group)?;
            let wanted = match (group, asked) {
                (MetricGroup::Cpu, Some(asked)) => asked,
                (_, Some(asked)) => own.min(asked),
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

    /// `stand_in_cpu_ns` is what a second thread took so far; who is that thread says nothing and leaves the cost to the first.
    pub fn tick(
        &mut self,
        now_ns: u64,
        stand_in_cpu_ns: Option<u64>,
        out: &mut Emitter,
    ) -> Result<(), SourceError> {
        if now_ns.saturating_sub(self.schedule.next_ns()) >= CLOCKS_NS && self.slept_until(now_ns, out) {
            // Samples of a time in which nobody could take any were not left out.
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
            self.watched.tell_renamed(now_ns, backend, out);
        }
        if due.has(MetricGroup::Threads) {
            let room = self.sampler.options.max_threads;
            let beyond = self.watched.tell_threads(now_ns, room, backend, out);
            out.lost("threads beyond the limit", beyond);
        }
        let mut told = 0;
        if !of_processes.is_empty() {
            told = self.watched.tell_samples(now_ns, out);
        }
        self.part(now_ns, out);
        self.tell_machine(now_ns, due, out);
        self.meter.count(told);
        self.finish_tick(now_ns, stand_in_cpu_ns, out);
        Ok(())
    }

    fn discover(&mut self, now_ns: u64, out: &mut Emitter) -> Result<(), SourceError> {
        let sampler = &mut *self.sampler;
        let room = sampler.options.max_processes.saturating_sub(self.watched.len());
        let (backend, selector) = (&mut *sampler.backend, &mut sampler.selector);
        let watched = self.watched.by_pid();
        let result = self.discovery.look(now_ns, backend, selector, watched, room, &mut self.found);
        match result {
            Ok(()) => {}
            Err(ReadError::Denied) => {
                return Err(SourceError::Permission {
                    what: "the list of processes".into(),
                    hint: "run as a user that may see them".into(),
                });
            }
            Err(error) => return Err(SourceError::Failed(format!("the list of processes: {error}"))),
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

    fn tell_machine(&mut self, now_ns: u64, due: GroupSet, out: &mut Emitter) {
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
                    method: "measured".into(),
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
                    method: "measured".into(),
                });
            });
        }
    }

    fn finish_tick(&mut self, now_ns: u64, stand_in_cpu_ns: Option<u64>, out: &mut Emitter) {
        let mut news = Vec::new();
        self.sampler.backend.newly_missing(&mut |missing| news.push(missing));
        for missing in news {
            self.tell_missing(now_ns, &missing, out);
        }
        if now_ns >= self.next_clocks_ns {
            self.look_at_clocks(now_ns, out);
        }
        let (backend, rate, schedule) = (&mut *self.sampler.backend, &mut self.rate, &self.schedule);
        if let Some(elsewhere) = stand_in_cpu_ns
            && self.meter.after_tick(now_ns, elsewhere, backend, rate, schedule, out)
        {
            self.apply_rates(now_ns);
        }
        if now_ns.saturating_sub(self.flushed_ns) >= FLUSH_NS || self.is_finished() {
            out.flush();
            self.flushed_ns = now_ns;
        }
    }

    /// Whether the machine slept just now while our clock went on.
    fn slept_until(&mut self, now_ns: u64, out: &mut Emitter) -> bool {
        let through = |step: &ClockStep| matches!(step, ClockStep::Slept { monotonic_went_on: true, .. });
        self.look_at_clocks(now_ns, out).iter().any(through)
    }

    /// A clock that was set, or a machine that slept, is an event, and from then on wall time is another one.
    fn look_at_clocks(&mut self, now_ns: u64, out: &mut Emitter) -> Vec<ClockStep> {
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

    /// Each reason once.
    fn tell_missing(&mut self, now_ns: u64, missing: &Missing, out: &mut Emitter) {
        let key = format!("{}: {}", missing.track, missing.why);
        if self.told.len() < MAX_REASONS && self.told.insert(key) {
            out.unavailable(now_ns, missing.track, &missing.why, missing.hint.as_deref());
        }
    }
}
