//! `ortscope doctor`: what works here, what does not, and how to fix it.

use ortscope_core::units;
use ortscope_decode::gpu_counters::AdapterId;
use ortscope_observe::doctor::{
    Check, Inventory, Item, NoiseFacts, OrtFacts, State, device_checks, load_ort, machine_checks,
    process_checks,
};
use ortscope_ort::search::SearchReport;
use ortscope_sources::MachineFacts;
use serde::Serialize;

use crate::args::GlobalArgs;
use crate::exit::{Exit, Failure};
use crate::terminal::{self, BAD, BOLD, DIM, GOOD, Terminal, WARN};
use crate::{ort_library, settings};
use ortscope_result::ClockReport;

#[derive(Debug, Serialize)]
struct DoctorDocument {
    schema: &'static str,
    ortscope_version: &'static str,
    /// Every item has a value, or a reason and a remedy.
    inventory: Vec<Item>,
    machine: MachineFacts,
    clock: ClockReport,
    noise: NoiseFacts,
    ort_search: SearchReport,
    ort: Option<OrtFacts>,
    checks: Vec<Check>,
}

pub fn run(global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let config = settings::load(global.config.as_deref())?;
    let ort_search = ort_library::look(global, &config);
    let mut checks = Vec::new();
    let ort = load_ort(&ort_search, &mut checks);
    let mut machine = ortscope_sources::machine_facts();
    let clock = ClockReport::measure();
    let noise = NoiseFacts::measure();
    checks.push(clock_check(&clock));
    checks.extend(machine_checks(&machine, &noise));
    checks.extend(process_checks());
    let (devices, accelerators) = device_checks();
    checks.extend(devices);
    let mut model = ortscope_sources::machine_model();
    // On Windows WMI has facts that registry and environment lack. Recordings do without them, because WMI is slow.
    let not_completed = ortscope_sources::complete_inventory(&mut machine, &mut model).err();
    let facts = Inventory {
        machine: &machine,
        model: &model,
        timer: timer(&clock),
        noise: &noise,
        ort: ort.as_ref(),
        library: ort_search.found.as_ref(),
        settings: settings::files(global.config.as_deref()),
        threads: config.run.threads,
        accelerators,
    };
    let mut inventory = facts.items();
    inventory.extend(not_completed.map(|why| Item {
        name: "WMI",
        value: None,
        unavailable: Some(format!("WMI could not be queried for the missing facts: {why}")),
        remedy: Some(
            "`Get-CimInstance Win32_ComputerSystem` in PowerShell shows whether WMI works".to_owned(),
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

fn clock_check(clock: &ClockReport) -> Check {
    let fine = clock.cost_ns.is_some_and(|cost| cost < 500.0);
    Check {
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
    }
}

/// Resolution and cost of the clock; `None` if it did not advance while it was read.
fn timer(clock: &ClockReport) -> Option<String> {
    let step = units::nanoseconds(clock.resolution_ns? as f64);
    let cost = clock.cost_ns.map(|cost| format!(", {} per reading", units::nanoseconds(cost)));
    Some(format!("{}: steps of {step}{}", clock.name, cost.unwrap_or_default()))
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
            // Windows counters identify an adapter by this number.
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
