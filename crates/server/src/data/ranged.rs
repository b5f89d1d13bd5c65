//! A view of tables: a time range, and only the operators that match a filter. Reports of a selection are built from it by the
//! same code as reports of everything.

use ortscope_analyze::facts::FACT_KIND;
use ortscope_core::batch::Batch;
use ortscope_core::filter::Filter;
use ortscope_core::schema::{AnnotationRow, ColumnData, TableId};
use ortscope_core::tables::{Batches, Scan, Tables};

/// Tables whose rows are relevant regardless of their time.
const TIMELESS: &[TableId] = &[
    TableId::Sessions,
    TableId::Processes,
    TableId::Findings,
    TableId::Unavailability,
    TableId::WallAnchors,
];

pub struct Ranged<'a> {
    pub inner: &'a dyn Tables,
    pub from_ns: u64,
    /// Exclusive.
    pub to_ns: u64,
    pub filter: Option<&'a Filter>,
    /// Origin of the times in the filter.
    pub start_ns: u64,
}

impl std::fmt::Debug for Ranged<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ranged")
            .field("from_ns", &self.from_ns)
            .field("to_ns", &self.to_ns)
            .finish_non_exhaustive()
    }
}

impl Tables for Ranged<'_> {
    fn row_count(&self, table: TableId) -> u64 {
        self.inner.row_count(table)
    }

    fn time_range_ns(&self) -> Option<(u64, u64)> {
        let (first, last) = self.inner.time_range_ns()?;
        Some((first.max(self.from_ns), last.min(self.to_ns)))
    }

    fn scan(&self, table: TableId, scan: &Scan) -> Batches<'_> {
        let mut scan = scan.clone();
        // Facts of a measurement describe all of it; other annotations belong to their moment.
        let has_facts = table == TableId::Annotations;
        let wanted = scan.clone();
        let (from_ns, to_ns) = (self.from_ns, self.to_ns);
        if has_facts {
            (scan.from_ns, scan.to_ns, scan.columns) = (None, None, None);
        } else if !TIMELESS.contains(&table) {
            scan.from_ns = Some(scan.from_ns.unwrap_or(0).max(self.from_ns));
            scan.to_ns = Some(scan.to_ns.unwrap_or(u64::MAX).min(self.to_ns));
        }
        let filter = self.filter.filter(|_| table == TableId::Operators);
        if let (Some(filter), Some(columns)) = (filter, &mut scan.columns) {
            columns.extend(filter.columns(table));
            columns.push("kind");
        }
        let start_ns = self.start_ns;
        Box::new(self.inner.scan(table, &scan).map(move |batch| {
            let batch = batch?;
            if has_facts {
                let is_wanted = |row: AnnotationRow| {
                    let time_ns = row.timestamp_ns;
                    let is_inside = (from_ns..to_ns).contains(&time_ns) && wanted.wants_time(time_ns);
                    is_inside || &*row.kind == FACT_KIND
                };
                return Ok(batch.filter(&batch.rows::<AnnotationRow>().map(is_wanted).collect::<Vec<_>>()));
            }
            Ok(match filter {
                Some(filter) => batch.filter(&keep(filter, &batch, start_ns)),
                None => batch,
            })
        }))
    }
}

/// Runs and executors are always kept, because shares relate to their time.
fn keep(filter: &Filter, batch: &Batch, start_ns: u64) -> Vec<bool> {
    let mut mask = filter.mask(batch, start_ns);
    if let Some(ColumnData::Text(kinds)) = batch.column("kind").map(|column| &column.data) {
        for (mark, kind) in mask.iter_mut().zip(kinds) {
            *mark |= !matches!(&**kind, "operator" | "copy" | "wait");
        }
    }
    mask
}
