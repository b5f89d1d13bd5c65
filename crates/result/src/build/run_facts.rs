//! What the stored `ortscope.run/1` document adds: things that no table holds. The document is read leniently, since
//! an older or newer version may have written it.

use ortscope_core::schema::NameSet as _;
use serde::Deserialize;
use serde_json::Value;

use super::operators::insight;
use crate::{Cold, FindingReport, LossReport, MemoryFigures, OperatorInsight, Severity, UnavailableReport};
use ortscope_core::units::{self, cleaned};

/// Lists longer than this are cut; a document of ours has a few entries.
const MAX_ENTRIES: usize = 1000;

/// One result of the document.
#[derive(Debug, Default)]
pub(super) struct RunFacts {
    pub session_ids: Vec<String>,
    pub model_name: Option<String>,
    pub label: Option<String>,
    pub scenario: Option<String>,
    pub target_per_second: Option<f64>,
    pub unserved: Option<u64>,
    pub discarded: Option<usize>,
    pub batch_size: Option<u64>,
    pub cold: Cold,
    pub memory: MemoryFigures,
    pub cpu_cores_used: Option<f64>,
    pub ort_version: Option<String>,
    pub providers: Vec<String>,
    /// Nodes by provider.
    pub placement: Vec<(String, u64)>,
    pub insight: Option<OperatorInsight>,
    pub notes: Vec<String>,
}

/// The document as far as it was understood.
#[derive(Debug, Default)]
pub(super) struct RunDocument {
    pub results: Vec<RunFacts>,
    pub findings: Vec<FindingReport>,
    pub losses: Vec<LossReport>,
    pub unavailable: Vec<UnavailableReport>,
    /// Why the command or a result failed.
    pub failures: Vec<String>,
}

impl RunDocument {
    pub fn read(document: &Value) -> Self {
        let mut read = Self::default();
        read.failures.extend(failure(document));
        for result in list(document.get("results")) {
            read.results.push(RunFacts::read(result));
            read.findings.extend(list(result.get("findings")).filter_map(finding));
            read.losses.extend(list(result.get("losses")).filter_map(loss));
            read.unavailable.extend(unavailable(result.get("unavailable")));
            read.failures.extend(failure(result));
        }
        read
    }

    pub fn of_session(&self, session_id: &str) -> Option<&RunFacts> {
        self.results.iter().find(|result| result.session_ids.iter().any(|id| id == session_id))
    }
}

impl RunFacts {
    fn read(result: &Value) -> Self {
        let words = |value: Option<&Value>| -> Vec<String> {
            list(value).filter_map(Value::as_str).map(cleaned).collect()
        };
        let placement = result.get("placement");
        let nodes = placement.and_then(|placement| placement.get("nodes"));
        let (scenario, target_per_second) = scenario(result.get("scenario"));
        Self {
            session_ids: list(result.get("session_ids"))
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            model_name: text(result, "/model/name"),
            label: text(result, "/label"),
            scenario,
            target_per_second,
            unserved: result.pointer("/server/unserved").and_then(Value::as_u64),
            discarded: result.pointer("/warm_up/discarded").and_then(Value::as_u64).map(|runs| runs as usize),
            batch_size: result.pointer("/inputs/batch_size").and_then(Value::as_u64),
            cold: part(result.get("cold")),
            memory: part(result.get("memory")),
            cpu_cores_used: result.get("cpu_cores_used").and_then(Value::as_f64),
            ort_version: text(result, "/runtime/version"),
            providers: words(placement.and_then(|placement| placement.get("providers"))),
            placement: list(nodes)
                .filter_map(|of| Some((text(of, "/provider")?, of.get("nodes")?.as_u64()?)))
                .collect(),
            insight: result.get("operators").and_then(insight::read),
            notes: words(result.get("notes")),
        }
    }
}

fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten().take(MAX_ENTRIES)
}

fn text(value: &Value, pointer: &str) -> Option<String> {
    value.pointer(pointer).and_then(Value::as_str).map(cleaned)
}

/// A part of the document; an empty one if it is not as expected.
fn part<T: Default + for<'de> Deserialize<'de>>(value: Option<&Value>) -> T {
    value.and_then(|value| T::deserialize(value).ok()).unwrap_or_default()
}

/// How requests came in words, and the rate that was asked for.
fn scenario(value: Option<&Value>) -> (Option<String>, Option<f64>) {
    let Some(value) = value else { return (None, None) };
    if value.as_str() == Some("single") {
        return (Some("one request after another".into()), None);
    }
    let streams = |kind: &str| value.pointer(&format!("/{kind}/streams")).and_then(Value::as_u64);
    if let Some(streams) = streams("multi") {
        return (Some(format!("{} at once", units::counted(streams, "stream"))), None);
    }
    if let Some(streams) = streams("offline") {
        return (Some(format!("offline, {}", units::counted(streams, "stream"))), None);
    }
    let rate = value.pointer("/server/per_second").and_then(Value::as_f64);
    let sentence = rate.map(|rate| {
        let threads =
            streams("server").map_or(String::new(), |streams| format!(", {streams} serving threads"));
        format!("open loop, {} requests/s planned{threads}", units::digits(rate))
    });
    (sentence, rate)
}

fn finding(value: &Value) -> Option<FindingReport> {
    Some(FindingReport {
        id: text(value, "/id")?,
        severity: value
            .get("severity")
            .and_then(Value::as_str)
            .and_then(Severity::by_name)
            .unwrap_or(Severity::Warning),
        evidence: text(value, "/evidence").unwrap_or_default(),
        advice: text(value, "/advice").unwrap_or_default(),
        command: text(value, "/command"),
    })
}

fn loss(value: &Value) -> Option<LossReport> {
    Some(LossReport {
        place: text(value, "/place")?,
        kind: text(value, "/kind")?,
        count: value.get("count")?.as_u64()?,
    })
}

fn unavailable(value: Option<&Value>) -> Vec<UnavailableReport> {
    let entries = value.and_then(Value::as_object).into_iter().flatten().take(MAX_ENTRIES);
    entries
        .filter_map(|(metric, reason)| {
            let reason = cleaned(reason.as_str()?);
            Some(UnavailableReport { metric: cleaned(metric), reason, hint: None, seconds: None })
        })
        .collect()
}

fn failure(value: &Value) -> Option<String> {
    let message = text(value, "/failure/message")?;
    let hint = text(value, "/failure/hint").map_or(String::new(), |hint| format!(" ({hint})"));
    Some(format!("the run failed: {message}{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_read_where_it_is_understood() {
        let document = serde_json::json!({
            "schema": "ortscope.run/1",
            "results": [{
                "model": {"name": "m.onnx"}, "session_ids": ["s"], "scenario": {"server": {"per_second": 50.0, "streams": 2}},
                "cold": {"session_first_ms": 12.5, "new_field": 1}, "warm_up": {"discarded": 35},
                "placement": {"providers": ["CPUExecutionProvider"], "nodes": [{"provider": "CPU", "nodes": 3}, {"nodes": 1}]},
                "findings": [{"id": "x", "severity": "error", "evidence": "e", "advice": "a", "command": null}, 5],
                "unavailable": {"energy.power_w": "no sensor"}, "memory": "not an object",
                "failure": {"message": "it broke", "hint": "mend it"}
            }, null]
        });
        let read = RunDocument::read(&document);
        let facts = read.of_session("s").expect("the session is named");
        assert_eq!((facts.target_per_second, facts.discarded), (Some(50.0), Some(35)));
        assert_eq!(facts.scenario.as_deref(), Some("open loop, 50.0 requests/s planned, 2 serving threads"));
        assert_eq!(facts.cold.session_first_ms, Some(12.5));
        assert_eq!(facts.placement, [("CPU".to_owned(), 3)]);
        assert_eq!((read.findings.len(), read.unavailable.len(), read.results.len()), (1, 1, 2));
        assert_eq!(read.failures, ["the run failed: it broke (mend it)"]);
        assert!(RunDocument::read(&Value::String("nonsense".into())).results.is_empty());
    }
}
