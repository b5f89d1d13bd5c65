//! Findings, losses, gaps and annotations, from the tables and from the measurements, each once.

use std::collections::BTreeMap;

use ortscope_core::schema::{AnnotationRow, FindingRow, LossRow, TableId, UnavailabilityRow};
use ortscope_core::tables::Scan;

use super::reader::Reader;
use super::runs::Runs;
use crate::{AnnotationReport, FindingReport, LossReport, ReportError, Severity, UnavailableReport};
use ortscope_core::units::{self, clean, cleaned};

const MAX_FINDINGS: usize = 200;
const MAX_LOSSES: usize = 200;
const MAX_UNAVAILABLE: usize = 300;
const MAX_ANNOTATIONS: usize = 200;
/// Different entries that are held while reading.
const MAX_HELD: usize = 10_000;

/// Kinds of annotations that parts of ortscope use to talk to each other.
const INTERNAL_KINDS: &[&str] = &["message"];

/// The limit kept entries out.
fn note(left_out: &mut Vec<String>, what: &str, more: u64) {
    if more > 0 {
        left_out.push(format!("{} {what}", units::count(more)));
    }
}

pub(super) fn findings(
    reader: &mut Reader<'_>,
    runs: &Runs,
    left_out: &mut Vec<String>,
) -> Result<Vec<FindingReport>, ReportError> {
    let mut findings: Vec<FindingReport> = Vec::new();
    let mut more = 0;
    let mut take = |finding: FindingReport| {
        let known = |other: &FindingReport| other.id == finding.id && other.evidence == finding.evidence;
        if findings.iter().any(known) {
            return;
        }
        if findings.len() < MAX_FINDINGS {
            findings.push(finding);
        } else {
            more += 1;
        }
    };
    reader.each_row(|row: FindingRow| {
        take(FindingReport {
            id: clean(&row.id, 60),
            severity: row.severity.known().unwrap_or(Severity::Warning),
            evidence: cleaned(&row.evidence),
            advice: cleaned(&row.advice),
            command: row.command.as_deref().map(cleaned),
        });
    })?;
    runs.results.iter().flat_map(|result| result.findings.iter().cloned()).for_each(&mut take);
    findings.sort_by_key(|finding| finding.severity);
    note(left_out, "further findings", more);
    Ok(findings)
}

/// The table counts every loss. A measurement may report the same ones: then the larger number counts.
pub(super) fn losses(
    reader: &mut Reader<'_>,
    runs: &Runs,
    left_out: &mut Vec<String>,
) -> Result<Vec<LossReport>, ReportError> {
    let mut losses: BTreeMap<(String, String), u64> = BTreeMap::new();
    reader.each_row(|row: LossRow| {
        let mut key = (clean(&row.place, 100), clean(&row.kind, 100));
        if losses.len() >= MAX_HELD && !losses.contains_key(&key) {
            key = ("elsewhere".to_owned(), "other records".to_owned());
        }
        let sum = losses.entry(key).or_default();
        *sum = sum.saturating_add(row.count);
    })?;
    let mut stated: BTreeMap<(String, String), u64> = BTreeMap::new();
    for loss in runs.results.iter().flat_map(|result| &result.losses) {
        *stated.entry((loss.place.clone(), loss.kind.clone())).or_default() += loss.count;
    }
    for (key, count) in stated {
        let sum = losses.entry(key).or_default();
        *sum = (*sum).max(count);
    }
    let mut losses: Vec<LossReport> = losses
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|((place, kind), count)| LossReport { place, kind, count })
        .collect();
    losses.sort_by_key(|loss| std::cmp::Reverse(loss.count));
    note(left_out, "further kinds of losses", losses.len().saturating_sub(MAX_LOSSES) as u64);
    losses.truncate(MAX_LOSSES);
    Ok(losses)
}

pub(super) fn unavailable(
    reader: &mut Reader<'_>,
    runs: &Runs,
    left_out: &mut Vec<String>,
) -> Result<Vec<UnavailableReport>, ReportError> {
    type Key = (String, String, Option<String>);
    // Nanoseconds without a value, and whether an interval has no end yet. Its end is told by a row of its own.
    let mut gaps: BTreeMap<Key, (u64, bool)> = BTreeMap::new();
    let mut more = 0;
    reader.each_row(|row: UnavailabilityRow| {
        let key = (clean(&row.track, 100), cleaned(&row.reason), row.hint.as_deref().map(cleaned));
        if gaps.len() >= MAX_HELD && !gaps.contains_key(&key) {
            more += 1;
            return;
        }
        let (sum, is_open) = gaps.entry(key).or_default();
        *is_open = row.to_ns.is_none();
        *sum = sum.saturating_add(row.to_ns.map_or(0, |to| to.saturating_sub(row.from_ns)));
    })?;
    let mut list: Vec<UnavailableReport> = gaps
        .into_iter()
        .map(|((metric, reason, hint), (gap_ns, is_open))| UnavailableReport {
            metric,
            reason,
            hint,
            seconds: (!is_open).then_some(gap_ns as f64 / 1e9),
        })
        .collect();
    for (metric, reason) in runs.results.iter().flat_map(|result| &result.unavailable) {
        if !list.iter().any(|known| known.metric == *metric && known.reason == *reason) {
            let (metric, reason) = (metric.clone(), reason.clone());
            list.push(UnavailableReport { metric, reason, hint: None, seconds: None });
        }
    }
    note(
        left_out,
        "further reasons for missing values",
        more + list.len().saturating_sub(MAX_UNAVAILABLE) as u64,
    );
    list.truncate(MAX_UNAVAILABLE);
    Ok(list)
}

pub(super) fn annotations(
    reader: &mut Reader<'_>,
    left_out: &mut Vec<String>,
) -> Result<Vec<AnnotationReport>, ReportError> {
    let mut marks: Vec<(u64, String, String)> = Vec::new();
    let mut more = 0;
    reader.each_batch(TableId::Annotations, &Scan::all(), |batch| {
        for row in batch.rows::<AnnotationRow>().filter(|row| !INTERNAL_KINDS.contains(&&*row.kind)) {
            if marks.len() < MAX_ANNOTATIONS {
                marks.push((row.timestamp_ns, clean(&row.kind, 40), cleaned(&row.text)));
            } else {
                more += 1;
            }
        }
    })?;
    note(left_out, "further marks", more);
    marks.sort_by_key(|(time_ns, _, _)| *time_ns);
    Ok(marks
        .into_iter()
        .map(|(time_ns, kind, text)| AnnotationReport { offset_seconds: reader.seconds(time_ns), kind, text })
        .collect())
}
