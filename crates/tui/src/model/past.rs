//! The last minute of a track as one number per second, and its mean over the last second.

use ortscope_core::live::{LiveView, Point, TrackId};

const SECOND_NS: u64 = 1_000_000_000;
/// Seconds that a sparkline shows.
const PAST_SECONDS: usize = 60;
/// Maximum distance of samples that belong to one line.
const MAX_GAP_SECONDS: usize = 10;
/// The newest second may have no sample yet.
const MAX_TAIL_SECONDS: usize = 2;
/// More rows than a second can have at the highest rate.
const MAX_ROWS: usize = 2_000;

/// The displayed value of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    Mean,
    Median,
}

/// One value per second, oldest first, up to the second of `at_ns`. Seconds are those of the clock, so that the picture
/// moves on by whole cells instead of trembling.
pub fn last_minute(view: &LiveView, track: &TrackId, at_ns: u64, shown: Shown) -> Vec<Option<f64>> {
    let past_ns = PAST_SECONDS as u64 * SECOND_NS;
    // At the full rate there could be thousands; buckets of a second are sufficient.
    let history =
        view.history(track, at_ns.saturating_sub(past_ns), at_ns.saturating_add(1), PAST_SECONDS + 2);
    history.map_or_else(|_| vec![None; PAST_SECONDS], |history| per_second(&history.points, at_ns, shown))
}

fn per_second(points: &[Point], at_ns: u64, shown: Shown) -> Vec<Option<f64>> {
    let mut sums = [(0.0, 0.0); PAST_SECONDS];
    let after_last = at_ns / SECOND_NS + 1;
    for point in points {
        let place = (point.from_ns / SECOND_NS + PAST_SECONDS as u64).checked_sub(after_last);
        let place = place.and_then(|place| sums.get_mut(usize::try_from(place).ok()?));
        if let Some((sum, count)) = place {
            let value = if shown == Shown::Mean { point.mean } else { point.p50 };
            *sum += value * point.count as f64;
            *count += point.count as f64;
        }
    }
    let mut seconds: Vec<Option<f64>> =
        sums.iter().map(|(sum, count)| (*count > 0.0).then(|| sum / count)).collect();
    close_gaps(&mut seconds);
    seconds
}

/// Slow sources have seconds without a sample: the last value continues until the next one.
fn close_gaps(seconds: &mut [Option<f64>]) {
    let mut last: Option<(usize, f64)> = None;
    for index in 0..=seconds.len() {
        let value = seconds.get(index).copied().flatten();
        let at_end = index == seconds.len();
        if let Some((known, before)) = last
            && (value.is_some() || at_end)
        {
            let most = if at_end { MAX_TAIL_SECONDS } else { MAX_GAP_SECONDS };
            if index - known - 1 <= most
                && let Some(gap) = seconds.get_mut(known + 1..index)
            {
                gap.fill(Some(before));
            }
        }
        last = value.map(|value| (index, value)).or(last);
    }
}

/// Process samples in the last second, as far as the live memory keeps them at the full rate.
pub fn samples_in_last_second(view: &LiveView, metric: &str, at_ns: u64) -> usize {
    let from_ns = at_ns.saturating_sub(SECOND_NS);
    let rows = |process| view.rows(&TrackId::process(process, metric), from_ns, at_ns.saturating_add(1)).ok();
    view.selected_processes()
        .into_iter()
        .take(3)
        .filter_map(rows)
        .map(|rows| rows.values.len())
        .max()
        .unwrap_or(0)
}

/// The mean over the last second, or over the buckets that touch it.
pub fn mean_of_last_second(view: &LiveView, track: &TrackId, at_ns: u64) -> Option<f64> {
    // A rate is about the time before it: one exactly a second ago belongs to the second before.
    let from_ns = at_ns.saturating_sub(SECOND_NS).saturating_add(1);
    let points = view.history(track, from_ns, at_ns.saturating_add(1), MAX_ROWS).ok()?.points;
    let count: u64 = points.iter().map(|point| point.count).sum();
    let sum: f64 = points.iter().map(|point| point.mean * point.count as f64).sum();
    (count > 0).then(|| sum / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(second: u64, mean: f64, count: u64) -> Point {
        let from_ns = second * SECOND_NS;
        let [min, max, p50, p95, p99] = [mean; 5];
        Point { from_ns, to_ns: from_ns + SECOND_NS, count, min, max, mean, p50, p95, p99 }
    }

    #[test]
    fn seconds_have_their_places() {
        let points =
            [point(40, 9.0, 1), point(41, 1.0, 1), point(41, 4.0, 2), point(100, 7.0, 1), point(101, 9.0, 1)];
        let seconds = per_second(&points, 100 * SECOND_NS + 5, Shown::Mean);
        assert_eq!((seconds.len(), seconds[0], seconds[59]), (60, Some(3.0), Some(7.0)));
        assert!(seconds[1..59].iter().all(Option::is_none));
    }

    #[test]
    fn short_gaps_are_closed_long_ones_shown() {
        let mut seconds = [Some(1.0), None, None, Some(2.0), None, None];
        close_gaps(&mut seconds);
        assert_eq!(seconds, [Some(1.0), Some(1.0), Some(1.0), Some(2.0), Some(2.0), Some(2.0)]);
        let mut long = [None; 14];
        (long[0], long[12]) = (Some(1.0), Some(2.0));
        let mut closed = long;
        close_gaps(&mut closed);
        assert_eq!(closed[..13], long[..13]);
        let mut ended = [Some(1.0), None, None, None];
        close_gaps(&mut ended);
        assert_eq!(ended, [Some(1.0), None, None, None]);
    }
}
