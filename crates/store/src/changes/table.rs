//! The filter of one sampled table.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;

use ortscope_core::batch::Batch;
use ortscope_core::schema::{Column, SampleEndRow, TableId, Text, TickRow};

use super::layout::{Layout, Other, Place};
use crate::columns::{
    append_stretch, batch_of, empty_columns, mark_changes, pick, same_cell, same_stretch, set_cell,
};
use crate::key::{Key, key_columns, key_from_json, key_of, key_to_json};

/// Ticks that are remembered, to know whether a late row falls on one.
const REMEMBERED_TICKS: usize = 1024;

#[derive(Debug)]
pub(super) struct TableFilter {
    table: TableId,
    name: Text,
    keys: Vec<usize>,
    /// The last row of every living thing, in the order of the last complete tick.
    state: Vec<Column>,
    tick: Option<Tick>,
    /// The journal file that has a whole tick already.
    whole_in: Option<u64>,
    recent: VecDeque<u64>,
    /// Things of which a reader may have a wrong idea, until a whole tick has shown them or ended them.
    doubtful: Vec<Key>,
}

/// The tick that is open.
#[derive(Debug)]
struct Tick {
    time_ns: u64,
    whole: bool,
    /// Some of its rows could not be stored: it must not be reconstructed.
    void: bool,
    layout: Layout,
    doubtful: Vec<Key>,
}

impl TableFilter {
    pub fn new(table: TableId) -> Self {
        Self {
            table,
            name: table.def().name.into(),
            keys: key_columns(table.def()),
            state: empty_columns(table),
            tick: None,
            whole_in: None,
            recent: VecDeque::new(),
            doubtful: Vec::new(),
        }
    }

    pub fn apply<'a>(
        &mut self,
        batch: &'a Batch,
        file: u64,
        ends: &mut Batch,
        ticks: &mut Batch,
    ) -> Cow<'a, Batch> {
        let times = batch.times_ns();
        let mut marks = vec![false; batch.len()];
        let mut start = 0;
        for run in times.chunk_by(|a, b| a == b) {
            let (time_ns, range) = (run[0], start..start + run.len());
            start = range.end;
            match &self.tick {
                Some(tick) if tick.time_ns > time_ns => {
                    self.note_late(time_ns, batch, range.clone());
                    marks[range].fill(true);
                    continue;
                }
                Some(tick) if tick.time_ns == time_ns => {}
                _ => {
                    self.complete(ends, ticks);
                    self.begin(time_ns, file);
                }
            }
            self.compare(batch.columns(), range.clone(), &mut marks[range]);
        }
        if marks.iter().all(|mark| *mark) {
            return Cow::Borrowed(batch);
        }
        let changed: Vec<u32> = (0..).zip(&marks).filter(|(_, mark)| **mark).map(|(row, _)| row).collect();
        let columns = batch.columns().iter().map(|column| pick(column, &changed)).collect();
        Cow::Owned(batch_of(batch.table(), columns))
    }

    fn begin(&mut self, time_ns: u64, file: u64) {
        let whole = self.whole_in != Some(file) || !self.doubtful.is_empty();
        if whole {
            self.whole_in = Some(file);
        }
        let doubtful = std::mem::take(&mut self.doubtful);
        self.tick = Some(Tick { time_ns, whole, void: false, layout: Layout::Same(0), doubtful });
    }

    /// A row of a finished tick counts only for its own time. If its time equals that of a tick, readers take it for
    /// a part of that tick; the next complete tick corrects this.
    fn note_late(&mut self, time_ns: u64, batch: &Batch, range: Range<usize>) {
        let forgotten = self.recent.len() == REMEMBERED_TICKS
            && self.recent.front().is_some_and(|oldest| time_ns < *oldest);
        if forgotten || self.recent.binary_search(&time_ns).is_ok() {
            self.doubtful.extend(range.map(|row| key_of(batch.columns(), &self.keys, row)));
        }
    }

    /// Marks the rows to store and updates the state.
    fn compare(&mut self, columns: &[Column], range: Range<usize>, marks: &mut [bool]) {
        let Some(tick) = &mut self.tick else {
            return;
        };
        marks.fill(tick.whole);
        if let Layout::Same(cursor) = &mut tick.layout {
            let from = *cursor;
            let known = self.state.first().map_or(0, Column::len);
            let as_before = from + range.len() <= known
                && self
                    .keys
                    .iter()
                    .all(|key| same_stretch(&columns[*key], range.clone(), &self.state[*key], from));
            if as_before {
                *cursor += range.len();
                if !tick.whole {
                    for (column, (now, before)) in columns.iter().zip(&self.state).enumerate() {
                        if column > 0 && !self.keys.contains(&column) {
                            mark_changes(now, range.clone(), before, from, marks);
                        }
                    }
                }
                let changed = marks.iter().enumerate().filter(|(_, mark)| **mark).map(|(row, _)| row);
                for row in changed {
                    for (state, column) in self.state.iter_mut().zip(columns) {
                        set_cell(state, from + row, column, range.start + row);
                    }
                }
                return;
            }
            tick.layout = Layout::Other(Other::new(from, known));
        }
        if let Layout::Other(other) = &mut tick.layout {
            for (row, mark) in range.zip(marks) {
                *mark |= take_row(&mut self.state, other, columns, &self.keys, row);
            }
        }
    }

    /// Ends the open tick: stores the missing things and the tick itself.
    pub fn complete(&mut self, ends: &mut Batch, ticks: &mut Batch) {
        let Some(tick) = self.tick.take() else {
            return;
        };
        let known = self.state.first().map_or(0, Column::len);
        let (order, gone): (Option<Vec<u32>>, Vec<usize>) = match tick.layout {
            Layout::Same(cursor) if cursor == known => (None, Vec::new()),
            Layout::Same(cursor) => (Some((0..cursor as u32).collect()), (cursor..known).collect()),
            Layout::Other(other) => {
                let gone = (0..other.seen.len()).filter(|row| !other.seen[*row]).collect();
                (Some(other.order), gone)
            }
        };
        let mut gone: Vec<Key> = gone.iter().map(|row| key_of(&self.state, &self.keys, *row)).collect();
        if let Some(order) = order {
            for column in &mut self.state {
                *column = pick(column, &order);
            }
        }
        if !tick.doubtful.is_empty() {
            let rows = self.state.first().map_or(0, Column::len);
            let living: std::collections::HashSet<Key> =
                (0..rows).map(|row| key_of(&self.state, &self.keys, row)).collect();
            gone.extend(tick.doubtful.into_iter().filter(|key| !living.contains(key)));
            gone.sort();
            gone.dedup();
        }
        if tick.void {
            self.doubtful.append(&mut gone);
            self.whole_in = None;
            return;
        }
        for key in &gone {
            let key = key_to_json(key);
            ends.push(&SampleEndRow { timestamp_ns: tick.time_ns, table: Text::clone(&self.name), key });
        }
        ticks.push(&TickRow { timestamp_ns: tick.time_ns, table: Text::clone(&self.name) });
        if self.recent.len() == REMEMBERED_TICKS {
            self.recent.pop_front();
        }
        self.recent.push_back(tick.time_ns);
    }

    pub fn not_kept(&mut self, ends: &Batch) {
        self.whole_in = None;
        let def = self.table.def();
        let ended = ends.rows::<SampleEndRow>().filter_map(|end| key_from_json(&end.key, def, &self.keys));
        self.doubtful.extend(ended);
        if let Some(tick) = &mut self.tick {
            // It has no row in `ticks`, so its remaining rows count only for their own time.
            tick.void = true;
            tick.whole = true;
        }
    }
}

/// Updates the state with one row; returns whether to store it.
fn take_row(state: &mut [Column], other: &mut Other, columns: &[Column], keys: &[usize], row: usize) -> bool {
    match other.place(state, columns, keys, row) {
        Place::New => {
            for (state, column) in state.iter_mut().zip(columns) {
                append_stretch(state, column, row..row + 1);
            }
            true
        }
        Place::Again(known) => {
            for (state, column) in state.iter_mut().zip(columns) {
                set_cell(state, known, column, row);
            }
            true
        }
        Place::Known(known) => {
            let mut cells = state.iter_mut().zip(columns).skip(1);
            let changed = cells.any(|(state, column)| !same_cell(column, row, state, known));
            if changed {
                for (state, column) in state.iter_mut().zip(columns) {
                    set_cell(state, known, column, row);
                }
            }
            changed
        }
    }
}
