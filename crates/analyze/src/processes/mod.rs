//! Summaries of observed processes: sums and rates from samples, in bounded memory.

mod rolling;
mod series;
mod spikes;

use std::collections::HashMap;

use ortscope_core::schema::{ProcessRow, ProcessSampleRow, Text};
use serde::{Deserialize, Serialize};

use rolling::Rolling;
use series::Series;
pub use spikes::{Spike, SpikeFinder};

/// Maximum number of processes. Default 20,000; samples of further ones are counted in [`Processes::beyond`].
const MAX_PROCESSES: usize = 20_000;

/// A process: its id alone may be used again.
type Identity = (u64, u64);

/// Takes rows of any number of processes, in the order of time.
#[derive(Debug, Default)]
pub struct Processes {
    by_identity: HashMap<Identity, Watched>,
    /// Processes reported before their first sample.
    noted: HashMap<Identity, Noted>,
    beyond: u64,
}

/// Who a process is, and how it ended.
#[derive(Debug, Clone, Default)]
struct Noted {
    name: Option<Text>,
    parent_pid: Option<u64>,
    exit: Option<(u64, Option<i64>)>,
}

#[derive(Debug)]
struct Watched {
    first: ProcessSampleRow,
    last: ProcessSampleRow,
    cpu: Series,
    recent: Rolling,
    working_set_peak: u64,
    threads_peak: u64,
    memory: Slope,
    samples: u64,
}

/// One process over the time it was observed. Values the system does not report are `None`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessSummary {
    pub pid: u64,
    pub process_start: u64,
    pub name: Option<Text>,
    pub parent_pid: Option<u64>,
    pub seconds: f64,
    pub samples: u64,
    /// When it ended, on the monotonic clock; `None`: it still runs.
    pub exit_ns: Option<u64>,
    pub exit_code: Option<i64>,
    /// Percent of one core.
    pub cpu_percent: CpuPercent,
    pub cpu_seconds: f64,
    pub cpu_cycles: Option<u64>,
    pub user_seconds: Option<f64>,
    pub kernel_seconds: Option<f64>,
    pub working_set_bytes: u64,
    pub peak_working_set_bytes: u64,
    /// Growth by a straight line through all samples; `None` below five of them or five seconds.
    pub memory_slope_bytes_per_second: Option<f64>,
    pub thread_count: Option<u64>,
    pub peak_thread_count: Option<u64>,
    pub read_bytes: Option<u64>,
    pub write_bytes: Option<u64>,
    pub read_operations: Option<u64>,
    pub write_operations: Option<u64>,
    pub network_received_bytes: Option<u64>,
    pub network_sent_bytes: Option<u64>,
    pub network_received_packets: Option<u64>,
    pub network_sent_packets: Option<u64>,
    /// Open at the last sample.
    pub network_connections: Option<u64>,
    pub page_faults: Option<u64>,
    pub hard_faults: Option<u64>,
    pub context_switches: Option<u64>,
    pub handle_count: Option<u64>,
}

/// Between neighboring samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuPercent {
    /// Over the whole time.
    pub mean: f64,
    pub max: f64,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
    /// Rolling means at the last sample; `None` if it was not watched for that long.
    pub last_10_seconds: Option<f64>,
    pub last_60_seconds: Option<f64>,
}

/// Least squares over time, without keeping the samples.
#[derive(Debug, Default)]
struct Slope {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

impl Slope {
    fn add(&mut self, x: f64, y: f64) {
        self.n += 1.0;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.xy += x * y;
    }

    fn per_unit(&self) -> Option<f64> {
        let denominator = self.n * self.xx - self.x * self.x;
        (self.n >= 5.0 && denominator > 0.0)
            .then(|| (self.n * self.xy - self.x * self.y) / denominator)
            .filter(|slope| slope.is_finite())
    }
}

impl Processes {
    /// A sample; those of one process come in the order of time.
    pub fn add(&mut self, row: &ProcessSampleRow) {
        let identity = (row.pid, row.process_start);
        if self.by_identity.len() >= MAX_PROCESSES && !self.by_identity.contains_key(&identity) {
            self.beyond += 1;
            return;
        }
        let watched = self.by_identity.entry(identity).or_insert_with(|| Watched::new(row));
        watched.add(row);
    }

    /// A process that was seen, renamed or ended.
    pub fn note(&mut self, row: &ProcessRow) {
        let identity = (row.pid, row.process_start);
        if self.noted.len() >= MAX_PROCESSES && !self.noted.contains_key(&identity) {
            return;
        }
        let noted = self.noted.entry(identity).or_default();
        if !row.name.is_empty() {
            noted.name = Some(Text::clone(&row.name));
        }
        noted.parent_pid = row.parent_pid.or(noted.parent_pid);
        if &*row.event == "exited" {
            noted.exit = Some((row.timestamp_ns, row.exit_code));
        }
    }

    /// Processes seen.
    pub fn len(&self) -> usize {
        self.by_identity.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_identity.is_empty()
    }

    /// Samples of processes beyond the limit.
    pub fn beyond(&self) -> u64 {
        self.beyond
    }

    /// All processes, the busiest first.
    pub fn summaries(&self) -> Vec<ProcessSummary> {
        let unknown = Noted::default();
        let summary = |(identity, watched): (&Identity, &Watched)| {
            watched.summary(self.noted.get(identity).unwrap_or(&unknown))
        };
        let mut all: Vec<ProcessSummary> = self.by_identity.iter().map(summary).collect();
        all.sort_by(|a, b| b.cpu_seconds.total_cmp(&a.cpu_seconds).then(a.pid.cmp(&b.pid)));
        all
    }
}

impl Watched {
    fn new(row: &ProcessSampleRow) -> Self {
        Self {
            first: row.clone(),
            last: row.clone(),
            cpu: Series::default(),
            recent: Rolling::default(),
            working_set_peak: 0,
            threads_peak: 0,
            memory: Slope::default(),
            samples: 0,
        }
    }

    fn add(&mut self, row: &ProcessSampleRow) {
        self.samples += 1;
        let passed_ns = row.timestamp_ns.saturating_sub(self.last.timestamp_ns);
        if passed_ns > 0 {
            // A clock that went back would give a negative time, so this interval is skipped.
            if let Some(used_ns) = row.cpu_time_ns.checked_sub(self.last.cpu_time_ns) {
                self.cpu.push(used_ns as f64 / passed_ns as f64 * 100.0);
            }
        }
        let own_peak = row.peak_working_set_bytes.unwrap_or(0);
        self.working_set_peak = self.working_set_peak.max(row.working_set_bytes).max(own_peak);
        self.threads_peak = self.threads_peak.max(row.thread_count.unwrap_or(0));
        let seconds = row.timestamp_ns.saturating_sub(self.first.timestamp_ns) as f64 / 1e9;
        self.memory.add(seconds, row.working_set_bytes as f64);
        self.recent.push(row.timestamp_ns, row.cpu_time_ns);
        self.last = row.clone();
    }

    fn summary(&self, noted: &Noted) -> ProcessSummary {
        let (first, last) = (&self.first, &self.last);
        let seconds = last.timestamp_ns.saturating_sub(first.timestamp_ns) as f64 / 1e9;
        let since = |of: fn(&ProcessSampleRow) -> Option<u64>| Some(of(last)?.saturating_sub(of(first)?));
        let cpu_seconds = last.cpu_time_ns.saturating_sub(first.cpu_time_ns) as f64 / 1e9;
        ProcessSummary {
            pid: last.pid,
            process_start: last.process_start,
            name: noted.name.clone(),
            parent_pid: noted.parent_pid,
            seconds,
            samples: self.samples,
            exit_ns: noted.exit.map(|(at_ns, _)| at_ns),
            exit_code: noted.exit.and_then(|(_, code)| code),
            cpu_percent: CpuPercent {
                mean: if seconds > 0.0 { cpu_seconds / seconds * 100.0 } else { 0.0 },
                max: self.cpu.max(),
                p95: self.cpu.quantile(0.95),
                p99: self.cpu.quantile(0.99),
                last_10_seconds: self.recent.percent(10, (last.timestamp_ns, last.cpu_time_ns)),
                last_60_seconds: self.recent.percent(60, (last.timestamp_ns, last.cpu_time_ns)),
            },
            cpu_seconds,
            cpu_cycles: since(|row| row.cpu_cycles),
            user_seconds: since(|row| row.user_time_ns).map(|ns| ns as f64 / 1e9),
            kernel_seconds: since(|row| row.kernel_time_ns).map(|ns| ns as f64 / 1e9),
            working_set_bytes: last.working_set_bytes,
            peak_working_set_bytes: self.working_set_peak,
            memory_slope_bytes_per_second: self.memory.per_unit().filter(|_| seconds >= 5.0),
            thread_count: last.thread_count,
            peak_thread_count: last.thread_count.map(|_| self.threads_peak),
            read_bytes: since(|row| row.read_bytes),
            write_bytes: since(|row| row.write_bytes),
            read_operations: since(|row| row.read_operations),
            write_operations: since(|row| row.write_operations),
            network_received_bytes: since(|row| row.network_received_bytes),
            network_sent_bytes: since(|row| row.network_sent_bytes),
            network_received_packets: since(|row| row.network_received_packets),
            network_sent_packets: since(|row| row.network_sent_packets),
            network_connections: last.network_connections,
            page_faults: since(|row| row.page_faults),
            hard_faults: since(|row| row.hard_faults),
            context_switches: since(|row| row.context_switches),
            handle_count: last.handle_count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ms: u64, cpu_ms: u64, memory: u64) -> ProcessSampleRow {
        ProcessSampleRow {
            timestamp_ns: at_ms * 1_000_000,
            pid: 7,
            process_start: 1,
            cpu_time_ns: cpu_ms * 1_000_000,
            working_set_bytes: memory,
            read_bytes: Some(at_ms),
            ..ProcessSampleRow::default()
        }
    }

    #[test]
    fn a_process_is_summarized() {
        let mut processes = Processes::default();
        // Half busy for ten seconds, then fully; memory grows by 1000 bytes a second.
        for second in 0..=20u64 {
            let cpu = if second <= 10 { second * 500 } else { 5_000 + (second - 10) * 1000 };
            processes.add(&sample(second * 1000, cpu, 10_000 + second * 1000));
        }
        let summary = &processes.summaries()[0];
        assert_eq!((summary.samples, summary.cpu_seconds), (21, 15.0));
        assert!((summary.cpu_percent.mean - 75.0).abs() < 1e-9);
        assert!((summary.cpu_percent.max - 100.0).abs() < 1e-9);
        assert_eq!(summary.cpu_percent.last_10_seconds, Some(100.0));
        assert_eq!(summary.cpu_percent.last_60_seconds, None);
        assert!((summary.memory_slope_bytes_per_second.unwrap() - 1000.0).abs() < 1e-6);
        assert_eq!(summary.read_bytes, Some(20_000));
        assert_eq!((summary.user_seconds, summary.exit_ns), (None, None));
    }

    #[test]
    fn a_reused_pid_is_another_process() {
        let mut processes = Processes::default();
        processes.add(&sample(0, 100, 1));
        processes.add(&ProcessSampleRow { process_start: 2, ..sample(10, 0, 1) });
        assert_eq!(processes.summaries().len(), 2);
        processes.note(&ProcessRow {
            pid: 7,
            process_start: 1,
            event: "exited".into(),
            timestamp_ns: 5,
            exit_code: Some(3),
            name: "a".into(),
            ..ProcessRow::default()
        });
        let ended: Vec<ProcessSummary> =
            processes.summaries().into_iter().filter(|summary| summary.exit_ns.is_some()).collect();
        assert_eq!((ended.len(), ended[0].exit_code, ended[0].process_start), (1, Some(3), 1));
    }

    #[test]
    fn decreasing_times_give_no_negative_use() {
        let mut processes = Processes::default();
        processes.add(&sample(0, 100, 1));
        processes.add(&sample(10, 50, 1));
        processes.add(&sample(5, 60, 1));
        let summary = &processes.summaries()[0];
        assert!(summary.cpu_seconds >= 0.0 && summary.cpu_percent.max >= 0.0);
    }
}
