//! Arguments and configuration become jobs: every default is decided here, and nothing is decided later.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ortscope_analyze::StopRule;
use ortscope_analyze::carbon::CarbonIntensity;
use ortscope_analyze::summary::WarmUpChoice;
use ortscope_core::config::Config;
use ortscope_decode::onnx::Graph;
use ortscope_ort::{FallbackPolicy, Optimization, ProviderRequest, SessionOptions};

use super::sweep;
use crate::args::{GlobalArgs, RunArgs};
use crate::exit::Failure;
use crate::operators::ProfileRequest;
use crate::{ort_library, settings, values};
use ortscope_analyze::facts::{EnergyRequest, MeasurementPlan, Scenario};
use ortscope_observe::measure::plan::{GeneratePlan, InputPlan, RunLimits, WorkerPlan};
use ortscope_observe::model_file::{self, ModelFacts};

const DEFAULT_SEED: u64 = 42;
/// An open loop has no precision to reach: it runs for this long unless told otherwise.
const SERVER_SECONDS: f64 = 10.0;
const MIN_WINDOW_SECONDS: f64 = 0.5;
/// Rows of a sweep are measured more briefly than a single run.
const SWEEP_CAP_SECONDS: f64 = 8.0;

/// One worker's work, and how to judge it.
#[derive(Debug, Clone)]
pub struct Job {
    /// The position among the jobs of the command.
    pub position: usize,
    pub model: Arc<ModelFacts>,
    /// The graph of the file.
    pub graph: Arc<Graph>,
    /// What to find out about operators after the measurement.
    pub profile: Option<ProfileRequest>,
    /// How often to profile a few runs during it.
    pub profile_every: Option<Duration>,
    /// In a sweep: what distinguishes this job.
    pub label: Option<String>,
    pub settings: BTreeMap<String, String>,
    pub is_default: bool,
    pub plan: WorkerPlan,
    pub rule: StopRule,
    pub warm_up: WarmUpChoice,
    /// Measured at the same time as others.
    pub together: bool,
    /// Judge at the end whether memory leaks.
    pub soak: bool,
    /// What to find out about energy.
    pub energy: EnergyRequest,
    /// Record what the kernel does to the worker.
    pub kernel: bool,
    /// How often the worker's memory is sampled.
    pub sampling_hertz: f64,
    pub notes: Vec<String>,
}

impl Job {
    /// The plan that the recording keeps.
    pub fn measured(&self) -> MeasurementPlan {
        MeasurementPlan {
            position: self.position,
            model: (*self.model).clone(),
            model_path: self.model.path.clone(),
            label: self.label.clone(),
            configuration: self.plan.options.clone(),
            session_ids: Vec::new(),
            pid: None,
            scenario: self.plan.scenario,
            warm_up: self.warm_up,
            rule: self.rule,
            soak: self.soak,
            energy: self.energy.clone(),
            notes: self.notes.clone(),
        }
    }

    pub fn title(&self) -> String {
        match &self.label {
            Some(label) => format!("{}  {label}", self.model.name),
            None => self.model.name.clone(),
        }
    }
}

pub fn plan(args: &RunArgs, global: &GlobalArgs) -> Result<Vec<Job>, Failure> {
    let config = settings::load(global.config.as_deref())?;
    let scenario = scenario(args, &config)?;
    let rule = stop_rule(args, &config, scenario)?;
    let options = session_options(args, &config, scenario)?;
    let shapes = shapes(args, &config)?;
    check_batches(args)?;
    let (profile, profile_every, energy) = (profile(args)?, profile_every(args)?, energy_request(args)?);
    // Files first: a typing mistake in a path is told before ONNX Runtime is looked for.
    let mut models = Vec::new();
    for path in &args.models {
        models.push(model_file::open(path, args.allow_external_data)?);
    }
    let library = ort_library::find(global, &config)?;
    let mut jobs = Vec::new();
    for model in models {
        let plan = WorkerPlan {
            library: library.clone(),
            model: model.facts.path.clone(),
            channel: PathBuf::new(),
            options: options.clone(),
            sessions: args.sessions,
            session_ids: Vec::new(),
            inputs: InputPlan {
                files: args.input.clone(),
                shapes: shapes.clone(),
                batch: args.batch.first().copied(),
                seed: args.seed.or(config.run.seed).unwrap_or(DEFAULT_SEED),
                hints: model.hints,
            },
            scenario,
            limits: limits(&rule),
            generate: args.generate.map(|new_tokens| GeneratePlan { prompt_tokens: args.prompt, new_tokens }),
            check_outputs: args.check_outputs.is_some(),
            answers_file: None,
            turns: None,
            time_second_session: true,
            profile: None,
            windows: None,
            levels: None,
            arena_every_ns: args.soak.is_some().then(|| arena_period_ns(&rule)),
        };
        let job = Job {
            position: 0,
            model: Arc::new(model.facts),
            graph: Arc::new(model.model.graph),
            profile,
            profile_every,
            label: None,
            settings: BTreeMap::new(),
            is_default: true,
            plan,
            rule,
            warm_up: args.warm_up.map_or(WarmUpChoice::Detect, |runs| {
                WarmUpChoice::Discard(usize::try_from(runs).unwrap_or(usize::MAX))
            }),
            together: args.together,
            soak: args.soak.is_some(),
            energy: energy.clone(),
            kernel: args.kernel,
            sampling_hertz: sampling_hertz(args, &config, &rule),
            notes: model.notes,
        };
        jobs.extend(sweep::expand(args, job)?);
    }
    jobs.iter_mut().enumerate().for_each(|(position, job)| job.position = position);
    Ok(jobs)
}

/// The same rule for a row of a sweep: briefer, unless the user said how long.
pub fn brief(rule: StopRule) -> StopRule {
    match (rule.max_runs, rule.duration_seconds) {
        (None, None) => StopRule { tail_seconds: 2.0, max_seconds: Some(SWEEP_CAP_SECONDS), ..rule },
        _ => rule,
    }
}

fn scenario(args: &RunArgs, config: &Config) -> Result<Scenario, Failure> {
    let scenario = match args.scenario.as_deref().or(config.run.scenario.as_deref()) {
        Some(text) => text.parse().map_err(Failure::usage)?,
        None if args.sessions > 1 => Scenario::Multi { streams: args.sessions },
        None => Scenario::Single,
    };
    if args.generate.is_some() && scenario != Scenario::Single {
        return Err(Failure::usage(
            "--generate makes one sequence after another: leave --scenario and --sessions out",
        ));
    }
    if args.generate == Some(0) || args.generate.is_some_and(|tokens| tokens > 1_000_000) {
        return Err(Failure::usage("--generate needs a number of tokens from 1 to 1000000"));
    }
    if args.prompt == 0 {
        return Err(Failure::usage(
            "--prompt 0 leaves nothing to start from: a prompt has at least one token",
        ));
    }
    Ok(scenario)
}

fn stop_rule(args: &RunArgs, config: &Config, scenario: Scenario) -> Result<StopRule, Failure> {
    if args.runs == Some(0) {
        return Err(Failure::usage("--runs 0 would measure nothing")
            .with_hint("leave --runs out to stop when the median is known to 1 %"));
    }
    if args.runs.is_some() && args.precision.is_some() || args.duration.is_some() && args.precision.is_some()
    {
        return Err(Failure::usage(
            "--precision decides by itself when to stop: leave --runs and --duration out",
        ));
    }
    let duration = args
        .duration
        .as_deref()
        .or(args.soak.as_deref())
        .map(values::duration_seconds)
        .transpose()
        .map_err(Failure::usage)?;
    let duration =
        duration.or(config.run.duration_seconds.filter(|_| args.runs.is_none() && args.precision.is_none()));
    let precision =
        args.precision.as_deref().map(values::precision_ratio).transpose().map_err(Failure::usage)?;
    if let (Some(runs), Some(warm_up)) = (args.runs, args.warm_up)
        && warm_up >= runs
    {
        return Err(Failure::usage(format!("--warm-up {warm_up} would leave nothing of {runs} runs")));
    }
    let open_loop = matches!(scenario, Scenario::Server { .. });
    Ok(match (args.runs, duration) {
        (Some(runs), duration) => StopRule { duration_seconds: duration, ..StopRule::for_runs(runs) },
        (None, Some(seconds)) => StopRule::for_duration(seconds),
        (None, None) if open_loop => StopRule::for_duration(SERVER_SECONDS),
        // Tokens are judged by sequences: five seconds give hundreds of them for a small model.
        (None, None) if args.generate.is_some() => StopRule::for_duration(5.0),
        (None, None) => StopRule::for_precision(precision.or(config.run.precision).unwrap_or(0.01)),
    })
}

/// Rows of a sweep and models that compete are measured only: profiling them would take longer than measuring.
fn profile(args: &RunArgs) -> Result<Option<ProfileRequest>, Failure> {
    let what = args.profile.as_deref();
    let single = args.batch.len() < 2 && args.sweep.is_empty() && !args.together;
    if !single && (args.profile_runs.is_some() || what.is_some_and(|what| what != "off")) {
        return Err(Failure::usage("operators are not profiled in sweeps and with --together")
            .with_hint("profile the configuration you are interested in alone"));
    }
    if what == Some("off") && args.profile_runs.is_some() {
        return Err(Failure::usage("--profile off and --profile-runs contradict each other"));
    }
    if what == Some("off") || !single {
        return Ok(None);
    }
    let usual = ProfileRequest { levels: what == Some("full"), ..ProfileRequest::default() };
    Ok(Some(match args.profile_runs {
        Some(runs) => ProfileRequest { runs, duration: None, ..usual },
        None => usual,
    }))
}

fn profile_every(args: &RunArgs) -> Result<Option<Duration>, Failure> {
    let Some(text) = &args.profile_every else { return Ok(None) };
    let seconds = values::duration_seconds(text).map_err(Failure::usage)?;
    let single = args.batch.len() < 2 && args.sweep.is_empty() && !args.together;
    if !single || args.generate.is_some() {
        return Err(Failure::usage("--profile-every is for one model and one setting, without --generate"));
    }
    // More often than that, and the measurement would be of the profiler.
    if seconds < MIN_WINDOW_SECONDS {
        return Err(Failure::usage(format!("--profile-every needs at least {MIN_WINDOW_SECONDS} s")));
    }
    Ok(Some(Duration::from_secs_f64(seconds)))
}

/// Carbon by a number or a country, the design power, the time at rest.
fn energy_request(args: &RunArgs) -> Result<EnergyRequest, Failure> {
    let carbon = match (args.carbon_intensity, &args.country) {
        (Some(grams), _) => Some(CarbonIntensity::given(grams).ok_or_else(|| {
            Failure::usage("--carbon-intensity is a number of grams per kilowatt hour, 0 to 10000")
        })?),
        (None, Some(country)) => Some(CarbonIntensity::of_country(country).ok_or_else(|| {
            Failure::usage(format!(
                "the table of countries does not know '{country}'; give its three letters (DEU, USA) or --carbon-intensity"
            ))
        })?),
        (None, None) => None,
    };
    if args.estimate_energy.is_some_and(|watts| !(0.1..=100_000.0).contains(&watts)) {
        return Err(Failure::usage(
            "--estimate-energy is the thermal design power of the processor in watts, e.g. 65",
        ));
    }
    let idle = args.idle.as_deref().map(values::duration_seconds).transpose().map_err(Failure::usage)?;
    let idle = match idle {
        Some(seconds) if !(1.0..=600.0).contains(&seconds) => {
            return Err(Failure::usage("--idle is from 1 s to 10 minutes: counters need ten readings"));
        }
        idle => idle.map(Duration::from_secs_f64),
    };
    Ok(EnergyRequest {
        tdp_w: args.estimate_energy,
        carbon,
        idle_seconds: idle.map(|idle| idle.as_secs_f64()),
    })
}

/// A thousand looks at the arena, or some thousand if the soak is long.
fn arena_period_ns(rule: &StopRule) -> u64 {
    const LOOKS: f64 = 1200.0;
    let seconds = rule.duration_seconds.map_or(0.0, |seconds| seconds / LOOKS);
    (seconds.clamp(0.1, 10.0) * 1e9) as u64
}

/// How often memory is sampled: often enough that also a short soak has its windows.
fn sampling_hertz(args: &RunArgs, config: &Config, rule: &StopRule) -> f64 {
    const SAMPLES: f64 = 2000.0;
    const MOST: f64 = 200.0;
    let usual = config.monitoring.memory.sampling_hz;
    match rule.duration_seconds.filter(|_| args.soak.is_some()) {
        Some(seconds) => usual.max((SAMPLES / seconds).min(MOST)),
        None => usual,
    }
}

fn limits(rule: &StopRule) -> RunLimits {
    let nanos = rule.duration_seconds.or(rule.max_seconds).map(|seconds| (seconds * 1e9) as u64);
    RunLimits { runs: rule.max_runs, duration_ns: nanos }
}

fn session_options(args: &RunArgs, config: &Config, scenario: Scenario) -> Result<SessionOptions, Failure> {
    let level = args.opt.as_deref().or(config.run.optimization.as_deref()).unwrap_or("all");
    let names = if args.provider.is_empty() { &config.run.providers } else { &args.provider };
    let mut config_entries = config.ort.config_entries.clone();
    for entry in &args.config_entry {
        let (key, value) =
            values::key_value(entry, "a session configuration entry").map_err(Failure::usage)?;
        config_entries.insert(key, value);
    }
    let mut threads = args.threads.or(config.run.threads);
    if matches!(scenario, Scenario::Offline { .. }) {
        // Streams already fill the cores; threads inside each would only get in each other's way.
        threads = threads.or(Some(1));
    }
    if args.inter_threads.is_some() && !args.parallel {
        return Err(Failure::usage("--inter-threads has an effect only with --parallel"));
    }
    Ok(SessionOptions {
        intra_op_threads: threads,
        inter_op_threads: args.inter_threads,
        optimization: level.parse::<Optimization>().map_err(Failure::usage)?,
        parallel: args.parallel,
        cpu_arena: args.no_arena.then_some(false),
        memory_pattern: args.no_memory_pattern.then_some(false),
        fallback: fallback_policy(names),
        providers: providers(names, &args.provider_option, &args.provider_library)?,
        config_entries,
        ..SessionOptions::default()
    })
}

/// Only a user who ends the list with the CPU agrees to be measured there.
pub fn fallback_policy(names: &[String]) -> FallbackPolicy {
    let cpu_last = names.len() > 1 && names.last().is_some_and(|name| is_cpu(name));
    if cpu_last { FallbackPolicy::ContinueOnCpu } else { FallbackPolicy::Fail }
}

fn is_cpu(name: &str) -> bool {
    name.eq_ignore_ascii_case("cpu") || name == "CPUExecutionProvider"
}

/// `options` and `libraries` as typed: `NAME.KEY=VALUE` and `NAME=PATH`.
pub fn providers(
    names: &[String],
    options: &[String],
    libraries: &[String],
) -> Result<Vec<ProviderRequest>, Failure> {
    let mut requests: Vec<ProviderRequest> = Vec::new();
    for name in names {
        if name.trim().is_empty() {
            return Err(Failure::usage("--provider has an empty name"));
        }
        requests.push(ProviderRequest::named(name.trim()));
    }
    let find = |name: &str, flag: &str| -> Result<usize, Failure> {
        requests.iter().position(|request| request.name.eq_ignore_ascii_case(name)).ok_or_else(|| {
            Failure::usage(format!("{flag} names the provider '{name}', which --provider does not ask for"))
        })
    };
    let mut changes: Vec<(usize, Change)> = Vec::new();
    for option in options {
        let (key, value) = values::key_value(option, "a provider option").map_err(Failure::usage)?;
        let Some((provider, key)) = key.split_once('.') else {
            return Err(Failure::usage(format!(
                "'{option}' does not say whose option it is: write NAME.KEY=VALUE"
            )));
        };
        changes.push((find(provider, "--provider-option")?, Change::Option(key.to_owned(), value)));
    }
    for library in libraries {
        let (provider, path) = values::key_value(library, "a provider library").map_err(Failure::usage)?;
        changes.push((find(&provider, "--provider-library")?, Change::Library(std::path::absolute(path)?)));
    }
    for (index, change) in changes {
        let Some(request) = requests.get_mut(index) else {
            continue;
        };
        match change {
            Change::Option(key, value) => {
                request.options.insert(key, value);
            }
            Change::Library(path) => request.library = Some(path),
        }
    }
    Ok(requests)
}

enum Change {
    Option(String, String),
    Library(PathBuf),
}

fn shapes(args: &RunArgs, config: &Config) -> Result<BTreeMap<String, String>, Failure> {
    let mut shapes = config.run.shapes.clone();
    for shape in &args.shape {
        // Checked here for its form; whether the model has such an input is for the worker to say.
        ortscope_ort::inputs::parse_shape_override(shape).map_err(Failure::usage)?;
        let (name, sizes) = values::key_value(shape, "a shape").map_err(Failure::usage)?;
        shapes.insert(name, sizes);
    }
    Ok(shapes)
}

fn check_batches(args: &RunArgs) -> Result<(), Failure> {
    if let Some(bad) = args.batch.iter().find(|batch| !(1..=1_048_576).contains(*batch)) {
        return Err(Failure::usage(format!("a batch of {bad} is not possible: from 1 to 1048576")));
    }
    if args.batch.len() > 1 && !args.sweep.is_empty() {
        return Err(Failure::usage(
            "a batch sweep and --sweep at once would multiply: do one after the other",
        ));
    }
    if (args.batch.len() > 1 || !args.sweep.is_empty()) && (args.models.len() > 1 || args.together) {
        return Err(Failure::usage("a sweep takes one model at a time"));
    }
    Ok(())
}
