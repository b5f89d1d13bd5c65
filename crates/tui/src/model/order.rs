//! Which processes are shown, and in which order: filter, sort, tree.

use std::cmp::Ordering;

use super::filter::Filter;
use super::metric::{Column, Metric};
use super::snapshot::Process;
use super::tree;

/// By which column, and from which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sort {
    pub column: Column,
    pub descending: bool,
}

impl Sort {
    /// The direction that people want of a column: numbers from the largest, names and ids from the first.
    pub fn by(column: Column) -> Self {
        Self { column, descending: column.metric().is_some() }
    }

    fn compare(self, a: &Process, b: &Process) -> Ordering {
        let turn = |order: Ordering| if self.descending { order.reverse() } else { order };
        let by_column = match self.column.metric() {
            // Missing values are last in both directions.
            Some(metric) => match (a.values.get(metric), b.values.get(metric)) {
                (Some(a), Some(b)) => turn(a.total_cmp(&b)),
                (a, b) => b.is_some().cmp(&a.is_some()),
            },
            None if self.column == Column::Name => turn(a.sort_name.cmp(&b.sort_name)),
            None => turn(a.identity.pid.cmp(&b.identity.pid)),
        };
        let busier = |process: &Process| process.values.get(Metric::Cpu).unwrap_or(0.0);
        by_column.then_with(|| busier(b).total_cmp(&busier(a))).then_with(|| a.identity.cmp(&b.identity))
    }
}

/// A line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Index in the snapshot's processes.
    pub process: usize,
    /// For each level of the tree above this line: whether more of that level follow below it.
    pub branches: Vec<bool>,
    /// Shown only because a process below it passed the filter.
    pub context: bool,
}

/// All lines of the table, of which the screen shows a part.
pub fn order(processes: &[Process], filter: &Filter, sort: Sort, as_tree: bool) -> Vec<Line> {
    let matching: Vec<bool> = processes.iter().map(|process| filter.matches(process)).collect();
    let mut sorted: Vec<usize> = (0..processes.len()).collect();
    let by_sort = |a: &usize, b: &usize| match (processes.get(*a), processes.get(*b)) {
        (Some(a), Some(b)) => sort.compare(a, b),
        _ => Ordering::Equal,
    };
    if as_tree {
        sorted.sort_by(by_sort);
        return tree::lines(processes, &sorted, &matching);
    }
    sorted.retain(|index| matching.get(*index) == Some(&true));
    sorted.sort_by(by_sort);
    let line = |process| Line { process, branches: Vec::new(), context: false };
    sorted.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processes() -> Vec<Process> {
        let cpu = [Some(5.0), None, Some(50.0), Some(0.0), Some(0.0)];
        let names = ["delta", "alpha", "Charlie", "bravo", "echo"];
        let process = |(index, (name, cpu)): (usize, (&str, Option<f64>))| {
            let mut process = Process::named(index as u32 + 1, name);
            if let Some(cpu) = cpu {
                process.values.set(Metric::Cpu, cpu);
            }
            process
        };
        names.into_iter().zip(cpu).enumerate().map(process).collect()
    }

    fn pids(sort: Sort, filter: &str) -> Vec<u32> {
        let processes = processes();
        let lines = order(&processes, &Filter::new(filter), sort, false);
        lines.iter().map(|line| processes[line.process].identity.pid).collect()
    }

    #[test]
    fn missing_values_are_last_in_both_directions_and_ties_are_stable() {
        assert_eq!(pids(Sort::by(Column::Cpu), ""), [3, 1, 4, 5, 2]);
        assert_eq!(pids(Sort { column: Column::Cpu, descending: false }, ""), [4, 5, 1, 3, 2]);
        assert_eq!(pids(Sort::by(Column::Name), ""), [2, 4, 3, 1, 5]);
        assert_eq!(pids(Sort { column: Column::Pid, descending: true }, ""), [5, 4, 3, 2, 1]);
        assert_eq!(pids(Sort::by(Column::Rss), ""), [3, 1, 2, 4, 5]);
        assert_eq!(pids(Sort::by(Column::Cpu), "a !l"), [4]);
    }
}
