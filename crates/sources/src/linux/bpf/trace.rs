//! Tracing with BPF: programs at the scheduler's tracepoints, one ring per processor.

use std::os::fd::OwnedFd;
use std::time::Duration;

use ortscope_core::clock::now_ns;
use ortscope_core::kernel::{FileIo, KernelEvent};
use ortscope_decode::btf::Btf;

use super::call;
use super::events::ProgramBuilder;
use super::file_io::{self, FileIoSums};
use super::layout::read_btf;
use super::program::Program;
use super::ring::{RingLane, Rings};
use crate::kernel::{Class, ClassUnavailable, DrainStats, ProgramCost, TraceError, TraceOptions};
use crate::sys::merge::Merge;
use crate::sys::processors;

/// Interval for reading skipped executions: one system call per program.
const MISSES_EVERY: Duration = Duration::from_secs(1);
/// Duration and interval of overhead measurements.
const COST_WINDOW_NS: u64 = 1_000_000_000;
const COST_EVERY_NS: u64 = 10_000_000_000;

/// Events from BPF. Dropping it removes the programs from the kernel.
#[derive(Debug)]
pub struct BpfTrace {
    /// With the purpose of each.
    programs: Vec<(&'static str, Program)>,
    lanes: Vec<RingLane>,
    merge: Merge,
    unavailable: Vec<ClassUnavailable>,
    ring_bytes: usize,
    misses_before: u64,
    misses_asked_ns: u64,
    /// Events up to this time were delivered.
    drained_ns: u64,
    cost: CostMeter,
    file_io: Option<FileIoSums>,
}

/// Makes the kernel measure programs: always, for one second in ten, or never.
#[derive(Debug, Default)]
struct CostMeter {
    /// Measurement continues while this is open.
    stats: Option<OwnedFd>,
    is_sampled: bool,
    since_ns: u64,
    /// Before the current window.
    measured_ns: u64,
}

impl CostMeter {
    fn start(options: &TraceOptions) -> Self {
        let stats =
            (options.measure_cost || options.sample_cost).then(call::enable_stats).and_then(Result::ok);
        let is_sampled = options.sample_cost && !options.measure_cost && stats.is_some();
        Self { stats, is_sampled, since_ns: now_ns(), measured_ns: 0 }
    }

    fn update(&mut self, now_ns: u64) {
        let age_ns = now_ns.saturating_sub(self.since_ns);
        if !self.is_sampled || age_ns < COST_WINDOW_NS {
            return;
        }
        if self.stats.take().is_some() {
            self.measured_ns += age_ns;
        } else if age_ns >= COST_EVERY_NS {
            self.stats = call::enable_stats().ok();
            self.since_ns = now_ns;
        }
    }

    /// How long programs were measured so far.
    fn measured_ns(&self) -> u64 {
        let open_ns = self.stats.as_ref().map_or(0, |_| now_ns().saturating_sub(self.since_ns));
        self.measured_ns + open_ns
    }
}

impl BpfTrace {
    pub fn open(options: &TraceOptions) -> Result<Self, TraceError> {
        let cpus = processors::possible();
        // First, because this call reports missing privileges.
        let rings = Rings::create(cpus, options.ring_bytes(cpus))?;
        let bytes = read_btf()?;
        let btf = Btf::parse(&bytes)?;
        let builder = ProgramBuilder::new(&btf, &rings)?;
        let lanes = rings.lanes(cpus)?;
        let cost = CostMeter::start(options);
        let mut programs = builder.always()?;
        let mut unavailable = Vec::new();
        let mut file_io = None;
        for class in &options.classes {
            let programs_of_class = match class {
                Class::FileIo => file_io::open(&builder).map(|(sums, more)| {
                    file_io = Some(sums);
                    more
                }),
                _ => builder.class(*class),
            };
            match programs_of_class {
                Ok(more) => programs.extend(more.into_iter().map(|program| (class.name(), program))),
                Err(error) => unavailable.push(ClassUnavailable { class: *class, why: error.to_string() }),
            }
        }
        Ok(Self {
            programs,
            lanes,
            merge: Merge::default(),
            unavailable,
            ring_bytes: rings.bytes(cpus),
            misses_before: 0,
            misses_asked_ns: 0,
            drained_ns: 0,
            cost,
            file_io,
        })
    }

    pub fn unavailable(&self) -> &[ClassUnavailable] {
        &self.unavailable
    }

    pub fn ring_bytes(&self) -> usize {
        self.ring_bytes
    }

    pub fn drain(&mut self, out: &mut impl FnMut(KernelEvent)) -> DrainStats {
        // Later events stay for the next drain: older ones of another processor may not be visible yet.
        let until_ns = now_ns();
        let mut stats = DrainStats::default();
        let before_ns = self.drained_ns;
        self.merge.run(&mut self.lanes, until_ns, &mut |event| {
            stats.events += 1;
            stats.late += u64::from(event.at_ns() < before_ns);
            out(event);
        });
        for lane in &mut self.lanes {
            lane.release();
            stats.lost += lane.take_lost();
            stats.unknown += lane.take_unknown();
        }
        self.drained_ns = until_ns;
        if until_ns.saturating_sub(self.misses_asked_ns) >= MISSES_EVERY.as_nanos() as u64 {
            self.misses_asked_ns = until_ns;
            let misses =
                self.programs.iter().map(|(_, program)| program.counts().recursion_misses).sum::<u64>();
            stats.recursion_misses = misses.saturating_sub(self.misses_before);
            self.misses_before = misses;
        }
        self.cost.update(until_ns);
        stats
    }

    /// File I/O sums since the last call, and the number of calls beyond the limit.
    pub fn take_file_io(&mut self) -> (Vec<FileIo>, u64) {
        self.file_io.as_mut().map(FileIoSums::take).unwrap_or_default()
    }

    /// How long overhead was measured.
    pub fn measured_ns(&self) -> u64 {
        self.cost.measured_ns()
    }

    pub fn costs(&self) -> Vec<ProgramCost> {
        let cost = |(class, program): &(&'static str, Program)| {
            let counts = program.counts();
            ProgramCost { program: program.name, class, runs: counts.runs, total_ns: counts.run_ns }
        };
        self.programs.iter().map(cost).collect()
    }
}
