//! One run for drawing: a bounded number of rectangles, the shortest operators merged.

use std::collections::{BTreeMap, HashMap};

use ortscope_core::schema::{OperatorKind, OperatorRow, TableId, Text};
use ortscope_core::tables::Scan;

use super::super::reader::Reader;
use super::runs::RunSpan;
use crate::latency::ms;
use crate::{Lane, Rectangle, ReportError, Timeline};
use ortscope_core::units::{clean, provider};

/// Lanes at most.
const MAX_LANES: usize = 24;
/// Rows that operators of one lane may take when they overlap.
const MAX_SUBLANES: usize = 3;

const COLUMNS: &[&str] = &[
    "timestamp_ns",
    "duration_ns",
    "session_id",
    "run",
    "kind",
    "name",
    "op_type",
    "execution_provider",
    "thread",
    "depth",
];

/// Where an operator is drawn. The order is the order from top to bottom.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct LaneKey {
    kind: OperatorKind,
    provider: Text,
    thread: u64,
    depth: u64,
}

impl LaneKey {
    fn label(&self) -> String {
        let name = clean(provider(&self.provider), 24);
        let level = match self.depth {
            0 => String::new(),
            depth => format!(", sub-graph level {depth}"),
        };
        match self.kind {
            OperatorKind::Run => "run".to_owned(),
            OperatorKind::Executor => "executor".to_owned(),
            OperatorKind::Copy | OperatorKind::Wait => format!("{name} {}", self.kind.name()),
            OperatorKind::Other => format!("{name}'s device"),
            _ => format!("{name} thread {}{level}", self.thread),
        }
    }
}

#[derive(Debug, Clone)]
struct Draft {
    lane: usize,
    start_ns: u64,
    duration_ns: u64,
    name: Text,
    op_type: Text,
    provider: Text,
}

/// Operators of one lane and a short stretch of time, drawn as one.
#[derive(Debug, Default)]
struct Cell {
    operators: u64,
    busy_ns: u64,
    start_ns: u64,
    end_ns: u64,
    by_type: HashMap<Text, u64>,
}

impl Cell {
    fn add(&mut self, draft: &Draft) {
        self.start_ns = if self.operators == 0 { draft.start_ns } else { self.start_ns.min(draft.start_ns) };
        self.end_ns = self.end_ns.max(draft.start_ns.saturating_add(draft.duration_ns));
        self.operators += 1;
        self.busy_ns = self.busy_ns.saturating_add(draft.duration_ns);
        if self.by_type.len() < 64 || self.by_type.contains_key(&draft.op_type) {
            *self.by_type.entry(Text::clone(&draft.op_type)).or_default() += draft.duration_ns;
        }
    }

    fn merge(&mut self, other: Self) {
        self.start_ns = if self.operators == 0 { other.start_ns } else { self.start_ns.min(other.start_ns) };
        self.end_ns = self.end_ns.max(other.end_ns);
        self.operators += other.operators;
        self.busy_ns = self.busy_ns.saturating_add(other.busy_ns);
        let mut types: Vec<(Text, u64)> = other.by_type.into_iter().collect();
        types.sort();
        for (op_type, ns) in types {
            *self.by_type.entry(op_type).or_default() += ns;
        }
    }
}

/// Draws a run in at most `most` rectangles.
pub(super) fn draw(
    reader: &mut Reader<'_>,
    session_id: &Text,
    span: RunSpan,
    most: usize,
) -> Result<Timeline, ReportError> {
    let mut drawing = Drawing::new(span, most.max(10));
    let end_ns = span.start_ns.saturating_add(span.duration_ns).saturating_add(1);
    let scan = Scan { from_ns: Some(span.start_ns), to_ns: Some(end_ns), ..Scan::all() };
    let scan = scan.columns(COLUMNS);
    reader.each_batch(TableId::Operators, &scan, |batch| {
        for row in batch.rows::<OperatorRow>() {
            if row.run == Some(span.run) && row.session_id == *session_id {
                drawing.add(row);
            }
        }
    })?;
    Ok(drawing.finish(reader.seconds(span.start_ns)))
}

struct Drawing {
    span: RunSpan,
    most: usize,
    lanes: HashMap<LaneKey, usize>,
    drafts: Vec<Draft>,
    cells: BTreeMap<(usize, u64), Cell>,
    cell_ns: u64,
    hidden: u64,
}

impl Drawing {
    fn new(span: RunSpan, most: usize) -> Self {
        Self {
            span,
            most,
            lanes: HashMap::new(),
            drafts: Vec::new(),
            cells: BTreeMap::new(),
            cell_ns: (span.duration_ns / (most as u64 / 5).max(1)).max(1),
            hidden: 0,
        }
    }

    fn add(&mut self, row: OperatorRow) {
        let kind = row.kind.known().unwrap_or(OperatorKind::Other);
        // What a provider reports of its device is drawn beside the calls that it belongs to.
        let is_of_device = kind == OperatorKind::Other && !row.execution_provider.is_empty();
        let whole = matches!(kind, OperatorKind::Run | OperatorKind::Executor);
        if !kind.is_work() && !whole && !is_of_device {
            return;
        }
        let key = LaneKey {
            kind,
            provider: if whole { Text::default() } else { Text::clone(&row.execution_provider) },
            thread: if kind == OperatorKind::Operator { row.thread } else { 0 },
            depth: if kind == OperatorKind::Operator { row.depth } else { 0 },
        };
        let next = self.lanes.len();
        let lane = match self.lanes.get(&key) {
            Some(lane) => *lane,
            None if next >= MAX_LANES => {
                self.hidden += 1;
                return;
            }
            None => {
                self.lanes.insert(key, next);
                next
            }
        };
        self.drafts.push(Draft {
            lane,
            start_ns: row.timestamp_ns,
            duration_ns: row.duration_ns,
            name: row.name,
            op_type: if whole { Text::from(kind.name()) } else { row.op_type },
            provider: row.execution_provider,
        });
        if self.drafts.len() >= 2 * self.most {
            self.merge_short();
        }
    }

    /// Keeps the longest and moves the others into cells.
    fn merge_short(&mut self) {
        let keep = self.most * 4 / 5;
        if self.drafts.len() <= keep {
            return;
        }
        self.drafts
            .select_nth_unstable_by_key(keep, |draft| std::cmp::Reverse((draft.duration_ns, draft.start_ns)));
        for draft in self.drafts.drain(keep..) {
            let cell = draft.start_ns.saturating_sub(self.span.start_ns) / self.cell_ns;
            self.cells.entry((draft.lane, cell)).or_default().add(&draft);
        }
    }

    fn finish(mut self, start_seconds: f64) -> Timeline {
        if self.drafts.len() > self.most || !self.cells.is_empty() {
            self.merge_short();
        }
        while self.cells.len() > self.most / 5 {
            let mut wider: BTreeMap<(usize, u64), Cell> = BTreeMap::new();
            for ((lane, cell), content) in std::mem::take(&mut self.cells) {
                wider.entry((lane, cell / 2)).or_default().merge(content);
            }
            // A cell per lane is the least there can be.
            let stuck = wider.keys().all(|(_, cell)| *cell == 0);
            self.cells = wider;
            if stuck {
                break;
            }
        }
        let mut lanes: Vec<(LaneKey, usize)> = self.lanes.into_iter().collect();
        lanes.sort();
        let mut timeline = Timeline {
            run: self.span.run,
            duration_ms: ms(self.span.duration_ns),
            start_seconds,
            lanes: Vec::new(),
            rectangles: Vec::new(),
            merged_operators: self.cells.values().map(|cell| cell.operators).sum(),
            merged_rectangles: self.cells.len() as u64,
            hidden_operators: self.hidden,
        };
        self.drafts.sort_by_key(|draft| (draft.lane, draft.start_ns, std::cmp::Reverse(draft.duration_ns)));
        for (key, lane) in lanes {
            let first = timeline.lanes.len();
            let mut free_at = vec![0_u64];
            for draft in self.drafts.iter().filter(|draft| draft.lane == lane) {
                let row = first_free(&mut free_at, draft);
                timeline.rectangles.push(rectangle(draft, first + row, self.span.start_ns));
            }
            for ((_, _), cell) in self.cells.range((lane, 0)..=(lane, u64::MAX)) {
                timeline.rectangles.push(merged(cell, first, self.span.start_ns));
            }
            for row in 0..free_at.len() {
                let label = if row == 0 { key.label() } else { String::new() };
                timeline.lanes.push(Lane { label, kind: key.kind.name().into() });
            }
        }
        timeline.rectangles.sort_by(|left, right| {
            (left.lane, left.start_ms)
                .partial_cmp(&(right.lane, right.start_ms))
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        timeline
    }
}

/// The first row of a lane that is free when an operator starts.
fn first_free(free_at: &mut Vec<u64>, draft: &Draft) -> usize {
    let row = match free_at.iter().position(|free| *free <= draft.start_ns) {
        Some(row) => row,
        None if free_at.len() < MAX_SUBLANES => {
            free_at.push(0);
            free_at.len() - 1
        }
        None => MAX_SUBLANES - 1,
    };
    free_at[row] = draft.start_ns.saturating_add(draft.duration_ns);
    row
}

fn rectangle(draft: &Draft, lane: usize, origin_ns: u64) -> Rectangle {
    Rectangle {
        lane,
        start_ms: ms(draft.start_ns.saturating_sub(origin_ns)),
        duration_ms: ms(draft.duration_ns),
        busy_ms: ms(draft.duration_ns),
        name: clean(&draft.name, 100),
        op_type: clean(&draft.op_type, 60),
        execution_provider: clean(provider(&draft.provider), 40),
        operators: 1,
    }
}

fn merged(cell: &Cell, lane: usize, origin_ns: u64) -> Rectangle {
    let most = cell.by_type.iter().max_by_key(|(op_type, ns)| (**ns, std::cmp::Reverse(*op_type)));
    Rectangle {
        lane,
        start_ms: ms(cell.start_ns.saturating_sub(origin_ns)),
        duration_ms: ms(cell.end_ns - cell.start_ns),
        busy_ms: ms(cell.busy_ns),
        name: String::new(),
        op_type: most.map_or(String::new(), |(op_type, _)| clean(op_type, 60)),
        execution_provider: String::new(),
        operators: cell.operators,
    }
}
