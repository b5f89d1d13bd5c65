//! Tracing by BPF: programs at the scheduler's tracepoints, one ring per processor.

use std::os::fd::OwnedFd;
use std::time::Duration;

use ortscope_core::clock::now_nanos;
use ortscope_core::kernel::KernelEvent;
use ortscope_decode::btf::Btf;

use super::call;
use super::events::Maker;
use super::layout::{read_btf};
use super::program::Program;
use super::ring::{RingLane, Rings};
use crate::kernel::{ClassUnavailable, DrainStats, ProgramCost, TraceError, TraceOptions};
use crate::sys::merge::Merge;
use crate::sys::processors;

/// The kernel is asked for what it did not run this often: a system call per program.
const MISSES_EVERY: Duration = Duration::from_secs(1);

/// Events by BPF. Dropping it removes the programs from the kernel.
#[derive(Debug)]
pub struct BpfTrace {
    programs: Vec<Program>,
    lanes: Vec<RingLane>,
    merge: Merge,
    unavailable: Vec<ClassUnavailable>,
    ring_bytes: usize,
    misses_before: u64,
    misses_asked_ns: u64,
    /// Up to when events were handed out.
    drained_ns: u64,
    _stats: Option<OwnedFd>,
}

impl BpfTrace {
    pub fn open(options: &TraceOptions) -> Result<Self, TraceError> {
        let cpus = processors::possible();
        // Before anything else: without rights this is the call that says so.
        let rings = Rings::create(cpus, options.ring_bytes(cpus))?;
        let bytes = read_btf()?;
        let btf = Btf::parse(&bytes)?;
        let maker = Maker::new(&btf, &rings)?;
        let lanes = rings.lanes(cpus)?;
        let stats = options.measure_cost.then(call::enable_stats).and_then(Result::ok);
        let mut programs = maker.always()?;
        let mut unavailable = Vec::new();
        for class in &options.classes {
            match maker.class(*class) {
                Ok(more) => programs.extend(more),
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
            _stats: stats,
        })
    }

    pub fn unavailable(&self) -> &[ClassUnavailable] {
        &self.unavailable
    }

    pub fn ring_bytes(&self) -> usize {
        self.ring_bytes
    }

    pub fn drain(&mut self, out: &mut impl FnMut(KernelEvent)) -> DrainStats {
        // Events that are younger than this moment stay for the next drain: another processor's older ones may not be
        // visible yet.
        let until_ns = now_nanos();
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
            let misses = self.programs.iter().map(|program| program.counts().recursion_misses).sum::<u64>();
            stats.recursion_misses = misses.saturating_sub(self.misses_before);
            self.misses_before = misses;
        }
        stats
    }

    pub fn costs(&self) -> Vec<ProgramCost> {
        let cost = |program: &Program| {
            let counts = program.counts();
            ProgramCost { program: program.name, runs: counts.runs, total_ns: counts.run_ns }
        };
        self.programs.iter().map(cost).collect()
    }
}
