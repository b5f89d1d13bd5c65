//! The measured loops: one request after another, several at once, or an open loop with planned arrivals.
//!
//! A loop does nothing but read the clock four times, copy, run, and write one record of 72 bytes into shared memory.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};

use ortscope_channel::{ControlPage, InferenceRecord, Phase, RingWriter};
use ortscope_core::clock::now_ns;
use ortscope_core::random::Random;
use ortscope_core::tensor::Value;
use ortscope_ort::{Binding, OrtError, Session};

use super::inputs::Made;
use super::outbox::Outbox;
use super::turns::Turns;
use super::windows::Windows;
use super::{Stopped, failures};
use crate::measure::plan::{RunLimits, WorkerPlan};
use ortscope_analyze::facts::{Fact, MemoryStage, Scenario};
use ortscope_core::failure::Failure;

/// Runs the plan's scenario to its end. Returns the outputs of the last run of stream 0.
pub fn run(
    plan: &WorkerPlan,
    page: &ControlPage,
    outbox: &mut Outbox,
    sessions: &[Session],
    made: &Made,
    windows: Option<Windows<'_>>,
    time_second_session: impl FnOnce() -> Fact,
) -> Result<Vec<(String, Value)>, Stopped> {
    let Some(first_session) = sessions.first() else {
        return Err(Failure::internal("there is no session").into());
    };
    let wrong = |error: &OrtError| Stopped { failure: failures::from_ort(error, plan), after_runs: Some(0) };
    let mut ring = outbox.take_stream(0)?;
    let mut binding = first_session.bind(&made.values).map_err(|error| wrong(&error))?;
    let lap = Lap { stream: 0, session: 0, batch_size: made.batch_size_u32() };
    let record = lap.run(&mut binding, Phase::First, 0, None).map_err(|error| {
        let stopped = wrong(&error);
        Stopped { failure: made.suspect_guesses(stopped.failure), ..stopped }
    })?;
    ring.write_inference(&record);
    outbox.memory(MemoryStage::AfterFirstRun);
    outbox.send(Fact::Inputs(made.message(
        binding.input_bytes(),
        binding.output_bytes(),
        binding.floating_outputs() as u64,
    )));
    outbox.send(time_second_session());

    let turns = plan.turns.as_ref().map(Turns::open).transpose()?;
    if let Some(index) = plan.turns.as_ref().and_then(|turns| turns.processor) {
        ortscope_sources::pin_to_processor(index);
    }
    let mut lanes = vec![Lane { ring, binding, lap, windows, turns }];
    for (number, session) in (1..plan.scenario.streams()).zip(sessions.iter().cycle().skip(1)) {
        let mut binding = session.bind(&made.values).map_err(|error| wrong(&error))?;
        // The first run preallocates outputs, so it is not measured.
        let lap =
            Lap { stream: number, session: number % plan.sessions.max(1), batch_size: made.batch_size_u32() };
        lap.run(&mut binding, Phase::First, 0, None).map_err(|error| wrong(&error))?;
        lanes.push(Lane { ring: outbox.take_stream(number)?, binding, lap, windows: None, turns: None });
    }

    outbox.steady(true);
    let shared = Shared::new(page, plan.limits, plan.scenario, plan.inputs.seed, lanes.len());
    let mut lanes = match lanes.len() {
        1 => {
            lanes.iter_mut().for_each(|lane| lane.work(&shared));
            lanes
        }
        _ => at_once(lanes, &shared)?,
    };
    outbox.steady(false);
    if let Some(arrivals) = &shared.arrivals {
        let begin = shared.begun_ns.load(Ordering::SeqCst);
        let end = now_ns().min(plan.limits.duration_ns.map_or(u64::MAX, |duration| begin + duration));
        let started = shared.served.load(Ordering::SeqCst);
        outbox.send(Fact::Unserved { requests: arrivals.due(end, begin).saturating_sub(started) });
    }

    let failed = shared.failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some((error, run)) = failed {
        let mut failure = failures::from_ort(&error, plan);
        failure.message = format!("run {run} failed: {}", failure.message);
        return Err(Stopped { failure, after_runs: Some(run.saturating_sub(1)) });
    }
    let Some(lane) = lanes.first_mut() else {
        return Ok(Vec::new());
    };
    let wanted = plan.check_outputs || plan.answers_file.is_some();
    if wanted { lane.binding.outputs().map_err(|error| wrong(&error)) } else { Ok(Vec::new()) }
}

/// One thread per lane; they start together.
fn at_once<'s>(lanes: Vec<Lane<'s>>, shared: &Shared<'_>) -> Result<Vec<Lane<'s>>, Stopped> {
    std::thread::scope(|scope| {
        let threads: Result<Vec<_>, _> = lanes
            .into_iter()
            .map(|mut lane| {
                std::thread::Builder::new().name(format!("stream-{}", lane.lap.stream)).spawn_scoped(
                    scope,
                    move || {
                        lane.work(shared);
                        lane
                    },
                )
            })
            .collect();
        let threads = threads.map_err(Failure::from)?;
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| Failure::internal("a stream's thread panicked").into()))
            .collect()
    })
}

/// State shared by all lanes.
#[derive(Debug)]
struct Shared<'a> {
    page: &'a ControlPage,
    limits: RunLimits,
    arrivals: Option<Arrivals>,
    started: AtomicU64,
    /// Successful runs.
    served: AtomicU64,
    /// Start of the open loop's plan, the same for every lane.
    begun_ns: AtomicU64,
    stop: AtomicBool,
    begin: Barrier,
    failed: Mutex<Option<(OrtError, u64)>>,
}

impl<'a> Shared<'a> {
    fn new(page: &'a ControlPage, limits: RunLimits, scenario: Scenario, seed: u64, lanes: usize) -> Self {
        let arrivals = match scenario {
            Scenario::Server { per_second, .. } => Some(Arrivals::new(per_second, seed)),
            Scenario::Single | Scenario::Multi { .. } | Scenario::Offline { .. } => None,
        };
        Self {
            page,
            limits,
            arrivals,
            started: AtomicU64::new(0),
            served: AtomicU64::new(0),
            begun_ns: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            begin: Barrier::new(lanes),
            failed: Mutex::new(None),
        }
    }

    /// The time at which the first lane arrived here.
    fn begin_now(&self) -> u64 {
        let now = now_ns();
        match self.begun_ns.compare_exchange(0, now, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => now,
            Err(earlier) => earlier,
        }
    }

    #[inline]
    fn must_stop(&self) -> bool {
        self.page.stop_requested() || self.stop.load(Ordering::Relaxed)
    }

    fn fail(&self, error: OrtError, run: u64) {
        self.stop.store(true, Ordering::Relaxed);
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get_or_insert((error, run));
    }
}

/// One stream: its binding and where its records go.
#[derive(Debug)]
struct Lane<'s> {
    ring: RingWriter,
    binding: Binding<'s>,
    lap: Lap,
    /// Profiled runs between the others; only the first lane has them.
    windows: Option<Windows<'s>>,
    /// Only a worker with a single lane takes turns with another one.
    turns: Option<Turns>,
}

impl Lane<'_> {
    fn work(&mut self, shared: &Shared<'_>) {
        shared.begin.wait();
        let begin = shared.begin_now();
        let deadline = shared.limits.duration_ns.map_or(u64::MAX, |duration| begin.saturating_add(duration));
        let most_runs = shared.limits.runs.unwrap_or(u64::MAX);
        while !shared.must_stop() {
            if !self.take_turn(shared) {
                break;
            }
            let number = shared.started.fetch_add(1, Ordering::Relaxed);
            if number >= most_runs {
                break;
            }
            let planned = match &shared.arrivals {
                None => None,
                Some(arrivals) => {
                    let planned = arrivals.at(number, begin);
                    if planned >= deadline || !wait_until(planned, shared) {
                        break;
                    }
                    let depth = arrivals.waiting(number, now_ns(), begin);
                    Some((planned, depth))
                }
            };
            match self.lap.run(&mut self.binding, Phase::Steady, number, planned) {
                Ok(record) => {
                    self.ring.write_inference(&record);
                    if shared.arrivals.is_some() {
                        shared.served.fetch_add(1, Ordering::Relaxed);
                    }
                    let ended = record.start_ns + record.run_ns;
                    let waited = self.turns.as_ref().map_or(0, Turns::waited_ns);
                    if ended >= deadline.saturating_add(waited) {
                        break;
                    }
                    if let Some(windows) = &mut self.windows
                        && let Err(error) =
                            windows.when_due(ended, &mut self.binding, self.lap, &mut self.ring)
                    {
                        shared.fail(error, number + 1);
                        break;
                    }
                }
                Err(error) => {
                    shared.fail(error, number + 1);
                    break;
                }
            }
        }
        // The other worker continues immediately.
        self.turns = None;
    }

    /// Waits for this worker's turn; false when the loop must end. The first run of a turn is not measured: it refills the
    /// caches.
    fn take_turn(&mut self, shared: &Shared<'_>) -> bool {
        let Some(turns) = &mut self.turns else { return true };
        match turns.take(|| shared.must_stop()) {
            None => false,
            Some(false) => true,
            Some(true) => match self.lap.run(&mut self.binding, Phase::First, 0, None) {
                Ok(_) => true,
                Err(error) => {
                    shared.fail(error, shared.started.load(Ordering::Relaxed) + 1);
                    false
                }
            },
        }
    }
}

/// One timed pass: copy in, run, copy out.
#[derive(Debug, Clone, Copy)]
pub struct Lap {
    pub stream: u16,
    pub session: u16,
    pub batch_size: u32,
}

impl Lap {
    /// `planned` is the planned start and the number of requests waiting behind this one.
    #[inline]
    pub fn run(
        &self,
        binding: &mut Binding<'_>,
        phase: Phase,
        sequence: u64,
        planned: Option<(u64, u32)>,
    ) -> Result<InferenceRecord, OrtError> {
        let times = binding.timed_run()?;
        Ok(InferenceRecord {
            start_ns: times.start_ns,
            planned_ns: planned.map_or(times.start_ns, |(planned, _)| planned),
            copy_in_ns: times.copied_ns - times.start_ns,
            run_ns: times.ran_ns - times.copied_ns,
            copy_out_ns: times.end_ns - times.ran_ns,
            sequence,
            batch_size: self.batch_size,
            queue_depth: planned.map(|(_, depth)| depth),
            token: None,
            stream: self.stream,
            session: self.session,
            phase,
            ok: true,
        })
    }
}

/// Sleeps most of the time and spins for the rest, since a sleep ends tens of microseconds late. False when stopped.
fn wait_until(deadline_ns: u64, shared: &Shared<'_>) -> bool {
    const SPIN_NS: u64 = 80_000;
    loop {
        if shared.must_stop() {
            return false;
        }
        let left = deadline_ns.saturating_sub(now_ns());
        if left == 0 {
            return true;
        }
        if left > SPIN_NS {
            let nap = (left - SPIN_NS).min(50_000_000);
            std::thread::sleep(std::time::Duration::from_nanos(nap));
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Planned arrivals of an open loop: a Poisson process, drawn as needed and the same for the same seed.
#[derive(Debug)]
struct Arrivals {
    mean_gap_ns: f64,
    state: Mutex<(Vec<u64>, Random)>,
}

impl Arrivals {
    fn new(per_second: f64, seed: u64) -> Self {
        Self { mean_gap_ns: 1e9 / per_second, state: Mutex::new((Vec::new(), Random::new(seed))) }
    }

    /// When request `number` is planned.
    fn at(&self, number: u64, begin: u64) -> u64 {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        while state.0.len() <= index {
            self.plan_one_more(&mut state);
        }
        begin + state.0.get(index).copied().unwrap_or(u64::MAX / 2)
    }

    /// Requests planned up to now that come after `number`.
    fn waiting(&self, number: u64, now: u64, begin: u64) -> u32 {
        u32::try_from(self.due(now, begin).saturating_sub(number + 1)).unwrap_or(u32::MAX)
    }

    /// Requests planned up to now.
    fn due(&self, now: u64, begin: u64) -> u64 {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = now.saturating_sub(begin);
        while state.0.last().is_none_or(|last| *last <= elapsed) {
            self.plan_one_more(&mut state);
        }
        state.0.partition_point(|planned| *planned <= elapsed) as u64
    }

    fn plan_one_more(&self, state: &mut (Vec<u64>, Random)) {
        let (planned, random) = state;
        // Half a step above zero, because the logarithm of zero is infinite.
        let uniform = random.unit() + 0.5 / (1u64 << 53) as f64;
        // At least a nanosecond, so that planning always gets ahead of the clock.
        let gap = (-uniform.ln() * self.mean_gap_ns) as u64;
        planned.push(planned.last().copied().unwrap_or(0) + gap.max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_have_the_requested_rate_and_are_reproducible() {
        let (one, other) = (Arrivals::new(1000.0, 7), Arrivals::new(1000.0, 7));
        assert_eq!(one.at(9_999, 5), other.at(9_999, 5));
        let rate = 10_000.0 * 1e9 / one.at(9_999, 0) as f64;
        assert!((rate / 1000.0 - 1.0).abs() < 0.05, "{rate}");
        assert_ne!(Arrivals::new(1000.0, 8).at(100, 0), one.at(100, 0));
    }

    #[test]
    fn waiting_counts_due_requests() {
        let arrivals = Arrivals::new(1000.0, 7);
        let third = arrivals.at(3, 0);
        assert_eq!(arrivals.waiting(0, third, 0), 3);
        assert_eq!(arrivals.waiting(3, third, 0), 0);
    }
}
