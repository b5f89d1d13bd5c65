//! The result of one measured configuration, built from the rows of its measurement.

mod findings;
mod rows;
mod slowest;

use std::collections::BTreeMap;
use std::path::PathBuf;

use ortscope_analyze::energy::{EnergyEstimate, EnergyReport, estimate};
use ortscope_analyze::facts::{
    ArenaSample, Ended, Fact, InputsMade, MeasurementPlan, MemoryStage, ModelFacts, Outcome, OutputsChecked,
    Scenario, SessionCreated,
};
use ortscope_analyze::generation::{Sequence, summarize_generation};
use ortscope_analyze::leak::{self, ArenaPoint, LeakReport, MemoryPoint, detect_leak};
use ortscope_analyze::measurement::{CounterReport, DeviceReport, HeatReport, Inference, Measurement};
use ortscope_analyze::open_loop::{Request, open_loop};
use ortscope_analyze::operators::section::{OperatorSection, WindowReport};
use ortscope_analyze::summary::WarmUpChoice;
use ortscope_analyze::throughput::{Completion, Throughput, throughput};
use ortscope_analyze::{StopReason, StopRule, SummaryOptions, WarmUp, summarize};
use ortscope_core::failure::Failure;
use ortscope_core::session::{Fallback, LogLine, SessionOptions, UsedDevice};
use ortscope_core::units;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use slowest::SlowestInference;

use self::slowest::slowest;
use crate::latency::ms;
use crate::serving::ServerFacts;
use crate::{Cold, FindingReport, GenerationReport, LatencyReport, LossReport, ProviderNodes, ServerReport};

/// The maximum length of a text.
const MAX_TEXT: usize = 1000;

/// One model under one configuration. Fields that an older version did not write take their defaults.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunResult {
    pub model: ModelFacts,
    /// For commands to try.
    #[serde(skip)]
    pub model_path: PathBuf,
    /// What distinguishes this result in a sweep, e.g. `threads=2 opt=all`.
    pub label: Option<String>,
    pub configuration: SessionOptions,
    pub sessions: u64,
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
    pub stopped: String,
    pub wall_seconds: f64,
    pub findings: Vec<FindingReport>,
    pub notes: Vec<String>,
    pub logs: Vec<LogLine>,
    /// Records that were lost: nothing is missing silently.
    pub losses: Vec<LossReport>,
    /// Metrics without a value, and why.
    pub unavailable: BTreeMap<String, String>,
    pub failure: Option<Failure>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RuntimeReport {
    pub version: String,
    pub build_info: String,
    pub available_providers: Vec<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
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

/// Why the measurement ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCode {
    #[default]
    Precision,
    Duration,
    Runs,
    TimeLimit,
    RecordLimit,
    Interrupted,
    Failed,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Latency {
    /// The call into ONNX Runtime.
    pub inference: LatencyReport,
    /// Copy in, inference, waiting for the device and copy out.
    pub end_to_end: LatencyReport,
    pub copy_in_ms: f64,
    pub copy_out_ms: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "WorkerMemory")]
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

impl RunResult {
    /// The result of a measurement; `None` if it has no plan.
    pub fn new(mut measurement: Measurement) -> Option<Self> {
        let plan = measurement.plan()?.clone();
        let outcome = measurement.outcome().cloned().unwrap_or_else(cut_off);
        let stop = describe_end(outcome.ended, &plan.rule, outcome.failure.is_some());
        measurement.steady.sort_by_key(|inference| inference.start_ns);
        let mut result = Self {
            model: plan.model.clone(),
            model_path: plan.model_path.clone(),
            label: plan.label.clone(),
            configuration: plan.configuration.clone(),
            sessions: plan.session_ids.len() as u64,
            session_ids: plan.session_ids.clone(),
            scenario: plan.scenario,
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
            stopped: stop.1.to_owned(),
            wall_seconds: outcome.wall_seconds,
            findings: Vec::new(),
            notes: plan.notes.clone(),
            logs: Vec::new(),
            losses: losses(&outcome, &measurement),
            unavailable: BTreeMap::new(),
            failure: outcome.failure.clone(),
        };
        for (source, error) in &outcome.source_errors {
            result.notes.push(format!("{source}: {error}"));
        }
        let unserved = result.take_facts(&measurement.facts);
        result.cold.first_run_ms = measurement.first.first().map(|first| ms(first.end_to_end_ns()));
        result.take_latency(&measurement.steady, plan.warm_up);
        result.take_server(&measurement.steady, unserved);
        result.take_generation(&measurement.generated);
        result.take_memory(&measurement);
        result.take_slowest(&measurement);
        result.take_devices(&measurement, &plan, &outcome);
        if plan.soak {
            result.arena_samples.sort_by_key(|sample| sample.timestamp_ns);
            result.leak = Some(detect_leak(&memory_points(&measurement, &result.arena_samples)));
        }
        result.join_energy_and_operators();
        result.explain_gaps();
        result.findings = findings::find(&result);
        result.add_operator_findings(&measurement.facts);
        Some(result.cleaned())
    }

    /// The same with every text on one line, without control characters and of bounded length: names of nodes and models
    /// are untrusted, and every rendering shows them.
    pub(crate) fn cleaned(self) -> Self {
        let Ok(mut value) = serde_json::to_value(&self) else { return self };
        clean_texts(&mut value);
        match serde_json::from_value::<Self>(value) {
            Ok(cleaned) => Self { model_path: self.model_path, arena_samples: self.arena_samples, ..cleaned },
            Err(_) => self,
        }
    }

    /// Findings of the operator pass; one that is known already is not repeated.
    fn add_operator_findings(&mut self, facts: &[Fact]) {
        let found = facts.iter().filter_map(|fact| match fact {
            Fact::OperatorFindings { findings } => Some(findings),
            _ => None,
        });
        for finding in found.flatten() {
            if self.findings.iter().all(|known| known.id != finding.id) {
                self.findings.push(findings::of_operators(self, finding));
            }
        }
        self.findings.sort_by_key(|finding| finding.severity);
    }

    pub fn measured_runs(&self) -> u64 {
        let tokens = self.generation.as_ref().map_or(0, |generation| generation.tokens);
        self.latency.as_ref().map_or(tokens, |latency| latency.inference.runs)
    }

    /// Returns how many requests of an open loop were never started.
    fn take_facts(&mut self, facts: &[Fact]) -> Option<u64> {
        let mut steady: [Option<(u64, u64)>; 2] = [None, None];
        let mut unserved = None;
        for fact in facts {
            match fact {
                Fact::Runtime { version, build_info, available_providers } => {
                    self.runtime = Some(RuntimeReport {
                        version: version.clone(),
                        build_info: build_info.clone(),
                        available_providers: available_providers.clone(),
                    });
                }
                Fact::FileRead { nanos, .. } => self.cold.file_read_ms = Some(ms(*nanos)),
                Fact::SessionCreated(created) => self.take_session(created),
                Fact::SecondSession { nanos, reason } => {
                    self.cold.session_again_ms = nanos.map(ms);
                    if let Some(reason) = reason {
                        self.unavailable.insert("cold.session_again_ms".to_owned(), reason.clone());
                    }
                }
                Fact::Inputs(inputs) => self.inputs = Some(inputs.clone()),
                Fact::Memory { stage, working_set_bytes, peak_working_set_bytes } => {
                    self.memory.peak_bytes = self.memory.peak_bytes.max(*peak_working_set_bytes);
                    *self.memory.stage(*stage) = Some(*working_set_bytes);
                }
                Fact::Steady { begin, timestamp_ns, cpu_time_ns } => {
                    steady[usize::from(!begin)] = Some((*timestamp_ns, *cpu_time_ns));
                }
                Fact::OutputsChecked(checked) => self.outputs_checked = Some(checked.clone()),
                Fact::Windows { windows } => self.operator_windows.clone_from(windows),
                Fact::Operators(section) => self.operators = Some((**section).clone()),
                Fact::Unavailable { metric, reason } => {
                    self.unavailable.insert(metric.clone(), reason.clone());
                }
                Fact::Allocator { statistics } => {
                    let numbers = statistics.iter().map(|(name, value)| (name.clone(), as_number(value)));
                    self.allocator = Some(numbers.collect());
                }
                Fact::Arena(sample) => self.arena_samples.push(*sample),
                Fact::Unserved { requests } => unserved = Some(*requests),
                Fact::Logs { lines, dropped } => {
                    self.logs.extend(lines.iter().cloned());
                    if *dropped > 0 {
                        self.notes.push(format!("{dropped} log lines of ONNX Runtime were not kept"));
                    }
                }
                Fact::Note { text } => self.notes.push(text.clone()),
                Fact::Plan(_)
                | Fact::Outcome(_)
                | Fact::OperatorFindings { .. }
                | Fact::Profiled(_)
                | Fact::Levels { .. }
                | Fact::OwnMemory { .. }
                | Fact::Failed { .. }
                | Fact::Done => {}
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
        let Some(summary) = summarize(&run, SummaryOptions { warm_up }) else { return };
        let kept = steady.get(summary.warm_up.discarded..).unwrap_or_default();
        let end_to_end: Vec<u64> = kept.iter().map(Inference::end_to_end_ns).collect();
        let keep = SummaryOptions { warm_up: WarmUpChoice::Keep };
        let Some(whole) = summarize(&end_to_end, keep) else { return };
        self.latency = Some(Latency {
            inference: LatencyReport::from_summary(&summary),
            end_to_end: LatencyReport::from_summary(&whole),
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
            let depths: Vec<u64> =
                steady.iter().filter_map(|inference| inference.queue_depth).map(u64::from).collect();
            let mean = depths.iter().sum::<u64>() as f64 / depths.len().max(1) as f64;
            let analysis = open_loop(&requests, per_second);
            self.server = Some(ServerReport::new(
                &analysis,
                ServerFacts {
                    requests: requests.len() as u64,
                    target_is_asked_for: true,
                    achieved_per_second: analysis.achieved_per_second,
                    queue_depth_mean: (!depths.is_empty()).then_some(mean),
                    queue_depth_max: depths.iter().max().copied(),
                    unserved: Some(unserved.unwrap_or(0)),
                },
            ));
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

    fn take_memory(&mut self, collected: &Measurement) {
        let own = collected.facts.iter().find_map(|fact| match fact {
            Fact::OwnMemory { bytes } => Some(*bytes),
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

    fn take_devices(&mut self, collected: &Measurement, plan: &MeasurementPlan, outcome: &Outcome) {
        let request = &plan.energy;
        let warm_up = self.warm_up.as_ref().map_or(0, |warm_up| warm_up.discarded);
        let steady = collected.steady.get(warm_up..).unwrap_or_default();
        let loops = if steady.is_empty() { &collected.generated } else { steady };
        let (Some(first), Some(last)) = (loops.first(), loops.last()) else { return };
        let busy_seconds = loops.iter().map(Inference::end_to_end_ns).sum::<u64>() as f64 / 1e9;
        let window = (first.start_ns, last.end_ns());
        let (devices, inferences) = (&collected.devices, loops.len() as u64);
        let load = devices.load(window);
        let idle = [outcome.idle_before_w.as_ref(), outcome.idle_after_w.as_ref()];
        match devices.energy(window, inferences, busy_seconds, idle) {
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
                    let why = "the processor load is unknown; --duration 3s measures longer";
                    self.unavailable.insert("energy_estimate".to_owned(), why.to_owned());
                }
                // A meter that vanished is the reason, not the time.
                let lost =
                    devices.lost.iter().map(|(_, lost)| lost).find(|lost| !why.contains(lost.as_str()));
                let lost = lost.map(|lost| format!("; {lost}")).unwrap_or_default();
                self.unavailable.insert("energy.power_w".to_owned(), format!("{why}{lost}"));
            }
        }
        if request.carbon.is_some() && self.energy.is_none() {
            let why = "carbon is reported only for measured energy, and none was measured";
            self.unavailable.insert("energy.carbon".to_owned(), why.to_owned());
        }
        if request.idle_seconds.is_some() && self.energy.as_ref().is_some_and(|energy| energy.idle.is_none())
        {
            let why = "the energy counters were not read often enough at rest; --idle 5s measures longer";
            self.unavailable.insert("energy.idle".to_owned(), why.to_owned());
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
            self.unavailable.insert("counters".to_owned(), why);
        }
        if self.counters.as_ref().is_some_and(|counters| counters.l2_hit_ratio.is_none())
            && let Some(why) = &devices.why_no_l2
        {
            self.unavailable.insert("counters.l2_hit_ratio".to_owned(), why.clone());
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

    fn take_slowest(&mut self, collected: &Measurement) {
        let sensors = &collected.devices.sensors;
        let warm_up = self.warm_up.as_ref().map_or(0, |warm_up| warm_up.discarded);
        let steady = collected.steady.get(warm_up..).unwrap_or_default();
        let loops = if steady.is_empty() { &collected.generated } else { steady };
        self.slowest = slowest(loops, sensors);
        if !self.slowest.is_empty() && self.slowest.iter().all(|one| one.around.is_empty()) {
            let why = "no reading within 100 ms: devices are read ten times a second; measure longer";
            self.unavailable.insert("slowest.around".to_owned(), why.to_owned());
        } else if let (Some(full_at_ns), Some(first)) = (sensors.full_at_ns, loops.first()) {
            let seconds = full_at_ns.saturating_sub(first.start_ns) as f64 / 1e9;
            let why = format!(
                "device readings are kept for the first {seconds:.0} s; the recording has all of them"
            );
            self.unavailable.insert("slowest.around".to_owned(), why);
        }
    }

    fn explain_gaps(&mut self) {
        let mut missing = |metric: &str, why: &str| {
            self.unavailable.entry(metric.to_owned()).or_insert_with(|| why.to_owned());
        };
        if self.energy.is_none() {
            missing("energy.power_w", "nothing was measured");
        }
        if self.memory.peak_bytes.is_none() {
            missing("memory.peak_bytes", "this system does not report the peak memory of a process");
        }
        if self.placement.as_ref().is_some_and(|placement| placement.nodes.is_empty()) {
            missing("placement.nodes", "ONNX Runtime reports node placement from version 1.24 on");
        }
        if self.inputs.as_ref().is_some_and(|inputs| inputs.padding_ratio.is_none()) {
            missing("inputs.padding_ratio", "no mask was given with --input, so padding is unknown");
        }
        if self.memory.growth_per_inference_bytes.is_none() {
            missing("memory.growth_per_inference_bytes", "the measurement was too short to see growth");
        }
        if self.latency.is_none() && self.generation.is_none() {
            missing("latency", "no run was left to measure");
        }
        if self.operators.is_none() {
            missing("operators", "operators were not profiled");
        }
        if self.allocator.is_none() {
            missing(
                "allocator",
                "ONNX Runtime reports allocator statistics from version 1.23 on, for sessions with an arena",
            );
        }
    }
}

/// Cleans all texts of a document. Log lines and output can be long; a list of them is bounded where it is made.
fn clean_texts(value: &mut Value) {
    match value {
        Value::String(text) => *text = units::clean(text, MAX_TEXT),
        Value::Array(values) => values.iter_mut().for_each(clean_texts),
        Value::Object(fields) => {
            let entries = std::mem::take(fields).into_iter();
            *fields = entries
                .map(|(name, mut value)| {
                    clean_texts(&mut value);
                    (units::clean(&name, MAX_TEXT), value)
                })
                .collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
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
fn memory_points(collected: &Measurement, arena: &[ArenaSample]) -> Vec<MemoryPoint> {
    let starts: Vec<u64> = collected.steady.iter().map(|inference| inference.start_ns).collect();
    let process: Vec<(u64, u64)> =
        collected.samples.iter().map(|sample| (sample.timestamp_ns, sample.working_set_bytes)).collect();
    let arena: Vec<(u64, ArenaPoint)> =
        arena.iter().map(|sample| (sample.timestamp_ns, sample.arena)).collect();
    leak::points_of(&starts, &process, &arena)
}

/// Slope of the worker's memory over the second half of the loop, where buffers have settled, per inference.
fn growth_per_inference(collected: &Measurement) -> Option<f64> {
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

fn losses(outcome: &Outcome, measurement: &Measurement) -> Vec<LossReport> {
    let counted = outcome.losses.iter();
    let mut losses: Vec<LossReport> = counted
        .map(|loss| LossReport { place: loss.place.clone(), kind: loss.kind.clone(), count: loss.count })
        .collect();
    if measurement.unreadable_facts > 0 {
        losses.push(LossReport {
            place: "supervisor".into(),
            kind: "unreadable messages".into(),
            count: measurement.unreadable_facts,
        });
    }
    losses
}

/// The outcome of a measurement whose recording ends before it.
fn cut_off() -> Outcome {
    Outcome {
        ended: Ended::Interrupted,
        failure: None,
        losses: Vec::new(),
        source_errors: Vec::new(),
        wall_seconds: 0.0,
        idle_before_w: None,
        idle_after_w: None,
    }
}

fn describe_end(ended: Ended, rule: &StopRule, failed: bool) -> (StopCode, &'static str) {
    match ended {
        _ if failed => (StopCode::Failed, "it failed"),
        Ended::Rule(StopReason::PrecisionReached) => (StopCode::Precision, "requested precision reached"),
        Ended::Rule(StopReason::DurationReached) => (StopCode::Duration, "requested time has passed"),
        Ended::Rule(StopReason::RunsReached) => (StopCode::Runs, "requested number of runs done"),
        Ended::Rule(StopReason::Cap) => {
            (StopCode::TimeLimit, "time limit reached before the requested precision")
        }
        // The worker keeps the hard limits by itself and is usually the first to see them reached.
        Ended::WorkerDone if rule.max_runs.is_some() => (StopCode::Runs, "requested number of runs done"),
        Ended::WorkerDone if rule.duration_seconds.is_some() => {
            (StopCode::Duration, "requested time has passed")
        }
        Ended::WorkerDone => (StopCode::TimeLimit, "time limit reached before the requested precision"),
        Ended::Interrupted => (StopCode::Interrupted, "interrupted"),
        Ended::RecordLimit => (StopCode::RecordLimit, "limit of recorded inferences reached"),
    }
}
