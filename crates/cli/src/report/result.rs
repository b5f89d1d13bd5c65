//! The result of one measured configuration, made from what the worker left.

use std::collections::BTreeMap;

use ortscope_analyze::energy::{EnergyEstimate, EnergyReport, estimate};
use ortscope_analyze::generation::{Sequence, summarize_generation};
use ortscope_analyze::leak::{self, ArenaPoint, LeakReport, MemoryPoint, detect_leak};
use ortscope_analyze::open_loop::{Request, open_loop};
use ortscope_analyze::operators::OperatorFinding;
use ortscope_analyze::outputs::CheckedOutput;
use ortscope_analyze::summary::WarmUpChoice;
use ortscope_analyze::throughput::{Completion, Throughput, throughput};
use ortscope_analyze::{StopReason, StopRule, WarmUp};
use ortscope_ort::ep::UsedDevice;
use ortscope_ort::{Fallback, LogLine, SessionOptions};
use serde::Serialize;
use serde_json::Value;

use super::devices::{CounterReport, DeviceFigures, DeviceReport, EnergyRequest, HeatReport};
use super::findings::{self, Finding};
use super::latency::{LatencyReport, ms};
use super::serving::{GenerationReport, ServerReport};
use super::slowest::{SlowestInference, slowest};
use crate::exit::Failure;
use crate::operators::OperatorSection;
use ortscope_observe::measure::collect::{Collected, Inference};
use ortscope_observe::measure::plan::Scenario;
use ortscope_observe::measure::protocol::{
    ArenaSample, InputsMade, MemoryStage, SessionCreated, WorkerMessage,
};
use ortscope_observe::measure::supervisor::{AtRest, Ended, Outcome};
use ortscope_observe::model_file::ModelFacts;
use ortscope_observe::operator_pass::windows::WindowReport;

/// One model under one configuration.
#[derive(Debug, Clone, Serialize)]
pub struct RunResult {
    pub model: ModelFacts,
    /// What distinguishes this result in a sweep, e.g. `threads=2 opt=all`.
    pub label: Option<String>,
    pub configuration: SessionOptions,
    pub sessions: u16,
    /// As in the wire's records.
    pub session_ids: Vec<String>,
    pub scenario: Scenario,
    pub runtime: Option<RuntimeReport>,
    pub placement: Option<Placement>,
    pub inputs: Option<InputsMade>,
    pub cold: Cold,
    pub warm_up: Option<WarmUp>,
    /// Absent when nothing was measured.
    pub latency: Option<Latency>,
    pub throughput: Option<Throughput>,
    pub server: Option<ServerReport>,
    pub generation: Option<GenerationReport>,
    pub memory: Memory,
    /// With `--soak`: whether memory is lost with every inference.
    pub leak: Option<LeakReport>,
    /// Behind it, for the recording.
    #[serde(skip)]
    pub arena_samples: Vec<ArenaSample>,
    /// CPU time per wall time of the measured loop: 1.8 = nearly two cores busy.
    pub cpu_cores_used: Option<f64>,
    /// Of the measured loop, by counters of the machine; `unavailable` says why there is none.
    pub energy: Option<EnergyReport>,
    /// Of the measured loop, with what devices did around them.
    pub slowest: Vec<SlowestInference>,
    /// Only if it was asked for and nothing measured: a model of the processor, never added to what is measured.
    pub energy_estimate: Option<EnergyEstimate>,
    /// Temperatures, and clocks that were held down.
    pub heat: HeatReport,
    /// GPUs and NPUs during the measured loop. Empty: none was seen, which is no error.
    pub devices: Vec<DeviceReport>,
    /// Instructions, cycles and caches of the worker; `unavailable` says why there are none.
    pub counters: Option<CounterReport>,
    pub outputs_checked: Option<OutputsChecked>,
    pub allocator: Option<BTreeMap<String, Value>>,
    /// Windows of profiled runs during the measurement (`--profile-every`).
    pub operator_windows: Vec<WindowReport>,
    /// From a profiling pass of its own; `unavailable` says why there is none.
    pub operators: Option<OperatorSection>,
    pub stop_reason: StopCode,
    /// The same for people.
    pub stopped: &'static str,
    pub wall_seconds: f64,
    pub findings: Vec<Finding>,
    pub notes: Vec<String>,
    pub logs: Vec<LogLine>,
    /// Records that were lost: nothing is missing silently.
    pub losses: Vec<Loss>,
    /// Metrics without a value, and why.
    pub unavailable: BTreeMap<&'static str, String>,
    pub failure: Option<Failure>,
}

#[derive(Debug, Clone, Serialize)]
pub struct RuntimeReport {
    pub version: String,
    pub build_info: String,
    pub available_providers: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Placement {
    /// Providers of the session, in order.
    pub providers: Vec<String>,
    /// Nodes per provider after partitioning; empty where ONNX Runtime cannot tell (before 1.24).
    pub nodes: Vec<ProviderNodes>,
    pub fallbacks: Vec<Fallback>,
    /// Of providers that tell one of their own; those inside of ONNX Runtime have its version.
    pub provider_versions: BTreeMap<String, String>,
    /// Of the providers beside the CPU's.
    pub devices: Vec<UsedDevice>,
}

#[derive(Debug, Clone, Serialize)]
pub struct ProviderNodes {
    pub provider: String,
    pub nodes: u64,
}

/// Why the measurement ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCode {
    Precision,
    Duration,
    Runs,
    TimeLimit,
    RecordLimit,
    Interrupted,
    Failed,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Cold {
    pub file_read_ms: Option<f64>,
    pub session_first_ms: Option<f64>,
    pub session_again_ms: Option<f64>,
    pub first_run_ms: Option<f64>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Latency {
    /// The call into ONNX Runtime.
    pub inference: LatencyReport,
    /// Copy in, inference, waiting for the device and copy out.
    pub end_to_end: LatencyReport,
    pub copy_in_ms: f64,
    pub copy_out_ms: f64,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Memory {
    pub before_session_bytes: Option<u64>,
    pub after_session_bytes: Option<u64>,
    pub after_first_run_bytes: Option<u64>,
    pub end_bytes: Option<u64>,
    /// Highest resident memory of the worker process, without the channel to its supervisor.
    pub peak_bytes: Option<u64>,
    /// What the session added.
    pub session_bytes: Option<i64>,
    /// What the first run added: activations and arena.
    pub first_run_bytes: Option<i64>,
    /// Growth over the measured loop, per inference.
    pub growth_per_inference_bytes: Option<f64>,
}

#[derive(Debug, Clone, Serialize)]
pub struct OutputsChecked {
    pub reference: String,
    pub outputs: Vec<CheckedOutput>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Loss {
    pub place: String,
    pub kind: String,
    pub count: u64,
}

/// What was measured, before it is analysed.
#[derive(Debug)]
pub struct Measured<'a> {
    pub model: &'a ModelFacts,
    pub label: Option<String>,
    pub configuration: SessionOptions,
    pub sessions: u16,
    pub scenario: Scenario,
    pub warm_up: WarmUpChoice,
    pub rule: StopRule,
    /// Judge whether memory leaks.
    pub soak: bool,
    pub energy: EnergyRequest,
    pub notes: Vec<String>,
}

impl RunResult {
    pub fn new(measured: Measured<'_>, outcome: Outcome) -> Self {
        let mut collected = outcome.collected;
        let stop = describe_end(outcome.ended, &measured.rule, outcome.failure.is_some());
        collected.steady.sort_by_key(|inference| inference.start_ns);
        let mut result = Self {
            model: measured.model.clone(),
            label: measured.label,
            configuration: measured.configuration,
            sessions: measured.sessions,
            session_ids: outcome.session_ids,
            scenario: measured.scenario,
            runtime: None,
            placement: None,
            inputs: None,
            cold: Cold::default(),
            warm_up: None,
            latency: None,
            throughput: None,
            server: None,
            generation: None,
            memory: Memory::default(),
            leak: None,
            arena_samples: Vec::new(),
            cpu_cores_used: None,
            energy: None,
            slowest: Vec::new(),
            energy_estimate: None,
            heat: HeatReport::default(),
            devices: Vec::new(),
            counters: None,
            outputs_checked: None,
            allocator: None,
            operator_windows: Vec::new(),
            operators: None,
            stop_reason: stop.0,
            stopped: stop.1,
            wall_seconds: outcome.wall_seconds,
            findings: Vec::new(),
            notes: measured.notes,
            logs: Vec::new(),
            losses: losses(&outcome.losses, &collected),
            unavailable: BTreeMap::new(),
            failure: outcome.failure,
        };
        for (source, error) in outcome.source_errors {
            result.notes.push(format!("{source}: {error}"));
        }
        let unserved = result.take_messages(&collected.messages);
        result.cold.first_run_ms = collected.first.first().map(|first| ms(first.end_to_end_ns()));
        result.take_latency(&collected.steady, measured.warm_up);
        result.take_server(&collected.steady, unserved);
        result.take_generation(&collected.generated);
        result.take_memory(&collected);
        result.take_slowest(&collected);
        result.take_devices(&collected, &measured.energy, &outcome.at_rest);
        if measured.soak {
            result.arena_samples.sort_by_key(|sample| sample.timestamp_ns);
            result.leak = Some(detect_leak(&memory_points(&collected, &result.arena_samples)));
        }
        result.explain_gaps();
        result.findings = findings::find(&result);
        result
    }

    /// Adds what the operators say; what is known already is not said twice.
    pub fn add_findings(&mut self, found: Vec<OperatorFinding>) {
        for finding in found {
            if self.findings.iter().all(|known| known.id != finding.id) {
                self.findings.push(findings::of_operators(self, finding));
            }
        }
        self.findings.sort_by_key(|finding| finding.severity);
    }

    pub fn measured_runs(&self) -> u64 {
        let tokens = self.generation.as_ref().map_or(0, |generation| generation.tokens);
        self.latency.as_ref().map_or(tokens, |latency| latency.inference.runs as u64)
    }

    /// Returns how many requests of an open loop were never started.
    fn take_messages(&mut self, messages: &[WorkerMessage]) -> Option<u64> {
        let mut steady: [Option<(u64, u64)>; 2] = [None, None];
        let mut unserved = None;
        for message in messages {
            match message {
                WorkerMessage::Runtime { version, build_info, available_providers } => {
                    self.runtime = Some(RuntimeReport {
                        version: version.clone(),
                        build_info: build_info.clone(),
                        available_providers: available_providers.clone(),
                    });
                }
                WorkerMessage::FileRead { nanos, .. } => self.cold.file_read_ms = Some(ms(*nanos)),
                WorkerMessage::SessionCreated(created) => self.take_session(created),
                WorkerMessage::SecondSession { nanos, reason } => {
                    self.cold.session_again_ms = nanos.map(ms);
                    if let Some(reason) = reason {
                        self.unavailable.insert("cold.session_again_ms", reason.clone());
                    }
                }
                WorkerMessage::Inputs(inputs) => self.inputs = Some(inputs.clone()),
                WorkerMessage::Memory { stage, working_set_bytes, peak_working_set_bytes } => {
                    self.memory.peak_bytes = self.memory.peak_bytes.max(*peak_working_set_bytes);
                    *self.memory.stage(*stage) = Some(*working_set_bytes);
                }
                WorkerMessage::Steady { begin, timestamp_ns, cpu_time_ns } => {
                    steady[usize::from(!begin)] = Some((*timestamp_ns, *cpu_time_ns));
                }
                WorkerMessage::OutputsChecked { reference, outputs } => {
                    self.outputs_checked =
                        Some(OutputsChecked { reference: reference.clone(), outputs: outputs.clone() });
                }
                WorkerMessage::Allocator { statistics } => {
                    let numbers = statistics.iter().map(|(name, value)| (name.clone(), as_number(value)));
                    self.allocator = Some(numbers.collect());
                }
                WorkerMessage::Arena(sample) => self.arena_samples.push(*sample),
                WorkerMessage::Unserved { requests } => unserved = Some(*requests),
                WorkerMessage::Logs { lines, dropped } => {
                    self.logs.extend(lines.iter().cloned());
                    if *dropped > 0 {
                        self.notes.push(format!("{dropped} log lines of ONNX Runtime were not kept"));
                    }
                }
                WorkerMessage::Note { text } => self.notes.push(text.clone()),
                WorkerMessage::Profiled(_)
                | WorkerMessage::Levels { .. }
                | WorkerMessage::OwnMemory { .. }
                | WorkerMessage::Failed { .. }
                | WorkerMessage::Done => {}
            }
        }
        if let [Some((begin, cpu_begin)), Some((end, cpu_end))] = steady
            && end > begin
            && cpu_end > cpu_begin
        {
            self.cpu_cores_used = Some((cpu_end - cpu_begin) as f64 / (end - begin) as f64);
        }
        unserved
    }

    fn take_session(&mut self, created: &SessionCreated) {
        self.cold.session_first_ms = Some(ms(created.nanos));
        self.placement = Some(Placement {
            providers: created.providers.clone(),
            nodes: created
                .placement
                .iter()
                .map(|(provider, nodes)| ProviderNodes { provider: provider.clone(), nodes: *nodes })
                .collect(),
            fallbacks: created.fallbacks.clone(),
            provider_versions: created.provider_versions.clone(),
            devices: created.devices.clone(),
        });
    }

    fn take_latency(&mut self, steady: &[Inference], warm_up: WarmUpChoice) {
        let run: Vec<u64> = steady.iter().map(|inference| inference.run_ns).collect();
        let Some((inference, summary)) = LatencyReport::of(&run, warm_up) else {
            return;
        };
        let kept = steady.get(summary.warm_up.discarded..).unwrap_or_default();
        let end_to_end: Vec<u64> = kept.iter().map(Inference::end_to_end_ns).collect();
        let Some((end_to_end, _)) = LatencyReport::of(&end_to_end, WarmUpChoice::Keep) else {
            return;
        };
        self.latency = Some(Latency {
            inference,
            end_to_end,
            copy_in_ms: median_ms(kept.iter().map(|inference| inference.copy_in_ns)),
            copy_out_ms: median_ms(kept.iter().map(|inference| inference.copy_out_ns)),
        });
        self.warm_up = Some(summary.warm_up);
        let completions: Vec<Completion> = kept
            .iter()
            .map(|inference| Completion { start_ns: inference.start_ns, end_ns: inference.end_ns() })
            .collect();
        let batch = self.inputs.as_ref().and_then(|inputs| inputs.batch_size).unwrap_or(1);
        self.throughput = throughput(&completions, batch);
    }

    /// Nothing is cut here: a request that came during the warm-up waited all the same.
    fn take_server(&mut self, steady: &[Inference], unserved: Option<u64>) {
        let Scenario::Server { per_second, .. } = self.scenario else { return };
        let requests: Vec<Request> = steady
            .iter()
            .map(|inference| Request {
                planned_ns: inference.planned_ns,
                start_ns: inference.start_ns,
                end_ns: inference.end_ns(),
            })
            .collect();
        if !requests.is_empty() {
            let waiting = steady.iter().filter_map(|inference| inference.queue_depth).map(u64::from);
            self.server = Some(ServerReport::new(&open_loop(&requests, per_second), waiting, unserved));
        }
    }

    fn take_generation(&mut self, generated: &[Inference]) {
        let mut sequences: Vec<Sequence> = Vec::new();
        for step in generated {
            match (step.token, sequences.last_mut()) {
                (Some(0), _) => {
                    sequences.push(Sequence { start_ns: step.start_ns, token_ns: vec![step.end_ns()] });
                }
                (_, Some(sequence)) => sequence.token_ns.push(step.end_ns()),
                (_, None) => {}
            }
        }
        if !sequences.is_empty() {
            self.generation = Some(GenerationReport::new(&summarize_generation(&sequences)));
        }
    }

    fn take_memory(&mut self, collected: &Collected) {
        let own = collected.messages.iter().find_map(|message| match message {
            WorkerMessage::OwnMemory { bytes } => Some(*bytes),
            _ => None,
        });
        // The worker reads its peak at every stage; the samples matter when it died before the last.
        let sampled = collected.samples.iter().filter_map(|sample| sample.peak_working_set_bytes).max();
        let sampled = sampled.map(|bytes| bytes.saturating_sub(own.unwrap_or(0)));
        let memory = &mut self.memory;
        memory.peak_bytes = memory.peak_bytes.max(sampled);
        memory.session_bytes = difference(memory.after_session_bytes, memory.before_session_bytes);
        memory.first_run_bytes = difference(memory.after_first_run_bytes, memory.after_session_bytes);
        memory.growth_per_inference_bytes = growth_per_inference(collected);
    }

    fn take_devices(&mut self, collected: &Collected, request: &EnergyRequest, at_rest: &AtRest) {
        let warm_up = self.warm_up.as_ref().map_or(0, |warm_up| warm_up.discarded);
        let steady = collected.steady.get(warm_up..).unwrap_or_default();
        let loops = if steady.is_empty() { &collected.generated } else { steady };
        let (Some(first), Some(last)) = (loops.first(), loops.last()) else { return };
        let busy_seconds = loops.iter().map(Inference::end_to_end_ns).sum::<u64>() as f64 / 1e9;
        let window = (first.start_ns, last.end_ns());
        let (devices, inferences) = (DeviceFigures(&collected.devices), loops.len() as u64);
        let load = devices.load(window);
        match devices.energy(window, inferences, busy_seconds, at_rest) {
            Ok(mut report) => {
                let processors =
                    std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64;
                let all = load.map(|load| load * processors).filter(|cores| *cores > 0.0);
                if let Some((own, all)) = self.cpu_cores_used.zip(all) {
                    report.set_process_share((own / all).min(1.0));
                }
                let carbon = request.carbon.as_ref();
                report.carbon =
                    carbon.map(|intensity| intensity.of(report.joules, report.joules_per_inference));
                self.energy = Some(report);
            }
            Err(why) => {
                let tdp = request.tdp_w.zip(load);
                self.energy_estimate =
                    tdp.and_then(|(tdp_w, load)| estimate(tdp_w, load, inferences, busy_seconds));
                if request.tdp_w.is_some() && self.energy_estimate.is_none() {
                    let why = "it was not told how busy the processors were; --duration 3s measures longer";
                    self.unavailable.insert("energy_estimate", why.to_owned());
                }
                // A meter that vanished is the reason, not the time.
                let lost =
                    devices.lost.iter().map(|(_, lost)| lost).find(|lost| !why.contains(lost.as_str()));
                let lost = lost.map(|lost| format!("; {lost}")).unwrap_or_default();
                self.unavailable.insert("energy.power_w", format!("{why}{lost}"));
            }
        }
        if request.carbon.is_some() && self.energy.is_none() {
            let why = "carbon is told of measured energy only, and none was measured";
            self.unavailable.insert("energy.carbon", why.to_owned());
        }
        if request.idle.is_some() && self.energy.as_ref().is_some_and(|energy| energy.idle.is_none()) {
            let why = "the counters of energy were not read often enough at rest; --idle 5s measures longer";
            self.unavailable.insert("energy.idle", why.to_owned());
        }
        self.heat = devices.heat(window);
        let pid = collected.samples.first().and_then(|sample| u32::try_from(sample.pid).ok());
        self.devices = devices.accelerators(window, pid);
        self.counters = devices.counters(window, inferences);
        if self.counters.is_none() {
            let why = devices.why_no_counters.clone();
            let why = why.unwrap_or_else(|| {
                "the measurement was too short for two readings of the counters".to_owned()
            });
            self.unavailable.insert("counters", why);
        }
        if self.counters.as_ref().is_some_and(|counters| counters.l2_hit_ratio.is_none())
            && let Some(why) = &devices.why_no_l2
        {
            self.unavailable.insert("counters.l2_hit_ratio", why.clone());
        }
        for (at_ns, why) in &devices.lost {
            let when = match at_ns.checked_sub(window.0) {
                Some(after_ns) => format!("{:.1} s after the first measured run", after_ns as f64 / 1e9),
                None => "before the first measured run".to_owned(),
            };
            self.notes.push(format!("{why} ({when})"));
        }
    }

    /// Devices of this measurement whose clock was held down: processors always, a GPU or an NPU only if the model used one.
    pub fn held_down(&self) -> Vec<String> {
        let by_provider = self.placement.as_ref().is_some_and(|placement| {
            placement.nodes.iter().any(|part| part.nodes > 0 && part.provider != "CPUExecutionProvider")
        });
        let is_used = |device: &str| {
            let mut reports = self.devices.iter().filter(|report| report.device == device);
            by_provider
                || reports.any(|report| report.process_utilization_ratio.is_some_and(|ratio| ratio > 0.0))
        };
        let is_accelerator = |device: &str| device.starts_with("gpu") || device.starts_with("npu");
        let throttled = self.heat.throttled.iter();
        throttled
            .filter(|throttled| !is_accelerator(&throttled.device) || is_used(&throttled.device))
            .map(|throttled| throttled.describe())
            .collect()
    }

    /// FLOPs and joules belong together once operators are known.
    pub fn join_energy_and_operators(&mut self) {
        let (Some(energy), Some(operators)) = (&mut self.energy, &self.operators) else { return };
        let flops = &operators.flops;
        if flops.flops_per_run > 0 {
            energy.set_flops(flops.flops_per_run as f64);
        }
    }

    fn take_slowest(&mut self, collected: &Collected) {
        let sensors = &collected.devices.sensors;
        let warm_up = self.warm_up.as_ref().map_or(0, |warm_up| warm_up.discarded);
        let steady = collected.steady.get(warm_up..).unwrap_or_default();
        let loops = if steady.is_empty() { &collected.generated } else { steady };
        self.slowest = slowest(loops, sensors);
        if !self.slowest.is_empty() && self.slowest.iter().all(|one| one.around.is_empty()) {
            let why = "nothing was read within 100 ms: devices are read ten times a second; measure longer";
            self.unavailable.insert("slowest.around", why.to_owned());
        } else if let (Some(full_at_ns), Some(first)) = (sensors.full_at_ns, loops.first()) {
            let seconds = full_at_ns.saturating_sub(first.start_ns) as f64 / 1e9;
            let why =
                format!("readings of devices are kept for the first {seconds:.0} s; the recording has all");
            self.unavailable.insert("slowest.around", why);
        }
    }

    fn explain_gaps(&mut self) {
        let mut missing = |metric: &'static str, why: &str| {
            self.unavailable.entry(metric).or_insert_with(|| why.to_owned());
        };
        if self.energy.is_none() {
            missing("energy.power_w", "nothing was measured");
        }
        if self.memory.peak_bytes.is_none() {
            missing("memory.peak_bytes", "this system does not tell the peak of a process");
        }
        if self.placement.as_ref().is_some_and(|placement| placement.nodes.is_empty()) {
            missing("placement.nodes", "ONNX Runtime tells the placement of nodes from version 1.24 on");
        }
        if self.inputs.as_ref().is_some_and(|inputs| inputs.padding_ratio.is_none()) {
            missing(
                "inputs.padding_ratio",
                "no mask was given with --input, so nothing says what is padding",
            );
        }
        if self.memory.growth_per_inference_bytes.is_none() {
            missing("memory.growth_per_inference_bytes", "the measurement was too short to see growth");
        }
        if self.latency.is_none() && self.generation.is_none() {
            missing("latency", "no run was left to measure");
        }
        missing("operators", "operators were not profiled");
        if self.allocator.is_none() {
            missing(
                "allocator",
                "ONNX Runtime gives allocator statistics from version 1.23 on, for sessions with an arena",
            );
        }
    }
}

impl Memory {
    fn stage(&mut self, stage: MemoryStage) -> &mut Option<u64> {
        match stage {
            MemoryStage::BeforeSession => &mut self.before_session_bytes,
            MemoryStage::AfterSession => &mut self.after_session_bytes,
            MemoryStage::AfterFirstRun => &mut self.after_first_run_bytes,
            MemoryStage::End => &mut self.end_bytes,
        }
    }
}

/// ONNX Runtime gives its statistics as text.
fn as_number(text: &str) -> Value {
    text.parse::<i64>().map_or_else(|_| Value::from(text), Value::from)
}

fn difference(after: Option<u64>, before: Option<u64>) -> Option<i64> {
    Some(i64::try_from(after?).ok()? - i64::try_from(before?).ok()?)
}

/// The worker's memory against the inferences done by then. `steady` is in the order of time.
fn memory_points(collected: &Collected, arena: &[ArenaSample]) -> Vec<MemoryPoint> {
    let starts: Vec<u64> = collected.steady.iter().map(|inference| inference.start_ns).collect();
    let process: Vec<(u64, u64)> =
        collected.samples.iter().map(|sample| (sample.timestamp_ns, sample.working_set_bytes)).collect();
    let arena: Vec<(u64, ArenaPoint)> =
        arena.iter().map(|sample| (sample.timestamp_ns, sample.arena)).collect();
    leak::points_of(&starts, &process, &arena)
}

/// Slope of the worker's memory over the second half of the loop, where buffers have settled, per inference.
fn growth_per_inference(collected: &Collected) -> Option<f64> {
    let (first, last) = (collected.steady.first()?, collected.steady.last()?);
    let middle = first.start_ns + (last.start_ns - first.start_ns) / 2;
    let during: Vec<_> = collected
        .samples
        .iter()
        .filter(|sample| (middle..=last.start_ns).contains(&sample.timestamp_ns))
        .collect();
    let (begin, end) = (during.first()?, during.last()?);
    if during.len() < 5 {
        return None;
    }
    let runs = collected
        .steady
        .iter()
        .filter(|inference| (begin.timestamp_ns..end.timestamp_ns).contains(&inference.start_ns))
        .count();
    let growth = end.working_set_bytes as f64 - begin.working_set_bytes as f64;
    (runs > 0).then(|| growth / runs as f64)
}

fn median_ms(values: impl Iterator<Item = u64>) -> f64 {
    ortscope_analyze::median_ns(values).map_or(0.0, |nanos| nanos / 1e6)
}

fn losses(counted: &[(String, String, u64)], collected: &Collected) -> Vec<Loss> {
    let mut losses: Vec<Loss> = counted
        .iter()
        .map(|(place, kind, count)| Loss { place: place.clone(), kind: kind.clone(), count: *count })
        .collect();
    if collected.unreadable_messages > 0 {
        losses.push(Loss {
            place: "supervisor".into(),
            kind: "unreadable messages".into(),
            count: collected.unreadable_messages,
        });
    }
    losses
}

fn describe_end(ended: Ended, rule: &StopRule, failed: bool) -> (StopCode, &'static str) {
    match ended {
        _ if failed => (StopCode::Failed, "it failed"),
        Ended::Rule(StopReason::PrecisionReached) => {
            (StopCode::Precision, "the median is known as well as asked")
        }
        Ended::Rule(StopReason::DurationReached) => (StopCode::Duration, "the time asked for has passed"),
        Ended::Rule(StopReason::RunsReached) => (StopCode::Runs, "the runs asked for are done"),
        Ended::Rule(StopReason::Cap) => (StopCode::TimeLimit, "the time limit came before the precision"),
        // The worker keeps the hard limits by itself and is usually the first to see them reached.
        Ended::WorkerDone if rule.max_runs.is_some() => (StopCode::Runs, "the runs asked for are done"),
        Ended::WorkerDone if rule.duration_seconds.is_some() => {
            (StopCode::Duration, "the time asked for has passed")
        }
        Ended::WorkerDone => (StopCode::TimeLimit, "the time limit came before the precision"),
        Ended::Interrupted => (StopCode::Interrupted, "interrupted"),
        Ended::RecordLimit => (StopCode::RecordLimit, "the limit of kept records was reached"),
    }
}
