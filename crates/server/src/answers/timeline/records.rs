//! The timeline as wire records, for other tools.

use ortscope_core::filter::Filter;
use ortscope_core::schema::{OperatorKind, OperatorRow, TableId, UnavailabilityRow};
use ortscope_core::tables::Scan;
use ortscope_export::wire::{OperationRecord, Reasons, operation_record};
use schemars::JsonSchema;
use serde::Serialize;

use super::super::{About, Timed};
use crate::data::Source;
use crate::error::ApiError;
use crate::params::Params;

#[derive(Debug, Serialize, JsonSchema)]
pub struct TimelineRecords {
    #[serde(flatten)]
    pub about: About,
    pub operations: Vec<Timed<OperationRecord>>,
    /// Pass as `cursor` to get the next page; null on the last one.
    pub next: Option<String>,
}

/// The reasons for missing values that the source has recorded.
pub fn reasons(source: &Source) -> Result<Reasons, ApiError> {
    let mut reasons = Reasons::default();
    for batch in source.tables().scan(TableId::Unavailability, &Scan::all()) {
        batch?.rows::<UnavailabilityRow>().for_each(|row| reasons.add(&row));
    }
    Ok(reasons)
}

/// A cursor has the time to continue at, and how many operators of exactly that time were already returned.
fn cursor(text: Option<&str>) -> Result<(u64, usize), ApiError> {
    let Some(text) = text else { return Ok((0, 0)) };
    let parts =
        text.split_once('.').and_then(|(time, count)| Some((time.parse().ok()?, count.parse().ok()?)));
    parts.ok_or_else(|| ApiError::bad_parameter("cursor", "is not `next` of a previous answer"))
}

pub fn records(
    source: &Source,
    range: (u64, u64),
    filter: Option<&Filter>,
    session: Option<&str>,
    params: &Params,
) -> Result<TimelineRecords, ApiError> {
    let limit = params.count("limit", 1000)?;
    let (from_ns, returned) = cursor(params.text("cursor"))?;
    let from_ns = from_ns.max(range.0);
    let reasons = reasons(source)?;
    let start_ns = source.filter_start_ns();
    let scan = Scan { from_ns: Some(from_ns), to_ns: Some(range.1), ..Scan::all() };
    let can = filter.is_none_or(|filter| filter.tables().contains(&TableId::Operators));
    let mut rows: Vec<OperatorRow> = Vec::new();
    // Rows are roughly ordered by time: a few batches beyond the limit are enough to have the first ones.
    let enough = returned.saturating_add(limit).saturating_mul(2).saturating_add(10_000);
    for batch in source.tables().scan(TableId::Operators, &scan) {
        let batch = batch?;
        let batch = match filter {
            Some(filter) => batch.filter(&filter.mask(&batch, start_ns)),
            None => batch,
        };
        let is_wanted = |row: &OperatorRow| {
            can && matches!(row.kind.known(), Some(OperatorKind::Operator | OperatorKind::Copy))
                && session.is_none_or(|session| *row.session_id == *session)
        };
        rows.extend(batch.rows::<OperatorRow>().filter(is_wanted));
        if rows.len() > enough {
            break;
        }
    }
    rows.sort_by_key(|row| row.timestamp_ns);
    let page: Vec<_> = rows.iter().skip(returned).take(limit + 1).collect();
    let next = page.get(limit).map(|next| {
        let at = next.timestamp_ns;
        let same = rows.iter().take(returned + limit).rev().take_while(|row| row.timestamp_ns == at).count();
        format!("{at}.{same}")
    });
    let operations = page
        .iter()
        .take(limit)
        .map(|row| Timed { record: operation_record(row, &reasons), t_ms: source.ms(row.timestamp_ns) })
        .collect();
    Ok(TimelineRecords { about: About::new(source, range), operations, next })
}
