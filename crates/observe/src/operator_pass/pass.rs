//! The operator pass: as many windows as the runs need, each short enough for ONNX Runtime's event limit.
//!
//! A session stops recording at 1,000,000 events and uses 2.5 kB of memory for each, which it does not free. So each window
//! is a separate process with at most [`WINDOW_EVENTS`]; its file is read and removed before the next one starts.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use ortscope_analyze::correlation;
use ortscope_analyze::operators::{
    OperatorAnalysis, OperatorEvent, OperatorOptions, OperatorReport, RunAssembler,
};
use ortscope_analyze::{StopRule, median_ns};
use ortscope_channel::disk::remove_temporary_directory;
use ortscope_core::schema::{LossRow, OperatorKind, OperatorRow, TableId, Text};
use ortscope_decode::onnx::Graph;
use ortscope_decode::ort_profile::{ProfileStart, RowOptions};
use ortscope_decode::qnn_profile;
use ortscope_import::ort_profile;
use ortscope_ort::ep::{DeviceClass, UsedDevice};
use ortscope_store::RecordingWriter;

use super::call_lanes::CallLanes;
use super::counted::Counted;
use super::graph::RunGraph;
use super::openvino_lanes::{OpenVinoLanes, PROVIDER as OPENVINO};
use super::qnn_lanes::{NodeTypes, QnnLanes, QnnTime};
use crate::interrupt::Interrupt;
use crate::measure;
use crate::measure::plan::{ProfilePlan, WorkerPlan};
use crate::measure::supervisor::{Assignment, Supervised, supervise};
use crate::progress::Progress;
use crate::recording::RowWriter;
use ortscope_analyze::facts::{Fact, Profiled, Scenario};
use ortscope_analyze::measurement::SensorReadings;
use ortscope_analyze::operators::section::DeviceWork;
use ortscope_core::failure::Failure;
use ortscope_core::units;

/// Maximum events of a window: a tenth of ONNX Runtime's limit, and 250 MB of the worker's memory.
const WINDOW_EVENTS: u64 = 100_000;
/// Up to ONNX Runtime 1.20, a node creates three events.
const MAX_EVENTS_PER_NODE: u64 = 3;
/// The first run of a session prepares kernels and memory; it is stored, but not part of the statistics.
const WARM_UP_RUNS: u64 = 1;

/// What to profile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProfileRequest {
    pub runs: u64,
    /// The pass ends after this time even with fewer runs; `None`: all runs.
    pub duration: Option<Duration>,
    /// Also compare the optimization levels.
    pub levels: bool,
}

impl Default for ProfileRequest {
    fn default() -> Self {
        Self { runs: 100, duration: Some(Duration::from_millis(1500)), levels: false }
    }
}

/// A pass over one model, ready to run.
#[derive(Debug)]
pub struct Pass<'a> {
    pub plan: &'a WorkerPlan,
    pub request: ProfileRequest,
    /// Whether ONNX Runtime can write the graph that it runs.
    pub writes_graph: bool,
    pub model_name: &'a str,
    /// The graph of the file.
    pub original: &'a Graph,
    /// Rows are kept under this session.
    pub session_id: Text,
    /// Median latency without the profiler.
    pub plain_median_ns: Option<f64>,
    /// Hardware behind the session's providers.
    pub used: &'a [UsedDevice],
    pub recording: Option<&'a RecordingWriter>,
}

/// The result of all windows.
#[derive(Debug)]
pub struct Profile {
    pub report: OperatorReport,
    pub counted: Counted,
    /// The graph that was run, or the file's own if ONNX Runtime could not write it.
    pub graph: RunGraph,
    pub graph_is_optimized: bool,
    pub windows: u64,
    pub runs: u64,
    pub events: u64,
    pub lost_events: u64,
    /// Notes about missing or repaired data.
    pub notes: Vec<String>,
    /// Median of the profiled runs, measured outside ONNX Runtime.
    pub profiled_median_ns: Option<f64>,
    /// Device work that a provider reports, by name.
    pub device_work: Vec<DeviceWork>,
    /// Device rows of the runs in the statistics, by provider and by the node that caused them.
    pub device_by_node: BTreeMap<(String, u64), u64>,
    /// By kind of device: its busy time in those runs according to its driver.
    pub busy_ns: BTreeMap<&'static str, u64>,
    /// QNN's own profile.
    pub qnn: Option<QnnLanes>,
    /// The same for the runs in the statistics.
    pub qnn_time: Option<QnnTime>,
    pub seconds: f64,
    pub ort_logs: Vec<ortscope_ort::LogLine>,
}

impl Pass<'_> {
    pub fn run(&self, interrupt: &Interrupt, progress: &mut dyn Progress) -> Result<Profile, Failure> {
        let begin = Instant::now();
        let directory = measure::profile_directory()?;
        let mut gathered = Gathered::new();
        let mut events_per_run = None;
        loop {
            let left = self.request.runs.saturating_sub(gathered.kept_runs);
            let runs = self.window_runs(events_per_run).min(left + WARM_UP_RUNS);
            let time_left = self.request.duration.map(|most| most.saturating_sub(begin.elapsed()));
            let folder = directory.path().join(format!("window-{}", gathered.windows));
            fs_err::create_dir(&folder)?;
            let stage = match self.request.duration {
                None => format!(
                    "profiling operators, {} of {} runs",
                    units::count(gathered.kept_runs),
                    units::count(self.request.runs)
                ),
                Some(_) => "profiling operators".to_owned(),
            };
            let window = Window { folder: &folder, runs, time_left, stage: &stage };
            let outcome = self.window(&window, interrupt, progress)?;
            let before = gathered.events;
            let profiled = gathered.take(outcome, self)?;
            remove_temporary_directory(&folder)?;
            let new_events = gathered.events - before;
            events_per_run = new_events.checked_div(profiled).or(events_per_run);
            let is_over = gathered.kept_runs >= self.request.runs
                || time_left.is_some_and(|left| left.is_zero())
                || self.request.duration.is_some_and(|most| begin.elapsed() >= most)
                || interrupt.requested()
                // A window without progress would be followed by endless others.
                || profiled < 2;
            if is_over {
                break;
            }
        }
        Ok(gathered.finish(self, begin.elapsed()))
    }

    /// Runs that stay well below the event limit; at least two, since the first differs from the others.
    fn window_runs(&self, events_per_run: Option<u64>) -> u64 {
        let per_run = events_per_run.unwrap_or_else(|| {
            if RunGraph::has_loops(self.original) {
                // The number of iterations is unknown.
                return WINDOW_EVENTS;
            }
            (nodes(self.original) + 2).saturating_mul(MAX_EVENTS_PER_NODE)
        });
        (WINDOW_EVENTS / per_run.max(1)).max(2)
    }

    fn window(
        &self,
        window: &Window<'_>,
        interrupt: &Interrupt,
        progress: &mut dyn Progress,
    ) -> Result<Supervised, Failure> {
        let channel = measure::channel_directory(false)?;
        let mut plan = self.plan.clone();
        plan.channel = channel.path().to_owned();
        plan.scenario = Scenario::Single;
        plan.sessions = 1;
        plan.profile = Some(ProfilePlan {
            directory: window.folder.to_owned(),
            runs: window.runs,
            duration_ns: window.time_left.map(|left| u64::try_from(left.as_nanos()).unwrap_or(u64::MAX)),
            optimized_model: self.writes_graph,
        });
        let assignment = Assignment {
            plan: &plan,
            model_name: self.model_name,
            rule: &StopRule::for_runs(u64::MAX),
            sampling_hertz: 1.0,
            kernel: false,
            stage: Some(window.stage),
            recording: None,
        };
        supervise(&assignment, interrupt, progress)
    }
}

/// One window to profile.
struct Window<'a> {
    folder: &'a Path,
    runs: u64,
    time_left: Option<Duration>,
    stage: &'a str,
}

fn nodes(graph: &Graph) -> u64 {
    let inner = |node: &ortscope_decode::onnx::Node| -> u64 {
        node.subgraphs.iter().map(|(_, subgraph)| nodes(subgraph)).sum()
    };
    graph.nodes.len() as u64 + graph.nodes.iter().map(inner).sum::<u64>()
}

/// The sums over all windows so far.
struct Gathered {
    analysis: OperatorAnalysis,
    counted: Counted,
    graph: Option<(RunGraph, bool)>,
    windows: u64,
    /// All runs, and those in the statistics.
    runs: u64,
    kept_runs: u64,
    events: u64,
    lost_events: u64,
    notes: Vec<String>,
    run_ns: Vec<u64>,
    device_rows: DeviceRows,
    busy: Busy,
    qnn: Option<QnnLanes>,
    qnn_runs: u64,
    logs: Vec<ortscope_ort::LogLine>,
}

impl Gathered {
    fn new() -> Self {
        let options = OperatorOptions {
            // Every window has its own warm-up; `add_run` skips those of later windows.
            warm_up_runs: WARM_UP_RUNS as usize,
            floor_ns: None,
            observer_factor: None,
        };
        Self {
            analysis: OperatorAnalysis::new(options),
            counted: Counted::default(),
            graph: None,
            windows: 0,
            runs: 0,
            kept_runs: 0,
            events: 0,
            lost_events: 0,
            notes: Vec::new(),
            run_ns: Vec::new(),
            device_rows: DeviceRows::default(),
            busy: Busy::default(),
            qnn: None,
            qnn_runs: 0,
            logs: Vec::new(),
        }
    }

    /// Takes one window's files; returns how many runs it had.
    fn take(&mut self, outcome: Supervised, pass: &Pass<'_>) -> Result<u64, Failure> {
        let Some(profiled) = outcome.collected.facts.iter().find_map(|message| match message {
            Fact::Profiled(profiled) => Some(profiled.clone()),
            _ => None,
        }) else {
            let why = outcome.failure.unwrap_or_else(|| Failure::internal("the worker wrote no profile"));
            return Err(why);
        };
        for message in &outcome.collected.facts {
            if let Fact::Logs { lines, .. } = message {
                self.logs.extend(lines.iter().cloned());
            }
        }
        if self.graph.is_none() {
            self.graph = Some(read_graph(&profiled, pass, &mut self.notes));
        }
        let runs = profiled.run_ns.len() as u64;
        // The first window's file is enough: device runs do not differ between windows.
        if let (Some(path), 0) = (&profiled.qnn_file, self.windows) {
            match fs_err::read_to_string(path)
                .map_err(|error| error.to_string())
                .and_then(|text| qnn_profile::read(&text).map_err(|error| error.to_string()))
            {
                Ok(read) => self.qnn = Some(QnnLanes::new(read, NodeTypes::new(pass.original))),
                Err(why) => self.notes.push(format!("QNN's profile could not be read: {why}")),
            }
            self.qnn_runs = runs;
        }
        let openvino = profiled.openvino_runs.clone().map(|directory| {
            let of_openvino = |used: &&UsedDevice| used.provider == OPENVINO;
            let is_cpu = pass.used.iter().find(of_openvino).is_none_or(|used| used.class == DeviceClass::Cpu);
            OpenVinoLanes::new(directory, is_cpu)
        });
        let kept = self.read(&profiled, pass, openvino)?;
        self.busy.add(kept, &outcome.collected.devices.sensors);
        self.windows += 1;
        self.runs += runs;
        self.kept_runs += runs.saturating_sub(WARM_UP_RUNS);
        self.run_ns.extend(profiled.run_ns.iter().skip(WARM_UP_RUNS as usize));
        Ok(runs)
    }

    fn note(&mut self, sentence: String) {
        if !self.notes.contains(&sentence) && self.notes.len() < 20 {
            self.notes.push(sentence);
        }
    }

    /// Reads the profile of one window. Returns start and end of the runs that are in the statistics.
    fn read(
        &mut self,
        profiled: &Profiled,
        pass: &Pass<'_>,
        openvino: Option<OpenVinoLanes>,
    ) -> Result<Option<(u64, u64)>, Failure> {
        let devices = pass.used.iter().map(|used| (used.provider.clone(), used.class.to_string()));
        let options = RowOptions {
            session_id: Text::clone(&pass.session_id),
            start: profiled.started_ns.map_or(ProfileStart::Unknown, ProfileStart::from_monotonic_ns),
            devices: devices.collect(),
            ..RowOptions::default()
        };
        let mut window = WindowRows {
            is_first: self.windows == 0,
            first_run: self.runs,
            assembler: RunAssembler::default(),
            kept: None,
            call_lanes: CallLanes::new(pass.used),
            openvino,
        };
        let mut rows = RowWriter::new(pass.recording, TableId::Operators);
        let read = ort_profile::read(&profiled.file, options, &mut |row| {
            self.add_row(row, &mut window, &mut rows);
        })?;
        rows.finish()?;
        let (analysis, is_first) = (&mut self.analysis, window.is_first);
        let late = window.assembler.finish(&mut |number, events| add_run(analysis, is_first, number, events));
        self.events += read.outcome.events;
        let lost = read.lost_events() + late;
        self.lost_events += lost;
        if let Some(recording) = pass.recording {
            crate::recording::append(recording, window.call_lanes.rows().cloned())?;
            let loss = (lost > 0).then(|| LossRow {
                timestamp_ns: ortscope_core::clock::now_ns(),
                place: "profiling pass".into(),
                kind: "operators".into(),
                count: lost,
            });
            crate::recording::append(recording, loss)?;
        }
        read.warnings().into_iter().for_each(|sentence| self.note(sentence));
        if let Some(why) = window.openvino.and_then(|lanes| lanes.problem) {
            self.note(format!("OpenVINO's counters could not be read: {why}"));
        }
        Ok(window.kept)
    }

    /// Adds one row of a profile to the sums, and to `rows` with the device rows that belong to it.
    fn add_row(&mut self, mut row: OperatorRow, window: &mut WindowRows, rows: &mut RowWriter<'_>) {
        let mut event = OperatorEvent::from(&row);
        let is_operator = row.kind == OperatorKind::Operator;
        let is_kept = row.run.is_none_or(|run| run >= WARM_UP_RUNS);
        if row.kind == OperatorKind::Run && is_kept {
            let end_ns = row.timestamp_ns.saturating_add(row.duration_ns);
            let (from_ns, to_ns) = window.kept.unwrap_or((row.timestamp_ns, end_ns));
            window.kept = Some((from_ns.min(row.timestamp_ns), to_ns.max(end_ns)));
        }
        if let (true, Some(run), Some((graph, _))) = (is_operator, row.run, &mut self.graph) {
            let count = graph.count(&row);
            // Kernels hide the weights that they packed; the graph has them.
            row.parameter_bytes = row.parameter_bytes.max(count.weight_bytes);
            (row.flops, event.flops) = (count.flops, count.flops);
            event.bytes_moved = count.bytes_moved.or(event.bytes_moved);
            // The first run after the warm-up is representative of the others.
            if window.is_first && run == WARM_UP_RUNS {
                self.counted.add(&row, &count);
            }
        } else if row.kind == OperatorKind::Other {
            window.call_lanes.has_own(&row.execution_provider);
            if is_kept {
                self.device_rows.add(&row);
            }
        }
        // Runs are numbered within the window here, and over all windows in the recording.
        let run_of_window = row.run;
        if let Some(run) = run_of_window {
            let (analysis, is_first) = (&mut self.analysis, window.is_first);
            window.assembler.push(run, event, &mut |number, events| {
                add_run(analysis, is_first, number, events);
            });
        }
        row.run = run_of_window.map(|run| run + window.first_run);
        rows.push(&row);
        if let Some(lanes) = self.qnn.as_mut().filter(|_| window.is_first && is_operator) {
            for device_row in lanes.rows_inside(&row) {
                rows.push(&device_row);
            }
        }
        if let (Some(lanes), Some(run), true) = (&mut window.openvino, run_of_window, is_operator) {
            for device_row in lanes.rows_inside(&row, run) {
                window.call_lanes.has_own(OPENVINO);
                if is_kept {
                    self.device_rows.add(&device_row);
                }
                rows.push(&device_row);
            }
        }
        window.call_lanes.add(&row);
    }

    fn finish(mut self, pass: &Pass<'_>, elapsed: Duration) -> Profile {
        let profiled_median_ns = median_ns(self.run_ns.iter().copied());
        let factor = profiled_median_ns.zip(pass.plain_median_ns).map(|(profiled, plain)| profiled / plain);
        self.analysis.set_observer_factor(factor);
        let (graph, graph_is_optimized) =
            self.graph.unwrap_or_else(|| (RunGraph::new(Graph::default()), false));
        let mut device_work: Vec<DeviceWork> = self
            .device_rows
            .by_name
            .into_iter()
            .map(|((name, op_type, provider), (count, total))| DeviceWork {
                name,
                op_type,
                provider,
                count,
                total_ms: total as f64 / 1e6,
                total_ns: total,
                cycles: None,
            })
            .collect();
        let qnn_time = self.qnn.as_ref().and_then(|qnn| qnn.time(self.qnn_runs, WARM_UP_RUNS));
        if let (Some(qnn), None) = (&self.qnn, &qnn_time) {
            self.notes.push(format!(
                "QNN's profile has {} for {}: which belongs to which is not known, so its device time is not divided",
                units::counted(qnn.profile().executions, "execution"),
                units::counted(self.qnn_runs, "run")
            ));
        }
        device_work.extend(qnn_time.iter().flat_map(QnnTime::work));
        device_work.sort_by(|a, b| b.total_ms.total_cmp(&a.total_ms));
        Profile {
            report: self.analysis.finish(),
            counted: self.counted,
            graph,
            graph_is_optimized,
            windows: self.windows,
            runs: self.runs,
            events: self.events,
            lost_events: self.lost_events,
            notes: self.notes,
            profiled_median_ns,
            device_work,
            device_by_node: self.device_rows.by_node,
            busy_ns: self.busy.finish(),
            qnn: self.qnn,
            qnn_time,
            seconds: elapsed.as_secs_f64(),
            ort_logs: self.logs,
        }
    }
}

/// Adds a run to the analysis. It skips the warm-up of the first window itself; warm-ups of later windows are skipped here.
fn add_run(analysis: &mut OperatorAnalysis, is_first_window: bool, number: u64, events: &[OperatorEvent]) {
    if is_first_window || number >= WARM_UP_RUNS {
        analysis.add_run(events);
    }
}

/// The state of reading one window's profile.
struct WindowRows {
    is_first: bool,
    /// Number of runs in the windows before.
    first_run: u64,
    assembler: RunAssembler,
    /// Start and end of the runs in the statistics.
    kept: Option<(u64, u64)>,
    call_lanes: CallLanes,
    openvino: Option<OpenVinoLanes>,
}

/// Device rows of the runs in the statistics.
#[derive(Debug, Default)]
struct DeviceRows {
    /// Count and total duration by name, type and provider.
    by_name: BTreeMap<(String, String, String), (u64, u64)>,
    /// Total duration by provider and by the node that caused the row.
    by_node: BTreeMap<(String, u64), u64>,
}

impl DeviceRows {
    /// Limits of the sums; further names and nodes are not summed.
    const MAX_NAMES: usize = 10_000;
    const MAX_NODES: usize = 100_000;

    fn add(&mut self, row: &OperatorRow) {
        if let Some(index) = row.node_index.filter(|_| self.by_node.len() < Self::MAX_NODES) {
            let total = self.by_node.entry((row.execution_provider.to_string(), index)).or_default();
            *total = total.saturating_add(row.duration_ns);
        }
        let key = (row.name.to_string(), row.op_type.to_string(), row.execution_provider.to_string());
        if self.by_name.len() < Self::MAX_NAMES || self.by_name.contains_key(&key) {
            let (count, total) = self.by_name.entry(key).or_default();
            *count += 1;
            *total = total.saturating_add(row.duration_ns);
        }
    }
}

/// Busy time of devices according to their drivers, for providers that do not report it.
#[derive(Debug, Default)]
struct Busy {
    sums: BTreeMap<&'static str, Option<u64>>,
}

impl Busy {
    /// Adds one window: the time range of its runs, and the sensor readings.
    fn add(&mut self, runs: Option<(u64, u64)>, sensors: &SensorReadings) {
        let Some((from_ns, to_ns)) = runs else { return };
        for kind in ["gpu", "npu"] {
            // Only whole devices; with several of a kind it is unknown which one was used.
            let is_whole = |device: &str| device.starts_with(kind) && !device.contains('/');
            let mut of_kind = sensors
                .iter()
                .filter(|sensor| is_whole(sensor.device) && sensor.metric == "utilization_ratio");
            let busy = match (of_kind.next(), of_kind.next()) {
                (Some(sensor), None) => correlation::busy_ns(sensor.readings, from_ns, to_ns),
                _ => None,
            };
            let sum = self.sums.entry(kind).or_insert(Some(0));
            *sum = sum.zip(busy).map(|(sum, busy)| sum.saturating_add(busy));
        }
    }

    fn finish(self) -> BTreeMap<&'static str, u64> {
        self.sums.into_iter().filter_map(|(kind, sum)| Some((kind, sum?))).collect()
    }
}

/// The graph that ONNX Runtime wrote, or the file's own, which has the same nodes except for fusions.
fn read_graph(profiled: &Profiled, pass: &Pass<'_>, notes: &mut Vec<String>) -> (RunGraph, bool) {
    match profiled.optimized_model.as_deref().map(RunGraph::read) {
        Some(Ok(graph)) => (graph, true),
        Some(Err(why)) => {
            notes.push(format!("the optimised graph could not be read: {why}"));
            (RunGraph::new(pass.original.clone()), false)
        }
        None => (RunGraph::new(pass.original.clone()), false),
    }
}
