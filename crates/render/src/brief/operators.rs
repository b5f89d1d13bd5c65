//! The lines of the summary about operators. Tables and timeline are for `ortscope report`.

use ortscope_core::units::{self, prefixed};
use ortscope_result::{OperatorSection, ProviderTime, RunResult, TypeRow};

/// Types of operators on the line.
const MAX_TYPES: usize = 4;
/// Operators of a device on its line, and how much of their names.
const MAX_OPERATORS: usize = 3;
const MAX_NAME: usize = 40;
const CPU: &str = "CPUExecutionProvider";
/// Below this share a type is not worth its place.
const MIN_SHARE: f64 = 0.01;

/// What to print, one line each; empty without a profile.
pub fn lines(result: &RunResult) -> Vec<String> {
    let Some(operators) = &result.operators else { return Vec::new() };
    let mut lines = vec![by_type(operators), work(operators)];
    lines.extend(short_nodes(operators));
    lines.extend(transitions(operators));
    lines.extend(operators.device_time.iter().filter_map(device_time));
    lines.extend(levels(operators));
    lines.retain(|line| !line.is_empty());
    lines
}

fn by_type(operators: &OperatorSection) -> String {
    let several = operators.placement.executed.len() > 1;
    let mut parts: Vec<String> = operators
        .by_type
        .iter()
        .filter(|of| of.share >= MIN_SHARE)
        .take(MAX_TYPES)
        .map(|of| {
            let place = if several { format!(" on {}", short(&of.provider)) } else { String::new() };
            format!("{}{place} {}", type_name(of), units::percent(of.share))
        })
        .collect();
    let rest = operators.by_type.len().saturating_sub(parts.len());
    if rest > 0 {
        parts.push(format!("{rest} more types"));
    }
    let unattributed = operators.unattributed_share();
    let factor = match operators.observer.factor {
        Some(factor) => format!(", each {factor:.2}× as long as measured ones"),
        None => String::new(),
    };
    format!(
        "{}  unattributed {}  ({}{factor})",
        parts.join("  "),
        units::percent(unattributed),
        units::counted(operators.profiled.runs, "profiled run"),
    )
}

/// A part that a provider compiled has a type with a hash in it.
fn type_name(of: &TypeRow) -> &str {
    let is_part = of.op_type.starts_with(&*of.provider) || of.op_type.contains("-EP-subgraph");
    if is_part { "compiled part" } else { &of.op_type }
}

/// A profile of nodes that do nearly nothing is one of the profiler.
fn short_nodes(operators: &OperatorSection) -> Option<String> {
    let nodes: u64 = operators.placement.executed.iter().map(|of| of.nodes).sum();
    let short = operators.floor.nodes_near_it;
    (short * 2 > nodes).then(|| {
        format!(
            "{} of {} nodes are too short to be told from the profiler itself: their shares say little",
            units::count(short),
            units::count(nodes)
        )
    })
}

fn work(operators: &OperatorSection) -> String {
    let flops = &operators.flops;
    if flops.counted == 0 {
        return String::new();
    }
    let mut text = format!("{} per run", prefixed(flops.flops_per_run as f64, "FLOP"));
    if let Some(rate) = flops.flops_per_second {
        text += &format!(", {}", prefixed(rate, "FLOP/s"));
    }
    if let (Some(share), Some(peak)) = (flops.share_of_peak, &operators.peak) {
        text += &format!(
            " = {} of the peak of {} here",
            units::percent(share),
            units::counted(peak.threads as u64, "thread")
        );
    }
    if let Some(line) = &operators.roofline {
        text += &format!("; {} of the time bound by memory", units::percent(line.memory_bound));
    }
    let not_counted: u64 = flops.not_counted.iter().map(|of| of.operators).sum();
    if not_counted > 0 {
        text += &format!(
            "; {} with {} of the time not counted",
            units::counted(not_counted, "operator"),
            units::percent(flops.share_not_counted)
        );
    }
    text
}

fn transitions(operators: &OperatorSection) -> Option<String> {
    let changes = &operators.transitions;
    if changes.per_run == 0 && changes.copies.nodes == 0 {
        return None;
    }
    let pairs: Vec<String> = changes
        .pairs
        .iter()
        .map(|pair| {
            let bytes = match (pair.bytes, pair.unknown_bytes) {
                (0, 1..) => "unknown size".to_owned(),
                (bytes, _) => units::bytes(bytes as f64),
            };
            format!("{} → {} ×{} ({bytes})", short(&pair.from), short(&pair.to), pair.count)
        })
        .collect();
    let copies = match changes.copies.nodes {
        0 => String::new(),
        nodes => {
            format!("; {} take {}", units::counted(nodes, "copy node"), units::percent(changes.copies.share))
        }
    };
    Some(format!("changes of provider per run: {}{copies}", pairs.join(", ")))
}

/// Whose time the device's was. Of the CPU's own provider the line of types says it.
fn device_time(time: &ProviderTime) -> Option<String> {
    if time.provider == CPU {
        return None;
    }
    let place = match time.device {
        Some(class) => format!("{} ({class})", short(&time.provider)),
        None => short(&time.provider).to_owned(),
    };
    let Some(device_ns) = time.device_ns else {
        return Some(format!("{place}: device time unknown: {}", time.unknown.as_deref()?));
    };
    let per_run = units::nanoseconds(device_ns as f64 / time.runs.max(1) as f64);
    let share = |ns: u64| units::percent(ns as f64 / device_ns.max(1) as f64);
    let costliest = time.operators.iter().filter_map(|of| Some((of, of.attribution.ns()?)));
    let mut parts: Vec<String> = costliest
        .filter(|(_, ns)| *ns as f64 >= MIN_SHARE * device_ns as f64)
        .take(MAX_OPERATORS)
        .map(|(of, ns)| format!("{} {}", end_of(&of.name), share(ns)))
        .collect();
    let rest = (time.operators.len() - parts.len()) as u64 + time.operators_not_listed;
    if rest > 0 {
        parts.push(format!("{} more", units::count(rest)));
    }
    if let (Some(why), false) = (&time.unknown, time.has_own_profile) {
        return Some(format!("{place} works {per_run} per run; {why}"));
    }
    let by = time.divided_by.map(|by| format!(", by {}", by.name())).unwrap_or_default();
    Some(format!(
        "{place} works {per_run} per run: {}  unattributed {}  ({}{by})",
        parts.join("  "),
        units::percent(time.unattributed_share()?),
        time.method
    ))
}

/// Names are paths: what they end with tells them apart.
fn end_of(name: &str) -> String {
    let letters = name.chars().count();
    if letters <= MAX_NAME {
        return name.to_owned();
    }
    let end: String = name.chars().skip(letters - MAX_NAME + 1).collect();
    format!("…{end}")
}

fn levels(operators: &OperatorSection) -> Option<String> {
    let measured: Vec<String> = operators
        .levels
        .iter()
        .map(|level| {
            let nodes = level.nodes.map_or(String::new(), |nodes| format!(" {} nodes", units::count(nodes)));
            let time = level.median_ms.map_or("n/a".to_owned(), |ms| units::nanoseconds(ms * 1e6));
            format!("{}{nodes} {time}", level.level)
        })
        .collect();
    (!measured.is_empty()).then(|| format!("optimisation: {}", measured.join(", ")))
}

fn short(provider: &str) -> &str {
    provider.strip_suffix("ExecutionProvider").unwrap_or(provider)
}
