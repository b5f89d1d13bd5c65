//! Reconstructs unchanged rows: one row for every sampled thing at every tick.
//!
//! Units are read in order: ticks, ends, changed rows. At each tick the changed rows of that time are applied, and
//! everything known is returned. Rows without a tick count only for their own time. After a gap nothing is invented:
//! the known state starts empty.

use std::collections::VecDeque;

use ortscope_core::batch::Batch;
use ortscope_core::schema::{Column, ColumnData, TableId};
use ortscope_core::tables::{ReadError, Scan};

use super::known::Known;
use super::rows::sort_by_time;
use super::ticks::{ends_of, first_unit_needed, ticks_of};
use super::unit::Unit;
use crate::columns::{append_stretch, batch_of, empty_columns, integers};
use crate::key::{Key, key_columns};

/// Rows given at a time.
const BATCH_ROWS: usize = 16_384;
/// Rows without a tick that wait for the next unit; there are more only if ticks are missing.
const MAX_ROWS_LEFT: usize = 200_000;

#[derive(Debug)]
pub(super) struct Expander<'a> {
    units: std::slice::Iter<'a, Unit>,
    table: TableId,
    keys: Vec<usize>,
    scan: Scan,
    known: Known,
    unit: Option<OpenUnit>,
    out: Vec<Column>,
    /// Rows returned so far, also when only counting.
    rows: u64,
    only_count: bool,
    errors: VecDeque<ReadError>,
    done: bool,
}

/// A unit whose ticks are being expanded.
#[derive(Debug)]
struct OpenUnit {
    /// The changed rows, in the order of time.
    rows: Vec<Column>,
    row: usize,
    ticks: Vec<u64>,
    tick: usize,
    ends: VecDeque<(u64, Key)>,
}

impl<'a> Expander<'a> {
    pub fn new(units: &'a [Unit], table: TableId, scan: &Scan) -> Self {
        let keys = key_columns(table.def());
        let start = scan.from_ns.map_or(0, |from| first_unit_needed(units, table, from));
        let mut scan = scan.clone();
        if let Some(columns) = &mut scan.columns {
            columns.extend(keys.iter().map(|key| table.def().columns[*key].name));
        }
        Self {
            units: units[start..].iter(),
            table,
            keys,
            scan,
            known: Known::new(table),
            unit: None,
            out: empty_columns(table),
            rows: 0,
            only_count: false,
            errors: VecDeque::new(),
            done: false,
        }
    }

    /// How many rows there are, without making them.
    pub fn count(mut self) -> Result<u64, ReadError> {
        self.only_count = true;
        while !self.done {
            self.step();
            if let Some(error) = self.errors.pop_front() {
                return Err(error);
            }
        }
        Ok(self.rows)
    }

    fn step(&mut self) {
        let is_open = self.unit.as_ref().is_some_and(|unit| unit.tick < unit.ticks.len());
        if is_open {
            self.tell_tick();
        } else {
            self.next_unit();
        }
    }

    fn tell_tick(&mut self) {
        let Some(mut unit) = self.unit.take() else {
            return;
        };
        let time_ns = unit.ticks[unit.tick];
        unit.tick += 1;
        if self.scan.to_ns.is_some_and(|to| time_ns >= to) {
            self.done = true;
            return;
        }
        self.tell_alone(&mut unit, |time| time < time_ns);
        while unit.ends.front().is_some_and(|(time, _)| *time <= time_ns) {
            if let Some((_, key)) = unit.ends.pop_front() {
                self.known.end(&key);
            }
        }
        let times = integers(&unit.rows[0]);
        while times.get(unit.row) == Some(&time_ns) {
            self.known.take(&unit.rows, &self.keys, unit.row);
            unit.row += 1;
        }
        if self.scan.wants_time(time_ns) {
            self.rows += self.known.len() as u64;
            if !self.only_count {
                self.give_known(time_ns);
            }
        }
        self.unit = Some(unit);
    }

    fn give_known(&mut self, time_ns: u64) {
        let rows = self.known.len();
        for (index, (out, known)) in self.out.iter_mut().zip(&self.known.columns).enumerate() {
            match &mut out.data {
                ColumnData::U64(times) if index == 0 => {
                    times.resize(times.len() + rows, time_ns);
                }
                _ => append_stretch(out, known, 0..rows),
            }
        }
    }

    /// Returns the next rows unchanged while their time is in range.
    fn tell_alone(&mut self, unit: &mut OpenUnit, is_alone: impl Fn(u64) -> bool) {
        while let Some(time) = integers(&unit.rows[0]).get(unit.row).copied().filter(|time| is_alone(*time)) {
            if self.scan.wants_time(time) {
                self.rows += 1;
                if !self.only_count {
                    for (out, column) in self.out.iter_mut().zip(&unit.rows) {
                        append_stretch(out, column, unit.row..unit.row + 1);
                    }
                }
            }
            unit.row += 1;
        }
    }

    fn next_unit(&mut self) {
        let before = self.unit.take();
        let Some(next) = self.units.next() else {
            if let Some(mut last) = before {
                self.tell_alone(&mut last, |_| true);
            }
            self.done = true;
            return;
        };
        let (mut unit, is_trusted) = self.read(next);
        let goes_on = next.follows && is_trusted;
        match before {
            // Rows after the last tick belong to the first tick that follows.
            Some(before) if goes_on && before.rows_left() < MAX_ROWS_LEFT => {
                unit.take_over(before, self.table);
            }
            Some(mut before) => self.tell_alone(&mut before, |_| true),
            None => {}
        }
        if !goes_on {
            self.known.clear();
        }
        if !is_trusted {
            self.tell_alone(&mut unit, |_| true);
        }
        self.unit = Some(unit);
    }

    /// Reads the unit's rows of the table, and whether they are complete. If not, its ticks are ignored.
    fn read(&mut self, unit: &Unit) -> (OpenUnit, bool) {
        let problems = self.errors.len();
        let mut rows = empty_columns(self.table);
        let scan = Scan { from_ns: None, every_tick: false, ..self.scan.clone() };
        for batch in unit.scan(self.table, &scan) {
            match batch {
                Ok(batch) => {
                    for (rows, column) in rows.iter_mut().zip(batch.columns()) {
                        append_stretch(rows, column, 0..batch.len());
                    }
                }
                Err(error) => self.errors.push_back(error),
            }
        }
        let ticks = ticks_of(unit, self.table, &mut self.errors);
        let ends = ends_of(unit, self.table, &self.keys, &mut self.errors);
        let is_trusted = unit.complete && self.errors.len() == problems;
        sort_by_time(&mut rows);
        let (ticks, ends) = if is_trusted { (ticks, ends) } else { (Vec::new(), Vec::new()) };
        (OpenUnit { rows, row: 0, ticks, tick: 0, ends: ends.into() }, is_trusted)
    }
}

impl OpenUnit {
    fn rows_left(&self) -> usize {
        self.rows[0].len() - self.row
    }

    /// Prepends the remaining rows of the previous unit.
    fn take_over(&mut self, before: Self, table: TableId) {
        let left = before.row..before.rows[0].len();
        if !left.is_empty() {
            let mut rows = empty_columns(table);
            for ((rows, old), new) in rows.iter_mut().zip(&before.rows).zip(&self.rows) {
                append_stretch(rows, old, left.clone());
                append_stretch(rows, new, 0..new.len());
            }
            sort_by_time(&mut rows);
            self.rows = rows;
        }
        let mut ends = before.ends;
        ends.append(&mut self.ends);
        self.ends = ends;
    }
}

impl Iterator for Expander<'_> {
    type Item = Result<Batch, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.done && self.out[0].len() < BATCH_ROWS && self.errors.is_empty() {
            self.step();
        }
        if let Some(error) = self.errors.pop_front() {
            return Some(Err(error));
        }
        if self.out[0].is_empty() {
            return None;
        }
        let rows = std::mem::replace(&mut self.out, empty_columns(self.table));
        Some(Ok(batch_of(self.table, rows)))
    }
}
