//! Divides the time of one thread among its events.
//!
//! Time is assigned, not subtracted: every moment belongs to the event that started last and has not ended. So no
//! time can be negative or counted twice, whatever the events contain, and the total is the time that any of them
//! covers. Profiles round starts and durations down separately, so a child may seem to outlast its parent by a
//! microsecond; it then keeps its time, and the contradiction is counted.

use std::cmp::Reverse;

use ortscope_core::schema::OperatorKind;

use super::event::OperatorEvent;

/// Activity of a thread over an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub start_ns: u64,
    pub end_ns: u64,
    pub kind: OperatorKind,
}

/// Events that contradict each other or the run they belong to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Clamps {
    pub count: u64,
    pub ns: u64,
}

impl Clamps {
    fn note(&mut self, ns: u64) {
        if ns > 0 {
            self.count += 1;
            self.ns = self.ns.saturating_add(ns);
        }
    }
}

/// The part of time that is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub start_ns: u64,
    pub end_ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    end_ns: u64,
    /// The event that gets the time: itself, or for the executor of a sub-graph the node around it.
    owner: Option<usize>,
    kind: OperatorKind,
}

/// The thread being divided, and the shares.
#[derive(Debug)]
pub(super) struct Division<'a> {
    events: &'a [OperatorEvent],
    window: Window,
    pub exclusive_ns: Vec<u64>,
    pub segments: Vec<Segment>,
    pub clamps: Clamps,
    open: Vec<Open>,
    cursor_ns: u64,
    /// Where the segments of the present thread begin.
    first_segment: usize,
}

impl<'a> Division<'a> {
    pub(super) fn new(events: &'a [OperatorEvent], window: Window) -> Self {
        Self {
            events,
            window,
            exclusive_ns: vec![0; events.len()],
            segments: Vec::new(),
            clamps: Clamps::default(),
            open: Vec::new(),
            cursor_ns: 0,
            first_segment: 0,
        }
    }

    /// Divides the time of one thread; `indices` are its events. Appends to earlier results.
    pub(super) fn divide(&mut self, indices: &mut [usize]) {
        let events = self.events;
        indices.sort_by_key(|index| {
            let event = &events[*index];
            // Of events that start together the outer one comes first; nothing is around a run.
            (
                event.start_ns,
                event.kind != OperatorKind::Run,
                event.depth,
                event.kind,
                Reverse(event.end_ns()),
            )
        });
        self.cursor_ns = self.window.start_ns;
        self.first_segment = self.segments.len();
        for index in indices.iter().copied() {
            self.begin(index);
        }
        self.advance(self.window.end_ns);
        self.open.clear();
    }

    fn begin(&mut self, index: usize) {
        let event = &self.events[index];
        let Window { start_ns: from, end_ns: to } = self.window;
        let (start_ns, end_ns) = (event.start_ns.clamp(from, to), event.end_ns().clamp(from, to));
        self.clamps.note(event.duration_ns - (end_ns - start_ns).min(event.duration_ns));
        self.advance(start_ns);
        let parent = self.open.last().copied();
        if let Some(parent) = parent {
            self.clamps.note(end_ns.saturating_sub(parent.end_ns));
        }
        let around = parent.filter(|parent| parent.owner.is_some());
        let open = match around {
            // It cannot give its node more time than the node has.
            Some(around) if !event.kind.is_work() => Open { end_ns: end_ns.min(around.end_ns), ..around },
            _ => Open { end_ns, owner: event.kind.is_work().then_some(index), kind: event.kind },
        };
        self.open.push(open);
    }

    /// Gives out the time up to a moment.
    fn advance(&mut self, to_ns: u64) {
        while let Some(top) = self.open.last().copied() {
            if top.end_ns > to_ns {
                self.give(top, to_ns);
                return;
            }
            self.give(top, top.end_ns);
            self.open.pop();
        }
        self.cursor_ns = self.cursor_ns.max(to_ns);
    }

    fn give(&mut self, open: Open, to_ns: u64) {
        if to_ns <= self.cursor_ns {
            return;
        }
        if let Some(owner) = open.owner {
            self.exclusive_ns[owner] += to_ns - self.cursor_ns;
        }
        let start_ns = self.cursor_ns;
        self.cursor_ns = to_ns;
        match self.segments[self.first_segment..].last_mut() {
            Some(last) if last.kind == open.kind && last.end_ns == start_ns => last.end_ns = to_ns,
            _ => self.segments.push(Segment { start_ns, end_ns: to_ns, kind: open.kind }),
        }
    }
}
