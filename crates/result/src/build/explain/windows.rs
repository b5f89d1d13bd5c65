//! The times of slow and of usual inferences, and quick answers to "which of them does this event fall into?".

use super::evidence::Evidence;

/// Spans that are read of a large table at most: near windows share one.
const MAX_SPANS: u64 = 64;

/// The time of one inference.
#[derive(Debug)]
pub(in crate::build) struct Window {
    /// Index of the session.
    pub session: usize,
    /// Which of the session's slow inferences; `None` for a usual one.
    pub slow: Option<usize>,
    pub start_ns: u64,
    pub end_ns: u64,
    pub evidence: Evidence,
}

#[derive(Debug, Default)]
pub(in crate::build) struct Windows {
    /// In the order of their start.
    list: Vec<Window>,
    /// The latest end among each window and all before it.
    latest_end_ns: Vec<u64>,
}

impl Windows {
    pub fn new(mut list: Vec<Window>) -> Self {
        list.sort_by_key(|window| window.start_ns);
        let mut latest = 0;
        let latest_end_ns = list
            .iter()
            .map(|window| {
                latest = latest.max(window.end_ns);
                latest
            })
            .collect();
        Self { list, latest_end_ns }
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Window> {
        self.list.iter()
    }

    pub fn into_list(self) -> Vec<Window> {
        self.list
    }

    /// Calls `see` for every window that shares time with `from_ns..to_ns`.
    pub fn overlapping(&mut self, from_ns: u64, to_ns: u64, mut see: impl FnMut(&mut Window)) {
        let begun = self.list.partition_point(|window| window.start_ns < to_ns);
        for index in (0..begun).rev() {
            if self.latest_end_ns[index] <= from_ns {
                break;
            }
            let window = &mut self.list[index];
            if window.end_ns > from_ns {
                see(window);
            }
        }
    }

    /// Calls `see` for every window that contains a moment.
    pub fn containing(&mut self, time_ns: u64, see: impl FnMut(&mut Window)) {
        self.overlapping(time_ns, time_ns.saturating_add(1), see);
    }

    /// A few spans that cover all windows, so that the rows between them need not be read.
    pub fn spans(&self) -> Vec<(u64, u64)> {
        let Some((first, last)) = self.list.first().zip(self.latest_end_ns.last()) else { return Vec::new() };
        let near = (last - first.start_ns.min(*last)) / MAX_SPANS;
        let mut spans: Vec<(u64, u64)> = Vec::new();
        for window in &self.list {
            match spans.last_mut() {
                Some((_, end)) if window.start_ns <= end.saturating_add(near) => {
                    *end = (*end).max(window.end_ns);
                }
                _ => spans.push((window.start_ns, window.end_ns)),
            }
        }
        spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(times: &[(u64, u64)]) -> Windows {
        let window = |(start_ns, end_ns): &(u64, u64)| Window {
            session: 0,
            slow: None,
            start_ns: *start_ns,
            end_ns: *end_ns,
            evidence: Evidence::default(),
        };
        Windows::new(times.iter().map(window).collect())
    }

    #[test]
    fn windows_are_found_as_by_looking_at_each() {
        let times: Vec<(u64, u64)> =
            (0..200_u64).map(|index| (index * 37 % 1000, index * 37 % 1000 + index % 90)).collect();
        let mut windows = windows(&times);
        for time in 0..1100 {
            let mut found = Vec::new();
            windows.containing(time, |window| found.push((window.start_ns, window.end_ns)));
            let mut expected: Vec<_> =
                times.iter().copied().filter(|(start, end)| *start <= time && time < *end).collect();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "at {time}");
        }
    }

    #[test]
    fn spans_cover_every_window_and_are_few() {
        let times: Vec<(u64, u64)> =
            (0..500_u64).map(|index| (index * 1_000_003, index * 1_000_003 + 50)).collect();
        let spans = windows(&times).spans();
        assert!(spans.len() as u64 <= MAX_SPANS + 1, "{}", spans.len());
        for (start, end) in times {
            assert!(spans.iter().any(|span| span.0 <= start && end <= span.1));
        }
        assert!(windows(&[]).spans().is_empty());
    }
}
