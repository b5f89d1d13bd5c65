//! Reads the values of the [`declared`](super::declared) tracks out of batches.

use super::declared::{Derive, Only, TABLES, TrackDef};
use crate::batch::Batch;
use crate::schema::{Column, ColumnData, TableId, Text};

/// Some counters are updated once a second while rows arrive more often: a counter that did not grow for less than
/// this was perhaps not updated. Its rate is kept, and the next growth is divided by the whole time.
const HOLD_NS: u64 = 1_250_000_000;

/// Values of the previous row that a track needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Baseline {
    pub time_ns: u64,
    pub count: u64,
    /// Whether a rate was reported since the first row.
    pub is_reported: bool,
}

/// A rate that a row gives, or why it gives none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Derived {
    Value(f64),
    None,
    CounterWentBack,
}

/// A [`TrackDef`] with its columns found.
#[derive(Debug)]
pub(super) struct TrackPlan {
    pub def: &'static TrackDef,
    plus: Vec<usize>,
    minus: Vec<usize>,
    only: Vec<(Only, usize)>,
}

/// The tracks of one table, ready to read from its batches.
#[derive(Debug)]
pub(super) struct TablePlan {
    pub table: TableId,
    /// Columns that identify the owner.
    owner: Vec<usize>,
    pub tracks: Vec<TrackPlan>,
}

impl TablePlan {
    pub fn all() -> Vec<Self> {
        TABLES
            .iter()
            .map(|(table, owner, tracks)| Self {
                table: *table,
                owner: owner.iter().map(|name| index_of(*table, name)).collect(),
                tracks: tracks.iter().map(|def| TrackPlan::new(*table, def)).collect(),
            })
            .collect()
    }

    /// The owner's text in a row: the n-th of the identifying columns.
    #[inline]
    pub fn owner_text<'a>(&self, batch: &'a Batch, nth: usize, row: usize) -> Option<&'a Text> {
        match &batch.columns().get(*self.owner.get(nth)?)?.data {
            ColumnData::Text(texts) => texts.get(row),
            _ => None,
        }
    }

    /// The same for a whole number.
    #[inline]
    pub fn owner_number(&self, batch: &Batch, nth: usize, row: usize) -> Option<u64> {
        count(batch.columns().get(*self.owner.get(nth)?)?, row)
    }
}

/// Position of a column. A test checks every name; an unknown one reads beyond the columns, which gives no value.
fn index_of(table: TableId, name: &str) -> usize {
    table.def().column_index(name).unwrap_or(usize::MAX)
}

impl TrackPlan {
    fn new(table: TableId, def: &'static TrackDef) -> Self {
        let index = |name: &&'static str| index_of(table, name);
        let (plus, minus): (&[&'static str], &[&'static str]) = match &def.derive {
            Derive::Value(name) | Derive::PerSecond(name) | Derive::PercentOfTime(name) => {
                (std::slice::from_ref(name), &[])
            }
            Derive::Sum { plus, minus } => (plus, minus),
            Derive::PercentOf(part, whole) => (std::slice::from_ref(part), std::slice::from_ref(whole)),
            Derive::One => (&[], &[]),
        };
        let only = def.only.iter().map(|only| {
            let (Only::True(name) | Only::False(name) | Only::Present(name)) = only;
            (*only, index(name))
        });
        Self {
            def,
            plus: plus.iter().map(index).collect(),
            minus: minus.iter().map(index).collect(),
            only: only.collect(),
        }
    }

    pub fn is_rate(&self) -> bool {
        matches!(self.def.derive, Derive::PerSecond(_) | Derive::PercentOfTime(_))
    }

    /// The value of row `index`; rates compare with `baseline` and move it on.
    #[inline]
    pub fn derive(&self, batch: &Batch, index: usize, baseline: &mut Option<Baseline>) -> Derived {
        let columns = batch.columns();
        let wanted = |(only, column): &(Only, usize)| {
            let Some(column) = columns.get(*column) else {
                return false;
            };
            match only {
                Only::True(_) => truth(column, index) == Some(true),
                Only::False(_) => truth(column, index) == Some(false),
                Only::Present(_) => column.has_value(index),
            }
        };
        if !self.only.iter().all(wanted) {
            return Derived::None;
        }
        let value = match self.def.derive {
            Derive::One => Some(1.0),
            Derive::Value(_) => first(columns, &self.plus).and_then(|column| number(column, index)),
            Derive::Sum { .. } => self.sum(columns, index),
            Derive::PercentOf(..) => self.percent(columns, index),
            Derive::PerSecond(_) | Derive::PercentOfTime(_) => {
                let count = first(columns, &self.plus).and_then(|column| count(column, index));
                return count.map_or(Derived::None, |count| {
                    let time_ns = batch.times_ns()[index];
                    let is_reported = baseline.is_some();
                    self.rate(Baseline { time_ns, count, is_reported }, baseline)
                });
            }
        };
        value.map_or(Derived::None, Derived::Value)
    }

    /// Whether a counter that did not grow is still inconclusive.
    fn holds(&self, since_ns: u64, now_ns: u64) -> bool {
        matches!(self.def.derive, Derive::PerSecond(_)) && now_ns.saturating_sub(since_ns) < HOLD_NS
    }

    /// A row that repeats the one before: rates are zero, other values stay.
    pub fn repeat(&self, time_ns: u64, last: f64, baseline: &mut Option<Baseline>) -> f64 {
        match baseline {
            Some(baseline) if self.holds(baseline.time_ns, time_ns) => last,
            Some(baseline) if self.is_rate() => {
                baseline.time_ns = time_ns;
                0.0
            }
            _ => last,
        }
    }

    fn sum(&self, columns: &[Column], index: usize) -> Option<f64> {
        let add = |sum: u64, column: &usize| Some(sum.saturating_add(count(columns.get(*column)?, index)?));
        let plus = self.plus.iter().try_fold(0, add)?;
        let minus = self.minus.iter().try_fold(0, add)?;
        Some(plus.saturating_sub(minus) as f64)
    }

    fn percent(&self, columns: &[Column], index: usize) -> Option<f64> {
        let part = number(first(columns, &self.plus)?, index)?;
        let whole = number(first(columns, &self.minus)?, index)?;
        (whole > 0.0).then(|| 100.0 * part / whole)
    }

    fn rate(&self, now: Baseline, baseline: &mut Option<Baseline>) -> Derived {
        let before = match *baseline {
            // A row from before the baseline is not usable.
            Some(before) if before.time_ns >= now.time_ns => return Derived::None,
            Some(before) if before.count == now.count && self.holds(before.time_ns, now.time_ns) => {
                // Before the first rate there is nothing that could stay.
                *baseline = Some(Baseline { is_reported: true, ..before });
                return if before.is_reported { Derived::None } else { Derived::Value(0.0) };
            }
            before => before,
        };
        *baseline = Some(now);
        let Some(before) = before else {
            return Derived::None;
        };
        let Some(growth) = now.count.checked_sub(before.count) else {
            return Derived::CounterWentBack;
        };
        let elapsed_ns = (now.time_ns - before.time_ns) as f64;
        let scale = if matches!(self.def.derive, Derive::PercentOfTime(_)) { 100.0 } else { 1e9 };
        Derived::Value(growth as f64 / elapsed_ns * scale)
    }
}

fn first<'a>(columns: &'a [Column], indices: &[usize]) -> Option<&'a Column> {
    columns.get(*indices.first()?)
}

fn truth(column: &Column, index: usize) -> Option<bool> {
    match &column.data {
        ColumnData::Bool(values) if column.has_value(index) => values.get(index).copied(),
        _ => None,
    }
}

fn count(column: &Column, index: usize) -> Option<u64> {
    match &column.data {
        ColumnData::U64(values) if column.has_value(index) => values.get(index).copied(),
        _ => None,
    }
}

fn number(column: &Column, index: usize) -> Option<f64> {
    if !column.has_value(index) {
        return None;
    }
    match &column.data {
        ColumnData::U64(values) => values.get(index).map(|value| *value as f64),
        ColumnData::I64(values) => values.get(index).map(|value| *value as f64),
        ColumnData::F64(values) => values.get(index).copied(),
        ColumnData::Bool(_) | ColumnData::Text(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::declared::{LOAD_TRACK, MAX_TRACKS};
    use crate::schema::{InferenceRow, ProcessSampleRow, SystemSampleRow};

    #[test]
    fn every_column_of_the_mapping_exists_and_names_are_unique() {
        for plan in TablePlan::all() {
            assert!(plan.tracks.len() <= MAX_TRACKS);
            let columns = plan.table.def().columns.len();
            assert!(plan.owner.iter().all(|column| *column < columns));
            let mut names = std::collections::BTreeSet::new();
            for track in &plan.tracks {
                let used = track.plus.iter().chain(&track.minus).chain(track.only.iter().map(|only| &only.1));
                assert!(used.copied().all(|column| column < columns), "{}", track.def.metric);
                assert!(names.insert(track.def.metric), "{} twice", track.def.metric);
                assert!(track.def.doc.ends_with('.'), "{}", track.def.metric);
            }
        }
        let processes = TablePlan::all().into_iter().find(|plan| plan.table == TableId::ProcessSamples);
        assert_eq!(processes.expect("mapped").tracks[LOAD_TRACK].def.metric, "cpu_percent");
    }

    fn values(batch: &Batch) -> Vec<Vec<Derived>> {
        let plans = TablePlan::all();
        let plan = plans.iter().find(|plan| plan.table == batch.table()).expect("mapped");
        let mut baselines = vec![None; plan.tracks.len()];
        let mut row = |index| {
            let tracks = plan.tracks.iter().zip(&mut baselines);
            tracks.map(|(track, baseline)| track.derive(batch, index, baseline)).collect()
        };
        (0..batch.len()).map(&mut row).collect()
    }

    #[test]
    fn inferences_give_latencies_or_a_failure() {
        let ok = InferenceRow {
            timestamp_ns: 100,
            planned_ns: 70,
            copy_in_ns: 1,
            run_ns: 20,
            copy_out_ns: 3,
            queue_depth: Some(4),
            ok: true,
            ..InferenceRow::default()
        };
        let mut batch = Batch::new(TableId::Inferences);
        batch.push(&ok);
        batch.push(&InferenceRow { queue_depth: None, ..ok.clone() });
        batch.push(&InferenceRow { ok: false, ..ok });
        let (value, none) = (Derived::Value, Derived::None);
        let wanted = [
            [value(20.0), value(24.0), value(54.0), value(4.0), none],
            [value(20.0), value(24.0), none, none, none],
            [none, none, none, value(4.0), value(1.0)],
        ];
        assert_eq!(values(&batch), wanted);
    }

    #[test]
    fn rates_need_two_rows_and_a_counter_that_grows() {
        let mut batch = Batch::new(TableId::ProcessSamples);
        let ms = 1_000_000;
        for (time_ns, cpu_time_ns) in
            [(0, 0), (10 * ms, 5 * ms), (10 * ms, 9 * ms), (5 * ms, 0), (30 * ms, 4 * ms), (40 * ms, 24 * ms)]
        {
            batch.push(&ProcessSampleRow {
                timestamp_ns: time_ns,
                cpu_time_ns,
                ..ProcessSampleRow::default()
            });
        }
        let cpu: Vec<Derived> = values(&batch).iter().map(|row| row[LOAD_TRACK]).collect();
        let wanted = [
            Derived::None,
            Derived::Value(50.0),
            Derived::None,
            Derived::None,
            Derived::CounterWentBack,
            Derived::Value(200.0),
        ];
        assert_eq!(cpu, wanted);
    }

    #[test]
    fn a_percentage_of_nothing_is_no_value() {
        let mut batch = Batch::new(TableId::SystemSamples);
        for (used, total) in [(Some(30), Some(120)), (Some(30), Some(0)), (None, Some(120)), (Some(1), None)]
        {
            batch.push(&SystemSampleRow {
                memory_used_bytes: used,
                memory_total_bytes: total,
                ..SystemSampleRow::default()
            });
        }
        let percent: Vec<Derived> = values(&batch).iter().map(|row| row[2]).collect();
        assert_eq!(percent, [Derived::Value(25.0), Derived::None, Derived::None, Derived::None]);
    }
}
