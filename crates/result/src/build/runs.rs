//! The measurements of `ortscope run` in a recording.

use ortscope_analyze::measurement::Measurement;
use ortscope_core::failure::Failure;
use ortscope_core::tables::Tables;
use ortscope_core::units::cleaned;
use serde::Deserialize;
use serde_json::Value;

use crate::{ReportError, RunResult};

/// The maximum number of results that are read from a document.
const MAX_RESULTS: usize = 1000;

/// The results of the measurements in a recording. `document` is the `run.json` of recordings made before version 0.2.
pub fn runs(tables: &dyn Tables, document: Option<&Value>) -> Result<Vec<RunResult>, ReportError> {
    Runs::read(tables, document).map(|runs| runs.results)
}

/// The results of all measurements, and the parts that could not be read.
#[derive(Debug, Default)]
pub(super) struct Runs {
    pub results: Vec<RunResult>,
    pub problems: Vec<String>,
    /// The failure of a command that has no result.
    failure: Option<Failure>,
}

impl Runs {
    /// Recordings made before version 0.2 have a document instead of facts.
    pub fn read(tables: &dyn Tables, document: Option<&Value>) -> Result<Self, ReportError> {
        let measurements = Measurement::read_all(tables)?;
        if measurements.is_empty() {
            return Ok(document.map(Self::from_document).unwrap_or_default());
        }
        Ok(Self { results: measurements.into_iter().filter_map(RunResult::new).collect(), ..Self::default() })
    }

    fn from_document(document: &Value) -> Self {
        let failure = document.get("failure").and_then(|failure| Failure::deserialize(failure).ok());
        let mut runs = Self { failure, ..Self::default() };
        let results = document.get("results").and_then(Value::as_array).into_iter().flatten();
        for value in results.take(MAX_RESULTS) {
            let result = RunResult::deserialize(value).or_else(|error| {
                // The operators are the part that changes most between versions.
                runs.problems.push(format!("a part of the run's document could not be read: {error}"));
                let mut value = value.clone();
                value.as_object_mut().map(|fields| fields.remove("operators"));
                RunResult::deserialize(value)
            });
            runs.results.extend(result.ok().map(RunResult::cleaned));
        }
        runs
    }

    pub fn of_session(&self, session_id: &str) -> Option<&RunResult> {
        self.results.iter().find(|result| result.session_ids.iter().any(|id| id == session_id))
    }

    /// Why measurements failed, in sentences.
    pub fn failures(&self) -> impl Iterator<Item = String> + '_ {
        let of_results = self.results.iter().filter_map(|result| result.failure.as_ref());
        let of_command = self.failure.iter().filter(|_| self.results.is_empty());
        of_results.chain(of_command).map(|failure| {
            let hint = failure.hint.as_ref().map_or(String::new(), |hint| format!(" ({hint})"));
            cleaned(&format!("the run failed: {}{hint}", failure.message))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_of_an_older_version_is_read() {
        let document = serde_json::json!({
            "schema": "ortscope.run/1",
            "results": [{
                "model": {"name": "m.onnx"}, "session_ids": ["s"], "scenario": {"server": {"per_second": 50.0, "streams": 2}},
                "cold": {"session_first_ms": 12.5, "new_field": 1},
                "placement": {"providers": ["CPUExecutionProvider"], "nodes": [{"provider": "CPU", "nodes": 3}]},
                "findings": [{"id": "x", "severity": "error", "evidence": "e", "advice": "a", "command": null}],
                "unavailable": {"energy.power_w": "no sensor"},
                "operators": {"flops": "from the future"},
                "failure": {"exit": "model", "message": "it broke", "hint": "repair it"}
            }]
        });
        let runs = Runs::from_document(&document);
        let result = runs.of_session("s").expect("the session is named");
        assert_eq!(result.scenario.describe(), "open loop, 50 requests/s planned, 2 serving threads");
        assert_eq!(result.cold.session_first_ms, Some(12.5));
        assert_eq!((result.findings.len(), result.unavailable.len(), runs.problems.len()), (1, 1, 1));
        assert_eq!(runs.failures().collect::<Vec<_>>(), ["the run failed: it broke (repair it)"]);
        assert!(Runs::from_document(&Value::String("nonsense".into())).results.is_empty());
    }
}
