//! `ortscope doctor`: what works here, what does not, and what to do about it.

use std::collections::BTreeMap;

use ortscope_core::clock::now_ns;
use ortscope_core::metric::Availability;
use ortscope_core::pipeline::Source as _;
use ortscope_decode::gpu_counters::AdapterId;
use ortscope_ort::search::SearchReport;
use ortscope_ort::{Environment, EpDevice, LogLevel, Runtime, ep};
use ortscope_sources::kernel::{TraceError, TraceOptions, TraceWay};
use ortscope_sources::{KernelTrace, MachineFacts, ProcessSampler, ThreadSnapshot};
use serde::Serialize;

use super::doctor_devices::device_checks;
use super::doctor_inventory::{Facts, Item, inventory};
use crate::args::GlobalArgs;
use crate::exit::{Exit, Failure};
use crate::report::document::ClockReport;
use crate::terminal::{self, BAD, BOLD, DIM, GOOD, Terminal, WARN};
use crate::{ort_library, settings};
use ortscope_core::units;

#[derive(Debug, Serialize)]
struct DoctorDocument {
    schema: &'static str,
    ortscope_version: &'static str,
    /// What this machine is: every item has a value, or a reason and a remedy.
    inventory: Vec<Item>,
    machine: MachineFacts,
    clock: ClockReport,
    noise: NoiseFacts,
    ort_search: SearchReport,
    ort: Option<OrtFacts>,
    checks: Vec<Check>,
}

/// How quiet the machine is: a fixed piece of work, timed many times.
#[derive(Debug, Serialize)]
pub struct NoiseFacts {
    pub median_ns: u64,
    pub p99_ns: u64,
    pub p99_over_median: f64,
    /// How late a sleep of 1 ms wakes up.
    pub sleep_1ms_late_median_ns: u64,
}

#[derive(Debug, Serialize)]
pub struct OrtFacts {
    pub version: String,
    pub build_info: String,
    pub providers: Vec<String>,
    /// Providers that pip installed beside the library, which `--provider` loads, and where they are.
    pub plug_ins: BTreeMap<&'static str, String>,
    pub devices: Vec<EpDevice>,
    /// What this version cannot do that newer ones can.
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

pub fn run(global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let config = settings::load(global.config.as_deref())?;
    let ort_search = ort_library::look(global, &config);
    let mut checks = Vec::new();
    let ort = load(&ort_search, &mut checks);
    let mut machine = ortscope_sources::machine_facts();
    let clock = ClockReport::measure();
    let noise = noise();
    checks.extend(machine_checks(&machine, &clock, &noise));
    checks.extend(watching_checks());
    let (devices, accelerators) = device_checks();
    checks.extend(devices);
    let mut model = ortscope_sources::machine_model();
    // Windows keeps in WMI what registry and environment do not have. The machine of recordings is told without it.
    let not_completed = ortscope_sources::complete_inventory(&mut machine, &mut model).err();
    let facts = Facts {
        machine: &machine,
        model: &model,
        clock: &clock,
        noise: &noise,
        ort: ort.as_ref(),
        library: ort_search.found.as_ref(),
        settings: settings::files(global.config.as_deref()),
        threads: config.run.threads,
        accelerators,
    };
    let mut inventory = inventory(&facts);
    inventory.extend(not_completed.map(|why| Item {
        name: "WMI",
        value: None,
        unavailable: Some(format!("what is missing above could not be asked for: {why}")),
        remedy: Some(
            "`Get-CimInstance Win32_ComputerSystem` in PowerShell says whether WMI answers".to_owned(),
        ),
    }));
    let document = DoctorDocument {
        schema: "ortscope.doctor/1",
        ortscope_version: env!("CARGO_PKG_VERSION"),
        inventory,
        machine,
        clock,
        noise,
        ort_search,
        ort,
        checks,
    };
    let text = if terminal.json {
        serde_json::to_string_pretty(&document).map_err(Failure::internal)?
    } else {
        describe(&document, terminal).join("\n")
    };
    terminal::print_data(&(text + "\n"));
    let usable = document.ort.is_some();
    Ok(if usable { Exit::Ok } else { Exit::Model })
}

fn load(search: &SearchReport, checks: &mut Vec<Check>) -> Option<OrtFacts> {
    let Some(found) = &search.found else {
        checks.push(Check {
            name: "onnxruntime",
            state: State::Missing,
            // A library that was named and is not there has its own sentence.
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

fn machine_checks(machine: &MachineFacts, clock: &ClockReport, noise: &NoiseFacts) -> Vec<Check> {
    let mut checks = Vec::new();
    let fine = clock.cost_ns.is_some_and(|cost| cost < 500.0);
    checks.push(Check {
        name: "clock",
        state: if fine { State::Ok } else { State::Warning },
        text: format!(
            "{}: {} steps, {} per reading",
            clock.name,
            clock.resolution_ns.map_or("unknown".into(), |nanos| units::nanoseconds(nanos as f64)),
            clock.cost_ns.map_or("unknown".into(), units::nanoseconds)
        ),
        hint: (!fine).then(|| {
            "a slow clock hides short inferences; on Linux see current_clocksource (tsc is best)".into()
        }),
    });
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
            hint: Some("nothing to do: the highest of the samples is told instead".into()),
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

/// The ways of watching processes, best first: what each sees, and which right is missing.
fn watching_checks() -> Vec<Check> {
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

fn noise() -> NoiseFacts {
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
    let at = |values: &[u64], p: f64| values.get((values.len() as f64 * p) as usize).copied().unwrap_or(0);
    let (median_ns, p99_ns) = (at(&times, 0.5).max(1), at(&times, 0.99));
    NoiseFacts {
        median_ns,
        p99_ns,
        p99_over_median: p99_ns as f64 / median_ns as f64,
        sleep_1ms_late_median_ns: at(&late, 0.5),
    }
}

fn describe(document: &DoctorDocument, terminal: &Terminal) -> Vec<String> {
    let mut lines = vec![terminal.paint(BOLD, &format!("ortscope {}", document.ortscope_version))];
    for item in &document.inventory {
        match &item.value {
            Some(value) => lines.push(format!("{:<14}{value}", item.name)),
            None => {
                let why = item.unavailable.as_deref().unwrap_or_default();
                lines.push(format!(
                    "{:<14}{}",
                    item.name,
                    terminal.paint(WARN, &format!("unavailable: {why}"))
                ));
                let remedy = item.remedy.as_deref().unwrap_or_default();
                lines.push(format!("{:<14}{}", "", terminal.paint(DIM, &format!("hint: {remedy}"))));
            }
        }
    }
    lines.push(String::new());
    for check in &document.checks {
        let (mark, style) = match check.state {
            State::Ok => ("ok     ", GOOD),
            State::Warning => ("warning", WARN),
            State::Missing => ("missing", BAD),
        };
        lines.push(format!("{}  {:<18}{}", terminal.paint(style, mark), check.name, check.text));
        lines.extend(
            check
                .hint
                .as_ref()
                .map(|hint| format!("{:<27}{}", "", terminal.paint(DIM, &format!("hint: {hint}")))),
        );
    }
    if let Some(ort) = &document.ort {
        for device in &ort.devices {
            let vendor = if device.vendor.is_empty() { &device.ep_vendor } else { &device.vendor };
            let kind = format!("{:?}", device.kind).to_uppercase();
            // Windows' counters know an adapter by this number.
            let luid = device.device_metadata.get("LUID").and_then(|luid| AdapterId::from_decimal(luid));
            let luid = luid.map(|luid| format!(", adapter {luid}")).unwrap_or_default();
            lines.push(format!("         {:<18}{kind} {vendor} through {}{luid}", "device", device.ep_name));
        }
        for (what, why) in &ort.missing {
            lines.push(format!("{}  {:<18}{what}: {why}", terminal.paint(WARN, "missing"), "feature"));
            let hint = terminal
                .paint(DIM, "hint: pip install --upgrade onnxruntime, or --ort-library with a newer one");
            lines.push(format!("{:<27}{hint}", ""));
        }
    }
    lines.push(String::new());
    lines.push(terminal.paint(DIM, "where ONNX Runtime was looked for, in this order:"));
    for step in &document.ort_search.steps {
        lines.push(format!("  {}: {}", step.place, step.outcome));
    }
    lines
}
