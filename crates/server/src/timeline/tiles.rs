//! Rectangles: built while rows are read, merged where they are narrower than a pixel.

use std::collections::HashMap;

use ortscope_core::batch::Batch;
use ortscope_core::filter::Filter;
use ortscope_core::schema::{
    AnnotationRow, InferenceRow, KernelEventRow, OperatorKind, OperatorRow, TableId, Text,
};
use ortscope_core::tables::Scan;
use ortscope_export::wire::Unavailable;

use super::lanes::LaneKey;
use crate::data::Source;
use crate::error::ApiError;

/// Maximum number of rectangles in an answer.
pub const MAX_RECTANGLES: usize = 20_000;
const MAX_LANES: usize = 64;
const MAX_TRANSITIONS: usize = 2000;
const MAX_MARKS: usize = 500;
const MAX_NAMES: usize = 50_000;
/// Maximum number of rows of a lane; deeper events share the last row.
const MAX_ROWS: u64 = 16;

/// The requested view.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub from_ns: u64,
    pub to_ns: u64,
    pub width: usize,
    pub filter: Option<Filter>,
    pub session: Option<String>,
}

impl Wanted {
    /// Time of a pixel.
    pub fn bin_ns(&self) -> u64 {
        (self.to_ns.saturating_sub(self.from_ns) / self.width.max(1) as u64).max(1)
    }
}

/// Texts by index; 0 is the empty text.
#[derive(Debug, Clone)]
pub struct Names {
    list: Vec<Text>,
    index: HashMap<Text, u32>,
}

impl Default for Names {
    fn default() -> Self {
        let empty: Text = "".into();
        Self { list: vec![Text::clone(&empty)], index: HashMap::from([(empty, 0)]) }
    }
}

impl Names {
    fn number(&mut self, text: &Text) -> u32 {
        if let Some(number) = self.index.get(text) {
            return *number;
        }
        if self.list.len() >= MAX_NAMES {
            return 0;
        }
        let number = self.list.len() as u32;
        self.list.push(Text::clone(text));
        self.index.insert(Text::clone(text), number);
        number
    }

    pub fn into_list(self) -> Vec<Text> {
        self.list
    }
}

/// One rectangle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rect {
    pub from_ns: u64,
    pub to_ns: u64,
    pub busy_ns: u64,
    pub row: u32,
    pub name: u32,
    pub kind: u32,
    pub provider: u32,
    pub count: u64,
    /// Duration of its longest event, whose kind is shown.
    longest_ns: u64,
}

#[derive(Debug, Clone)]
pub struct Lane {
    pub key: LaneKey,
    /// CPU, GPU, NPU or Mixed.
    pub device: Option<Text>,
    pub rects: Vec<Rect>,
    /// Index of the newest rectangle of each row.
    last: [Option<usize>; MAX_ROWS as usize],
    events: u64,
}

#[derive(Debug, Clone)]
pub struct Transition {
    pub at_ns: u64,
    pub from: LaneKey,
    pub to: LaneKey,
}

/// The content of an answer.
#[derive(Debug, Clone, Default)]
pub struct Tiles {
    /// Events narrower than this are merged.
    pub bin_ns: u64,
    pub lanes: Vec<Lane>,
    index: HashMap<LaneKey, usize>,
    pub names: Names,
    pub types: Names,
    pub providers: Names,
    pub transitions: Vec<Transition>,
    pub transitions_not_listed: u64,
    pub marks: Vec<(u64, Text, Text)>,
    pub events: u64,
    pub hidden_lanes: u64,
    pub hidden_events: u64,
    hidden: std::collections::HashSet<LaneKey>,
    pub unavailable: Unavailable,
    /// Lane of the newest operator of each session.
    last_lane: HashMap<Text, LaneKey>,
    rectangles: usize,
}

impl Tiles {
    pub fn merged_events(&self) -> u64 {
        self.lanes
            .iter()
            .flat_map(|lane| &lane.rects)
            .filter(|rect| rect.count > 1)
            .map(|rect| rect.count)
            .sum()
    }

    /// Reads the requested view with at most `most` rectangles.
    pub fn read(source: &Source, wanted: &Wanted, bin_ns: u64, most: usize) -> Result<Self, ApiError> {
        let mut tiles = Self { bin_ns, ..Self::default() };
        let tables = source.tables();
        let start_ns = source.filter_start_ns();
        let session = wanted.session.as_deref();
        // A long event may start before the range and extend into it.
        let before = (wanted.to_ns - wanted.from_ns).clamp(1_000_000_000, 60_000_000_000);
        let scan = Scan {
            from_ns: Some(wanted.from_ns.saturating_sub(before)),
            to_ns: Some(wanted.to_ns),
            ..Scan::all()
        };
        let filter = wanted.filter.as_ref();
        let kept = |batch: Batch| match filter {
            Some(filter) => {
                let mask = filter.mask(&batch, start_ns);
                batch.filter(&mask)
            }
            None => batch,
        };
        let can = |table: TableId| filter.is_none_or(|filter| filter.tables().contains(&table));
        if can(TableId::Inferences) {
            for batch in tables.scan(TableId::Inferences, &scan) {
                for row in kept(batch?).rows::<InferenceRow>() {
                    if session.is_none_or(|session| *row.session_id == *session) {
                        tiles.inference(&row, wanted);
                    }
                }
                tiles.keep_within(most);
            }
        }
        if can(TableId::Operators) {
            let mut columns = vec![
                "timestamp_ns",
                "duration_ns",
                "session_id",
                "run",
                "kind",
                "name",
                "op_type",
                "execution_provider",
                "device",
                "thread",
                "depth",
            ];
            columns.extend(filter.map(|filter| filter.columns(TableId::Operators)).unwrap_or_default());
            let scan = Scan { columns: Some(columns), ..scan };
            for batch in tables.scan(TableId::Operators, &scan) {
                for row in kept(batch?).rows::<OperatorRow>() {
                    if session.is_none_or(|session| *row.session_id == *session) {
                        tiles.operator(&row, wanted);
                    }
                }
                tiles.keep_within(most);
            }
        }
        if can(TableId::KernelEvents) && session.is_none() {
            for batch in tables.scan(TableId::KernelEvents, &scan) {
                for row in kept(batch?).rows::<KernelEventRow>() {
                    tiles.kernel(&row, wanted);
                }
                tiles.keep_within(most);
            }
        }
        let marks = Scan { from_ns: Some(wanted.from_ns), ..scan };
        for batch in tables.scan(TableId::Annotations, &marks) {
            for row in batch?.rows::<AnnotationRow>() {
                if tiles.marks.len() < MAX_MARKS {
                    tiles.marks.push((
                        row.timestamp_ns,
                        row.kind,
                        row.text.chars().take(500).collect::<String>().into(),
                    ));
                }
            }
        }
        for (table, name, why) in [
            (
                TableId::Operators,
                "operators",
                "no operators were recorded; `ortscope run` profiles them, `record --profile-every` asks for it",
            ),
            (TableId::Inferences, "inferences", "no inferences were recorded"),
            (
                TableId::KernelEvents,
                "kernel",
                "no kernel events were recorded; `ortscope record --kernel` records them",
            ),
        ] {
            if tables.row_count(table) == 0 {
                tiles.unavailable.insert(name, why);
            }
        }
        tiles.finish(most);
        Ok(tiles)
    }

    fn inference(&mut self, row: &InferenceRow, wanted: &Wanted) {
        let duration = row.copy_in_ns.saturating_add(row.run_ns).saturating_add(row.copy_out_ns);
        let key = LaneKey::Inferences { session: Text::clone(&row.session_id), stream: row.stream };
        let (name, kind) = (self.names.number(row.phase.text()), self.types.number(row.phase.text()));
        self.add(key, None, Rect::one(row.timestamp_ns, duration, 0, name, kind, 0), wanted);
    }

    fn operator(&mut self, row: &OperatorRow, wanted: &Wanted) {
        let is_operator = row.kind.known().is_some_and(OperatorKind::is_work);
        let session = Text::clone(&row.session_id);
        let key = if is_operator {
            LaneKey::Operators { session, provider: Text::clone(&row.execution_provider), thread: row.thread }
        } else {
            LaneKey::Runs { session }
        };
        let depth = match row.kind.known() {
            Some(OperatorKind::Run | OperatorKind::Session) => 0,
            // Device events reported by a provider lie inside the executor.
            Some(OperatorKind::Other) if !row.execution_provider.is_empty() => 2,
            Some(OperatorKind::Executor | OperatorKind::Other) => 1,
            _ => row.depth,
        };
        let kind = if row.op_type.is_empty() || !is_operator { row.kind.text() } else { &row.op_type };
        let (name, kind) = (self.names.number(&row.name), self.types.number(kind));
        let provider = self.providers.number(&row.execution_provider);
        if is_operator
            && row.depth == 0
            && row.kind != OperatorKind::Wait
            && row.timestamp_ns >= wanted.from_ns
        {
            let before = self.last_lane.insert(Text::clone(&row.session_id), key.clone());
            if let Some(before) = before
                && before.execution_provider() != key.execution_provider()
            {
                if self.transitions.len() < MAX_TRANSITIONS {
                    self.transitions.push(Transition {
                        at_ns: row.timestamp_ns,
                        from: before,
                        to: key.clone(),
                    });
                } else {
                    self.transitions_not_listed += 1;
                }
            }
        }
        let row_number = depth.min(MAX_ROWS - 1) as u32;
        let rect = Rect::one(row.timestamp_ns, row.duration_ns, row_number, name, kind, provider);
        self.add(key, is_operator.then_some(&row.device), rect, wanted);
    }

    fn kernel(&mut self, row: &KernelEventRow, wanted: &Wanted) {
        let Some(tid) = row.tid else { return };
        let key = LaneKey::Kernel { pid: row.pid.unwrap_or(0), tid };
        let name = row.detail.as_ref().map_or(0, |detail| self.names.number(detail));
        let kind = self.types.number(row.kind.text());
        let rect = Rect::one(row.timestamp_ns, row.duration_ns.unwrap_or(0), 0, name, kind, 0);
        self.add(key, None, rect, wanted);
    }

    fn add(&mut self, key: LaneKey, device: Option<&Text>, rect: Rect, wanted: &Wanted) {
        if rect.to_ns <= wanted.from_ns && rect.from_ns < wanted.from_ns || rect.from_ns >= wanted.to_ns {
            return;
        }
        self.events += 1;
        let index = match self.index.get(&key) {
            Some(index) => *index,
            None if self.lanes.len() < MAX_LANES => {
                let index = self.lanes.len();
                self.index.insert(key.clone(), index);
                self.lanes.push(Lane {
                    key,
                    device: None,
                    rects: Vec::new(),
                    last: [None; MAX_ROWS as usize],
                    events: 0,
                });
                index
            }
            None => {
                self.hidden_events += 1;
                if self.hidden.len() < 10_000 && self.hidden.insert(key) {
                    self.hidden_lanes += 1;
                }
                return;
            }
        };
        let (bin_ns, from_ns) = (self.bin_ns, wanted.from_ns);
        let lane = &mut self.lanes[index];
        if lane.device.is_none() {
            lane.device = device.cloned();
        }
        self.rectangles += usize::from(lane.add(rect, bin_ns, from_ns));
    }

    /// Merges rectangles until they are few enough.
    fn keep_within(&mut self, most: usize) {
        // Twice the limit while reading: coarsening is for many at a time.
        if self.rectangles > most * 2 {
            self.coarsen(most);
        }
    }

    pub fn coarsen(&mut self, most: usize) {
        loop {
            for lane in &mut self.lanes {
                lane.put_together(self.bin_ns);
            }
            self.rectangles = self.lanes.iter().map(|lane| lane.rects.len()).sum();
            // A lane and row has one rectangle at least: that many are always there.
            if self.rectangles <= most || self.bin_ns >= 1 << 62 {
                break;
            }
            self.bin_ns = self.bin_ns.saturating_mul(2);
        }
    }

    fn finish(&mut self, most: usize) {
        self.coarsen(most);
        self.lanes.sort_by(|a, b| a.key.cmp(&b.key));
        self.index = self.lanes.iter().enumerate().map(|(index, lane)| (lane.key.clone(), index)).collect();
        self.transitions.sort_by_key(|transition| transition.at_ns);
    }

    /// A part of this view at the same resolution or a lower one.
    pub fn part(&self, wanted: &Wanted) -> Self {
        let touches = |rect: &&Rect| rect.to_ns > wanted.from_ns && rect.from_ns < wanted.to_ns;
        let mut part = Self {
            bin_ns: wanted.bin_ns().max(self.bin_ns),
            names: self.names.clone(),
            types: self.types.clone(),
            providers: self.providers.clone(),
            transitions_not_listed: self.transitions_not_listed,
            hidden_lanes: self.hidden_lanes,
            hidden_events: self.hidden_events,
            unavailable: self.unavailable.clone(),
            ..Self::default()
        };
        for lane in &self.lanes {
            let rects: Vec<Rect> = lane.rects.iter().filter(touches).copied().collect();
            if !rects.is_empty() {
                part.events += rects.iter().map(|rect| rect.count).sum::<u64>();
                part.lanes.push(Lane { rects, ..lane.clone() });
            }
        }
        let is_in = |at: u64| at >= wanted.from_ns && at < wanted.to_ns;
        part.transitions =
            self.transitions.iter().filter(|transition| is_in(transition.at_ns)).cloned().collect();
        part.marks = self.marks.iter().filter(|(at, ..)| is_in(*at)).cloned().collect();
        part.finish(MAX_RECTANGLES);
        part
    }
}

impl Rect {
    fn one(from_ns: u64, duration_ns: u64, row: u32, name: u32, kind: u32, provider: u32) -> Self {
        let to_ns = from_ns.saturating_add(duration_ns);
        Self {
            from_ns,
            to_ns,
            busy_ns: duration_ns,
            row,
            name,
            kind,
            provider,
            count: 1,
            longest_ns: duration_ns,
        }
    }

    fn is_narrow(&self, bin_ns: u64) -> bool {
        self.to_ns - self.from_ns < bin_ns
    }

    fn take(&mut self, other: &Self) {
        self.to_ns = self.to_ns.max(other.to_ns);
        self.from_ns = self.from_ns.min(other.from_ns);
        self.busy_ns = self.busy_ns.saturating_add(other.busy_ns);
        self.count += other.count;
        if other.longest_ns > self.longest_ns {
            (self.kind, self.provider, self.longest_ns) = (other.kind, other.provider, other.longest_ns);
        }
    }
}

impl Lane {
    /// Returns whether a rectangle was added.
    fn add(&mut self, rect: Rect, bin_ns: u64, origin_ns: u64) -> bool {
        self.events += 1;
        let bin = |rect: &Rect| rect.from_ns.saturating_sub(origin_ns) / bin_ns;
        let slot = &mut self.last[(rect.row as usize).min(MAX_ROWS as usize - 1)];
        if let Some(last) = slot.and_then(|index| self.rects.get_mut(index))
            && last.is_narrow(bin_ns)
            && rect.is_narrow(bin_ns)
            && bin(last) == bin(&rect)
        {
            last.take(&rect);
            return false;
        }
        *slot = Some(self.rects.len());
        self.rects.push(rect);
        true
    }

    /// Merges neighbors that are narrower than a pixel and in the same one.
    fn put_together(&mut self, bin_ns: u64) {
        self.rects.sort_unstable_by_key(|rect| (rect.row, rect.from_ns, rect.to_ns));
        let mut kept: Vec<Rect> = Vec::with_capacity(self.rects.len());
        for rect in self.rects.drain(..) {
            match kept.last_mut() {
                Some(last)
                    if last.row == rect.row
                        && last.is_narrow(bin_ns)
                        && rect.is_narrow(bin_ns)
                        && last.from_ns / bin_ns == rect.from_ns / bin_ns =>
                {
                    last.take(&rect);
                }
                _ => kept.push(rect),
            }
        }
        self.rects = kept;
        self.last = [None; MAX_ROWS as usize];
        for (index, rect) in self.rects.iter().enumerate() {
            self.last[(rect.row as usize).min(MAX_ROWS as usize - 1)] = Some(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane() -> Lane {
        Lane {
            key: LaneKey::Runs { session: "s".into() },
            device: None,
            rects: Vec::new(),
            last: [None; 16],
            events: 0,
        }
    }

    #[test]
    fn narrow_neighbors_are_merged_and_wide_ones_are_not() {
        let mut lane = lane();
        for index in 0..1000 {
            lane.add(Rect::one(index * 10, 5, 0, 1, (index % 3) as u32, 0), 1000, 0);
        }
        lane.add(Rect::one(20_000, 5000, 0, 2, 7, 0), 1000, 0);
        assert_eq!(lane.rects.len(), 11);
        assert_eq!(lane.rects.iter().map(|rect| rect.count).sum::<u64>(), 1001);
        assert_eq!(lane.rects[0].busy_ns, 500);
        assert_eq!(lane.rects[10].count, 1);
    }

    #[test]
    fn coarsening_loses_no_event_and_keeps_rows_apart() {
        let mut tiles = Tiles { bin_ns: 1, ..Tiles::default() };
        let wanted = Wanted { from_ns: 0, to_ns: 1_000_000, width: 100, filter: None, session: None };
        for index in 0..10_000_u64 {
            let rect = Rect::one(index * 100, 40, (index % 2) as u32, 0, 0, 0);
            tiles.add(LaneKey::Runs { session: "s".into() }, None, rect, &wanted);
        }
        tiles.finish(500);
        let rects = &tiles.lanes[0].rects;
        assert!(rects.len() <= 500 && rects.len() > 100, "{}", rects.len());
        assert_eq!(rects.iter().map(|rect| rect.count).sum::<u64>(), 10_000);
        assert_eq!(rects.iter().map(|rect| rect.busy_ns).sum::<u64>(), 400_000);
        assert!(rects.is_sorted_by_key(|rect| (rect.row, rect.from_ns)));
    }
}
