//! From arguments to a plan: what to watch, how often, for how long.

use std::time::Duration;

use ortscope_core::config::UseCase;
use ortscope_sources::kernel::Class;
use ortscope_sources::sampler::{CommandLines, SamplerOptions, Targets};

use crate::args::{GlobalArgs, WatchArgs};
use crate::exit::Failure;
use crate::{settings, values};

#[derive(Debug)]
pub struct ObservePlan {
    pub sampler: SamplerOptions,
    pub duration: Option<Duration>,
    /// Classes of kernel events; `None`: none at all.
    pub kernel: Option<Vec<Class>>,
    /// Processes that are there at the start; their children are followed.
    pub kernel_pids: Vec<u32>,
    pub spike_percent: Option<f64>,
    /// What is watched, in words.
    pub subject: String,
}

/// Everything that can be wrong is said here, before anything is started.
pub fn plan(
    targets: Targets,
    subject: String,
    args: &WatchArgs,
    global: &GlobalArgs,
) -> Result<ObservePlan, Failure> {
    let config = settings::load(global.config.as_deref())?;
    let mut sampler = SamplerOptions { targets, threads: args.threads, ..SamplerOptions::default() };
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
    Ok(ObservePlan {
        kernel_pids: sampler.targets.pids.clone(),
        sampler,
        duration: duration.map(Duration::from_secs_f64),
        kernel: args.kernel.as_deref().map(classes).transpose()?,
        spike_percent: args.spike,
        subject,
    })
}

fn classes(names: &[String]) -> Result<Vec<Class>, Failure> {
    let one = |name: &String| {
        Ok(match name.as_str() {
            "wakeups" => Class::Wakeups,
            "migrations" => Class::Migrations,
            "faults" => Class::PageFaults,
            "disk" => Class::BlockIo,
            "memory" => Class::MemoryCalls,
            other => {
                return Err(Failure::usage(format!("'{other}' is not a class of kernel events"))
                    .with_hint("wakeups, migrations, faults, disk, memory"));
            }
        })
    };
    names.iter().filter(|name| !name.is_empty()).map(one).collect()
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
