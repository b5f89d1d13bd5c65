//! Threads and what they did for which provider.

use std::collections::BTreeMap;

use ortscope_core::schema::{OperatorKind, Text};

use super::event::OperatorEvent;
use super::nodes::is_same;
use super::report::{LaneStatistics, ThreadStatistics};
use super::run::ThreadTime;

/// Maximum number of lanes and threads. Pools have tens of threads; the excess is counted as dropped.
const MAX_LANES: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct LaneTable {
    lanes: Vec<Lane>,
    last: usize,
    threads: BTreeMap<u64, ThreadSum>,
}

#[derive(Debug)]
struct Lane {
    thread: u64,
    provider: Text,
    kind: OperatorKind,
    calls: u64,
    busy_ns: u64,
}

/// Runs in which a thread does nothing at all are not in its own sums: it is idle for all of them.
#[derive(Debug, Default)]
struct ThreadSum {
    operators_ns: u64,
    copies_ns: u64,
    waits_ns: u64,
}

impl LaneTable {
    /// False when there are too many lanes.
    pub(super) fn add(&mut self, event: &OperatorEvent, exclusive_ns: u64) -> bool {
        let is_of = |lane: &Lane| {
            lane.thread == event.thread && lane.kind == event.kind && is_same(&lane.provider, &event.provider)
        };
        let index = match self.lanes.get(self.last) {
            Some(lane) if is_of(lane) => self.last,
            _ => match self.lanes.iter().position(is_of) {
                Some(index) => index,
                None if self.lanes.len() >= MAX_LANES => return false,
                None => {
                    let (thread, kind) = (event.thread, event.kind);
                    self.lanes.push(Lane {
                        thread,
                        kind,
                        provider: event.provider.clone(),
                        calls: 0,
                        busy_ns: 0,
                    });
                    self.lanes.len() - 1
                }
            },
        };
        self.last = index;
        let lane = &mut self.lanes[index];
        lane.calls += 1;
        lane.busy_ns = lane.busy_ns.saturating_add(exclusive_ns);
        true
    }

    pub(super) fn add_thread(&mut self, time: &ThreadTime) {
        if self.threads.len() >= MAX_LANES && !self.threads.contains_key(&time.thread) {
            return;
        }
        let sum = self.threads.entry(time.thread).or_default();
        sum.operators_ns = sum.operators_ns.saturating_add(time.operators_ns);
        sum.copies_ns = sum.copies_ns.saturating_add(time.copies_ns);
        sum.waits_ns = sum.waits_ns.saturating_add(time.waits_ns);
    }

    pub(super) fn lanes(&self, run_ns: u64) -> Vec<LaneStatistics> {
        let mut lanes: Vec<LaneStatistics> = self
            .lanes
            .iter()
            .map(|lane| LaneStatistics {
                thread: lane.thread,
                provider: lane.provider.clone(),
                kind: lane.kind,
                calls: lane.calls,
                busy_ns: lane.busy_ns,
                utilization: ratio(lane.busy_ns, run_ns),
            })
            .collect();
        lanes.sort_by(|a, b| b.busy_ns.cmp(&a.busy_ns).then(a.thread.cmp(&b.thread)));
        lanes
    }

    pub(super) fn threads(&self, run_ns: u64) -> Vec<ThreadStatistics> {
        let of = |(thread, sum): (&u64, &ThreadSum)| {
            let busy_ns = sum.operators_ns.saturating_add(sum.copies_ns).saturating_add(sum.waits_ns);
            ThreadStatistics {
                thread: *thread,
                operators_ns: sum.operators_ns,
                copies_ns: sum.copies_ns,
                waits_ns: sum.waits_ns,
                remainder_ns: run_ns.saturating_sub(busy_ns),
                utilization: ratio(sum.operators_ns, run_ns),
            }
        };
        self.threads.iter().map(of).collect()
    }
}

/// A share; 0 of nothing.
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
