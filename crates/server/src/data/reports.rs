//! Cache of reports by source and range.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ortscope_core::filter::Filter;
use ortscope_core::tables::Tables;
use ortscope_result::{ReportInput, ReportModel, ReportOptions};

use super::Ranged;
use crate::error::ApiError;

/// Maximum number of cached reports. A dashboard requests one range at a time, for six panels.
const MAX_REPORTS: usize = 12;

/// The key of a cached report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportKey {
    pub source: String,
    /// Increases as a source grows, which invalidates earlier reports.
    pub generation: u64,
    pub from_ns: u64,
    pub to_ns: u64,
    pub filter: Option<String>,
}

type Made = Arc<OnceLock<Result<Arc<ReportModel>, ApiError>>>;

#[derive(Debug, Default)]
pub struct Reports(Mutex<Vec<(ReportKey, Made)>>);

impl Reports {
    /// The report; a second request for a report in progress waits for it. Slow: not for async code.
    pub fn get(
        &self,
        key: &ReportKey,
        tables: &dyn Tables,
        input: impl FnOnce() -> ReportInput,
        filter: Option<&Filter>,
        start_ns: u64,
    ) -> Result<Arc<ReportModel>, ApiError> {
        let made = {
            let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match list.iter().position(|(other, _)| other == key) {
                Some(index) => {
                    let entry = list.remove(index);
                    list.push(entry);
                }
                None => {
                    list.retain(|(other, _)| {
                        other.source != key.source || other.generation == key.generation
                    });
                    if list.len() >= MAX_REPORTS {
                        list.remove(0);
                    }
                    list.push((key.clone(), Made::default()));
                }
            }
            list.last().map(|(_, made)| Arc::clone(made)).unwrap_or_default()
        };
        made.get_or_init(|| {
            let part = Ranged { inner: tables, from_ns: key.from_ns, to_ns: key.to_ns, filter, start_ns };
            let options = ReportOptions {
                max_latencies: 2_000_000,
                max_latencies_together: 4_000_000,
                ..ReportOptions::default()
            };
            Ok(Arc::new(ReportModel::build(&part, &input(), &options)?))
        })
        .clone()
    }
}
