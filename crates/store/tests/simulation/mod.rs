//! Seeded process samples and inferences that resemble a real machine's, for the tests of the store and, included by its
//! path, for `crates/bench`. The golden recordings depend on its sequence.

use ortscope_core::batch::Batch;
use ortscope_core::random::Random;
use ortscope_core::schema::{InferenceRow, Phase, ProcessSampleRow, TableId, Text};

/// A machine on which few processes work and most sleep: about one row in twenty changes from tick to tick.
#[derive(Debug)]
pub struct Simulation {
    random: Random,
    period_ns: u64,
    time_ns: u64,
    next_pid: u64,
    started: u64,
    processes: Vec<Process>,
    sequence: u64,
    session_id: Text,
}

#[derive(Debug)]
struct Process {
    row: ProcessSampleRow,
    /// Out of 1,000 ticks, the number in which it does some work.
    activity: u64,
}

impl Simulation {
    pub fn new(seed: u64, processes: usize, hertz: u32) -> Self {
        let mut simulation = Self {
            random: Random::new(seed),
            period_ns: 1_000_000_000 / u64::from(hertz.max(1)),
            time_ns: 3_600_000_000_000,
            next_pid: 1,
            started: 0,
            processes: Vec::new(),
            sequence: 0,
            session_id: "00000000-0000-4000-8000-000000000001".into(),
        };
        for _ in 0..processes {
            simulation.start_process();
        }
        simulation
    }

    /// Returns the samples of all processes at the next tick.
    pub fn next_tick(&mut self) -> Batch {
        // Timers fire slightly late, by a varying amount.
        self.time_ns += self.period_ns;
        let time_ns = self.time_ns + self.random.below(60_000);
        // At 100 Hz, one process per second ends and another starts.
        if self.processes.len() > 1 && self.random.chance(10) {
            let gone = self.random.below(self.processes.len() as u64) as usize;
            self.processes.remove(gone);
            self.start_process();
        }
        let mut batch = Batch::new(TableId::ProcessSamples);
        for process in &mut self.processes {
            if self.random.chance(process.activity) {
                process.work(&mut self.random);
            }
            process.row.timestamp_ns = time_ns;
            batch.push(&process.row);
        }
        batch
    }

    /// Returns the next inferences of one session; their latencies have a long tail.
    pub fn next_inferences(&mut self, rows: usize) -> Batch {
        let mut batch = Batch::new(TableId::Inferences);
        for _ in 0..rows {
            let run_ns = self.latency_ns();
            self.time_ns += run_ns + 2_000;
            batch.push(&InferenceRow {
                timestamp_ns: self.time_ns - run_ns,
                planned_ns: self.time_ns - run_ns,
                session_id: Text::clone(&self.session_id),
                sequence: self.sequence,
                stream: 0,
                phase: Phase::Steady.into(),
                copy_in_ns: 400 + self.random.below(60),
                run_ns,
                copy_out_ns: 150 + self.random.below(30),
                batch_size: Some(1),
                queue_depth: None,
                token: None,
                ok: true,
            });
            self.sequence += 1;
        }
        batch
    }

    fn latency_ns(&mut self) -> u64 {
        let common = 800_000 + (0..4).map(|_| self.random.below(10_000)).sum::<u64>();
        if self.random.chance(10) { common + self.random.below(3_000_000) } else { common }
    }

    fn start_process(&mut self) {
        let pid = self.next_pid;
        self.next_pid += 1 + self.random.below(40);
        self.started += 1;
        let works = self.started % 16 == 5;
        let activity = if works { 600 } else { self.random.below(30) };
        let memory_bytes = 4096 * (500 + self.random.below(50_000));
        let threads = 1 + self.random.below(if works { 16 } else { 3 });
        let row = ProcessSampleRow {
            pid,
            process_start: self.time_ns / 10_000_000,
            cpu_time_ns: self.random.below(1_000_000) * 10_000,
            user_time_ns: Some(self.random.below(100_000) * 10_000_000),
            kernel_time_ns: Some(self.random.below(10_000) * 10_000_000),
            context_switches: Some(self.random.below(1_000_000)),
            priority: Some(20),
            affinity_mask: Some(0b11),
            working_set_bytes: memory_bytes,
            peak_working_set_bytes: Some(memory_bytes + 4096 * self.random.below(1000)),
            private_bytes: Some(memory_bytes / 2),
            virtual_bytes: Some(memory_bytes * 8),
            page_faults: Some(self.random.below(1_000_000)),
            hard_faults: Some(self.random.below(1000)),
            thread_count: Some(threads),
            active_threads: Some(0),
            read_operations: Some(self.random.below(100_000)),
            write_operations: Some(self.random.below(100_000)),
            read_bytes: Some(self.random.below(1 << 32)),
            write_bytes: Some(self.random.below(1 << 30)),
            handle_count: Some(4 + self.random.below(200)),
            ..ProcessSampleRow::default()
        };
        self.processes.push(Process { row, activity });
    }
}

impl Process {
    /// Does up to 9 ms of work. User and kernel time advance in steps of 10 ms, as Linux counts them.
    fn work(&mut self, random: &mut Random) {
        let row = &mut self.row;
        let add = |value: &mut Option<u64>, more: u64| *value = value.map(|value| value + more);
        let used_ns = 20_000 + random.below(9_000_000);
        row.cpu_time_ns += used_ns;
        if random.chance(used_ns / 10_000) {
            add(if random.chance(800) { &mut row.user_time_ns } else { &mut row.kernel_time_ns }, 10_000_000);
        }
        add(&mut row.context_switches, 1 + random.below(6));
        row.active_threads = Some(random.below(2));
        if random.chance(200) {
            let pages = 1 + random.below(64);
            add(&mut row.page_faults, pages);
            row.working_set_bytes += 4096 * pages;
            row.private_bytes = row.private_bytes.map(|bytes| bytes + 4096 * pages);
            row.peak_working_set_bytes = row.peak_working_set_bytes.max(Some(row.working_set_bytes));
        }
        if random.chance(100) {
            row.working_set_bytes -= row.working_set_bytes / 64 / 4096 * 4096;
        }
        if random.chance(300) {
            let operations = 1 + random.below(4);
            add(&mut row.read_operations, operations);
            add(&mut row.read_bytes, operations * (1 + random.below(4096)));
        }
        if random.chance(150) {
            add(&mut row.write_operations, 1);
            add(&mut row.write_bytes, 1 + random.below(8192));
        }
    }
}
