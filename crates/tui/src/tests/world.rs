//! A simulated machine: the rows of a minute in a live memory, and the resulting frame.

use std::collections::HashMap;

use ortscope_core::batch::Batch;
use ortscope_core::identity::ProcessIdentity;
use ortscope_core::live::{Limits, LiveMemory, LiveView};
use ortscope_core::pipeline::Sink as _;
use ortscope_core::schema::{
    DeviceSampleRow, InferenceRow, ProcessSampleRow, Row, SessionRow, SystemSampleRow, Text,
    UnavailabilityRow,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Modifier;

use crate::app::App;
use crate::facts::{OwnCost, OwnFigures, ProcessFacts, ThreadFacts};

pub const SECOND_NS: u64 = 1_000_000_000;
/// The minute that is observed.
pub const START_NS: u64 = 1_000 * SECOND_NS;
pub const NOW_NS: u64 = START_NS + 60 * SECOND_NS + SECOND_NS / 4;
const MIB: u64 = 1024 * 1024;

pub struct World {
    memory: LiveMemory,
    pub facts: Facts,
}

#[derive(Default)]
pub struct Facts {
    names: HashMap<u32, (Text, u32)>,
    pub lost: u64,
}

impl ProcessFacts for Facts {
    fn name(&self, process: ProcessIdentity) -> Option<Text> {
        Some(self.names.get(&process.pid)?.0.clone())
    }

    fn parent_pid(&self, process: ProcessIdentity) -> Option<u32> {
        Some(self.names.get(&process.pid)?.1).filter(|parent| *parent > 0)
    }

    fn command_line(&self, process: ProcessIdentity) -> Option<Text> {
        Some(format!("/usr/bin/{} --serve --port 8080", self.names.get(&process.pid)?.0).into())
    }

    fn threads(&self, process: ProcessIdentity) -> Vec<ThreadFacts> {
        let thread = |number: u32| ThreadFacts {
            tid: process.pid + number,
            name: Some(format!("worker\n{number}").into()),
            cpu_percent: Some(40.0 / f64::from(number + 1)),
            state: Some("waiting".into()),
        };
        if process.pid == 4242 { (0..5).map(thread).collect() } else { Vec::new() }
    }
}

impl OwnFigures for Facts {
    fn own_cost(&self) -> Option<OwnCost> {
        Some(OwnCost { cpu_percent: Some(0.34), memory_bytes: Some(14 * MIB) })
    }

    fn lost_records(&self) -> u64 {
        self.lost
    }
}

impl World {
    pub fn empty() -> Self {
        let limits = Limits { tracks: 60_000, total_bytes: 400_000_000, ..Limits::default() };
        Self { memory: LiveMemory::new(limits), facts: Facts::default() }
    }

    /// A small machine with everything: busy, idle and hostile processes, cores, a GPU, an NPU.
    pub fn busy() -> Self {
        let mut world = Self::empty();
        world.system();
        world.process(1, 0, "systemd", 0.1, 12, 0);
        world.process(300, 1, "bash", 0.0, 6, 0);
        world.process(4242, 300, "python3", 187.5, 1_420, 9);
        world.process(4300, 4242, "ort-worker", 62.0, 380, 0);
        world.process(4301, 4242, "ort-worker", 3.0, 377, 0);
        world.process(77, 1, "推論サーバ・とても長い名前のプログラム", 12.5, 256, 0);
        world.process(666, 1, "evil\u{1b}[2J\nname\u{202e}gpj", 1.0, 3, 0);
        world.process(700, 1, "", 0.0, 1, 0);
        for core in 0..8_u32 {
            world.device(&format!("cpu{core}"), "busy_ratio", f64::from(core) / 7.0);
        }
        world.device("gpu0", "power_watts", 120.25);
        world.device("gpu0", "utilization_ratio", 0.45);
        world.device("npu0", "utilization_ratio", 0.892);
        world.device("machine", "load_1min_threads", 2.5);
        world.device("ortscope", "sampling_hertz", 1.0);
        world.put(&[UnavailabilityRow {
            from_ns: START_NS,
            to_ns: None,
            track: "energy.power_w".into(),
            reason: "no right to read RAPL".into(),
            hint: Some("sudo chmod a+r /sys/class/powercap/*/energy_uj".into()),
        }]);
        world
    }

    pub fn view(&self) -> LiveView {
        self.memory.view()
    }

    pub fn put<R: Row>(&mut self, rows: &[R]) {
        let mut batch = Batch::new(R::TABLE);
        for row in rows {
            batch.push(row);
        }
        self.memory.consume(&batch).expect("the memory takes every batch");
    }

    pub fn system(&mut self) {
        let row = |second: u64| SystemSampleRow {
            timestamp_ns: START_NS + second * SECOND_NS,
            cpu_percent: Some(20.0 + (second * 13 % 50) as f64),
            memory_used_bytes: Some(6_800 * MIB),
            memory_total_bytes: Some(16_000 * MIB),
            swap_used_bytes: Some(128 * MIB),
            context_switches: Some(second * 12_345),
            interrupts: Some(second * 2_000),
            process_count: Some(8),
            cpu_frequency_hertz: Some(3.2e9),
        };
        self.put(&(0..=60).map(row).collect::<Vec<_>>());
    }

    /// A process that uses this much all the minute, with memory that grows by some MiB a minute.
    pub fn process(&mut self, pid: u32, parent: u32, name: &str, cpu: f64, mib: u64, growth_mib: u64) {
        self.facts.names.insert(pid, (name.into(), parent));
        let row = |second: u64| sample(pid, second, cpu, mib * MIB + growth_mib * MIB * second / 60);
        self.put(&(0..=60).map(row).collect::<Vec<_>>());
    }

    /// Processes that run and rest in turn, this often sampled, for three seconds.
    pub fn bursts(&mut self, count: u32, hertz: u64) {
        let step_ns = SECOND_NS / hertz;
        for tick in 0..=3 * hertz {
            let row = |pid: u32| ProcessSampleRow {
                timestamp_ns: NOW_NS - (3 * hertz - tick) * step_ns,
                cpu_time_ns: tick / 2 * step_ns,
                ..sample(pid, 0, 0.0, 4096)
            };
            self.put(&(1..=count).map(row).collect::<Vec<_>>());
        }
        for pid in 1..=count {
            self.facts.names.insert(pid, (format!("burst-{pid}").into(), 0));
        }
    }

    /// One more sample of a process, this many seconds after all others.
    pub fn late(&mut self, pid: u32, seconds: u64) {
        self.put(&[sample(pid, 60 + seconds, 0.1, 4096)]);
    }

    /// Many processes with two samples each.
    pub fn many(&mut self, count: u32) {
        for second in [59, 60] {
            let row = |pid: u32| sample(pid, second, f64::from(pid % 97), u64::from(pid) * 4096);
            self.put(&(1..=count).map(row).collect::<Vec<_>>());
        }
        for pid in 1..=count {
            self.facts.names.insert(pid, (format!("process-{pid}").into(), pid / 2));
        }
    }

    pub fn device(&mut self, device: &str, metric: &str, value: f64) {
        self.put(&[DeviceSampleRow {
            timestamp_ns: START_NS + 60 * SECOND_NS,
            device: device.into(),
            metric: metric.into(),
            value,
            source: "test".into(),
            method: "measured".into(),
        }]);
    }

    /// A session with this many inferences a second until `until_second`; every hundredth one fails.
    pub fn session(&mut self, id: &str, model: &str, per_second: u64, run_ns: u64, until_second: u64) {
        self.put(&[SessionRow {
            timestamp_ns: START_NS,
            session_id: id.into(),
            model_name: model.into(),
            ..SessionRow::default()
        }]);
        let session_id: Text = id.into();
        let row = |number: u64| InferenceRow {
            timestamp_ns: START_NS + number * SECOND_NS / per_second,
            planned_ns: START_NS + number * SECOND_NS / per_second,
            session_id: session_id.clone(),
            sequence: number,
            run_ns: run_ns + run_ns * (number % 50) / 50 + run_ns * (number / per_second % 10) / 10,
            ok: number % 100 != 99,
            ..InferenceRow::default()
        };
        self.put(&(0..per_second * until_second).map(row).collect::<Vec<_>>());
    }
}

fn sample(pid: u32, second: u64, cpu: f64, bytes: u64) -> ProcessSampleRow {
    // Half load in every other ten seconds, so that the sparkline is not flat.
    let busy: f64 = (0..second).map(|at| if at / 10 % 2 == 0 { cpu } else { cpu / 2.0 }).sum();
    ProcessSampleRow {
        timestamp_ns: START_NS + second * SECOND_NS,
        pid: pid.into(),
        process_start: 7,
        cpu_time_ns: (busy * 1e7) as u64,
        working_set_bytes: bytes,
        private_bytes: Some(bytes / 2),
        thread_count: Some(u64::from(pid % 30) + 1),
        handle_count: Some(u64::from(pid % 100)),
        read_bytes: Some(second * u64::from(pid) * 1000),
        write_bytes: Some(0),
        ..ProcessSampleRow::default()
    }
}

/// Keys for a text and named ones.
pub fn keys(text: &str) -> Vec<KeyEvent> {
    text.chars().map(|char| key(KeyCode::Char(char))).collect()
}

pub fn key(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

/// Draws as the loop does.
pub fn frame(app: &mut App<'_>, width: u16, height: u16, now_ns: u64) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal in memory");
    terminal.draw(|frame| app.draw(frame.area(), frame.buffer_mut(), now_ns)).expect("drawn");
    terminal.backend().buffer().clone()
}

/// The characters of a frame, without spaces at the ends of lines.
pub fn text(buffer: &Buffer) -> String {
    grid(buffer, |buffer, x, y| buffer[(x, y)].symbol().to_owned())
}

/// Which cells are bold (b), reversed (r) or both (B).
pub fn styles(buffer: &Buffer) -> String {
    grid(buffer, |buffer, x, y| {
        let modifier = buffer[(x, y)].modifier;
        let (bold, reversed) = (modifier.contains(Modifier::BOLD), modifier.contains(Modifier::REVERSED));
        match (bold, reversed) {
            (true, true) => "B".to_owned(),
            (true, false) => "b".to_owned(),
            (false, true) => "r".to_owned(),
            (false, false) => " ".to_owned(),
        }
    })
}

fn grid(buffer: &Buffer, cell: impl Fn(&Buffer, u16, u16) -> String) -> String {
    let area = buffer.area;
    let mut text = String::new();
    for y in area.top()..area.bottom() {
        let mut line = String::new();
        let mut x = area.left();
        while x < area.right() {
            line.push_str(&cell(buffer, x, y));
            // A wide character covers the next cell.
            x += u16::try_from(crate::text::cells(buffer[(x, y)].symbol())).unwrap_or(1).max(1);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
