//! Cost of the live memory: figures, not assertions. Run with `--run-ignored` on a quiet machine.
#![expect(clippy::print_stdout, reason = "figures are what this is for")]

use std::time::{Duration, Instant};

use ortscope_core::batch::Batch;
use ortscope_core::live::{Limits, TrackId};
use ortscope_core::random::Random;
use ortscope_core::schema::{InferenceRow, ProcessSampleRow, SystemSampleRow, TableId, Text};

use crate::support::{HOUR, MS, Memory, SECOND, inference, pid, quantile};

/// Sessions, system and processes with noise in every number, a second at a time.
struct Workload {
    random: Random,
    sessions: Vec<Text>,
    inferences_per_second: u64,
    processes: u32,
    samples_per_second: u64,
    cpu_ns: Vec<u64>,
    sequence: u64,
}

/// Time spent on the rows of one table: of every second of the workload, so that the median leaves out the moments in
/// which something else ran.
#[derive(Default)]
struct Spent {
    rows: u64,
    rows_of_second: u64,
    time_of_second: Duration,
    per_row_ns: Vec<f64>,
}

impl Spent {
    fn give(&mut self, memory: &mut Memory, batch: &mut Batch) {
        self.rows_of_second += batch.len() as u64;
        let start = Instant::now();
        memory.give(batch);
        self.time_of_second += start.elapsed();
        *batch = Batch::new(batch.table());
    }

    fn end_second(&mut self) {
        if self.rows_of_second > 0 {
            self.per_row_ns.push(self.time_of_second.as_nanos() as f64 / self.rows_of_second as f64);
        }
        self.rows += std::mem::take(&mut self.rows_of_second);
        self.time_of_second = Duration::ZERO;
    }

    fn show(&self, name: &str) {
        if !self.per_row_ns.is_empty() {
            let (median, mean) = (
                quantile(&self.per_row_ns, 0.5),
                self.per_row_ns.iter().sum::<f64>() / self.per_row_ns.len() as f64,
            );
            println!("  {name}: {median:.0} ns (mean {mean:.0}), {} rows", self.rows);
        }
    }
}

impl Workload {
    fn new(sessions: usize, inferences_per_second: u64, processes: u32, samples_per_second: u64) -> Self {
        Self {
            random: Random::new(11),
            sessions: (0..sessions).map(|session| format!("session-{session}").into()).collect(),
            inferences_per_second,
            processes,
            samples_per_second,
            cpu_ns: vec![0; processes as usize],
            sequence: 0,
        }
    }

    fn second(&mut self, second: u64, memory: &mut Memory, [inferences, processes, system]: &mut [Spent; 3]) {
        let start = second * SECOND;
        let mut batch = Batch::new(TableId::Inferences);
        for number in 0..self.inferences_per_second {
            for session in &self.sessions {
                self.sequence += 1;
                let run_ns =
                    (4_500_000.0 * (1.0 + 0.08 * self.random.normal())) as u64 + self.random.below(50_000);
                let row = inference(session, start + number * SECOND / self.inferences_per_second, run_ns);
                batch.push(&InferenceRow {
                    copy_in_ns: 50_000 + self.random.below(9_000),
                    sequence: self.sequence,
                    ..row
                });
                if batch.len() == 1024 {
                    inferences.give(memory, &mut batch);
                }
            }
        }
        inferences.give(memory, &mut batch);
        for tick in 0..self.samples_per_second {
            let timestamp_ns = start + tick * SECOND / self.samples_per_second;
            let mut batch = Batch::new(TableId::ProcessSamples);
            for process in 0..self.processes {
                let cpu_ns = &mut self.cpu_ns[process as usize];
                *cpu_ns += self.random.below(SECOND / self.samples_per_second);
                batch.push(&ProcessSampleRow {
                    timestamp_ns,
                    pid: pid(process).pid.into(),
                    process_start: pid(process).start,
                    cpu_time_ns: *cpu_ns,
                    working_set_bytes: 500_000_000 + self.random.below(9_000_000),
                    private_bytes: Some(300_000_000 + self.random.below(9_000_000)),
                    thread_count: Some(16 + self.random.below(4)),
                    ..ProcessSampleRow::default()
                });
            }
            processes.give(memory, &mut batch);
            let mut batch = Batch::new(TableId::SystemSamples);
            batch.push(&SystemSampleRow {
                timestamp_ns,
                cpu_percent: Some(50.0 + 9.0 * self.random.normal()),
                memory_used_bytes: Some(9_000_000_000 + self.random.below(90_000_000)),
                memory_total_bytes: Some(16_000_000_000),
                context_switches: Some(timestamp_ns / 20_000 + self.random.below(100)),
                ..SystemSampleRow::default()
            });
            system.give(memory, &mut batch);
        }
    }
}

fn run(name: &str, seconds: u64, mut workload: Workload) -> Memory {
    let mut memory = Memory::new(Limits::default());
    let mut spent = <[Spent; 3]>::default();
    for second in 0..seconds {
        workload.second(second, &mut memory, &mut spent);
        spent.iter_mut().for_each(Spent::end_second);
    }
    let view = &memory.view;
    println!("{name}: {:.2} MB, {} tracks", view.bytes() as f64 / 1e6, view.tracks().len());
    for (name, spent) in ["inference", "process row", "system row"].iter().zip(&spent) {
        spent.show(name);
    }
    println!(
        "  {} losses: {:?}",
        view.losses().total(),
        view.losses().all().iter().filter(|loss| loss.1 > 0).collect::<Vec<_>>()
    );
    memory
}

#[test]
#[ignore = "measures"]
fn full_rate() {
    let memory = run(
        "10 sessions x 1000/s, 20 processes and system at 100 Hz, 10 min",
        600,
        Workload::new(10, 1000, 20, 100),
    );
    readers(&memory, 600 * SECOND);
}

#[test]
#[ignore = "measures"]
fn a_whole_day_at_a_lower_rate() {
    let memory = run(
        "10 sessions x 20/s, 20 processes and system at 5 Hz, 24 h",
        86_400,
        Workload::new(10, 20, 20, 5),
    );
    readers(&memory, 24 * HOUR);
}

#[test]
#[ignore = "measures for minutes"]
fn a_whole_day_at_the_full_rate() {
    let memory = run(
        "10 sessions x 1000/s, 20 processes and system at 100 Hz, 24 h",
        86_400,
        Workload::new(10, 1000, 20, 100),
    );
    readers(&memory, 24 * HOUR);
}

#[test]
#[ignore = "measures"]
fn three_hundred_processes() {
    run("300 processes and system at 10 Hz, 1 h", 3600, Workload::new(0, 1, 300, 10));
}

fn readers(memory: &Memory, now_ns: u64) {
    let time = |name: &str, ask: &dyn Fn() -> usize| {
        let start = Instant::now();
        let answer = (0..20).map(|_| ask()).max().unwrap_or(0);
        println!("  {name}: {:.0} µs ({answer})", start.elapsed().as_micros() as f64 / 20.0);
    };
    let view = &memory.view;
    let track = TrackId::session("session-3", "latency_ns");
    let history =
        |from_ns, points| view.history(&track, from_ns, now_ns, points).expect("known").points.len();
    time("current", &|| view.current(now_ns).values.len());
    time("tracks", &|| view.tracks().len());
    time("last 5 s at the full rate", &|| history(now_ns - 5 * SECOND, 10_000));
    time("all in seconds", &|| history(0, 100_000));
    time("all in minutes", &|| history(0, 2_000));
    time("all in 100 points", &|| history(0, 100));
    time("percentiles of 5 s", &|| {
        view.latency("session-3", "latency_ns", now_ns, 5_000 * MS).expect("known").count as usize
    });
}
