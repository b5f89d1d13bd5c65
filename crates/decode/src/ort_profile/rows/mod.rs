//! Converts events to rows of the schema: finds the run of each event and its depth in subgraphs.
//!
//! ONNX Runtime writes an event when it ends: the nodes of a run precede the run, those of a subgraph precede the node
//! that contains it. Rows therefore wait, in a bounded number, until their run is known. Nodes on the thread that called
//! `Run` are certain; nodes on other threads (parallel executor) belong to a run if exactly one contains them.
//! Undecidable rows have no run and are counted. Files that were sorted by start are supported too.

mod convert;
mod options;
mod primitives;
mod spans;
mod start;
mod thread;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use ortscope_core::schema::{OperatorKind, OperatorRow, Text};

use super::event::{EventKind, ProfileEvent};
use convert::Converter;
pub use options::{RowOptions, RowSummary};
use primitives::{Primitives, Released};
use spans::{Candidate, RunSpans};
pub use start::ProfileStart;
use thread::{Pending, Role, ThreadRows};

/// Limit for tracked threads; beyond it those without pending rows are dropped.
const MAX_THREADS: usize = 4096;
/// Limit for accelerator nodes whose numbers are kept for their device work.
const MAX_PARENTS: usize = 10_000;
const CPU: &str = "CPUExecutionProvider";
/// The thread of device work.
const DEVICE: i64 = -1;

/// The order of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// By end, as written by ONNX Runtime.
    End,
    /// By start, after sorting.
    Start,
}

/// The last node; device work that names it as its parent belongs to it.
#[derive(Debug, Clone)]
struct LastNode {
    thread: i64,
    name: Text,
    node_index: Option<u64>,
    execution_provider: Text,
    device: Text,
}

/// Converts events to rows. Rows are emitted run by run, ordered by start within a run; rows of helper threads and
/// devices may come later.
#[derive(Debug)]
pub struct ProfileRows {
    options: RowOptions,
    converter: Converter,
    order: Order,
    threads: BTreeMap<i64, ThreadRows>,
    pending_rows: usize,
    runs: RunSpans,
    last_node: Option<LastNode>,
    /// Numbers of the nodes that device work may name as its parent.
    parents: HashMap<Text, u64>,
    primitives: Primitives,
    summary: RowSummary,
}

impl ProfileRows {
    pub fn new(options: RowOptions) -> Self {
        Self {
            converter: Converter::new(&options),
            options,
            order: Order::End,
            threads: BTreeMap::new(),
            pending_rows: 0,
            runs: RunSpans::default(),
            last_node: None,
            parents: HashMap::new(),
            primitives: Primitives::default(),
            summary: RowSummary::default(),
        }
    }

    /// Takes an event and emits the rows whose run it determines.
    pub fn push(&mut self, event: &ProfileEvent<'_>, out: &mut impl FnMut(OperatorRow)) {
        let role = match event.kind {
            EventKind::CapNotice => return,
            EventKind::Foreign => {
                self.summary.foreign_events += 1;
                return;
            }
            EventKind::FenceBefore | EventKind::FenceAfter
                if event.duration_ns == 0 && !self.options.keep_empty_fences =>
            {
                self.summary.empty_fences += 1;
                return;
            }
            EventKind::Run => Role::Run,
            EventKind::Executor => Role::Executor,
            EventKind::Operator => Role::Node,
            _ => Role::Leaf,
        };
        let pending = Pending {
            row: self.converter.row(event, &mut self.summary),
            role,
            start_ns: event.start_ns,
            end_ns: event.start_ns.saturating_add_unsigned(event.duration_ns),
            is_device_work: matches!(event.kind, EventKind::Kernel | EventKind::Api),
        };
        match event.kind {
            EventKind::Session => self.session_work(pending, out),
            EventKind::Kernel | EventKind::Api => self.device_work(pending, event, out),
            _ => self.host_work(pending, event.thread, out),
        }
        if self.pending_rows > self.options.max_pending_rows || self.threads.len() > MAX_THREADS {
            self.emit_oldest(out);
        }
    }

    /// Emits the remaining rows and returns the summary.
    pub fn finish(mut self, out: &mut impl FnMut(OperatorRow)) -> RowSummary {
        self.flush_all(out);
        self.summary
    }

    fn flush_all(&mut self, out: &mut impl FnMut(OperatorRow)) {
        let last = self.primitives.release();
        self.release(last);
        self.replay_all(out);
        for (_, mut thread) in std::mem::take(&mut self.threads) {
            self.flush(&mut thread, usize::MAX, out);
        }
    }

    /// A profile begins with these, so that a profile appended to another one is recognized.
    fn session_work(&mut self, pending: Pending, out: &mut impl FnMut(OperatorRow)) {
        if self.summary.runs > 0 {
            self.flush_all(out);
            self.runs.reset();
            self.primitives.reset();
            self.order = Order::End;
        }
        self.emit(pending, Candidate::None, out);
    }

    fn host_work(&mut self, pending: Pending, id: i64, out: &mut impl FnMut(OperatorRow)) {
        let thread = self.threads.entry(id).or_default();
        let is_run = pending.role == Role::Run;
        // A run follows its contents. If there are none, the file may be sorted by start.
        let waits = if thread.waits_by_start() {
            let is_inside = !is_run && thread.is_in_open_run(pending.start_ns);
            if is_inside {
                self.order = Order::Start;
            }
            is_inside || (self.order == Order::Start && !is_run && !thread.is_caller)
        } else {
            (is_run && !thread.has_rows_since(pending.start_ns))
                || (self.order == Order::Start && !thread.is_caller)
        };
        if waits {
            self.pending_rows += 1;
            thread.is_caller |= is_run;
            thread.push_by_start(pending);
            return;
        }
        if thread.waits_by_start() {
            self.replay(id, out);
            return self.host_work(pending, id, out);
        }
        self.ended(pending, id, out);
    }

    /// An event ended, and all its contents are known.
    #[inline]
    fn ended(&mut self, pending: Pending, id: i64, out: &mut impl FnMut(OperatorRow)) {
        if pending.role == Role::Run {
            return self.run_ended(pending, id, out);
        }
        if pending.role == Role::Node {
            if let Some(index) = pending.row.node_index.filter(|_| &*pending.row.execution_provider != CPU)
                && self.parents.len() < MAX_PARENTS
            {
                self.parents.insert(pending.row.name.clone(), index);
            }
            self.last_node = Some(LastNode {
                thread: id,
                node_index: pending.row.node_index,
                name: pending.row.name.clone(),
                execution_provider: pending.row.execution_provider.clone(),
                device: pending.row.device.clone(),
            });
        }
        self.pending_rows += 1;
        self.threads.entry(id).or_default().push(pending);
    }

    /// A run is known: everything on its thread since its start belongs to it.
    fn run_ended(&mut self, run: Pending, id: i64, out: &mut impl FnMut(OperatorRow)) {
        let number = self.runs.add(run.start_ns, run.end_ns);
        self.summary.runs += 1;
        let thread = self.threads.entry(id).or_default();
        let (outside, mut inside) = thread.claim(run.start_ns);
        self.pending_rows -= outside.len() + inside.len();
        for pending in outside {
            self.emit(pending, Candidate::None, out);
        }
        inside.push(run);
        // Outer ones first: they start earlier, last longer, or come later in the file.
        inside.reverse();
        inside.sort_by_key(|pending| (pending.start_ns, Reverse(pending.end_ns)));
        for pending in inside {
            self.emit(pending, Candidate::One(number), out);
        }
    }

    /// Reorders the rows of a thread from start order to end order.
    fn replay(&mut self, id: i64, out: &mut impl FnMut(OperatorRow)) {
        let rows = self.threads.entry(id).or_default().take_by_end();
        self.pending_rows -= rows.len();
        for pending in rows {
            self.ended(pending, id, out);
        }
    }

    fn replay_all(&mut self, out: &mut impl FnMut(OperatorRow)) {
        let ids: Vec<i64> = self.threads.keys().copied().collect();
        for id in ids {
            self.replay(id, out);
        }
    }

    fn device_work(
        &mut self,
        mut pending: Pending,
        event: &ProfileEvent<'_>,
        out: &mut impl FnMut(OperatorRow),
    ) {
        // WebGPU's times have their own clock (before 1.28) and are unrelated to runs.
        if !event.cache_key.is_empty() {
            return self.emit(pending, Candidate::None, out);
        }
        let parent = event.parent.strip_suffix("_kernel_time").unwrap_or(event.parent);
        if let Some(execution) = event.correlation {
            pending.row.node_index = self.parents.get(parent).copied();
            let before = self.primitives.push(pending, execution);
            return self.release(before);
        }
        self.pending_rows += 1;
        let node = self.last_node.as_ref().filter(|node| !parent.is_empty() && *node.name == *parent);
        if let Some(node) = node.filter(|_| self.order == Order::End) {
            pending.row.node_index = node.node_index;
            // CUDA and ROCm: directly behind its node, whose provider it does not repeat.
            if pending.row.execution_provider.is_empty() {
                pending.row.execution_provider = node.execution_provider.clone();
                pending.row.device = node.device.clone();
            }
            self.threads.entry(node.thread).or_default().attach(pending);
        } else {
            self.threads.entry(event.thread).or_default().push(pending);
        }
    }

    /// Emits the primitives of an execution that is over.
    fn release(&mut self, released: Released) {
        self.summary.corrected_means += released.corrected;
        for mut pending in released.rows {
            // Times computed from rounded means may end slightly after their run.
            if released.corrected > 0
                && let Some(end_ns) = self.runs.end_around(pending.start_ns)
                && pending.end_ns > end_ns
            {
                pending.end_ns = end_ns;
                pending.row.duration_ns = end_ns.abs_diff(pending.start_ns);
            }
            self.pending_rows += 1;
            self.threads.entry(DEVICE).or_default().push(pending);
        }
    }

    /// Too many pending rows: the older half is emitted.
    fn emit_oldest(&mut self, out: &mut impl FnMut(OperatorRow)) {
        self.replay_all(out);
        for (id, mut thread) in std::mem::take(&mut self.threads) {
            let older_half = thread.len().div_ceil(2);
            self.flush(&mut thread, older_half, out);
            if thread.len() > 0 || self.threads.len() < MAX_THREADS / 2 {
                self.threads.insert(id, thread);
            }
        }
    }

    fn flush(&mut self, thread: &mut ThreadRows, rows: usize, out: &mut impl FnMut(OperatorRow)) {
        let is_caller = thread.is_caller;
        for pending in thread.take_oldest(rows) {
            self.pending_rows -= 1;
            // Work outside its runs on a thread that calls `Run` itself belongs to no other thread's run.
            let candidate = if is_caller && !pending.is_device_work {
                Candidate::None
            } else {
                self.runs.containing(pending.start_ns, pending.end_ns)
            };
            self.emit(pending, candidate, out);
        }
    }

    #[inline]
    fn emit(&mut self, pending: Pending, candidate: Candidate, out: &mut impl FnMut(OperatorRow)) {
        let mut row = pending.row;
        if let Candidate::One(run) = candidate {
            row.run = Some(run);
        } else if pending.is_device_work {
            self.summary.device_rows_without_run += 1;
        } else if row.kind.known().is_some_and(OperatorKind::is_work) {
            match candidate {
                Candidate::Several => self.summary.ambiguous_run += 1,
                _ => self.summary.without_run += 1,
            }
        }
        self.summary.rows += 1;
        out(row);
    }
}
