//! From arguments to a plan: what to observe, how often, for how long.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use ortscope_core::config::{Aggregation, UseCase};
use ortscope_export::push::PushOptions;
use ortscope_observe::device_events::DeviceProvider;
use ortscope_observe::plan::{KernelPlan, OnMilli, Plan, StackPlan};
use ortscope_sources::ProcessSampler;
use ortscope_sources::etw::KernelFlags;
use ortscope_sources::kernel::{Class, TraceOptions};
use ortscope_sources::sampler::{CommandLines, SamplerOptions, Targets};

use super::collect::Collector;
use super::etw_settings;
use super::flame::FlameFile;
use crate::args::{GlobalArgs, WatchArgs};
use crate::exit::Failure;
use crate::{live_trace, settings, values};

/// A plan with everything else that the arguments ask for.
#[derive(Debug)]
pub struct ObservePlan {
    pub processes: SamplerOptions,
    pub duration: Option<Duration>,
    pub kernel: Option<TraceOptions>,
    /// Windows: device events in a session of their own.
    pub device_providers: Vec<DeviceProvider>,
    /// Processes that exist at the start; their children are followed.
    pub pids: Vec<u32>,
    pub stacks: Option<FlameRequest>,
    /// Functions of Python programs, read from outside.
    pub python_stacks: Option<FlameRequest>,
    pub cpu_aggregation: Aggregation,
    pub spike_percent: Option<f64>,
    /// Where metrics are pushed to meanwhile.
    pub push: Option<PushOptions>,
    /// A trace that grows meanwhile.
    pub trace: Option<PathBuf>,
    /// The observed program or processes, for people.
    pub subject: String,
}

/// Samples with stacks, and the file that they are drawn to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlameRequest {
    pub hertz: u32,
    pub file: Option<FlameFile>,
}

impl ObservePlan {
    /// The sources to start. Milliseconds of CPU use go to `collector` if spikes are wanted.
    pub fn sources(&self, collector: &Collector) -> Result<Plan, Failure> {
        let sampler = ProcessSampler::with_options(self.processes.clone())
            .map_err(|error| Failure::usage(error.to_string()))?;
        let stacks = |request: &Option<FlameRequest>| {
            request.as_ref().map(|request| StackPlan { pids: self.pids.clone(), hertz: request.hertz })
        };
        Ok(Plan {
            device_providers: self.device_providers.clone(),
            kernel: self.kernel.as_ref().map(|options| KernelPlan {
                options: options.clone(),
                pids: self.pids.iter().copied().collect(),
                on_milli: self.spike_percent.map(|_| {
                    let collector = collector.clone();
                    Box::new(move |milli| collector.lock().milli(milli)) as OnMilli
                }),
            }),
            stacks: stacks(&self.stacks),
            python_stacks: stacks(&self.python_stacks),
            ..Plan::new(sampler)
        })
    }
}

/// The rate of `--flame`: not a divisor of what programs do at even rates, so that it does not beat with them.
const USUAL_HERTZ: u32 = 99;
const MAX_HERTZ: u32 = 20_000;
/// Frames of Python are read by our own thread, one after the other.
const MAX_PYTHON_HERTZ: u32 = 1000;

/// Every mistake is reported here, before anything starts.
pub fn plan(
    targets: Targets,
    subject: String,
    args: &WatchArgs,
    global: &GlobalArgs,
) -> Result<ObservePlan, Failure> {
    let config = settings::load(global.config.as_deref())?;
    let mut sampler =
        SamplerOptions { targets, threads: args.threads, cycles: args.cycles, ..SamplerOptions::default() };
    sampler.overhead_limit_percent = match &args.use_case {
        Some(name) => use_case(name)?.overhead_limit_percent(),
        None => config.monitoring.overhead_limit,
    };
    sampler.rates.cpu_hertz = args.rate.unwrap_or(config.monitoring.cpu.sampling_hz);
    sampler.rates.memory_hertz = config.monitoring.memory.sampling_hz;
    if args.full_command_lines {
        sampler.command_lines = CommandLines::Full;
    }
    sampler.end_with_targets = true;
    sampler.check().map_err(|error| Failure::usage(error.to_string()))?;
    if let Some(percent) = args.spike
        && !(percent.is_finite() && percent > 0.0 && percent <= 1e6)
    {
        return Err(Failure::usage(format!("--spike {percent} is not a percentage of a core above 0")));
    }
    let duration =
        args.duration.as_deref().map(values::duration_seconds).transpose().map_err(Failure::usage)?;
    if !args.provider.is_empty() && ortscope_sources::etw_functions().is_none() {
        return Err(Failure::usage("providers of event tracing exist on Windows only").with_hint(
            "here GPUs, temperatures and energy are sampled without being asked for, where the machine shows them",
        ));
    }
    let (classes, flags) = args.kernel.as_deref().map(classes).transpose()?.unzip();
    let etw = etw_settings::settings(&config.etw, flags.unwrap_or_default())?;
    let kernel = classes.map(|classes| TraceOptions {
        classes,
        sample_cost: true,
        session: args.session.clone(),
        counters: args.counters.clone(),
        etw: Some(etw),
        ..TraceOptions::default()
    });
    Ok(ObservePlan {
        pids: processes_of(&sampler.targets),
        processes: sampler,
        duration: duration.map(Duration::from_secs_f64),
        kernel,
        device_providers: args.provider.iter().copied().map(Into::into).collect(),
        stacks: stacks(args)?,
        python_stacks: python_stacks(args)?,
        cpu_aggregation: config.monitoring.cpu.aggregation,
        spike_percent: args.spike,
        push: crate::push::live(&args.push, global)?,
        trace: args.perfetto.as_deref().map(live_trace::place).transpose()?,
        subject,
    })
}

fn stacks(args: &WatchArgs) -> Result<Option<FlameRequest>, Failure> {
    let flame = args.flame.as_deref().map(FlameFile::new).transpose()?;
    let hertz = match (args.sample_hz, &flame) {
        (None, None) => return Ok(None),
        (None, Some(_)) => USUAL_HERTZ,
        (Some(hertz), _) => hertz,
    };
    check_hertz(hertz, MAX_HERTZ)?;
    Ok(Some(FlameRequest { hertz, file: flame }))
}

fn python_stacks(args: &WatchArgs) -> Result<Option<FlameRequest>, Failure> {
    let Some(path) = &args.flame_python else { return Ok(None) };
    let hertz = args.sample_hz.unwrap_or(USUAL_HERTZ);
    check_hertz(hertz, MAX_PYTHON_HERTZ)?;
    Ok(Some(FlameRequest { hertz, file: Some(FlameFile::new(path)?) }))
}

fn check_hertz(hertz: u32, most: u32) -> Result<(), Failure> {
    if (1..=most).contains(&hertz) {
        return Ok(());
    }
    let sentence = format!("--sample-hz {hertz} is not a number of samples a second");
    Err(Failure::usage(sentence).with_hint(format!("1 to {most}; 99 and 999 are usual")))
}

/// The processes that are there now: by id, by name, and children of those whose children are meant.
fn processes_of(targets: &Targets) -> Vec<u32> {
    let mut pids: BTreeSet<u32> = targets.pids.iter().copied().collect();
    if targets.patterns.is_empty() && targets.children_of.is_empty() {
        return pids.into_iter().collect();
    }
    let running = ortscope_sources::processes().unwrap_or_default();
    let named =
        running.iter().filter(|process| targets.patterns.iter().any(|glob| glob.matches(&process.name)));
    pids.extend(named.map(|process| process.pid));
    let mut families: BTreeSet<u32> = targets.children_of.iter().copied().collect();
    loop {
        let is_new = |pid: &u32, parent: Option<u32>| {
            parent.is_some_and(|id| families.contains(&id)) && !families.contains(pid)
        };
        let children: Vec<u32> = running
            .iter()
            .filter(|process| is_new(&process.pid, process.parent_pid))
            .map(|process| process.pid)
            .collect();
        if children.is_empty() {
            break;
        }
        families.extend(&children);
        pids.extend(children);
    }
    pids.into_iter().collect()
}

/// Classes by their names, and flags by those of Windows: these ask for the classes that they stand for.
fn classes(names: &[String]) -> Result<(Vec<Class>, KernelFlags), Failure> {
    let (flags, names): (Vec<&String>, Vec<&String>) =
        names.iter().partition(|name| etw_settings::is_flag(name));
    let flags = etw_settings::flags(flags)?;
    let one = |name: &String| {
        Ok(match name.as_str() {
            "wakeups" => Class::Wakeups,
            "migrations" => Class::Migrations,
            "faults" => Class::PageFaults,
            "disk" => Class::BlockIo,
            "memory" => Class::MemoryCalls,
            "files" => Class::FileIo,
            "images" => Class::Images,
            other => {
                return Err(Failure::usage(format!("'{other}' is not a class of kernel events")).with_hint(
                    "wakeups, migrations, faults, disk, memory, files, images, or EVENT_TRACE_FLAG_*",
                ));
            }
        })
    };
    let named = names.into_iter().filter(|name| !name.is_empty()).map(one);
    let mut classes = named.collect::<Result<Vec<Class>, Failure>>()?;
    classes.extend(flags.classes());
    classes.sort_unstable();
    classes.dedup();
    Ok((classes, flags))
}

fn use_case(name: &str) -> Result<UseCase, Failure> {
    Ok(match name {
        "development" => UseCase::Development,
        "testing" => UseCase::Testing,
        "staging" => UseCase::Staging,
        "production" => UseCase::Production,
        "critical" => UseCase::Critical,
        other => return Err(Failure::usage(format!("'{other}' is not a use case"))),
    })
}
