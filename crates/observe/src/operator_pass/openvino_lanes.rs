//! OpenVINO's own counters: device rows of each compiled part in each run.
//!
//! Its provider writes one file for each part after every run (`worker::own_profiles` keeps them). Layers have durations and
//! no starts, so they are placed one after the other from the start of the call. CPU counters are means of all runs so far,
//! truncated to whole microseconds; the time of one run is the growth of runs × mean, and the sum of these never exceeds the
//! measured total.

use std::collections::HashMap;
use std::path::PathBuf;

use ortscope_core::schema::{OperatorRow, Text};
use ortscope_decode::openvino_counters::{self, FILE_SUFFIX, LayerStatus, OpenVinoCounters};

use super::row_inside;

pub const PROVIDER: &str = "OpenVINOExecutionProvider";

/// Prefix of a part's number in its name; its file name does not have it.
const PART_PREFIX: &str = "OpenVINOExecutionProvider_OpenVINO-EP";

/// The files of one window.
#[derive(Debug)]
pub struct OpenVinoLanes {
    /// One directory for each run.
    runs: PathBuf,
    /// Whether the counters are means of all runs so far.
    are_means: bool,
    /// By part: runs so far, and the total time of each layer.
    totals: HashMap<Text, (u64, Vec<u64>)>,
    /// Number of files read, and the first reason why one could not be read.
    pub read: u64,
    pub problem: Option<String>,
}

impl OpenVinoLanes {
    pub fn new(runs: PathBuf, are_means: bool) -> Self {
        Self { runs, are_means, totals: HashMap::new(), read: 0, problem: None }
    }

    /// Device rows of a compiled part, given the part's own row; `run` is the number within this window.
    pub fn rows_inside(&mut self, part: &OperatorRow, run: u64) -> Vec<OperatorRow> {
        if &*part.execution_provider != PROVIDER {
            return Vec::new();
        }
        let counters = match self.counters(&part.name, run) {
            Ok(Some(counters)) => counters,
            Ok(None) => return Vec::new(),
            Err(why) => {
                self.problem.get_or_insert(why);
                return Vec::new();
            }
        };
        self.read += 1;
        let own = self.own_micros(&part.name, run, &counters);
        let end_ns = part.timestamp_ns.saturating_add(part.duration_ns);
        let mut at_ns = part.timestamp_ns;
        let mut rows = Vec::with_capacity(counters.layers.len());
        for (place, (layer, micros)) in counters.layers.into_iter().zip(own).enumerate() {
            // Layers that were merged into others or did not run have no rows.
            if layer.status != LayerStatus::Executed || micros == 0 {
                continue;
            }
            let duration_ns = micros.saturating_mul(1000).min(end_ns.saturating_sub(at_ns));
            // Long names are truncated, so several layers may share one; the position distinguishes them.
            let name = match layer.name.strip_suffix("...") {
                Some(cut) => format!("{cut}... #{place}"),
                None => layer.name,
            };
            rows.push(OperatorRow {
                name: name.into(),
                op_type: layer.layer_type.into(),
                ..row_inside(part, PROVIDER, at_ns, duration_ns)
            });
            at_ns = at_ns.saturating_add(duration_ns);
        }
        rows
    }

    /// `None`: this run has no file of this part.
    fn counters(&self, part: &str, run: u64) -> Result<Option<OpenVinoCounters>, String> {
        let end = format!("{}{FILE_SUFFIX}", part.strip_prefix(PART_PREFIX).unwrap_or(part));
        let Ok(files) = fs_err::read_dir(self.runs.join(run.to_string())) else { return Ok(None) };
        let mut files = files.flatten().map(|file| file.path());
        // The file name starts with the model's name.
        let is_of_part = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(end.as_str()))
        };
        let Some(file) = files.find(is_of_part) else { return Ok(None) };
        let text = fs_err::read_to_string(&file).map_err(|error| error.to_string())?;
        openvino_counters::read(&text).map(Some).map_err(|error| error.to_string())
    }

    /// Microseconds of this run, layer by layer.
    fn own_micros(&mut self, part: &str, run: u64, counters: &OpenVinoCounters) -> Vec<u64> {
        let reported = counters.layers.iter().map(|layer| layer.microseconds);
        if !self.are_means {
            return reported.collect();
        }
        let (_, totals) = self.totals.entry(part.into()).or_default();
        if totals.len() != counters.layers.len() {
            // The first run, or other shapes than before: start again.
            totals.clear();
            totals.resize(counters.layers.len(), 0);
        }
        let runs = run + 1;
        let own = reported.zip(totals).map(|(mean, total)| {
            let now = mean.saturating_mul(runs).max(*total);
            now - std::mem::replace(total, now)
        });
        own.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "Layer Name,Status,Layer Type,Real Time (us),Exec Type\n";

    fn write(directory: &std::path::Path, run: u64, part: &str, lines: &str) {
        let directory = directory.join(run.to_string());
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(format!("model{part}_perf_count.csv")), format!("{HEADER}{lines}"))
            .unwrap();
    }

    fn part(number: u32) -> OperatorRow {
        OperatorRow {
            timestamp_ns: 1_000_000,
            duration_ns: 500_000,
            name: format!("{PART_PREFIX}-subgraph_{number}_0").into(),
            kind: "operator".into(),
            run: Some(7),
            execution_provider: PROVIDER.into(),
            ..OperatorRow::default()
        }
    }

    fn seen(rows: &[OperatorRow]) -> Vec<(&str, u64, u64)> {
        rows.iter().map(|row| (&*row.name, row.timestamp_ns, row.duration_ns)).collect()
    }

    #[test]
    fn layers_lie_within_their_call_and_means_become_single_runs() {
        let place = tempfile::tempdir().unwrap();
        let lines = |conv: u64, pool: u64| {
            format!(
                "x,NOT_RUN,Parameter,0,u\n/a/very/long/name/of/a/lay...,EXECUTED,Convolution,{conv},jit\n\
                 p,EXECUTED,Pooling,{pool},jit\nq,OPTIMIZED_OUT,Reorder,0,u\n"
            )
        };
        // The convolution took 300, 100 and 101 µs, the pool 10 each time; the files have truncated means.
        for (run, (conv, pool)) in [(300, 10), (200, 10), (167, 10)].into_iter().enumerate() {
            write(place.path(), run as u64, "-subgraph_1_0", &lines(conv, pool));
            write(place.path(), run as u64, "-subgraph_11_0", "z,EXECUTED,MatMul,700,brgemm\n");
        }
        let mut lanes = OpenVinoLanes::new(place.path().to_owned(), true);
        let long = "/a/very/long/name/of/a/lay... #1";
        let rows = lanes.rows_inside(&part(1), 0);
        assert_eq!(seen(&rows), [(long, 1_000_000, 300_000), ("p", 1_300_000, 10_000)]);
        assert_eq!((&*rows[0].op_type, rows[0].run, &*rows[0].kind), ("Convolution", Some(7), "other"));
        assert_eq!(seen(&lanes.rows_inside(&part(1), 1))[0], (long, 1_000_000, 100_000));
        assert_eq!(seen(&lanes.rows_inside(&part(1), 2))[0], (long, 1_000_000, 101_000));
        // Rows do not extend beyond their call.
        assert_eq!(seen(&lanes.rows_inside(&part(11), 0)), [("z", 1_000_000, 500_000)]);
        assert_eq!((lanes.rows_inside(&part(1), 3), lanes.rows_inside(&part(2), 0)), (vec![], vec![]));
        let cpu = OperatorRow { execution_provider: "CPUExecutionProvider".into(), ..part(1) };
        assert_eq!((lanes.rows_inside(&cpu, 0), lanes.read, lanes.problem), (vec![], 4, None));
    }

    /// Truncated means jump; the sum of the times of single runs never exceeds the total.
    #[test]
    fn a_falling_mean_never_gives_negative_times() {
        let place = tempfile::tempdir().unwrap();
        // 3, 4, 3, 3, … µs: means of 3, 3, 3, 3 with one 4 in between if the clock jumped.
        for (run, mean) in [3, 4, 3, 3, 3].into_iter().enumerate() {
            write(place.path(), run as u64, "-subgraph_1_0", &format!("n,EXECUTED,Add,{mean},jit\n"));
        }
        let mut lanes = OpenVinoLanes::new(place.path().to_owned(), true);
        let sum: u64 =
            (0..5).flat_map(|run| lanes.rows_inside(&part(1), run)).map(|row| row.duration_ns).sum();
        assert_eq!(sum, 15_000);
    }

    #[test]
    fn other_devices_report_each_run_and_damaged_files_have_a_reason() {
        let place = tempfile::tempdir().unwrap();
        for run in 0..2 {
            write(place.path(), run, "-subgraph_1_0", &format!("n,EXECUTED,Add,{},x\n", 20 - run));
        }
        write(place.path(), 2, "-subgraph_1_0", "");
        std::fs::write(place.path().join("2/model-subgraph_1_0_perf_count.csv"), "what?").unwrap();
        let mut lanes = OpenVinoLanes::new(place.path().to_owned(), false);
        let times = (0..2).map(|run| lanes.rows_inside(&part(1), run)[0].duration_ns);
        assert_eq!(times.collect::<Vec<_>>(), [20_000, 19_000]);
        assert_eq!(lanes.rows_inside(&part(1), 2), []);
        assert!(lanes.problem.is_some_and(|why| why.contains("not an OpenVINO counter file")));
    }
}
