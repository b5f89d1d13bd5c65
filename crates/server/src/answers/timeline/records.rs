//! The timeline as records, for other tools.

use ortscope_core::filter::Filter;
use ortscope_core::schema::{OperatorKind, OperatorRow, TableId, UnavailabilityRow};
use ortscope_core::tables::Scan;
use ortscope_export::wire::{Reasons, operation_record};

use super::super::{Answer, about, with_time};
use crate::data::Source;
use crate::error::ApiError;
use crate::params::Params;

pub fn reasons(source: &Source) -> Result<Reasons, ApiError> {
    let mut reasons = Reasons::default();
    for batch in source.tables().scan(TableId::Unavailability, &Scan::all()) {
        batch?.rows::<UnavailabilityRow>().for_each(|row| reasons.add(&row));
    }
    Ok(reasons)
}

/// A cursor names the time to go on at, and how many operators of exactly that time were told already.
fn cursor(text: Option<&str>) -> Result<(u64, usize), ApiError> {
    let Some(text) = text else { return Ok((0, 0)) };
    let parts = text.split_once('.').and_then(|(time, told)| Some((time.parse().ok()?, told.parse().ok()?)));
    parts.ok_or_else(|| ApiError::bad_parameter("cursor", "is not `next` of an answer"))
}

pub fn records(
    source: &Source,
    range: (u64, u64),
    filter: Option<&Filter>,
    session: Option<&str>,
    params: &Params,
) -> Result<Answer, ApiError> {
    let limit = params.count("limit", 1000)?;
    let (from_ns, told) = cursor(params.text("cursor"))?;
    let from_ns = from_ns.max(range.0);
    let reasons = reasons(source)?;
    let start_ns = source.filter_start_ns();
    let scan = Scan { from_ns: Some(from_ns), to_ns: Some(range.1), ..Scan::all() };
    let can = filter.is_none_or(|filter| filter.tables().contains(&TableId::Operators));
    let mut rows: Vec<OperatorRow> = Vec::new();
    // Rows come roughly in the order of time: a few batches beyond the limit are enough to have the first ones.
    let enough = told.saturating_add(limit).saturating_mul(2).saturating_add(10_000);
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
    let page: Vec<_> = rows.iter().skip(told).take(limit + 1).collect();
    let next = page.get(limit).map(|next| {
        let at = next.timestamp_ns;
        let same = rows.iter().take(told + limit).rev().take_while(|row| row.timestamp_ns == at).count();
        format!("{at}.{same}")
    });
    let operations: Vec<_> = page
        .iter()
        .take(limit)
        .map(|row| with_time(&operation_record(row, &reasons), source.ms(row.timestamp_ns)))
        .collect();
    let mut answer = about(source, range);
    answer.insert("kind".into(), "records".into());
    answer.insert("operations".into(), operations.into());
    answer.insert("next".into(), next.into());
    Answer::json(&answer)
}
