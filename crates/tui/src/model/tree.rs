//! Processes below their parents. Parents come from outside, so they may be missing, circular or themselves.

use std::collections::HashMap;

use super::order::Line;
use super::snapshot::Process;

/// Deeper levels are drawn at this one.
const MAX_LEVELS: usize = 12;

/// Lines of a tree: siblings in the order of `sorted`, only those that match or lead to one that does.
pub fn lines(processes: &[Process], sorted: &[usize], matching: &[bool]) -> Vec<Line> {
    let parents = parents(processes);
    let wanted = wanted(&parents, matching);
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); processes.len()];
    let mut roots = Vec::new();
    for index in sorted.iter().copied().filter(|index| wanted.get(*index) == Some(&true)) {
        match parents.get(index).copied().flatten().and_then(|parent| children.get_mut(parent)) {
            Some(siblings) => siblings.push(index),
            None => roots.push(index),
        }
    }
    let mut lines = Vec::new();
    // A list instead of recursion, because chains may be long.
    let mut open: Vec<(usize, Vec<bool>)> = roots.into_iter().rev().map(|root| (root, Vec::new())).collect();
    while let Some((process, branches)) = open.pop() {
        let below = children.get_mut(process).map(std::mem::take).unwrap_or_default();
        let last = below.len().saturating_sub(1);
        for (place, child) in below.into_iter().enumerate().rev() {
            let mut branches = branches.clone();
            if branches.len() == MAX_LEVELS {
                branches.pop();
            }
            branches.push(place != last);
            open.push((child, branches));
        }
        lines.push(Line { process, branches, context: matching.get(process) != Some(&true) });
    }
    lines
}

/// Index of each one's parent. Chains that lead back to themselves are cut, so that everything hangs below a root.
fn parents(processes: &[Process]) -> Vec<Option<usize>> {
    let by_pid: HashMap<u32, usize> =
        processes.iter().enumerate().map(|(index, process)| (process.identity.pid, index)).collect();
    let parent = |process: &Process| by_pid.get(&process.parent_pid?).copied();
    let mut parents: Vec<Option<usize>> = processes.iter().map(parent).collect();
    // Which walk has been here last: meeting one's own trace is a circle, meeting an older one is known to be sound.
    let mut walked: Vec<Option<usize>> = vec![None; processes.len()];
    for start in 0..processes.len() {
        let mut at = start;
        while let Some(trace) = walked.get_mut(at)
            && trace.is_none()
        {
            *trace = Some(start);
            let Some(next) = parents.get(at).copied().flatten() else {
                break;
            };
            if walked.get(next) == Some(&Some(start)) {
                if let Some(link) = parents.get_mut(at) {
                    *link = None;
                }
                break;
            }
            at = next;
        }
    }
    parents
}

/// Those that match and all above them.
fn wanted(parents: &[Option<usize>], matching: &[bool]) -> Vec<bool> {
    let mut wanted = vec![false; parents.len()];
    for start in (0..parents.len()).filter(|index| matching.get(*index) == Some(&true)) {
        let mut at = Some(start);
        while let Some(index) = at
            && let Some(place) = wanted.get_mut(index)
            && !*place
        {
            *place = true;
            at = parents.get(index).copied().flatten();
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::filter::Filter;
    use crate::model::metric::Column;
    use crate::model::order::{Sort, order};

    fn family(parents: &[(u32, u32)]) -> Vec<Process> {
        let process = |(pid, parent): &(u32, u32)| Process {
            parent_pid: Some(*parent),
            ..Process::named(*pid, &format!("p{pid}"))
        };
        parents.iter().map(process).collect()
    }

    fn shown(processes: &[Process], filter: &str) -> Vec<(u32, usize, bool)> {
        let lines = order(processes, &Filter::new(filter), Sort::by(Column::Pid), true);
        lines
            .iter()
            .map(|line| (processes[line.process].identity.pid, line.branches.len(), line.context))
            .collect()
    }

    #[test]
    fn children_follow_their_parents() {
        let processes = family(&[(5, 2), (1, 0), (2, 1), (3, 1), (4, 2), (9, 77)]);
        let wanted = [(1, 0), (2, 1), (4, 2), (5, 2), (3, 1), (9, 0)];
        assert_eq!(shown(&processes, ""), wanted.map(|(pid, depth)| (pid, depth, false)));
        assert_eq!(shown(&processes, "p5"), [(1, 0, true), (2, 1, true), (5, 2, false)]);
        let lines = order(&processes, &Filter::default(), Sort::by(Column::Pid), true);
        assert_eq!(lines[2].branches, [true, true]);
        assert_eq!(lines[3].branches, [true, false]);
    }

    #[test]
    fn circles_and_long_chains_end() {
        let circle = family(&[(1, 1), (2, 4), (3, 2), (4, 3), (5, 4)]);
        let mut pids: Vec<u32> = shown(&circle, "").iter().map(|line| line.0).collect();
        pids.sort_unstable();
        assert_eq!(pids, [1, 2, 3, 4, 5]);
        let chain: Vec<(u32, u32)> = (1..=5_000).map(|pid| (pid, pid - 1)).collect();
        let lines = shown(&family(&chain), "");
        assert_eq!((lines.len(), lines[4_999].1), (5_000, MAX_LEVELS));
    }
}
