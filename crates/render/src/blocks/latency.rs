//! The latency of one session.

use ortscope_result::OpenLoopVerdict;
use ortscope_result::StabilityVerdict as Verdict;
use ortscope_result::WarmUpVerdict;

use super::{Align, Block, Cell, Figure, Section, Table, Tone, slow};
use ortscope_core::units::{
    TimeUnit, bytes, bytes_change, count, counted, digits, duration, milliseconds, percent, provider,
};
use ortscope_result::{LatencyReport, ReportModel, ServerReport, SessionReport};

/// Names of percentiles for people.
const PERCENTILES: [(&str, &str); 5] =
    [("p50", "p50"), ("p90", "p90"), ("p95", "p95"), ("p99", "p99"), ("p99_9", "p99.9")];

/// `2.29 .. 2.33 ms` in the unit of the value it belongs to.
pub(super) fn interval(latency: &LatencyReport, name: &str, value_ms: f64) -> Option<String> {
    let unit = TimeUnit::of(value_ms);
    let text = interval_in(latency, name, unit, unit.decimals(value_ms))?;
    Some(format!("{text} {}", unit.name()))
}

fn interval_in(latency: &LatencyReport, name: &str, unit: TimeUnit, decimals: usize) -> Option<String> {
    let [low, high] = latency.interval_ms(name);
    let number = |value: f64| unit.fixed(value, decimals);
    Some(format!("{} .. {}", number(low?), high.map_or("?".to_owned(), number)))
}

pub(super) fn needed(latency: &LatencyReport, name: &str) -> String {
    format!("≥ {}", count(latency.needs_runs.get(name).copied().unwrap_or(0)))
}

pub(super) fn stability(latency: &LatencyReport) -> (&'static str, Tone) {
    match latency.stability.verdict {
        Verdict::Good => ("good", Tone::Good),
        Verdict::Fair => ("fair", Tone::Warning),
        Verdict::Poor => ("poor", Tone::Bad),
        Verdict::NoSteadyState => ("no steady state", Tone::Bad),
        Verdict::TooFewRuns => ("unknown", Tone::Warning),
    }
}

/// All sessions in one table.
pub(super) fn overview(model: &ReportModel) -> Table {
    let mut table = Table::new(&[
        ("session", Align::Name),
        ("inferences", Align::Number),
        ("failed", Align::Number),
        ("p50", Align::Number),
        ("p99", Align::Number),
        ("per second", Align::Number),
        ("stability", Align::Name),
    ])
    .titled("Sessions");
    for session in &model.sessions {
        let percentile =
            |name: &str| session.inference.as_ref().and_then(|latency| latency.percentile_ms(name));
        table.row(vec![
            Cell::text(&session.title),
            Cell::count(session.counts.total),
            Cell::count(session.counts.failed),
            Cell::known(percentile("p50"), milliseconds),
            Cell::known(percentile("p99"), milliseconds),
            Cell::known(session.throughput.as_ref().map(|throughput| throughput.requests_per_second), digits),
            Cell::text(session.inference.as_ref().map_or("n/a", |latency| stability(latency).0)),
        ]);
    }
    table.note =
        "inferences: all phases; p50 and p99: the call into ONNX Runtime after the warm-up".to_owned();
    if model.other_sessions.sessions > 0 {
        table.note += &format!(
            "; {} with {} are not shown",
            counted(model.other_sessions.sessions, "further session"),
            counted(model.other_sessions.inferences, "inference")
        );
    }
    table
}

pub(super) fn section<'m>(
    model: &'m ReportModel,
    session: &'m SessionReport,
    index: usize,
    several: bool,
) -> Section<'m> {
    let mut blocks = vec![Block::Facts(facts(session))];
    if let (Some(latency), Some(whole)) = (&session.inference, &session.end_to_end) {
        blocks.push(Block::Table(percentiles(session, latency, whole)));
        blocks.extend(charts(session, latency));
    }
    if let Some(slow) = &session.slow {
        blocks.extend(slow::blocks(model, slow));
    }
    blocks.extend(server(session));
    blocks.extend(generation(session));
    for note in &session.notes {
        blocks.push(Block::Text(Tone::Muted, note.clone()));
    }
    let title = if several { format!("Latency: {}", session.title) } else { "Latency".to_owned() };
    let mut section = Section::new(format!("latency-{index}"), title, blocks);
    section.short = match several {
        true => session.label.clone().unwrap_or_else(|| session.title.clone()),
        false => "Latency".to_owned(),
    };
    section
}

fn facts(session: &SessionReport) -> Vec<(&'static str, String)> {
    let mut facts = vec![("model", session.title.clone())];
    let phases: Vec<String> =
        session.counts.by_phase.iter().map(|(phase, rows)| format!("{} {phase}", count(*rows))).collect();
    let failed = match session.counts.failed {
        0 => String::new(),
        failed => format!("; {} failed", count(failed)),
    };
    facts.push(("inferences", format!("{} ({}){failed}", count(session.counts.total), phases.join(", "))));
    let providers: Vec<&str> = session.execution_providers.iter().map(|name| provider(name)).collect();
    if !providers.is_empty() {
        facts.push(("providers", providers.join(", ")));
    }
    if !session.placement.is_empty() {
        let total: u64 = session.placement.iter().map(|of| of.nodes).sum();
        let nodes = session
            .placement
            .iter()
            .map(|of| format!("{} {} of {}", provider(&of.provider), count(of.nodes), count(total)));
        facts.push(("nodes", nodes.collect::<Vec<_>>().join(", ")));
    }
    facts.extend(session.scenario.clone().map(|scenario| ("scenario", scenario)));
    if let Some(latency) = &session.inference {
        facts.push(("warm-up", warm_up(session)));
        facts.push(("stability", format!("{}: {}", stability(latency).0, latency.stability.reason)));
        facts.push(("jitter", jitter(latency)));
    }
    if let Some(parts) = &session.parts {
        facts.push((
            "made of",
            format!(
                "copy in {}, inference {}, wait and copy out {} (means of {})",
                milliseconds(parts.copy_in_ms),
                milliseconds(parts.run_ms),
                milliseconds(parts.copy_out_ms),
                counted(parts.n, "inference")
            ),
        ));
    }
    if let Some(throughput) = &session.throughput {
        let samples =
            throughput.samples_per_second.filter(|rate| *rate > throughput.requests_per_second * 1.01);
        let samples = samples.map_or(String::new(), |rate| format!(", {} samples/s", digits(rate)));
        facts.push((
            "throughput",
            format!(
                "{} inferences/s{samples}, {:.2} in flight on average, over {}",
                digits(throughput.requests_per_second),
                throughput.concurrency,
                duration(throughput.seconds)
            ),
        ));
    }
    facts.extend(cold(session).map(|cold| ("cold start", cold)));
    facts.extend(memory(session).map(|memory| ("memory", memory)));
    facts.extend(session.cpu_cores_used.map(|cores| ("processor", format!("{cores:.1} cores busy"))));
    facts.extend(session.sampling.sentence.clone().map(|sentence| ("sampling", sentence)));
    facts
}

fn warm_up(session: &SessionReport) -> String {
    let Some(warm_up) = &session.warm_up else { return "n/a".to_owned() };
    let every = session.sampling.every;
    let about = if every > 1 { "about " } else { "" };
    let left_out = match (warm_up.discarded as u64).saturating_mul(every) {
        0 => "none seen".to_owned(),
        runs => format!("{about}{} left out", counted(runs, "run")),
    };
    match warm_up.verdict {
        WarmUpVerdict::TooFewRuns => "too few runs to see one".to_owned(),
        WarmUpVerdict::NoSteadyState { drift } => {
            let direction = if drift > 0.0 { "slower" } else { "faster" };
            format!("{left_out}; the rest is still {} {direction} in its second half", percent(drift.abs()))
        }
        _ if warm_up.at_limit => format!("{left_out}, half of all: measure longer"),
        _ => left_out,
    }
}

fn jitter(latency: &LatencyReport) -> String {
    let jitter = &latency.jitter;
    let mut parts = vec![format!("middle half within {}", milliseconds(jitter.iqr_ms))];
    parts.extend(jitter.successive_difference_ms.map(|step| format!("run to run {}", milliseconds(step))));
    parts.extend(jitter.p99_minus_p50_ms.map(|tail| format!("p99 - p50 {}", milliseconds(tail))));
    parts.extend(jitter.p99_9_over_p50.map(|ratio| format!("p99.9 / p50 {}", digits(ratio))));
    parts.join(", ")
}

fn cold(session: &SessionReport) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(cold) = &session.cold {
        parts.extend(cold.file_read_ms.map(|ms| format!("file {}", milliseconds(ms))));
        let again =
            cold.session_again_ms.map_or(String::new(), |ms| format!(" (a second one {})", milliseconds(ms)));
        parts.extend(cold.session_first_ms.map(|ms| format!("session {}{again}", milliseconds(ms))));
    }
    let first = session.cold.and_then(|cold| cold.first_run_ms).or(session.first_runs_ms.first().copied());
    parts.extend(first.map(|ms| format!("first run {}", milliseconds(ms))));
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn memory(session: &SessionReport) -> Option<String> {
    let memory = session.memory.as_ref()?;
    let mut parts = Vec::new();
    parts.extend(memory.peak_bytes.map(|size| format!("peak {}", bytes(size as f64))));
    parts.extend(memory.session_bytes.map(|size| format!("session {}", bytes_change(size as f64))));
    parts.extend(memory.first_run_bytes.map(|size| format!("first run {}", bytes_change(size as f64))));
    parts.extend(
        memory.growth_per_inference_bytes.map(|size| format!("then {} per inference", bytes_change(size))),
    );
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn percentiles(session: &SessionReport, latency: &LatencyReport, whole: &LatencyReport) -> Table {
    let unit = TimeUnit::of(latency.median_ms);
    let decimals = unit.decimals(latency.median_ms);
    let mut table = Table::new(&[
        ("statistic", Align::Name),
        ("inference", Align::Number),
        ("95 % interval", Align::Number),
        ("end to end", Align::Number),
        ("95 % interval", Align::Number),
    ])
    .titled(format!("Percentiles in {}", unit.name()));
    let single = |table: &mut Table, name: &str, values: [Option<f64>; 2]| {
        let [inside, whole] = values.map(|value| Cell::known(value, |value| unit.fixed(value, decimals)));
        table.row(vec![Cell::text(name), inside, Cell::text(""), whole, Cell::text("")]);
    };
    single(&mut table, "min", [Some(latency.min_ms), Some(whole.min_ms)]);
    for (wire, name) in PERCENTILES {
        let mut cells = vec![Cell::text(name)];
        for series in [latency, whole] {
            match series.percentile_ms(wire) {
                Some(value) => {
                    cells.push(Cell::number(unit.fixed(value, decimals), value));
                    cells.push(Cell::text(interval_in(series, wire, unit, decimals).unwrap_or_default()));
                }
                None => {
                    cells.push(Cell::text("n/a"));
                    cells.push(Cell::text(format!("needs {} runs", needed(series, wire))));
                }
            }
        }
        table.row(cells);
    }
    single(&mut table, "max", [Some(latency.max_ms), Some(whole.max_ms)]);
    single(&mut table, "mean", [Some(latency.mean_ms), Some(whole.mean_ms)]);
    single(&mut table, "std. deviation", [latency.std_ms, whole.std_ms]);
    table.note = format!("n = {} after the warm-up; outliers are included", count(latency.runs));
    if let Some(sentence) = &session.sampling.sentence {
        table.note += &format!("; {sentence}");
    }
    table
}

fn charts<'m>(session: &'m SessionReport, latency: &LatencyReport) -> Vec<Block<'m>> {
    let mut blocks = Vec::new();
    let every = match session.sampling.every {
        1 => String::new(),
        every => format!(", every {}", ortscope_core::units::ordinal(every)),
    };
    if let Some(over_time) = &session.over_time {
        let each = match over_time.bucket_seconds {
            width if width > 0.0 => format!("each point covers {}", duration(width)),
            _ => "each point is one inference".to_owned(),
        };
        let steady: u64 = over_time.points.iter().map(|point| point.n).sum();
        blocks.push(Block::OverTime {
            over_time,
            caption: format!(
                "Inference latency over time, n = {}{every}, warm-up included; {each}",
                count(steady)
            ),
        });
    }
    if let Some(histogram) = &session.histogram {
        let marks = [("p50", "p50"), ("p90", "p90"), ("p99", "p99")];
        blocks.push(Block::Histogram {
            histogram,
            marks: marks
                .into_iter()
                .filter_map(|(name, wire)| Some((name, latency.percentile_ms(wire)?)))
                .collect(),
            caption: format!(
                "Distribution of the inference latency, n = {}{every}, after the warm-up; logarithmic scale",
                count(histogram.n())
            ),
        });
    }
    blocks
}

fn server(session: &SessionReport) -> Vec<Block<'_>> {
    let Some(server) = &session.server else { return Vec::new() };
    let mut table = Table::new(&[
        ("statistic", Align::Name),
        ("from planned start", Align::Number),
        ("from real start", Align::Number),
    ])
    .titled("Open loop: what a client waits");
    for (wire, name) in PERCENTILES {
        let value = |list: &std::collections::BTreeMap<String, Option<f64>>| {
            Cell::known(list.get(wire).copied().flatten(), milliseconds)
        };
        table.row(vec![
            Cell::text(name),
            value(&server.from_planned_start_ms),
            value(&server.from_real_start_ms),
        ]);
    }
    table.note = format!("n = {}, warm-up included", counted(server.requests, "request"));
    let target = if server.target_is_asked_for { "planned" } else { "planned (from the planned starts)" };
    let mut sentence = format!(
        "{}. {}/s {target}, {}/s served",
        server.reason,
        digits(server.target_per_second),
        server.achieved_per_second.map_or("?".to_owned(), digits)
    );
    if let (Some(mean), Some(most)) = (server.queue_depth_mean, server.queue_depth_max) {
        sentence += &format!(", queue {} on average, {} at most", digits(mean), count(most));
    }
    if let Some(unserved) = server.unserved.filter(|unserved| *unserved > 0) {
        sentence += &format!(", {} never started", count(unserved));
    }
    let (_, tone) = server_verdict(server);
    vec![Block::Table(table), Block::Text(tone, sentence)]
}

/// Whether an open loop keeps up is the first thing to know about it: the latency of the calls alone hides the queue.
pub(super) fn server_figure(server: &ServerReport) -> Figure {
    let (value, tone) = server_verdict(server);
    let p99 = server.from_planned_start_ms.get("p99").copied().flatten();
    Figure {
        name: "open loop",
        value: value.to_owned(),
        detail: format!(
            "p99 from planned start {}; {}/s planned, {}/s served",
            p99.map_or("n/a".to_owned(), milliseconds),
            digits(server.target_per_second),
            server.achieved_per_second.map_or("?".to_owned(), digits)
        ),
        tone,
    }
}

fn server_verdict(server: &ServerReport) -> (&'static str, Tone) {
    match server.verdict {
        OpenLoopVerdict::KeepsUp => ("keeps up", Tone::Good),
        OpenLoopVerdict::CannotKeepUp { .. } => ("cannot keep up", Tone::Bad),
        OpenLoopVerdict::TooFewRequests => ("too few requests", Tone::Warning),
    }
}

fn generation(session: &SessionReport) -> Vec<Block<'_>> {
    let Some(generation) = &session.generation else { return Vec::new() };
    let mut table = Table::new(&[
        ("statistic", Align::Name),
        ("first token", Align::Number),
        ("between tokens", Align::Number),
    ])
    .titled("Token generation");
    for (wire, name) in PERCENTILES.iter().filter(|(wire, _)| matches!(*wire, "p50" | "p90" | "p99")) {
        let value = |list: &std::collections::BTreeMap<String, Option<f64>>| {
            Cell::known(list.get(*wire).copied().flatten(), milliseconds)
        };
        table.row(vec![
            Cell::text(*name),
            value(&generation.first_token_ms),
            value(&generation.between_tokens_ms),
        ]);
    }
    table.note =
        format!("{} in {}", counted(generation.tokens, "token"), counted(generation.sequences, "sequence"));
    let mut parts = Vec::new();
    parts.extend(
        generation.decode_tokens_per_second.map(|rate| format!("{} tokens/s while decoding", digits(rate))),
    );
    parts.extend(
        generation.tokens_per_second.map(|rate| format!("{} tokens/s with the prompt", digits(rate))),
    );
    parts.extend(generation.growth_ms_per_100_tokens.map(|growth| {
        let sign = if growth < 0.0 { "-" } else { "+" };
        format!("{sign}{} per 100 tokens of context", milliseconds(growth.abs()))
    }));
    vec![Block::Table(table), Block::Text(Tone::Plain, parts.join(", "))]
}
