//! Every stretch in which a process used more than a share of a core.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// Spikes kept. Default 10,000; further ones are counted.
const MAX_SPIKES: usize = 10_000;

/// One stretch above the threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spike {
    pub pid: u64,
    pub process_start: u64,
    pub from_ns: u64,
    pub to_ns: u64,
    /// Mean over the stretch, percent of one core.
    pub cpu_percent: f64,
    pub peak_percent: f64,
    /// Where a counter exists.
    pub cycles: Option<u64>,
}

/// Looks at windows of CPU use as they come, each process in the order of time. Windows may be of any length: 1 ms from
/// kernel events, or the time between two samples.
#[derive(Debug)]
pub struct SpikeFinder {
    threshold_percent: f64,
    open: HashMap<(u64, u64), Open>,
    found: Vec<Spike>,
    beyond: u64,
}

#[derive(Debug)]
struct Open {
    from_ns: u64,
    to_ns: u64,
    used_ns: f64,
    peak_percent: f64,
}

impl SpikeFinder {
    pub fn new(threshold_percent: f64) -> Self {
        Self { threshold_percent, open: HashMap::new(), found: Vec::new(), beyond: 0 }
    }

    /// Adds the CPU use of a process in an interval. Returns a spike that has ended with it.
    pub fn window(&mut self, process: (u64, u64), from_ns: u64, to_ns: u64, used_ns: u64) -> Option<Spike> {
        let length_ns = to_ns.saturating_sub(from_ns);
        if length_ns == 0 {
            return None;
        }
        let percent = used_ns as f64 / length_ns as f64 * 100.0;
        let is_above = percent >= self.threshold_percent;
        match self.open.get_mut(&process) {
            // A gap without windows ends a spike too: nothing is known of it.
            Some(open) if is_above && open.to_ns >= from_ns => {
                open.to_ns = to_ns;
                open.used_ns += used_ns as f64;
                open.peak_percent = open.peak_percent.max(percent);
                None
            }
            _ => {
                let ended = self.end(process);
                if is_above {
                    let used_ns = used_ns as f64;
                    self.open.insert(process, Open { from_ns, to_ns, used_ns, peak_percent: percent });
                }
                ended
            }
        }
    }

    fn end(&mut self, process: (u64, u64)) -> Option<Spike> {
        let open = self.open.remove(&process)?;
        let spike = Spike {
            pid: process.0,
            process_start: process.1,
            from_ns: open.from_ns,
            to_ns: open.to_ns,
            cpu_percent: open.used_ns / (open.to_ns - open.from_ns) as f64 * 100.0,
            peak_percent: open.peak_percent,
            cycles: None,
        };
        if self.found.len() < MAX_SPIKES {
            self.found.push(spike.clone());
        } else {
            self.beyond += 1;
        }
        Some(spike)
    }

    /// All spikes in order of time, including ongoing ones, and the number that did not fit.
    pub fn finish(mut self) -> (Vec<Spike>, u64) {
        let open: Vec<(u64, u64)> = self.open.keys().copied().collect();
        for process in open {
            self.end(process);
        }
        self.found.sort_by_key(|spike| (spike.from_ns, spike.pid));
        (self.found, self.beyond)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_spike_between_two_polls_is_found_by_its_milliseconds() {
        let mut finder = SpikeFinder::new(80.0);
        let mut ended = Vec::new();
        for ms in 0..1000u64 {
            let used = if (300..400).contains(&ms) { MS } else { MS / 10 };
            ended.extend(finder.window((7, 1), ms * MS, (ms + 1) * MS, used));
        }
        assert_eq!(ended.len(), 1);
        let spike = &ended[0];
        assert_eq!((spike.from_ns, spike.to_ns), (300 * MS, 400 * MS));
        assert!((spike.cpu_percent - 100.0).abs() < 1e-9);
        assert_eq!(finder.finish().0.len(), 1);
    }

    #[test]
    fn an_ongoing_spike_counts_and_gaps_separate_spikes() {
        let mut finder = SpikeFinder::new(50.0);
        finder.window((1, 1), 0, MS, MS);
        finder.window((1, 1), 5 * MS, 6 * MS, MS);
        finder.window((2, 1), 5 * MS, 5 * MS, MS);
        let (spikes, beyond) = finder.finish();
        assert_eq!((spikes.len(), beyond), (2, 0));
    }
}
