//! A simulated system: processes that a script starts and ends at given moments of virtual time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use ortscope_core::batch::Batch;
use ortscope_core::clock::{Clock, ClockReading, VirtualClock};
use ortscope_core::metric::Availability;
use ortscope_core::pipeline::{Control, FlushError, Limits, Pipeline, PipelineReport, Sink, SinkError};
use ortscope_core::schema::{ProcessSampleRow, Row, SystemSampleRow, Text};
use ortscope_sources::ProcessSampler;
use ortscope_sources::sampler::{
    GroupSet, Missing, OwnCost, ProcessBackend, ProcessFacts, ReadError, SamplerOptions, ThreadReading,
    ThreadState,
};

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000_000_000;
/// Virtual time begins here.
pub const BEGIN: u64 = 1000 * SECOND;
/// Difference between wall time and virtual time at the beginning.
pub const WALL_AHEAD: i64 = 1_700_000_000 * SECOND as i64;

#[derive(Debug, Clone, Default)]
pub struct FakeProcess {
    pub start: u64,
    pub name: Vec<u8>,
    pub parent: u32,
    pub threads: u32,
    pub kernel_thread: bool,
    pub io_denied: bool,
    pub exit_code: Option<i64>,
}

impl FakeProcess {
    pub fn named(name: &str, start: u64) -> Self {
        Self { start, name: name.as_bytes().to_vec(), parent: 1, threads: 1, ..Self::default() }
    }
}

#[derive(Debug, Clone)]
pub enum Event {
    Start(u32, FakeProcess),
    End(u32),
    Rename(u32, &'static str),
    /// A requested rate.
    Rate(f64),
    /// A change of the wall clock.
    SetWall(i64),
    /// System sleep during which the monotonic clock stops.
    Sleep(u64),
    /// System sleep during which the monotonic clock continues, as on Windows.
    SleepThrough(u64),
    /// A pause, resumed a few real milliseconds later; any virtual time may pass in between.
    Pause,
}

/// The script, and the cost of sampling.
#[derive(Debug, Default)]
pub struct World {
    pub processes: BTreeMap<u32, FakeProcess>,
    /// (time after the beginning, event), in chronological order.
    pub script: Vec<(u64, Event)>,
    pub own_cpu_per_tick_ns: u64,
    /// The last tick is the first one at or after this time.
    pub ends_after: u64,
    /// Exits are reported by `begin_tick`, like with process descriptors; otherwise a failing read reveals them.
    pub reports_exits: bool,
    /// Processors stall at times.
    pub needs_backup_thread: bool,
    /// The clock of [`watch_by`], for a machine whose monotonic clock continues during sleep.
    pub clock: Option<Arc<VirtualClock>>,
}

#[derive(Debug)]
struct Fake {
    world: World,
    control: Arc<OnceLock<Control>>,
    now_ns: u64,
    slots: Vec<Option<(u32, u64)>>,
    exit_codes: BTreeMap<(u32, u64), Option<i64>>,
    /// Wall clock minus monotonic clock.
    wall_ahead: i64,
    asleep_ns: i64,
    own_cpu: u64,
    thread_name: Text,
    missing: Vec<Missing>,
}

impl Fake {
    fn process(&self, slot: usize) -> Result<&FakeProcess, ReadError> {
        let (pid, start) = self.slots[slot].expect("a slot that is watched");
        self.world.processes.get(&pid).filter(|process| process.start == start).ok_or(ReadError::Gone)
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Start(pid, process) => drop(self.world.processes.insert(pid, process)),
            Event::Rename(pid, name) => {
                self.world.processes.get_mut(&pid).expect("renamed").name = name.as_bytes().to_vec();
            }
            Event::Pause => {
                let control = self.control.wait().clone();
                control.pause(true);
                let resume = move || {
                    std::thread::sleep(Duration::from_millis(5));
                    control.pause(false);
                };
                std::thread::Builder::new().name("resume".into()).spawn(resume).expect("a thread");
            }
            Event::SetWall(nanos) => self.wall_ahead += nanos,
            Event::Sleep(nanos) => {
                self.asleep_ns += nanos as i64;
                self.wall_ahead += nanos as i64;
            }
            Event::SleepThrough(nanos) => {
                self.asleep_ns += nanos as i64;
                self.world.clock.as_ref().expect("a clock of its own").advance(nanos);
            }
            Event::Rate(hertz) => self.control.wait().set_rate_hertz(hertz),
            Event::End(pid) => {
                let process = self.world.processes.remove(&pid).expect("ended");
                self.exit_codes.insert((pid, process.start), process.exit_code);
            }
        }
    }
}

impl ProcessBackend for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn probe(&mut self) -> Availability {
        Availability::Ready
    }

    fn never(&self) -> Vec<Missing> {
        vec![Missing::new("gdi_objects", "not here", None)]
    }

    fn newly_missing(&mut self, emit: &mut dyn FnMut(Missing)) {
        self.missing.drain(..).for_each(emit);
    }

    fn begin_tick(&mut self, now_ns: u64, _due: GroupSet, ended: &mut Vec<usize>) {
        self.now_ns = now_ns;
        self.own_cpu += self.world.own_cpu_per_tick_ns;
        while self.world.script.first().is_some_and(|(at, _)| BEGIN + at <= now_ns) {
            let (_, event) = self.world.script.remove(0);
            self.apply(event);
        }
        if self.world.reports_exits {
            let slots = self.slots.iter().enumerate().filter(|(_, watched)| watched.is_some());
            ended.extend(slots.map(|(slot, _)| slot).filter(|slot| self.process(*slot).is_err()));
        }
        if now_ns >= BEGIN + self.world.ends_after {
            self.control.wait().stop();
        }
    }

    fn list(&mut self, pids: &mut Vec<u32>) -> Result<(), ReadError> {
        // In an arbitrary order, which systems do not guarantee.
        pids.extend(self.world.processes.keys().rev());
        Ok(())
    }

    fn look(&mut self, pid: u32, facts: &mut ProcessFacts) -> Result<(), ReadError> {
        let process = self.world.processes.get(&pid).ok_or(ReadError::Gone)?;
        *facts = ProcessFacts {
            pid,
            start: process.start,
            name: process.name.clone(),
            parent_pid: Some(process.parent),
            kernel_thread: process.kernel_thread,
            ..ProcessFacts::default()
        };
        Ok(())
    }

    fn watch(&mut self, slot: usize, facts: &ProcessFacts) -> Result<(), ReadError> {
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, None);
        }
        assert_eq!(self.slots[slot], None, "slot {slot} is in use");
        self.slots[slot] = Some((facts.pid, facts.start));
        Ok(())
    }

    fn forget(&mut self, slot: usize) {
        assert!(self.slots[slot].take().is_some(), "slot {slot} was not in use");
    }

    fn command_line(&mut self, slot: usize) -> Option<Vec<Vec<u8>>> {
        Some(vec![self.process(slot).ok()?.name.clone(), b"--token=secret".to_vec()])
    }

    fn renamed(&mut self, slot: usize, known: &[u8]) -> Option<Vec<u8>> {
        self.process(slot).ok().map(|process| process.name.clone()).filter(|name| name != known)
    }

    fn exit_code(&mut self, slot: usize) -> Option<i64> {
        self.exit_codes.get(&self.slots[slot]?).copied().flatten()
    }

    fn cpu(&mut self, slot: usize, row: &mut ProcessSampleRow) -> Result<(), ReadError> {
        self.process(slot)?;
        row.cpu_time_ns = self.now_ns - BEGIN;
        Ok(())
    }

    fn memory(&mut self, slot: usize, row: &mut ProcessSampleRow) -> Result<(), ReadError> {
        self.process(slot)?;
        row.working_set_bytes = self.now_ns - BEGIN + 1;
        Ok(())
    }

    fn io(&mut self, slot: usize, row: &mut ProcessSampleRow) -> Result<(), ReadError> {
        if self.process(slot)?.io_denied {
            self.missing.push(Missing::new("read_bytes", "denied", Some("be root")));
            return Err(ReadError::Denied);
        }
        row.read_bytes = Some(self.now_ns - BEGIN + 2);
        Ok(())
    }

    fn details(&mut self, slot: usize, row: &mut ProcessSampleRow) -> Result<(), ReadError> {
        self.process(slot)?;
        row.handle_count = Some(self.now_ns - BEGIN + 3);
        Ok(())
    }

    fn threads(
        &mut self,
        slot: usize,
        row: &mut ProcessSampleRow,
        emit: &mut dyn FnMut(&ThreadReading<'_>),
    ) -> Result<(), ReadError> {
        let (pid, threads) = (self.slots[slot].expect("watched").0, self.process(slot)?.threads);
        row.active_threads = Some(u64::from(threads));
        for index in 0..threads {
            emit(&ThreadReading {
                tid: pid * 100_000 + index,
                name: Some(&self.thread_name),
                cpu_time_ns: self.now_ns - BEGIN,
                cpu_cycles: None,
                context_switches: None,
                state: Some(ThreadState::Waiting),
                processor: Some(0),
                priority: None,
            });
        }
        Ok(())
    }

    fn system(&mut self, row: &mut SystemSampleRow) -> Result<(), ReadError> {
        row.cpu_percent = Some(50.0);
        Ok(())
    }

    fn environment(&mut self, emit: &mut dyn FnMut(&'static str, &'static str, f64)) {
        emit("machine", "load_1min_threads", 1.0);
    }

    fn clocks(&mut self) -> Option<ClockReading> {
        let now_ns = self.world.clock.as_ref().map_or(self.now_ns, |clock| clock.now_ns());
        Some(ClockReading {
            monotonic_ns: now_ns,
            asleep_ns: Some(self.asleep_ns),
            monotonic_goes_on: self.world.clock.is_some(),
            unix_ns: now_ns.checked_add_signed(self.wall_ahead).expect("after 1970"),
            error_ns: 30,
        })
    }

    fn needs_backup_thread(&mut self, _skipped: u64) -> bool {
        self.world.needs_backup_thread
    }

    fn own_cpu_ns(&mut self) -> Option<u64> {
        Some(self.own_cpu)
    }

    fn own_memory_bytes(&mut self) -> Option<u64> {
        Some(1)
    }
}

#[derive(Debug, Clone, Default)]
pub struct Collect(Arc<Mutex<Vec<Batch>>>);

impl Sink for Collect {
    fn name(&self) -> &str {
        "collect"
    }

    fn consume(&mut self, batch: &Batch) -> Result<(), SinkError> {
        self.0.lock().expect("collected").push(batch.clone());
        Ok(())
    }

    fn flush(&mut self, _deadline: Instant) -> Result<(), FlushError> {
        Ok(())
    }
}

/// The result of a run.
#[derive(Debug)]
pub struct Seen {
    batches: Vec<Batch>,
    pub report: PipelineReport,
    pub cost: OwnCost,
}

impl Collect {
    pub fn into_seen(self, report: PipelineReport, cost: OwnCost) -> Seen {
        let batches = std::mem::take(&mut *self.0.lock().expect("collected"));
        Seen { batches, report, cost }
    }

    pub fn rows_so_far<R: Row>(&self) -> Vec<R> {
        rows(&self.0.lock().expect("collected"))
    }
}

fn rows<R: Row>(batches: &[Batch]) -> Vec<R> {
    let of_table = batches.iter().filter(|batch| batch.table() == R::TABLE);
    of_table.flat_map(|batch| (0..batch.len()).filter_map(|row| R::read_from(batch.columns(), row))).collect()
}

impl Seen {
    pub fn rows<R: Row>(&self) -> Vec<R> {
        rows(&self.batches)
    }
}

/// Runs a sampler on a world until it ends, all in virtual time.
pub fn watch(options: SamplerOptions, world: World) -> Seen {
    watch_by(Arc::new(VirtualClock::starting_at(BEGIN)), options, world)
}

/// The same with any clock that begins at that time.
pub fn watch_by(clock: Arc<dyn Clock>, options: SamplerOptions, world: World) -> Seen {
    let control = Arc::new(OnceLock::new());
    let backend = Fake {
        world,
        control: Arc::clone(&control),
        now_ns: BEGIN,
        slots: Vec::new(),
        exit_codes: BTreeMap::new(),
        wall_ahead: WALL_AHEAD,
        asleep_ns: 7 * SECOND as i64,
        own_cpu: 0,
        thread_name: "worker".into(),
        missing: Vec::new(),
    };
    let sampler = ProcessSampler::with_backend(options, Box::new(backend)).expect("options");
    let cost = sampler.own_cost();
    let collect = Collect::default();
    let limits =
        Limits { intake_bytes: 1 << 30, sink_bytes: 1 << 30, flush_timeout: Duration::from_secs(60) };
    let running = Pipeline::default()
        .with_limits(limits)
        .with_clock(clock)
        .source(sampler)
        .sink(collect.clone())
        .start()
        .expect("threads");
    control.set(running.control().clone()).expect("set once");
    let report = running.join();
    collect.into_seen(report, cost.get())
}
