//! The numbers of a report as a flat list: for CSV, and for limits that a build may set.

use serde::Serialize;

use super::{CallTimes, LatencyReport, ReportModel, Series, SeriesUnit, SessionReport};

/// One number.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Metric {
    /// A path, e.g. `sessions.0.latency.inference.p99`.
    pub name: String,
    /// `None` when it is not known; then `source` says why.
    pub value: Option<f64>,
    pub unit: &'static str,
    /// What the number rests on.
    pub n: u64,
    /// Ends of the 95 % interval.
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// Table or document it comes from.
    pub source: String,
}

/// All numbers of the report.
pub fn metrics(model: &ReportModel) -> Vec<Metric> {
    let mut list = List::default();
    let header = &model.header;
    list.one("recording.duration", "s", Some(header.duration_seconds), 1, "manifest");
    list.one("recording.lost", "records", Some(model.lost() as f64), 1, "losses");
    for (index, session) in model.sessions.iter().enumerate() {
        list.session(&format!("sessions.{index}"), session);
    }
    list.one("other_sessions.inferences", "1", Some(model.other_sessions.inferences as f64), 1, "inferences");
    for (index, report) in model.operators.iter().enumerate() {
        let path = format!("operators.{index}");
        list.one(&format!("{path}.runs"), "1", Some(report.runs as f64), report.runs, "operators");
        list.one(&format!("{path}.run_median"), "ms", report.run_median_ms, report.runs, "operators");
        list.one(
            &format!("{path}.observer_factor"),
            "ratio",
            report.observer_factor,
            report.runs,
            "operators",
        );
        let share = report.unattributed.map(|rest| rest.share);
        list.one(&format!("{path}.unattributed"), "ratio", share, report.runs, "operators");
        for row in &report.by_type {
            list.calls(&format!("{path}.by_type.{}.{}", row.op_type, row.execution_provider), &row.times);
        }
        for row in &report.by_node {
            list.calls(&format!("{path}.by_node.{}", row.name), &row.times);
        }
    }
    for process in &model.processes {
        let path = format!("processes.{}", process.pid);
        list.one(
            &format!("{path}.cpu_time"),
            "s",
            Some(process.cpu_seconds),
            process.samples,
            "process_samples",
        );
        for series in &process.series {
            list.series(&path, series);
        }
    }
    model.system.iter().for_each(|series| list.series("system", series));
    model.devices.iter().for_each(|series| list.series(&format!("devices.{}", series.of), series));
    for loss in &model.losses {
        list.one(
            &format!("losses.{}.{}", loss.place, loss.kind),
            "records",
            Some(loss.count as f64),
            1,
            "losses",
        );
    }
    list.0
}

#[derive(Default)]
struct List(Vec<Metric>);

impl List {
    fn one(&mut self, name: &str, unit: &'static str, value: Option<f64>, n: u64, source: &str) {
        self.0.push(Metric {
            name: name.to_owned(),
            value,
            unit,
            n,
            low: None,
            high: None,
            source: source.to_owned(),
        });
    }

    fn session(&mut self, path: &str, session: &SessionReport) {
        let counts = &session.counts;
        self.one(&format!("{path}.inferences"), "1", Some(counts.total as f64), counts.total, "inferences");
        self.one(&format!("{path}.failed"), "1", Some(counts.failed as f64), counts.total, "inferences");
        for (phase, rows) in &counts.by_phase {
            self.one(&format!("{path}.phase.{phase}"), "1", Some(*rows as f64), counts.total, "inferences");
        }
        let series = [("inference", &session.inference), ("end_to_end", &session.end_to_end)];
        for (name, latency) in series {
            latency.iter().for_each(|latency| self.latency(&format!("{path}.latency.{name}"), latency));
        }
        if let Some(throughput) = &session.throughput {
            let n = throughput.requests;
            self.one(
                &format!("{path}.throughput"),
                "1/s",
                Some(throughput.requests_per_second),
                n,
                "inferences",
            );
            self.one(
                &format!("{path}.samples_per_second"),
                "1/s",
                throughput.samples_per_second,
                n,
                "inferences",
            );
            self.one(&format!("{path}.concurrency"), "1", Some(throughput.concurrency), n, "inferences");
        }
        if let Some(parts) = &session.parts {
            self.one(&format!("{path}.copy_in.mean"), "ms", Some(parts.copy_in_ms), parts.n, "inferences");
            self.one(&format!("{path}.copy_out.mean"), "ms", Some(parts.copy_out_ms), parts.n, "inferences");
        }
        if let Some(slow) = &session.slow {
            self.one(&format!("{path}.slow_inferences"), "1", Some(slow.count as f64), slow.of, "inferences");
        }
        if let Some(server) = &session.server {
            let n = server.requests;
            for (wire, value) in &server.from_planned_start_ms {
                self.one(&format!("{path}.server.from_planned_start.{wire}"), "ms", *value, n, "inferences");
            }
            self.one(&format!("{path}.server.achieved"), "1/s", server.achieved_per_second, n, "inferences");
        }
        if let Some(generation) = &session.generation {
            let n = generation.tokens;
            self.one(
                &format!("{path}.generation.first_token"),
                "ms",
                generation.first_token_median_ms,
                generation.sequences,
                "inferences",
            );
            self.one(
                &format!("{path}.generation.decode_rate"),
                "tokens/s",
                generation.decode_tokens_per_second,
                n,
                "inferences",
            );
            for (wire, value) in &generation.between_tokens_ms {
                self.one(&format!("{path}.generation.between_tokens.{wire}"), "ms", *value, n, "inferences");
            }
        }
        let document = "ortscope.run document";
        if let Some(cold) = &session.cold {
            self.one(&format!("{path}.cold.session"), "ms", cold.session_first_ms, 1, document);
            self.one(&format!("{path}.cold.first_run"), "ms", cold.first_run_ms, 1, document);
        }
        if let Some(memory) = &session.memory {
            self.one(
                &format!("{path}.memory.peak"),
                "bytes",
                memory.peak_bytes.map(|size| size as f64),
                1,
                document,
            );
        }
    }

    fn latency(&mut self, path: &str, latency: &LatencyReport) {
        let n = latency.runs;
        for (wire, value) in &latency.percentiles {
            let [low, high] = latency.interval_ms(wire);
            let source = match latency.needs_runs.get(wire) {
                Some(runs) => format!("inferences; needs at least {runs} runs"),
                None => "inferences".to_owned(),
            };
            self.0.push(Metric {
                name: format!("{path}.{wire}"),
                value: *value,
                unit: "ms",
                n,
                low,
                high,
                source,
            });
        }
        let plain = [
            ("mean", latency.mean_ms),
            ("min", latency.min_ms),
            ("max", latency.max_ms),
            ("iqr", latency.jitter.iqr_ms),
        ];
        for (name, value) in plain {
            self.one(&format!("{path}.{name}"), "ms", Some(value), n, "inferences");
        }
        self.one(&format!("{path}.std"), "ms", latency.std_ms, n, "inferences");
        self.one(&format!("{path}.outliers"), "1", Some(latency.outliers.count as f64), n, "inferences");
    }

    fn calls(&mut self, path: &str, times: &CallTimes) {
        let n = times.calls;
        self.one(&format!("{path}.self"), "ms", Some(times.self_ms), n, "operators");
        self.one(&format!("{path}.share"), "ratio", times.share, n, "operators");
        self.one(&format!("{path}.mean"), "ms", Some(times.mean_ms), n, "operators");
        self.one(&format!("{path}.p50"), "ms", times.p50_ms, n, "operators");
        self.one(&format!("{path}.p99"), "ms", times.p99_ms, n, "operators");
    }

    fn series(&mut self, path: &str, series: &Series) {
        let unit = unit_name(series.unit);
        for (name, value) in [("min", series.min), ("mean", series.mean), ("max", series.max)] {
            self.one(
                &format!("{path}.{}.{name}", series.metric),
                unit,
                Some(value),
                series.n,
                &series.source,
            );
        }
    }
}

fn unit_name(unit: SeriesUnit) -> &'static str {
    match unit {
        SeriesUnit::Percent => "percent",
        SeriesUnit::Bytes => "bytes",
        SeriesUnit::Hertz => "Hz",
        SeriesUnit::PerSecond => "1/s",
        SeriesUnit::Count => "1",
        SeriesUnit::Ratio => "ratio",
        SeriesUnit::Watts => "W",
        SeriesUnit::Joules => "J",
        SeriesUnit::Celsius => "degC",
        SeriesUnit::Other => "",
    }
}
