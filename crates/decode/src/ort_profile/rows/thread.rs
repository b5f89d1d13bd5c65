//! The pending rows of one thread, and their nesting.
//!
//! The activity of a thread is a tree: a run contains an executor, which contains nodes, and a node with subgraphs
//! contains executors again. Times alone are ambiguous (two nodes may start in the same microsecond), but between a node
//! and the nodes inside it there is always an executor.

use std::cmp::Reverse;

use ortscope_core::schema::OperatorRow;

/// What a row may contain. Of two rows with the same times the greater one is the outer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// Nothing.
    Leaf,
    /// Executors of sub-graphs.
    Node,
    /// Nodes and other leaves.
    Executor,
    /// Everything.
    Run,
}

/// A row that waits for its run.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    pub row: OperatorRow,
    pub role: Role,
    pub start_ns: i64,
    pub end_ns: i64,
    pub is_device_work: bool,
}

/// A row without a known container, with its contents: all from `first` up to the next root.
#[derive(Debug, Clone, Copy)]
struct Root {
    first: usize,
    start_ns: i64,
    is_executor: bool,
}

#[derive(Debug, Default)]
pub(super) struct ThreadRows {
    /// In order of their ends.
    rows: Vec<Pending>,
    roots: Vec<Root>,
    /// In order of their starts, for a file that is sorted that way.
    by_start: Vec<Pending>,
    /// This thread calls `Run` and is not a helper of others.
    pub is_caller: bool,
}

impl ThreadRows {
    pub(super) fn len(&self) -> usize {
        self.rows.len() + self.by_start.len()
    }

    /// Adds an event that just ended; it contains the events that started after it.
    pub(super) fn push(&mut self, pending: Pending) {
        let start_ns = pending.start_ns;
        let contained = match pending.role {
            Role::Executor => self.roots_since(|root| root.start_ns >= start_ns),
            Role::Node => self.roots_since(|root| root.is_executor && root.start_ns >= start_ns),
            Role::Run | Role::Leaf => self.roots.len(),
        };
        let first = self.roots.get(contained).map_or(self.rows.len(), |root| root.first);
        self.roots.truncate(contained);
        if pending.role == Role::Node {
            for inside in self.rows.iter_mut().skip(first) {
                inside.row.depth += 1;
            }
        }
        self.roots.push(Root { first, start_ns, is_executor: pending.role == Role::Executor });
        self.rows.push(pending);
    }

    /// Index of the first of the newest roots that all satisfy a condition. Each of them is about to be contained,
    /// so the cost is amortized.
    fn roots_since(&self, is_inside: impl Fn(&Root) -> bool) -> usize {
        self.roots.iter().rposition(|root| !is_inside(root)).map_or(0, |at| at + 1)
    }

    /// Adds device work to the preceding node.
    pub(super) fn attach(&mut self, mut pending: Pending) {
        pending.row.depth = self.rows.last().map_or(0, |node| node.row.depth);
        if self.roots.is_empty() {
            return self.push(pending);
        }
        self.rows.push(pending);
    }

    /// Whether something happened on this thread since then.
    pub(super) fn has_rows_since(&self, start_ns: i64) -> bool {
        self.roots.last().is_some_and(|root| root.start_ns >= start_ns)
    }

    /// A run of this thread ended: takes everything; first what is older than the run, then its contents.
    pub(super) fn claim(&mut self, start_ns: i64) -> (Vec<Pending>, Vec<Pending>) {
        let contained = self.roots_since(|root| root.start_ns >= start_ns);
        let first = self.roots.get(contained).map_or(self.rows.len(), |root| root.first);
        let inside = self.rows.split_off(first.min(self.rows.len()));
        let outside = std::mem::take(&mut self.rows);
        self.roots.clear();
        self.is_caller = true;
        (outside, inside)
    }

    /// Takes the oldest rows.
    pub(super) fn take_oldest(&mut self, rows: usize) -> Vec<Pending> {
        let rows = rows.min(self.rows.len());
        self.roots.retain(|root| root.first >= rows);
        for root in &mut self.roots {
            root.first -= rows;
        }
        self.rows.drain(..rows).collect()
    }

    /// Adds an event that just started, in a file that is sorted by start.
    pub(super) fn push_by_start(&mut self, pending: Pending) {
        self.by_start.push(pending);
    }

    pub(super) fn waits_by_start(&self) -> bool {
        !self.by_start.is_empty()
    }

    /// Whether the pending rows in start order begin with a run that contains this start.
    pub(super) fn is_in_open_run(&self, start_ns: i64) -> bool {
        let open = self.by_start.first().filter(|first| first.role == Role::Run);
        open.is_some_and(|run| start_ns >= run.start_ns && start_ns < run.end_ns)
    }

    /// Takes the rows in start order, reordered like ONNX Runtime would have written them.
    pub(super) fn take_by_end(&mut self) -> Vec<Pending> {
        let mut rows = std::mem::take(&mut self.by_start);
        rows.sort_by_key(|pending| (pending.end_ns, Reverse(pending.start_ns), pending.role));
        rows
    }
}
