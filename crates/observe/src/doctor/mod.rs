//! The checks of `ortscope doctor`: what works on this machine, what does not, and how to fix it.

mod devices;
mod inventory;

use std::collections::BTreeMap;

use ortscope_core::clock::now_ns;
use ortscope_core::metric::Availability;
use ortscope_core::pipeline::Source as _;
use ortscope_core::units;
use ortscope_ort::search::SearchReport;
use ortscope_ort::{Environment, EpDevice, LogLevel, Runtime, ep};
use ortscope_sources::kernel::{TraceError, TraceOptions, TraceWay};
use ortscope_sources::{KernelTrace, MachineFacts, ProcessSampler, ThreadSnapshot};
use serde::Serialize;

pub use devices::device_checks;
pub use inventory::{Inventory, Item};

/// How quiet the machine is.
#[derive(Debug, Serialize)]
pub struct NoiseFacts {
    pub median_ns: u64,
    pub p99_ns: u64,
    pub p99_over_median: f64,
    /// Median delay of the wake-up after a sleep of 1 ms.
    pub sleep_1ms_late_median_ns: u64,
}

#[derive(Debug, Serialize)]
pub struct OrtFacts {
    pub version: String,
    pub build_info: String,
    pub providers: Vec<String>,
    /// Plug-in providers installed next to the library, which `--provider` loads, and their paths.
    pub plug_ins: BTreeMap<&'static str, String>,
    pub devices: Vec<EpDevice>,
    /// Features that need a newer version.
    pub missing: BTreeMap<&'static str, String>,
}

#[derive(Debug, Serialize)]
pub struct Check {
    pub name: &'static str,
    pub state: State,
    pub text: String,
    pub hint: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Ok,
    Warning,
    Missing,
}

/// Loads the library that was found and describes it. `checks` explains the result.
pub fn load_ort(search: &SearchReport, checks: &mut Vec<Check>) -> Option<OrtFacts> {
    let Some(found) = &search.found else {
        checks.push(Check {
            name: "onnxruntime",
            state: State::Missing,
            // A named library that does not exist has its own message.
            text: match search.steps.as_slice() {
                [only] => format!("{}: {}", only.place, only.outcome),
                _ => "no library was found".into(),
            },
            hint: Some("pip install onnxruntime, or name the library with --ort-library".into()),
        });
        return None;
    };
    let runtime = match Runtime::load(&found.path) {
        Ok(runtime) => runtime,
        Err(error) => {
            checks.push(Check {
                name: "onnxruntime",
                state: State::Missing,
                text: units::clean(&error.to_string(), 300),
                hint: Some("ortscope works with ONNX Runtime 1.15 and newer".into()),
            });
            return None;
        }
    };
    let devices = Environment::new(&runtime, LogLevel::Error).and_then(|environment| environment.devices());
    let mut missing = BTreeMap::new();
    for (what, since) in [
        ("devices of providers", 22),
        ("allocator statistics", 23),
        ("placement of nodes", 24),
        ("profiling of single runs", 25),
    ] {
        if runtime.minor() < since {
            missing.insert(what, format!("needs ONNX Runtime 1.{since}"));
        }
    }
    checks.push(Check {
        name: "onnxruntime",
        state: State::Ok,
        text: format!("{} at {} ({})", runtime.version(), found.path.display(), found.how),
        hint: None,
    });
    let providers = runtime.available_providers();
    let plug_ins: BTreeMap<_, _> = ep::plugins_beside(&found.path)
        .into_iter()
        .map(|(name, library)| (name, library.display().to_string()))
        .collect();
    let accelerated = !plug_ins.is_empty()
        || providers.iter().any(|name| name != "CPUExecutionProvider" && name != "AzureExecutionProvider");
    checks.push(Check {
        name: "providers",
        state: State::Ok,
        text: providers.join(", "),
        hint: (!accelerated).then(|| {
            "this library runs on the CPU only; other flavours: onnxruntime-gpu, -directml, -openvino, -qnn".into()
        }),
    });
    if !plug_ins.is_empty() {
        let listed: Vec<_> = plug_ins.iter().map(|(name, library)| format!("{name} at {library}")).collect();
        checks.push(Check {
            name: "plug-ins",
            state: State::Ok,
            text: listed.join(", "),
            hint: Some(
                "`ortscope run MODEL --provider NAME` loads it, and says what it finds of its hardware"
                    .into(),
            ),
        });
    }
    Some(OrtFacts {
        version: runtime.version().to_owned(),
        build_info: runtime.build_info(),
        providers,
        plug_ins,
        devices: devices.unwrap_or_default(),
        missing,
    })
}

/// Checks noise, clock frequency and memory readings.
pub fn machine_checks(machine: &MachineFacts, noise: &NoiseFacts) -> Vec<Check> {
    let mut checks = Vec::new();
    let quiet = noise.p99_over_median < 1.5;
    checks.push(Check {
        name: "noise",
        state: if quiet { State::Ok } else { State::Warning },
        text: format!(
            "fixed work varies by {} at p99; a 1 ms sleep wakes {} late",
            units::percent(noise.p99_over_median - 1.0),
            units::nanoseconds(noise.sleep_1ms_late_median_ns as f64)
        ),
        hint: (!quiet).then(|| "other programs disturb this machine: intervals will be wide".into()),
    });
    checks.push(match (&machine.governor, machine.virtual_machine) {
        (Some(governor), _) if governor != "performance" => Check {
            name: "frequency",
            state: State::Warning,
            text: format!("the governor is '{governor}'"),
            hint: Some(
                "latencies vary with the clock; 'cpupower frequency-set -g performance' while measuring"
                    .into(),
            ),
        },
        (Some(governor), _) => {
            Check { name: "frequency", state: State::Ok, text: format!("governor '{governor}'"), hint: None }
        }
        (None, Some(true)) => Check {
            name: "frequency",
            state: State::Warning,
            text: "a virtual machine: the real clock frequency is hidden".into(),
            hint: Some("compare only measurements of the same machine and hour".into()),
        },
        (None, _) => Check {
            name: "frequency",
            state: State::Warning,
            text: "this system does not show how the clock frequency is governed".into(),
            hint: Some("on the machine itself cpufreq (Linux) or the power plan (Windows) shows it".into()),
        },
    });
    checks.push(match ortscope_sources::own_usage() {
        Ok(usage) if usage.peak_working_set_bytes.is_some() => Check {
            name: "memory",
            state: State::Ok,
            text: "resident memory and its peak can be read".into(),
            hint: None,
        },
        Ok(_) => Check {
            name: "memory",
            state: State::Warning,
            text: "resident memory can be read, its peak cannot".into(),
            hint: Some("nothing to do: the highest sample is reported instead".into()),
        },
        Err(error) => Check {
            name: "memory",
            state: State::Missing,
            text: error.to_string(),
            hint: Some(
                "on Linux /proc must be mounted; on Windows the process needs no rights for it".into(),
            ),
        },
    });
    checks
}

/// Checks the ways to observe processes, best first: what each sees, or which permission is missing.
pub fn process_checks() -> Vec<Check> {
    let traced = |way: &TraceWay| {
        let options = TraceOptions { backend: way.choice, ..TraceOptions::default() };
        kernel_check(way.name, KernelTrace::open(&options).err(), way.sees)
    };
    let snapshot = ThreadSnapshot::open().err();
    let mut sampler = ProcessSampler::new(vec![std::process::id()], 10.0);
    let sampled = match sampler.probe() {
        Availability::Ready => {
            (State::Ok, "a tick of the kernel for running threads, no rights needed".to_owned(), None)
        }
        Availability::Degraded { why, hint } => (State::Warning, why, Some(hint)),
        Availability::Unavailable { why, hint } => (State::Missing, why, Some(hint)),
    };
    let mut checks: Vec<Check> = ortscope_sources::trace_ways().iter().map(traced).collect();
    checks.extend([
        kernel_check(
            "all threads",
            snapshot,
            "one call for all threads; a tick of the kernel for running ones",
        ),
        Check {
            name: "processes",
            state: sampled.0,
            text: format!("{}: {}", sampler.backend_name(), sampled.1),
            hint: sampled.2,
        },
    ]);
    checks
}

fn kernel_check(name: &'static str, error: Option<TraceError>, sees: &str) -> Check {
    let Some(error) = error else {
        return Check { name, state: State::Ok, text: sees.to_owned(), hint: None };
    };
    let text = error.to_string();
    let (why, hint) = match text.split_once("\n  hint: ") {
        Some((why, hint)) => (why, Some(units::clean(hint, 200))),
        None => (text.as_str(), None),
    };
    let hint = hint.or_else(|| Some("the next way in this list is used instead".to_owned()));
    Check { name, state: State::Warning, text: units::clean(why, 200), hint }
}

impl NoiseFacts {
    /// Times a fixed piece of work and short sleeps.
    pub fn measure() -> Self {
        let mut times: Vec<u64> = (0..2_000)
            .map(|_| {
                let begin = now_ns();
                std::hint::black_box(
                    (0..20_000u64).fold(1u64, |sum, step| std::hint::black_box(sum.wrapping_mul(step | 1))),
                );
                now_ns() - begin
            })
            .collect();
        let mut late: Vec<u64> = (0..50)
            .map(|_| {
                let begin = now_ns();
                std::thread::sleep(std::time::Duration::from_millis(1));
                (now_ns() - begin).saturating_sub(1_000_000)
            })
            .collect();
        times.sort_unstable();
        late.sort_unstable();
        let at =
            |values: &[u64], p: f64| values.get((values.len() as f64 * p) as usize).copied().unwrap_or(0);
        let (median_ns, p99_ns) = (at(&times, 0.5).max(1), at(&times, 0.99));
        Self {
            median_ns,
            p99_ns,
            p99_over_median: p99_ns as f64 / median_ns as f64,
            sleep_1ms_late_median_ns: at(&late, 0.5),
        }
    }
}
