//! Whether a process loses memory with every inference, where, and how much of its arena lies idle.
//!
//! Resident memory grows for many reasons: an arena takes its chunks in the first runs, a cache fills, a peak passes. A
//! leak is growth that goes on. The series is cut into windows of equally many inferences, after the first fifth, where
//! buffers settle; each window counts with its lowest value, so that peaks within it do not matter. The growth from
//! window to window, per inference, gets a Hodges-Lehmann estimate with exact signed-rank bounds. Testing the steps
//! instead of fitting a line keeps the error right for memory that wanders like a random walk, which fools a regression.
//!
//! It is called a leak only when the lower bound (wrong once in a thousand) is above [`SMALLEST_LEAK`], the growth of the
//! later half alone is proved too and does not fade within it (so it is no settling), and it adds up to more than
//! [`SMALLEST_GROWTH`]. Settling that takes longer than the whole series looks like a leak: only a longer series tells.

use serde::{Deserialize, Serialize};

use crate::hodges_lehmann::signed_rank_bounds;
use crate::order::median_in_place;

/// Windows of a long series, and of the shortest that is judged.
const MOST_WINDOWS: usize = 20;
const FEWEST_WINDOWS: usize = 12;
/// Share of the inferences in which memory may settle.
const SETTLING: f64 = 0.2;
/// Error of the bounds.
const ALPHA: f64 = 0.001;
/// Error of the bound of the later half, which has half the windows.
const LATER_ALPHA: f64 = 0.02;
/// Growth of the last quarter over that of the quarter before it, below which it fades: a leak does not.
const FADING: f64 = 0.5;
/// Bytes per inference below which growth is no leak worth the name: a page in four thousand inferences.
pub const SMALLEST_LEAK: f64 = 1.0;
/// The step in which resident memory is counted.
const PAGE_BYTES: f64 = 4096.0;
/// Growth in all below which nobody should be alarmed.
pub const SMALLEST_GROWTH: f64 = 256.0 * 1024.0;
/// Share of the growth that an arena must explain to be named as its place.
const ARENA_SHARE: f64 = 0.5;

/// Memory at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MemoryPoint {
    /// Inferences that were done by then; must not fall.
    pub inferences: u64,
    /// Resident or private bytes of the process.
    pub process_bytes: u64,
    /// What ONNX Runtime's arena says of itself, where it was asked.
    pub arena: Option<ArenaPoint>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArenaPoint {
    /// Taken from the system.
    pub reserved_bytes: u64,
    /// Handed out to tensors.
    pub used_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeakVerdict {
    /// Memory is lost with every inference.
    Leak,
    /// No growth that goes on; `high_bytes` says how much could have been missed.
    NoLeak,
    /// Too few samples to judge.
    TooShort,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeakPlace {
    /// The arena of the session grows: larger inputs or a pattern it cannot reuse.
    Arena,
    /// Elsewhere: the provider, a custom operator, the program itself.
    OutsideArena,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeakReport {
    pub verdict: LeakVerdict,
    /// Growth per inference after settling, and its bounds.
    pub bytes_per_inference: Option<f64>,
    pub low_bytes: Option<f64>,
    pub high_bytes: Option<f64>,
    /// Growth over the windows, from floor to floor.
    pub growth_bytes: Option<f64>,
    pub arena_growth_bytes: Option<f64>,
    /// Where it leaks; `None` without a leak, or when nobody asked the arena.
    pub place: Option<LeakPlace>,
    pub fragmentation: Option<Fragmentation>,
    pub windows: usize,
    /// Inferences between the first and the last window.
    pub inferences: u64,
    /// One sentence.
    pub sentence: String,
}

/// How much of the arena lies idle.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Fragmentation {
    /// Reserved and not used, over reserved; at the beginning and at the end of the windows.
    pub unused_share_begin: f64,
    pub unused_share_end: f64,
    pub reserved_bytes: u64,
    /// The idle part grew by more than a tenth of the arena while the used part did not.
    pub grows: bool,
}

/// Judges a series in the order of time.
pub fn detect_leak(points: &[MemoryPoint]) -> LeakReport {
    let windows = windows(points);
    let fragmentation = fragmentation(&windows);
    if windows.len() < FEWEST_WINDOWS {
        return LeakReport {
            verdict: LeakVerdict::TooShort,
            bytes_per_inference: None,
            low_bytes: None,
            high_bytes: None,
            growth_bytes: None,
            arena_growth_bytes: None,
            place: None,
            fragmentation,
            windows: windows.len(),
            inferences: 0,
            sentence: format!(
                "too short to judge: {} windows of memory samples, {FEWEST_WINDOWS} are needed",
                windows.len()
            ),
        };
    }
    let steps: Vec<f64> = windows
        .windows(2)
        .filter_map(|pair| {
            let (before, after) = (pair.first()?, pair.last()?);
            let runs = after.inferences.checked_sub(before.inferences).filter(|runs| *runs > 0)?;
            Some((after.process_bytes as f64 - before.process_bytes as f64) / runs as f64)
        })
        .collect();
    let (first, last) = (windows[0], windows[windows.len() - 1]);
    let growth = last.process_bytes as f64 - first.process_bytes as f64;
    let bounds = signed_rank_bounds(&steps, ALPHA);
    let (_, late) = steps.split_at(steps.len() / 2);
    let later = signed_rank_bounds(late, LATER_ALPHA).and_then(|bounds| bounds.low);
    let low = bounds.and_then(|bounds| bounds.low);
    let leaks = low.is_some_and(|low| low > SMALLEST_LEAK)
        && later.is_some_and(|low| low > 0.0)
        && !fades(late)
        && growth > SMALLEST_GROWTH;
    let arena_growth = first
        .arena
        .zip(last.arena)
        .map(|(before, after)| after.reserved_bytes as f64 - before.reserved_bytes as f64);
    let place = arena_growth
        .filter(|_| leaks)
        .map(|arena| if arena >= ARENA_SHARE * growth { LeakPlace::Arena } else { LeakPlace::OutsideArena });
    let mut report = LeakReport {
        verdict: if leaks { LeakVerdict::Leak } else { LeakVerdict::NoLeak },
        bytes_per_inference: bounds.map(|bounds| bounds.estimate),
        low_bytes: low,
        high_bytes: bounds.and_then(|bounds| bounds.high),
        growth_bytes: Some(growth),
        arena_growth_bytes: arena_growth,
        place,
        fragmentation,
        windows: windows.len(),
        inferences: last.inferences - first.inferences,
        sentence: String::new(),
    };
    report.sentence = sentence(&report);
    report
}

fn fades(late: &[f64]) -> bool {
    let (third, fourth) = late.split_at(late.len() / 2);
    let rate = |steps: &[f64]| median_in_place(&mut steps.to_vec()).unwrap_or(0.0);
    rate(fourth) < FADING * rate(third)
}

fn sentence(report: &LeakReport) -> String {
    let per = |bytes: Option<f64>| bytes.map_or_else(|| "?".into(), |bytes| format!("{bytes:.0}"));
    match report.verdict {
        LeakVerdict::Leak => {
            let place = match report.place {
                Some(LeakPlace::Arena) => ", in ONNX Runtime's arena",
                Some(LeakPlace::OutsideArena) => ", outside ONNX Runtime's arena",
                None => "",
            };
            format!(
                "leaks {} bytes per inference ({} to {}){place}: {:.1} MB over {} inferences",
                per(report.bytes_per_inference),
                per(report.low_bytes),
                per(report.high_bytes),
                report.growth_bytes.unwrap_or(0.0) / 1e6,
                report.inferences
            )
        }
        _ => {
            // A system counts pages: less than one per window cannot be seen at all.
            let unseen = PAGE_BYTES * report.windows as f64 / report.inferences.max(1) as f64;
            let missed = report.high_bytes.map(|high| high.max(unseen).ceil());
            format!(
                "no leak over {} inferences; up to {} bytes per inference could have been missed",
                report.inferences,
                per(missed)
            )
        }
    }
}

/// The lowest point of each window after settling. Windows without a sample are left out.
fn windows(points: &[MemoryPoint]) -> Vec<MemoryPoint> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Vec::new();
    };
    let span = last.inferences.saturating_sub(first.inferences);
    let begin = first.inferences + (span as f64 * SETTLING) as u64;
    let kept: Vec<&MemoryPoint> = points.iter().filter(|point| point.inferences >= begin).collect();
    let number = (kept.len() / 2).clamp(FEWEST_WINDOWS, MOST_WINDOWS) as u64;
    let width = (last.inferences.saturating_sub(begin) / number).max(1);
    let mut lowest: Vec<Option<MemoryPoint>> = vec![None; number as usize];
    for point in kept {
        let index = (((point.inferences - begin) / width) as usize).min(number as usize - 1);
        let slot = &mut lowest[index];
        if slot.is_none_or(|low| point.process_bytes < low.process_bytes) {
            *slot = Some(*point);
        }
    }
    lowest.into_iter().flatten().collect()
}

fn fragmentation(windows: &[MemoryPoint]) -> Option<Fragmentation> {
    let unused = |arena: ArenaPoint| {
        (arena.reserved_bytes > 0).then(|| {
            arena.reserved_bytes.saturating_sub(arena.used_bytes) as f64 / arena.reserved_bytes as f64
        })
    };
    let (begin, end) =
        (windows.iter().find_map(|point| point.arena)?, windows.iter().rev().find_map(|point| point.arena)?);
    let idle = |arena: ArenaPoint| arena.reserved_bytes.saturating_sub(arena.used_bytes);
    let grew = idle(end).saturating_sub(idle(begin));
    Some(Fragmentation {
        unused_share_begin: unused(begin)?,
        unused_share_end: unused(end)?,
        reserved_bytes: end.reserved_bytes,
        grows: grew * 10 > end.reserved_bytes && end.used_bytes <= begin.used_bytes + grew / 10,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::simulate::Random;

    const PAGE: u64 = 4096;
    const BASE: u64 = 80 << 20;

    /// 200 samples over 200 000 inferences of a process whose allocator takes whole pages.
    fn series(mut bytes: impl FnMut(u64) -> f64) -> Vec<MemoryPoint> {
        (1..=200)
            .map(|sample| {
                let inferences = sample * 1000;
                let grown = bytes(inferences).max(0.0) as u64;
                let process_bytes = BASE + grown.div_ceil(PAGE) * PAGE;
                MemoryPoint { inferences, process_bytes, arena: None }
            })
            .collect()
    }

    #[test]
    fn a_hundred_bytes_per_inference_are_found() {
        for seed in 0..50 {
            let mut random = Random::new(seed);
            // With peaks of a megabyte in one sample of ten.
            let points = series(|runs| {
                let peak = if random.uniform() < 0.1 { 1e6 } else { 0.0 };
                100.0 * runs as f64 + peak + 20_000.0 * random.normal()
            });
            let found = detect_leak(&points);
            assert_eq!(found.verdict, LeakVerdict::Leak, "{}", found.sentence);
            let (low, high) = (found.low_bytes.unwrap(), found.high_bytes.unwrap());
            assert!(low <= 100.0 && 100.0 <= high && high - low < 40.0, "{low} to {high}");
        }
    }

    #[test]
    fn honest_growth_is_not_accused() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let mut walk = 0.0;
            let shapes: [(&str, Vec<MemoryPoint>); 6] = [
                ("flat", series(|_| 0.0)),
                ("noise", series(|_| 200_000.0 * random.normal())),
                ("settling", series(|runs| 5e7 * (1.0 - (-(runs as f64) / 30_000.0).exp()))),
                (
                    "chunks",
                    series(|runs| {
                        if runs > 150_000 {
                            6.4e7
                        } else if runs > 60_000 {
                            3.2e7
                        } else {
                            0.0
                        }
                    }),
                ),
                ("saw", series(|runs| (runs % 37_000) as f64 * 300.0)),
                ("walk", {
                    let mut random = Random::new(seed + 1000);
                    series(|_| {
                        walk += 100_000.0 * random.normal();
                        3e7 + walk
                    })
                }),
            ];
            for (name, points) in shapes {
                let found = detect_leak(&points);
                assert_eq!(found.verdict, LeakVerdict::NoLeak, "{name}, seed {seed}: {}", found.sentence);
            }
        }
    }

    #[test]
    fn short_series_are_not_judged() {
        let points = series(|runs| 100.0 * runs as f64);
        assert_eq!(detect_leak(&points[..10]).verdict, LeakVerdict::TooShort);
        assert_eq!(detect_leak(&[]).verdict, LeakVerdict::TooShort);
        let still = vec![MemoryPoint { inferences: 5, process_bytes: 1, arena: None }; 100];
        assert_eq!(detect_leak(&still).verdict, LeakVerdict::TooShort);
    }

    #[test]
    fn the_arena_is_named_when_it_grows_as_much() {
        let with_arena = |share: f64| -> LeakReport {
            let points: Vec<MemoryPoint> = series(|runs| 100.0 * runs as f64)
                .into_iter()
                .map(|point| {
                    let reserved_bytes = (10 << 20) + ((point.process_bytes - BASE) as f64 * share) as u64;
                    let arena = ArenaPoint { reserved_bytes, used_bytes: 5 << 20 };
                    MemoryPoint { arena: Some(arena), ..point }
                })
                .collect();
            detect_leak(&points)
        };
        let inside = with_arena(1.0);
        assert_eq!(inside.place, Some(LeakPlace::Arena));
        let idle = inside.fragmentation.unwrap();
        assert!(idle.grows && idle.unused_share_end > idle.unused_share_begin, "{idle:?}");
        let outside = with_arena(0.0);
        assert_eq!(outside.place, Some(LeakPlace::OutsideArena));
        assert!(!outside.fragmentation.unwrap().grows);
    }
}
