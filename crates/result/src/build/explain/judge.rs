//! Compares what happened inside a slow inference with what is usual, and says what stands out.
//!
//! A cause with a duration stands out when it took at least a tenth of the extra time more than usual. Events without
//! a duration stand out when so many would come by chance in less than one of a hundred inferences of that length
//! (Poisson, at the rate seen in usual inferences). Nothing is named that was not recorded.

use ortscope_core::schema::Text;

use super::super::exact::Slow;
use super::chance::poisson_at_least;
use super::evidence::{Evidence, KernelKind, Tally};
use super::usual::Usual;
use crate::latency::ms;
use crate::{Cause, CauseKind, Explained};
use ortscope_core::units::{self, clean};

/// Share of the extra time below which a duration is no cause.
const MIN_SHARE: f64 = 0.1;
/// Share of the extra time from which it is explained.
const EXPLAINED_SHARE: f64 = 0.5;
/// Chance below which a count stands out.
const CHANCE: f64 = 0.01;
/// Growth of memory that is not worth a word.
const MIN_GROWTH_BYTES: f64 = 4096.0;
/// Cores of other processes beyond the usual that matter.
const MIN_CORES: f64 = 0.25;

/// Names of processes, for sentences.
pub(super) trait Names {
    fn process(&self, pid: u64) -> Option<String>;
}

/// Everything that stands out in a slow inference.
pub(super) fn causes(slow: &Slow, evidence: &Evidence, usual: &Usual, names: &dyn Names) -> Vec<Cause> {
    let judge = Judge { slow, evidence, usual, excess_ns: slow.end_to_end_ns as f64 - usual.median_ns };
    let mut causes: Vec<Cause> = [
        judge.off_processor(),
        judge.kernel(KernelKind::HardFault, CauseKind::HardFault, "page fault", "that read from a disk"),
        judge.kernel(KernelKind::PageFault, CauseKind::PageFault, "page fault", "in the process"),
        judge.kernel(KernelKind::Migration, CauseKind::Migration, "move", "to another processor"),
        judge.kernel(KernelKind::Throttle, CauseKind::Throttle, "throttling event", "of the processors"),
        judge.part(CauseKind::CopyIn, "copying the inputs", slow.copy_in_ns, usual.copy_in_ns),
        judge.part(
            CauseKind::CopyOut,
            "waiting for the device and copying the outputs",
            slow.copy_out_ns,
            usual.copy_out_ns,
        ),
        judge.tally(CauseKind::ProviderCopy, evidence.copies, usual.copies, "copy", "of the provider"),
        judge.tally(CauseKind::ProviderWait, evidence.waits, usual.waits, "wait", "of the provider"),
        judge.allocation(),
        judge.other_processes(names),
        judge.busy_machine(),
        judge.low_frequency(),
        judge.lost(),
    ]
    .into_iter()
    .flatten()
    .collect();
    let share = |cause: &Cause| cause.share_of_excess.unwrap_or(-1.0);
    causes.sort_by(|left, right| share(right).total_cmp(&share(left)));
    causes
}

/// The verdict and its sentence; `unknown` says what was not recorded, if anything is missing.
pub(super) fn verdict(causes: &[Cause], unknown: Option<&str>) -> (Explained, String) {
    let telling: Vec<&Cause> = causes.iter().filter(|cause| cause.cause != CauseKind::LostRecords).collect();
    match (telling.first(), unknown) {
        (Some(first), _) if first.share_of_excess.is_some_and(|share| share >= EXPLAINED_SHARE) => {
            (Explained::Yes, first.sentence.clone())
        }
        (Some(first), _) => (Explained::Partly, format!("coincides: {}", first.sentence)),
        (None, Some(unknown)) => (Explained::Unknown, format!("unexplained: {unknown}")),
        (None, None) => {
            (Explained::No, "unexplained: nothing that was recorded inside it stands out".to_owned())
        }
    }
}

struct Judge<'j> {
    slow: &'j Slow,
    evidence: &'j Evidence,
    usual: &'j Usual,
    excess_ns: f64,
}

impl Judge<'_> {
    /// Time beyond the usual over the extra time; `None` below the limit.
    fn share(&self, duration_ns: f64, usual_ns: f64) -> Option<f64> {
        if self.excess_ns <= 0.0 {
            return None;
        }
        Some(((duration_ns - usual_ns) / self.excess_ns).min(1.0)).filter(|share| *share >= MIN_SHARE)
    }

    fn timed(
        &self,
        kind: CauseKind,
        what: &str,
        count: Option<u64>,
        time: (f64, Option<f64>),
    ) -> Option<Cause> {
        let (duration_ns, usual_ns) = time;
        let share = self.share(duration_ns, usual_ns.unwrap_or(0.0))?;
        let time = units::milliseconds(duration_ns / 1e6);
        let usual = said(usual_ns.map(|usual| match usual {
            0.0 => "none".to_owned(),
            usual => units::milliseconds(usual / 1e6),
        }));
        Some(Cause {
            count,
            duration_ms: Some(duration_ns / 1e6),
            usual_ms: usual_ns.map(|usual| usual / 1e6),
            share_of_excess: Some(share),
            ..plain(
                kind,
                format!("{what} {time}{usual}, {} of the extra time", units::percent(share)),
                format!("{} {time}{usual}", kind.name()),
            )
        })
    }

    fn off_processor(&self) -> Option<Cause> {
        let tally = self.evidence.kernel(KernelKind::ContextSwitch);
        if !tally.timed {
            return self.counted(
                CauseKind::ContextSwitch,
                tally.count,
                self.usual.kernel[KernelKind::ContextSwitch as usize].count,
                "context switch",
                "in the process",
            );
        }
        let (thread, off) = self.evidence.off_by_thread.largest()?;
        let what = format!("thread {thread} was off the processor for");
        let usual = self.usual.per_inference(self.usual.off_ns);
        let mut cause =
            self.timed(CauseKind::ContextSwitch, &what, Some(tally.count), (off as f64, usual))?;
        cause.usual_count =
            self.usual.per_inference(self.usual.kernel[KernelKind::ContextSwitch as usize].count as f64);
        if let Some((name, ran)) = self.evidence.ran_instead.largest() {
            let name = clean(name, 60);
            cause.sentence += &match ran as f64 >= 0.9 * off as f64 {
                true => format!("; {name} ran instead"),
                false => format!("; {name} ran instead for {}", units::milliseconds(ms(ran))),
            };
        }
        Some(cause)
    }

    fn kernel(&self, kernel: KernelKind, kind: CauseKind, what: &str, more: &str) -> Option<Cause> {
        self.tally(kind, self.evidence.kernel(kernel), self.usual.kernel[kernel as usize], what, more)
    }

    fn tally(&self, kind: CauseKind, tally: Tally, usual: Tally, what: &str, more: &str) -> Option<Cause> {
        if tally.count == 0 {
            return None;
        }
        if !tally.timed {
            return self.counted(kind, tally.count, usual.count, what, more);
        }
        let what = format!("{} {more} took", plural(tally.count, what));
        let usual_ns = self.usual.per_inference(usual.duration_ns as f64);
        let mut cause = self.timed(kind, &what, Some(tally.count), (tally.duration_ns as f64, usual_ns))?;
        cause.usual_count = self.usual.per_inference(usual.count as f64);
        Some(cause)
    }

    /// Events without a duration.
    fn counted(&self, kind: CauseKind, count: u64, usual: u64, what: &str, more: &str) -> Option<Cause> {
        let unlikely = match self.usual.n {
            0 => count > 0,
            _ => {
                // Half an event more, so that "never seen" does not become "impossible".
                let rate = (usual as f64 + 0.5) / self.usual.total_ns.max(1.0);
                poisson_at_least(count, rate * self.slow.end_to_end_ns as f64) < CHANCE
            }
        };
        let usual_count = self.usual.per_inference(usual as f64);
        let usual = said(usual_count.map(|usual| match usual {
            0.0 => "none".to_owned(),
            usual => units::digits(usual),
        }));
        let events = plural(count, what);
        (count > 0 && unlikely).then(|| Cause {
            count: Some(count),
            usual_count,
            ..plain(
                kind,
                format!("{events} {more}{usual}; how long they took was not recorded"),
                format!("{events}{usual}"),
            )
        })
    }

    fn part(&self, kind: CauseKind, what: &str, duration_ns: u64, usual_ns: f64) -> Option<Cause> {
        self.timed(kind, &format!("{what} took"), None, (duration_ns as f64, Some(usual_ns)))
    }

    fn allocation(&self) -> Option<Cause> {
        let (what, grown) = self.evidence.growth_bytes.largest()?;
        let usual = self.usual.per_inference(self.usual.growth_bytes);
        let limit = 3.0 * usual.unwrap_or(0.0) + MIN_GROWTH_BYTES;
        let usual = said(usual.map(units::bytes_change));
        let grown_by = units::bytes_change(grown as f64);
        (grown as f64 > limit).then(|| Cause {
            count: Some(grown),
            ..plain(
                CauseKind::Allocation,
                format!("memory grew: {} {grown_by}{usual}", clean(what, 60)),
                format!("memory {grown_by}{usual}"),
            )
        })
    }

    fn other_processes(&self, names: &dyn Names) -> Option<Cause> {
        let cpu = &self.evidence.cpu;
        let cores = cpu.others_cores()?;
        let usual = self.usual.others_cores.get();
        if cores - usual.unwrap_or(0.0) < MIN_CORES {
            return None;
        }
        let usual = said(usual.map(|usual| format!("{usual:.1}")));
        let most = cpu.by_process.largest().map(|(pid, used)| {
            let name = names.process(*pid).map_or(String::new(), |name| format!("{name}, "));
            format!(", most of it {name}pid {pid} with {:.1}", used as f64 / cpu.interval_ns.max(1) as f64)
        });
        let sampled = units::milliseconds(ms(cpu.interval_ns / cpu.intervals.max(1)));
        let sentence = format!(
            "other processes used {cores:.1} cores around it{usual}{}; sampled every {sampled}",
            most.unwrap_or_default()
        );
        let brief = format!("other processes {cores:.1} cores{usual}");
        Some(plain(CauseKind::OtherProcesses, sentence, brief))
    }

    fn busy_machine(&self) -> Option<Cause> {
        let busy = self.evidence.machine.cpu_percent.get()?;
        let usual = self.usual.cpu_percent.get();
        let said = said(usual.map(|usual| format!("{usual:.0} %")));
        (busy >= 90.0 && usual.is_none_or(|usual| busy - usual >= 10.0)).then(|| {
            plain(
                CauseKind::BusyMachine,
                format!("all processors together were {busy:.0} % busy around it{said}"),
                format!("machine {busy:.0} % busy{said}"),
            )
        })
    }

    fn low_frequency(&self) -> Option<Cause> {
        let now = self.evidence.machine.frequency_hertz.get()?;
        let usual = self.usual.frequency_hertz.get()?;
        let clock = format!("{}{}", units::prefixed(now, "Hz"), said(Some(units::prefixed(usual, "Hz"))));
        (now < 0.9 * usual).then(|| {
            plain(
                CauseKind::LowFrequency,
                format!("the processors' clock was {clock} around it"),
                format!("clock {clock}"),
            )
        })
    }

    fn lost(&self) -> Option<Cause> {
        let lost = self.evidence.lost;
        let records = match lost {
            1 => "1 record was lost".to_owned(),
            lost => format!("{} records were lost", units::count(lost)),
        };
        (lost > 0).then(|| Cause {
            count: Some(lost),
            ..plain(
                CauseKind::LostRecords,
                format!("{records} while it ran, so this explanation may be incomplete"),
                records.clone(),
            )
        })
    }
}

/// What is usual, in brackets.
fn said(usual: Option<String>) -> String {
    usual.map_or(String::new(), |usual| format!(" (usual {usual})"))
}

fn plural(count: u64, what: &str) -> String {
    match what.strip_suffix('y') {
        Some(stem) if count != 1 && what == "copy" => format!("{} {stem}ies", units::count(count)),
        _ if what == "context switch" && count != 1 => format!("{} context switches", units::count(count)),
        _ => units::counted(count, what),
    }
}

/// A cause without numbers of its own.
fn plain(cause: CauseKind, sentence: String, brief: String) -> Cause {
    Cause {
        cause,
        sentence,
        brief,
        count: None,
        usual_count: None,
        duration_ms: None,
        usual_ms: None,
        share_of_excess: None,
    }
}

/// Names from the table of processes.
impl Names for std::collections::HashMap<u64, Text> {
    fn process(&self, pid: u64) -> Option<String> {
        self.get(&pid).map(|name| clean(name, 60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow() -> Slow {
        Slow {
            end_to_end_ns: 5_000_000,
            start_ns: 0,
            sequence: 1,
            stream: 0,
            copy_in_ns: 1000,
            run_ns: 4_998_000,
            copy_out_ns: 1000,
        }
    }

    #[test]
    fn usual_events_explain_nothing() {
        let mut usual =
            Usual { median_ns: 1_000_000.0, copy_in_ns: 1000.0, copy_out_ns: 1000.0, ..Usual::default() };
        let mut evidence = Evidence::default();
        evidence.kernel[KernelKind::PageFault as usize].count = 10;
        for _ in 0..20 {
            usual.add(1_000_000, &evidence);
        }
        // Five times as long, five times as many faults: that is the rate, not a cause.
        evidence.kernel[KernelKind::PageFault as usize].count = 50;
        let names = std::collections::HashMap::new();
        assert!(causes(&slow(), &evidence, &usual, &names).is_empty());
        evidence.kernel[KernelKind::PageFault as usize].count = 500;
        let found = causes(&slow(), &evidence, &usual, &names);
        assert_eq!((found.len(), found[0].cause, found[0].count), (1, CauseKind::PageFault, Some(500)));
        assert_eq!(verdict(&found, None).0, Explained::Partly);
        assert_eq!(verdict(&[], Some("x was not recorded")).0, Explained::Unknown);
        assert_eq!(verdict(&[], None).0, Explained::No);
    }

    #[test]
    fn time_off_the_processor_is_weighed_against_the_extra_time() {
        let usual =
            Usual { median_ns: 1_000_000.0, copy_in_ns: 1000.0, copy_out_ns: 1000.0, ..Usual::default() };
        let mut evidence = Evidence::default();
        evidence.kernel[KernelKind::ContextSwitch as usize] =
            Tally { count: 2, duration_ns: 3_900_000, timed: true };
        evidence.off_by_thread.add(42, 3_600_000);
        evidence.off_by_thread.add(43, 300_000);
        evidence.ran_instead.add("backup".into(), 3_600_000);
        let found = causes(&slow(), &evidence, &usual, &std::collections::HashMap::new());
        assert_eq!(found.len(), 1);
        assert!((found[0].share_of_excess.unwrap() - 0.9).abs() < 1e-9);
        let (explained, sentence) = verdict(&found, None);
        assert_eq!(explained, Explained::Yes);
        assert_eq!(
            sentence,
            "thread 42 was off the processor for 3.60 ms, 90 % of the extra time; backup ran instead"
        );
    }
}
