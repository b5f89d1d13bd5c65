//! Why slow inferences were slow, as far as it was recorded: [`collect`] puts what happened into the [`windows`] of slow
//! and of usual inferences, [`judge`] compares the two.

mod around;
mod chance;
mod collect;
mod evidence;
mod judge;
mod sources;
mod usual;
mod windows;

use std::collections::{BTreeMap, HashMap};

use ortscope_analyze::correlation::Around;
use ortscope_core::schema::{TableId, Text};

use super::exact::Slow;
use super::reader::Reader;
use crate::latency::ms;
use crate::{CauseCount, CauseKind, ReportError, SlowInference, SlowReport};

pub(super) use collect::Owner;
pub(super) use evidence::Evidence;
pub(super) use sources::checks;
pub(super) use windows::{Window, Windows};

/// A session's inferences that are looked into.
#[derive(Debug)]
pub(super) struct Case {
    pub owner: Owner,
    /// The slowest first.
    pub slow: Vec<Slow>,
    pub slow_count: u64,
    pub of: u64,
    pub slow_above_ns: u64,
    pub median_ms: f64,
    pub copy_in_ms: f64,
    pub copy_out_ms: f64,
    /// Start and end of usual inferences.
    pub usual: Vec<(u64, u64)>,
}

/// Slow and usual inferences of all sessions, and what is known about them so far.
#[derive(Debug)]
pub(super) struct Explainer {
    cases: Vec<Case>,
    pub windows: Windows,
    /// By session and slow inference: what devices did around it.
    around: BTreeMap<(usize, usize), Vec<Around>>,
}

impl Explainer {
    pub fn new(cases: Vec<Case>) -> Self {
        let mut windows = Vec::new();
        for (session, case) in cases.iter().enumerate().filter(|(_, case)| !case.slow.is_empty()) {
            let slow =
                case.slow.iter().enumerate().map(|(index, slow)| (Some(index), slow.start_ns, slow.end_ns()));
            let usual = case.usual.iter().map(|(start, end)| (None, *start, *end));
            windows.extend(slow.chain(usual).map(|(slow, start_ns, end_ns)| Window {
                session,
                slow,
                start_ns,
                end_ns,
                evidence: Evidence::default(),
            }));
        }
        Self { cases, windows: Windows::new(windows), around: BTreeMap::new() }
    }

    /// Reads what lies inside the windows.
    pub fn collect(&mut self, reader: &mut Reader<'_>) -> Result<(), ReportError> {
        if self.windows.is_empty() {
            return Ok(());
        }
        let owners: Vec<Owner> = self.cases.iter().map(|case| case.owner.clone()).collect();
        collect::kernel(reader, &mut self.windows, &owners)?;
        collect::operators(reader, &mut self.windows, &owners)?;
        collect::memory(reader, &mut self.windows, &owners)?;
        collect::losses(reader, &mut self.windows)?;
        for window in self.windows.iter() {
            if let Some(slow) = window.slow {
                self.around.insert((window.session, slow), around::of(reader, window)?);
            }
        }
        Ok(())
    }

    /// CPU time that processes used between two samples.
    pub fn cpu_interval(&mut self, from_ns: u64, to_ns: u64, used: &[(u64, u64)]) {
        let cases = &self.cases;
        self.windows.overlapping(from_ns, to_ns, |window| {
            // Without its process "the others" cannot be told from itself.
            let Some(own) = cases.get(window.session).and_then(|case| case.owner.pid) else { return };
            let cpu = &mut window.evidence.cpu;
            cpu.interval_ns = cpu.interval_ns.saturating_add(to_ns - from_ns);
            cpu.intervals += 1;
            for (pid, ns) in used.iter().filter(|(pid, _)| *pid != own) {
                cpu.others_ns = cpu.others_ns.saturating_add(*ns);
                cpu.by_process.add(*pid, *ns);
            }
        });
    }

    /// A reading of the whole machine that covers the time since the one before.
    pub fn machine_interval(
        &mut self,
        from_ns: u64,
        to_ns: u64,
        cpu_percent: Option<f64>,
        hertz: Option<f64>,
    ) {
        self.windows.overlapping(from_ns, to_ns, |window| {
            let machine = &mut window.evidence.machine;
            cpu_percent.into_iter().for_each(|value| machine.cpu_percent.add(value));
            hertz.into_iter().for_each(|value| machine.frequency_hertz.add(value));
        });
    }

    /// One report per session, in their order.
    pub fn finish(self, reader: &Reader<'_>, names: &HashMap<u64, Text>) -> Vec<SlowReport> {
        let kernel_events = reader.rows(TableId::KernelEvents);
        let mut by_session: Vec<Vec<Window>> = self.cases.iter().map(|_| Vec::new()).collect();
        for window in self.windows.into_list() {
            by_session[window.session].push(window);
        }
        let explain = |(case, windows): (&Case, Vec<Window>)| {
            let unknown = match (kernel_events, case.owner.pid) {
                (0, _) => Some("kernel events were not recorded, so scheduling and faults cannot be told"),
                (_, None) => Some("the recording does not say which process this session lives in"),
                _ => None,
            };
            case.report(&windows, unknown, names, |time_ns| reader.seconds(time_ns))
        };
        let mut reports: Vec<SlowReport> = self.cases.iter().zip(by_session).map(explain).collect();
        for ((session, slow), found) in self.around {
            if let Some(shown) = reports.get_mut(session).and_then(|report| report.shown.get_mut(slow)) {
                shown.around = found;
            }
        }
        reports
    }
}

impl Case {
    fn report(
        &self,
        windows: &[Window],
        unknown: Option<&str>,
        names: &HashMap<u64, Text>,
        seconds: impl Fn(u64) -> f64,
    ) -> SlowReport {
        let mut usual =
            usual::Usual::new(self.median_ms * 1e6, self.copy_in_ms * 1e6, self.copy_out_ms * 1e6);
        for window in windows.iter().filter(|window| window.slow.is_none()) {
            usual.add(window.end_ns - window.start_ns, &window.evidence);
        }
        let nothing = Evidence::default();
        let shown: Vec<SlowInference> = self
            .slow
            .iter()
            .enumerate()
            .map(|(index, slow)| {
                let window = windows.iter().find(|window| window.slow == Some(index));
                let evidence = window.map_or(&nothing, |window| &window.evidence);
                let causes = judge::causes(slow, evidence, &usual, names);
                let (verdict, sentence) = judge::verdict(&causes, unknown);
                SlowInference {
                    sequence: slow.sequence,
                    stream: slow.stream,
                    start_seconds: seconds(slow.start_ns),
                    latency_ms: ms(slow.end_to_end_ns),
                    times_median: ms(slow.end_to_end_ns) / self.median_ms.max(1e-6),
                    copy_in_ms: ms(slow.copy_in_ns),
                    run_ms: ms(slow.run_ns),
                    copy_out_ms: ms(slow.copy_out_ns),
                    causes,
                    verdict,
                    sentence,
                    around: Vec::new(),
                }
            })
            .collect();
        SlowReport {
            count: self.slow_count,
            of: self.of,
            limit_ms: ms(self.slow_above_ns),
            median_ms: self.median_ms,
            usual_inferences: usual.n,
            causes: cause_counts(&shown),
            shown,
        }
    }
}

fn cause_counts(shown: &[SlowInference]) -> Vec<CauseCount> {
    let mut counts: HashMap<CauseKind, u64> = HashMap::new();
    for cause in shown.iter().flat_map(|slow| &slow.causes) {
        *counts.entry(cause.cause).or_default() += 1;
    }
    let mut counts: Vec<(CauseKind, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(cause, inferences)| (std::cmp::Reverse(*inferences), *cause));
    counts.into_iter().map(|(cause, inferences)| CauseCount { cause, inferences }).collect()
}
