//! The summary a person reads: at most 24 lines, one idea each, one unit per line.

mod operators;
pub mod sweeps;

use ortscope_core::schema::Severity;
use ortscope_core::units::{self, TimeUnit};
use ortscope_result::{
    ClockReport, FindingReport, LatencyReport, LeakVerdict, Percentile, Placement, RunResult, Scenario,
    StabilityVerdict as Verdict, WarmUpVerdict, digits_for, leak,
};

use crate::style::{Paint, Style};

/// The width of the labels at the left.
const LABEL_WIDTH: usize = 12;
/// Findings shown; the rest is in the JSON.
const MAX_FINDINGS: usize = 2;
/// Notes shown.
const MAX_NOTES: usize = 2;

/// Lines of one result.
pub fn summary(result: &RunResult, clock: &ClockReport, terminal: Paint) -> Vec<String> {
    let mut page = Page { lines: Vec::new(), terminal, noise: clock_noise(clock) };
    page.title(result);
    page.runtime(result);
    // What makes the figures mean something else is said before them.
    page.problems(result);
    page.inputs(result);
    page.cold(result);
    page.latency(result);
    page.server(result);
    page.generation(result);
    page.throughput(result);
    page.memory(result);
    page.operators(result);
    page.outputs(result);
    page.stability(result, clock);
    page.findings(result);
    page.lines
}

/// The line that names the recording.
pub fn saved(name: &str, bytes: u64, terminal: Paint) -> String {
    let label = terminal.paint(Style::Dim, &format!("{:<LABEL_WIDTH$}", "saved"));
    format!("{label}{name}  {}   ortscope report {name}", units::bytes(bytes as f64))
}

fn clock_noise(clock: &ClockReport) -> f64 {
    clock.noise_ns.unwrap_or(0.0)
}

struct Page {
    lines: Vec<String>,
    terminal: Paint,
    noise: f64,
}

impl Page {
    fn line(&mut self, label: &str, text: &str) {
        let label = self.terminal.paint(Style::Dim, &format!("{label:<LABEL_WIDTH$}"));
        self.lines.push(format!("{label}{text}"));
    }

    fn title(&mut self, result: &RunResult) {
        let model = &result.model;
        let mut parts = vec![self.terminal.paint(Style::Bold, &model.name)];
        parts.extend(result.label.as_ref().map(|label| self.terminal.paint(Style::Bold, label)));
        parts.extend(model.opset.map(|opset| format!("opset {opset}")));
        let nodes = units::count(model.nodes);
        parts.push(match model.total_nodes > model.nodes {
            true => format!("{nodes} nodes ({} with subgraphs)", units::count(model.total_nodes)),
            false => units::counted(model.nodes, "node"),
        });
        parts.push(format!("{} parameters", units::prefixed(model.parameters as f64, "")));
        parts.push(units::bytes(model.bytes as f64));
        if model.quantized {
            parts.push("quantised".into());
        }
        self.lines.push(parts.join("  "));
    }

    fn runtime(&mut self, result: &RunResult) {
        let Some(runtime) = &result.runtime else { return };
        let mut text = format!("ONNX Runtime {}", runtime.version);
        if let Some(placement) = &result.placement {
            let total: u64 = placement.nodes.iter().map(|of| of.nodes).sum();
            if total > 0 {
                // In the order asked for; of a provider that runs nothing that is the news.
                for provider in &placement.providers {
                    let on: u64 =
                        placement.nodes.iter().filter(|of| of.provider == *provider).map(|of| of.nodes).sum();
                    text +=
                        &format!("  {} {on}/{total} nodes{}", short(provider), device(placement, provider));
                }
                for of in placement.nodes.iter().filter(|of| !placement.providers.contains(&of.provider)) {
                    text += &format!("  {} {}/{total} nodes", short(&of.provider), of.nodes);
                }
            } else {
                let names: Vec<&str> = placement.providers.iter().map(|name| short(name)).collect();
                text += &format!("  {} (nodes per provider: needs ONNX Runtime 1.24)", names.join(", "));
            }
        }
        if let Some(threads) = result.configuration.intra_op_threads {
            text += &format!("  {threads} thread{}", if threads == 1 { "" } else { "s" });
        }
        self.line("runtime", &text);
    }

    fn inputs(&mut self, result: &RunResult) {
        let Some(inputs) = &result.inputs else { return };
        let shown: Vec<&str> = inputs.described.iter().take(3).map(String::as_str).collect();
        let more = inputs.described.len().saturating_sub(3);
        let more = if more > 0 { format!("  and {more} more") } else { String::new() };
        self.line("inputs", &format!("{}{more}  (seed {})", shown.join("  "), inputs.seed));
        if !inputs.guessed.is_empty() {
            let guesses: Vec<String> = inputs
                .guessed
                .iter()
                .map(|guess| match &guess.name {
                    Some(name) => format!("{name}={}", guess.value),
                    None => format!("{}[{}]={}", guess.input, guess.axis, guess.value),
                })
                .collect();
            let text = format!("guessed {}; change with --shape", guesses.join(", "));
            self.line("", &self.terminal.paint(Style::Dim, &text));
        }
        for note in inputs.notes.iter().chain(&result.notes).take(MAX_NOTES) {
            self.line("", &self.terminal.paint(Style::Dim, note));
        }
    }

    fn cold(&mut self, result: &RunResult) {
        let cold = &result.cold;
        let time = |ms: f64| units::nanoseconds(ms * 1e6);
        let mut parts = Vec::new();
        parts.extend(cold.file_read_ms.map(|ms| format!("file {}", time(ms))));
        let second =
            cold.session_again_ms.map(|ms| format!(" (a second one {})", time(ms))).unwrap_or_default();
        parts.extend(cold.session_first_ms.map(|ms| format!("session {}{second}", time(ms))));
        parts.extend(cold.first_run_ms.map(|ms| format!("first run {}", time(ms))));
        if !parts.is_empty() {
            self.line("cold", &parts.join("  "));
        }
    }

    fn latency(&mut self, result: &RunResult) {
        let Some(latency) = &result.latency else {
            if result.generation.is_none() {
                self.line("latency", "n/a: no run was left to measure; the warm-up took them all");
            }
            return;
        };
        let report = &latency.inference;
        let unit = TimeUnit::of(report.median_ms);
        let headline = ["p50", "p90", "p95"]
            .map(|name| self.percentile(report.percentile(name).as_ref(), unit, name == "p50"))
            .join("  ");
        self.line("latency", &self.terminal.paint(Style::Bold, &headline));
        let held_down = result.held_down();
        if !held_down.is_empty() {
            let text = format!("while the clock was held down: {}", held_down.join("; "));
            self.line("", &self.terminal.paint(Style::Warning, &text));
        }
        let tail = ["p99", "p99_9"]
            .map(|name| self.percentile(report.percentile(name).as_ref(), unit, true))
            .join("  ");
        self.line("", &tail);
        self.line("", &self.spread(report, unit));
        let [whole, before, inside, after] =
            [latency.end_to_end.median_ms, latency.copy_in_ms, report.median_ms, latency.copy_out_ms]
                .map(|ms| self.time(ms * 1e6));
        self.line(
            "",
            &format!(
                "end to end p50 {whole}: copy in {before}, inference {inside}, wait and copy out {after}"
            ),
        );
        self.jitter(report, unit);
        self.warm_up(result);
    }

    fn spread(&self, report: &LatencyReport, unit: TimeUnit) -> String {
        let values =
            [report.mean_ms, report.min_ms, report.max_ms].map(|value| self.number(value * 1e6, unit));
        format!(
            "mean {}  min {}  max {} {unit}  over {} runs",
            values[0],
            values[1],
            values[2],
            units::count(report.runs)
        )
    }

    fn jitter(&mut self, report: &LatencyReport, unit: TimeUnit) {
        let jitter = &report.jitter;
        let mut text = format!("IQR {} {unit}", self.number(jitter.iqr_ms * 1e6, unit));
        if let Some(step) = jitter.successive_difference_ms {
            text += &format!("  run to run {} {unit}", self.number(step * 1e6, unit));
        }
        if let Some(tail) = jitter.p99_minus_p50_ms {
            text += &format!("  p99-p50 {} {unit}", self.number(tail * 1e6, unit));
        }
        let outliers = &report.outliers;
        if outliers.count > 0 {
            let share = units::percent(outliers.share);
            text += &format!("  outliers {} ({share})", units::count(outliers.count as u64));
            // Outliers that matter get a finding of their own, which says the rest.
            if !outliers.change_result {
                text += &format!(": {}", outliers.note);
            }
        }
        self.line("jitter", &text);
    }

    fn warm_up(&mut self, result: &RunResult) {
        let Some(warm_up) = &result.warm_up else { return };
        let text = match warm_up.verdict {
            WarmUpVerdict::TooFewRuns => "too few runs to see a warm-up".to_owned(),
            WarmUpVerdict::None => "none seen".to_owned(),
            _ if warm_up.discarded == 0 => "none seen".to_owned(),
            _ => format!("{} runs discarded", units::count(warm_up.discarded as u64)),
        };
        self.line("warm-up", &format!("{text}  stopped: {}", result.stopped));
    }

    fn server(&mut self, result: &RunResult) {
        let Some(server) = &result.server else { return };
        let planned = |name| milliseconds(server.from_planned_start_ms.get(name));
        self.line(
            "server",
            &format!(
                "from planned start p50 {}  p90 {}  p99 {} (from real start p99 {})",
                planned("p50"),
                planned("p90"),
                planned("p99"),
                milliseconds(server.from_real_start_ms.get("p99"))
            ),
        );
        let unserved = match server.unserved.unwrap_or(0) {
            0 => String::new(),
            requests => format!("  {} never started", units::count(requests)),
        };
        self.line(
            "",
            &format!(
                "{}/s planned, {}/s served  queue mean {}, most {}{unserved}",
                units::digits(server.target_per_second),
                server.achieved_per_second.map_or("?".into(), units::digits),
                units::digits(server.queue_depth_mean.unwrap_or(0.0)),
                units::count(server.queue_depth_max.unwrap_or(0))
            ),
        );
    }

    fn generation(&mut self, result: &RunResult) {
        let Some(generation) = &result.generation else {
            return;
        };
        let first = generation.first_token_median_ms.map_or("n/a".into(), |ms| units::nanoseconds(ms * 1e6));
        self.line(
            "first token",
            &self.terminal.paint(
                Style::Bold,
                &format!("median {first}  over {} sequences", units::count(generation.sequences)),
            ),
        );
        let unit = generation
            .between_tokens
            .first()
            .and_then(|p50| p50.value_ns)
            .map_or(TimeUnit::Milliseconds, |ns| TimeUnit::of(ns as f64 / 1e6));
        let find =
            |p: f64| generation.between_tokens.iter().find(|percentile| (percentile.p - p).abs() < 1e-9);
        let text = [find(0.5), find(0.9), find(0.99)].map(|p| self.percentile(p, unit, true)).join("  ");
        self.line("per token", &self.terminal.paint(Style::Bold, &text));
        let mut text = format!("{} tokens", units::count(generation.tokens));
        if let Some(rate) = generation.decode_tokens_per_second {
            text += &format!("  {} tokens/s while decoding", units::digits(rate));
        }
        if let Some(growth) = generation.growth_ms_per_100_tokens {
            let sign = if growth < 0.0 { "-" } else { "+" };
            text += &format!("  {sign}{} per 100 tokens of context", units::nanoseconds(growth.abs() * 1e6));
        }
        self.line("", &text);
        self.line("stopped", &result.stopped);
    }

    fn throughput(&mut self, result: &RunResult) {
        let mut parts = Vec::new();
        if let Some(throughput) = &result.throughput {
            parts.push(format!("{} inferences/s", units::digits(throughput.requests_per_second)));
            if throughput.samples_per_second > throughput.requests_per_second * 1.01 {
                parts.push(format!("{} samples/s", units::digits(throughput.samples_per_second)));
            }
        }
        if let Some(cores) = result.cpu_cores_used {
            parts.push(format!("{cores:.1} cores busy"));
        }
        if let Some(energy) = &result.energy {
            // Of whole devices: the JSON says of which, and that others are in it.
            let each = energy
                .joules_per_inference
                .map(|joules| format!(", {} J per inference", units::digits(joules)));
            parts.push(format!("{} W{}", units::digits(energy.power_w), each.unwrap_or_default()));
        }
        if result.scenario != Scenario::Single {
            parts.push(result.scenario.describe());
        }
        if !parts.is_empty() {
            self.line("throughput", &parts.join("  "));
        }
        self.energy(result);
        if !result.devices.is_empty() {
            let devices: Vec<String> = result.devices.iter().map(|device| device.describe()).collect();
            self.line("devices", &devices.join("; "));
        }
        if let Some(counters) = &result.counters {
            let mut parts = Vec::new();
            parts.extend(
                counters
                    .instructions_per_inference
                    .map(|count| format!("{} instructions", units::digits(count))),
            );
            parts.extend(counters.instructions_per_cycle.map(|rate| format!("{rate:.2} per cycle")));
            parts.extend(counters.l1_hit_ratio.map(|ratio| format!("L1 hits {}", units::percent(ratio))));
            parts.extend(counters.l2_hit_ratio.map(|ratio| format!("L2 hits {}", units::percent(ratio))));
            parts.extend(
                counters.l3_hit_ratio.map(|ratio| format!("last level hits {}", units::percent(ratio))),
            );
            self.line("processor", &parts.join("  "));
        }
    }

    /// What is told beside the watts; an estimate never without its sign and its band.
    fn energy(&mut self, result: &RunResult) {
        let mut parts = Vec::new();
        if let Some(energy) = &result.energy {
            parts.extend(
                energy
                    .joules_per_inference_above_idle
                    .map(|joules| format!("{} J above idle", units::digits(joules))),
            );
            parts.extend(energy.idle.map(|idle| format!("{} W at rest", units::digits(idle.power_w))));
            parts.extend(
                energy.flops_per_watt.map(|flops| format!("{} GFLOP/s per W", units::digits(flops / 1e9))),
            );
            if let Some(carbon) = &energy.carbon {
                let intensity = &carbon.intensity;
                let of = intensity.country.as_deref().unwrap_or("as given");
                let year = intensity.year.map(|year| format!(" {year}")).unwrap_or_default();
                let grams = carbon.grams_per_inference.unwrap_or(carbon.grams);
                let per = if carbon.grams_per_inference.is_some() { " per inference" } else { "" };
                parts.push(format!(
                    "{} mg CO2{per} ({} g/kWh, {of}{year})",
                    units::digits(grams * 1e3),
                    units::digits(intensity.grams_per_kwh)
                ));
            }
        }
        if let Some(estimate) = &result.energy_estimate {
            let each = estimate
                .joules_per_inference
                .map(|joules| format!(", ~{} J per inference", units::digits(joules)));
            parts.push(format!(
                "~{} W estimated{} (±{:.0} % in the mean, {} to {} W; a model of {} W TDP at {} load)",
                units::digits(estimate.power_w),
                each.unwrap_or_default(),
                estimate.error_percent,
                units::digits(estimate.power_w_lowest),
                units::digits(estimate.power_w_highest),
                units::digits(estimate.tdp_w),
                units::percent(estimate.load)
            ));
        }
        // What was asked for is answered; who asked for nothing reads nothing.
        for (asked, what) in
            [("energy.carbon", "carbon"), ("energy.idle", "at rest"), ("energy_estimate", "estimate")]
        {
            let measured = result.unavailable.get("energy.power_w").filter(|_| asked == "energy.carbon");
            parts.extend(result.unavailable.get(asked).map(|why| {
                let measured = measured.map(|why| format!(": {why}")).unwrap_or_default();
                format!("{what} n/a: {why}{measured}")
            }));
        }
        if !parts.is_empty() {
            self.line("energy", &parts.join("  "));
        }
    }

    fn memory(&mut self, result: &RunResult) {
        let memory = &result.memory;
        let mut parts = Vec::new();
        parts.extend(memory.peak_bytes.map(|bytes| format!("peak {}", units::bytes(bytes as f64))));
        parts.extend(
            memory.session_bytes.map(|bytes| format!("session {}", units::bytes_change(bytes as f64))),
        );
        parts.extend(
            memory.first_run_bytes.map(|bytes| format!("first run {}", units::bytes_change(bytes as f64))),
        );
        parts.extend(
            memory
                .growth_per_inference_bytes
                .map(|bytes| format!("then {} per inference", units::bytes_change(bytes))),
        );
        if !parts.is_empty() {
            self.line("memory", &parts.join("  "));
        }
        if let Some(leak) = &result.leak {
            let style = match leak.verdict {
                LeakVerdict::Leak => Style::Bad,
                LeakVerdict::NoLeak => Style::Good,
                LeakVerdict::TooShort => Style::Warning,
            };
            let text = self.terminal.paint(style, &leak.sentence);
            self.line("leak", &text);
            let arena = leak::arena_sentence(leak);
            self.line(
                "arena",
                &arena.unwrap_or_else(|| {
                    let why = "n/a: ONNX Runtime tells it from version 1.23 on, for sessions with an arena";
                    self.terminal.paint(Style::Dim, why)
                }),
            );
        }
    }

    fn outputs(&mut self, result: &RunResult) {
        let Some(checked) = &result.outputs_checked else {
            return;
        };
        let different = checked.outputs.iter().filter(|output| output.comparison.mismatches > 0).count();
        let text = match checked.outputs.iter().max_by_key(|output| output.comparison.mismatches) {
            _ if different == 0 => self.terminal.paint(
                Style::Good,
                &format!("all {} outputs agree with the {}", checked.outputs.len(), checked.reference),
            ),
            Some(worst) => self.terminal.paint(
                Style::Bad,
                &format!(
                    "{different} of {} outputs differ from the {}: {}",
                    checked.outputs.len(),
                    checked.reference,
                    worst.comparison.sentence
                ),
            ),
            None => "nothing to compare".to_owned(),
        };
        self.line("answers", &text);
    }

    fn stability(&mut self, result: &RunResult, clock: &ClockReport) {
        let Some(latency) = &result.latency else { return };
        let stability = &latency.inference.stability;
        let (word, style) = match stability.verdict {
            Verdict::Good => ("Style::Good", Style::Good),
            Verdict::Fair => ("FAIR", Style::Warning),
            Verdict::Poor => ("POOR", Style::Bad),
            Verdict::NoSteadyState => ("NO STEADY STATE", Style::Bad),
            Verdict::TooFewRuns => ("UNKNOWN", Style::Warning),
        };
        let mut text = format!("{}  {}", self.terminal.paint(style, word), stability.reason);
        if let (Some(step), Some(cost)) = (clock.resolution_ns, clock.cost_ns) {
            let about = format!(
                "  (clock: {} steps, {} per reading)",
                units::nanoseconds(step as f64),
                units::nanoseconds(cost)
            );
            text += &self.terminal.paint(Style::Dim, &about);
        }
        self.line("stability", &text);
    }

    fn operators(&mut self, result: &RunResult) {
        for (index, line) in operators::lines(result).iter().enumerate() {
            self.line(if index == 0 { "operators" } else { "" }, line);
        }
        if let (None, Some(why)) = (&result.operators, result.unavailable.get("operators")) {
            self.line("operators", &self.terminal.paint(Style::Dim, &format!("n/a: {why}")));
        }
    }

    fn problems(&mut self, result: &RunResult) {
        self.found(result.findings.iter().filter(|finding| is_problem(finding)));
    }

    fn findings(&mut self, result: &RunResult) {
        let others = result.findings.iter().filter(|finding| !is_problem(finding));
        self.found(others);
    }

    fn found<'f>(&mut self, findings: impl Iterator<Item = &'f FindingReport>) {
        for finding in findings.take(MAX_FINDINGS) {
            let (label, style) = match finding.severity {
                Severity::Error => ("problem", Style::Bad),
                Severity::Warning => ("warning", Style::Warning),
                Severity::Advice => ("hint", Style::Good),
            };
            let label = self.terminal.paint(style, &format!("{label:<LABEL_WIDTH$}"));
            self.lines.push(format!("{label}{}", finding.evidence));
            let command =
                finding.command.as_ref().map(|command| format!("  ->  {command}")).unwrap_or_default();
            self.line("", &format!("{}{command}", finding.advice));
        }
    }

    /// `p50 2.31 ms [2.29 .. 2.33]`, or what it would take to know it.
    fn percentile(&self, percentile: Option<&Percentile>, unit: TimeUnit, with_interval: bool) -> String {
        let Some(percentile) = percentile else {
            return String::new();
        };
        let name = format!("p{}", percentile.p * 100.0);
        let Some(value) = percentile.value_ns else {
            return format!("{name} n/a (needs ≥ {} runs)", units::count(percentile.needs_runs));
        };
        let mut text = format!("{name} {} {}", self.number(value as f64, unit), unit.name());
        if with_interval && let (Some(low), Some(high)) = (percentile.low_ns, percentile.high_ns) {
            text += &format!(" [{} .. {}]", self.number(low as f64, unit), self.number(high as f64, unit));
        }
        text
    }

    /// A time in its own unit.
    fn time(&self, nanos: f64) -> String {
        let unit = TimeUnit::of(nanos / 1e6);
        format!("{} {}", self.number(nanos, unit), unit.name())
    }

    /// A latency with no more digits than the clock supports.
    fn number(&self, nanos: f64, unit: TimeUnit) -> String {
        let supported = digits_for(nanos, self.noise);
        unit.number_with(nanos / 1e6, supported.min(3))
    }
}

/// What makes the figures mean something else than they seem to: also a provider that runs only a part of the model.
fn is_problem(finding: &FindingReport) -> bool {
    finding.severity == Severity::Error
        || (finding.id == "cpu-fallback" && finding.severity == Severity::Warning)
}

fn milliseconds(value: Option<&Option<f64>>) -> String {
    value.copied().flatten().map_or("n/a".into(), |ms| units::nanoseconds(ms * 1e6))
}

/// ` (NPU)`; nothing for the CPU's own provider.
fn device(placement: &Placement, provider: &str) -> String {
    let used = placement.devices.iter().find(|used| used.provider == provider);
    used.map_or_else(String::new, |used| {
        format!(" ({}{})", if used.is_simulated { "simulated " } else { "" }, used.class)
    })
}

/// `CPU` for `CPUExecutionProvider`.
fn short(provider: &str) -> &str {
    provider.strip_suffix("ExecutionProvider").unwrap_or(provider)
}
