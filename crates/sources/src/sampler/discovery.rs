//! Finds processes, decides which are watched, and detects starts and exits.
//!
//! Processes that are not watched are inspected again from time to time: a new process has its parent's name until it
//! executes its own program, and pids are reused.

use std::collections::HashMap;

use super::backend::{ProcessBackend, ProcessFacts, ReadError};
use super::targets::Selector;

/// Processes younger than this are inspected again at every discovery.
const YOUNG_NS: u64 = 2_000_000_000;
/// Interval for inspecting other unwatched processes.
const REINSPECT_NS: u64 = 1_000_000_000;
/// Limit for repeated inspections per discovery; the rest waits for the next one. 512 inspections take about 2 ms.
const MAX_REINSPECTIONS: usize = 512;

#[derive(Debug)]
struct Unwatched {
    first_ns: u64,
    looked_ns: u64,
    round: u64,
}

/// Result of one discovery.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub joined: Vec<ProcessFacts>,
    /// Ids of watched processes that are no longer listed.
    pub gone: Vec<u32>,
    /// Processes beyond the limit, each counted once.
    pub beyond: u64,
}

#[derive(Debug, Default)]
pub(super) struct Discovery {
    unwatched: HashMap<u32, Unwatched>,
    round: u64,
    pids: Vec<u32>,
    facts: ProcessFacts,
    undecided: Vec<ProcessFacts>,
    processes: Option<u64>,
}

impl Discovery {
    /// Number of processes in the last list.
    pub fn process_count(&self) -> Option<u64> {
        self.processes
    }

    /// Whether the last list contained this id.
    pub fn was_listed(&self, pid: u32) -> bool {
        self.pids.binary_search(&pid).is_ok()
    }

    /// Finds the processes that are targeted by id. Returns the ids that do not exist.
    pub fn named(
        &mut self,
        backend: &mut dyn ProcessBackend,
        pids: &[u32],
        found: &mut Found,
    ) -> Vec<(u32, ReadError)> {
        let mut missing = Vec::new();
        for pid in pids {
            match backend.look(*pid, &mut self.facts) {
                Ok(()) if found.joined.iter().any(|facts| facts.pid == *pid) => {}
                Ok(()) => found.joined.push(self.facts.clone()),
                Err(error) => missing.push((*pid, error)),
            }
        }
        missing
    }

    /// Reads the process list. `is_watched` returns whether an id is watched; `capacity` is the number of processes
    /// that can be added.
    pub fn look(
        &mut self,
        now_ns: u64,
        backend: &mut dyn ProcessBackend,
        selector: &mut Selector,
        watched: &HashMap<u32, usize>,
        capacity: usize,
        found: &mut Found,
    ) -> Result<(), ReadError> {
        self.pids.clear();
        backend.list(&mut self.pids)?;
        // Parents usually have smaller ids than their children.
        self.pids.sort_unstable();
        self.processes = Some(self.pids.len() as u64);
        found.gone.extend(watched.keys().filter(|pid| self.pids.binary_search(pid).is_err()));
        found.gone.sort_unstable();
        if !selector.targets().can_grow() {
            return Ok(());
        }
        self.round += 1;
        let mut looks_again = 0;
        let joined_before = found.joined.len();
        let pids = std::mem::take(&mut self.pids);
        for pid in pids.iter().copied() {
            if watched.contains_key(&pid)
                || found.joined[..joined_before].iter().any(|facts| facts.pid == pid)
            {
                continue;
            }
            if let Some(known) = self.unwatched.get_mut(&pid) {
                known.round = self.round;
                let young = now_ns.saturating_sub(known.first_ns) < YOUNG_NS;
                let due = now_ns.saturating_sub(known.looked_ns) >= REINSPECT_NS;
                if !(young || due) || looks_again == MAX_REINSPECTIONS {
                    continue;
                }
                looks_again += 1;
                known.looked_ns = now_ns;
            }
            // A process that exited after it was listed is not an error.
            if backend.look(pid, &mut self.facts).is_err() {
                continue;
            }
            if selector.wants(&self.facts) {
                selector.joined(&self.facts);
                found.joined.push(self.facts.clone());
            } else {
                if selector.targets().children_of.is_empty() {
                    self.not_watched(pid, now_ns);
                } else {
                    self.undecided.push(self.facts.clone());
                }
            }
        }
        self.pids = pids;
        self.decide_families(now_ns, selector, found);
        let capacity = joined_before + capacity;
        for facts in found.joined.drain(capacity.min(found.joined.len())..) {
            let known = self.unwatched.contains_key(&facts.pid);
            found.beyond += u64::from(!known);
            selector.left(facts.pid);
            self.unwatched.insert(facts.pid, Unwatched { first_ns: 0, looked_ns: now_ns, round: self.round });
        }
        for facts in &found.joined {
            self.unwatched.remove(&facts.pid);
        }
        let round = self.round;
        self.unwatched.retain(|_, known| known.round == round);
        Ok(())
    }

    /// A child may have a smaller id than its parent, so this repeats until no process is added.
    fn decide_families(&mut self, now_ns: u64, selector: &mut Selector, found: &mut Found) {
        let mut undecided = std::mem::take(&mut self.undecided);
        loop {
            let before = undecided.len();
            undecided.retain(|facts| {
                let wanted = selector.wants(facts);
                if wanted {
                    selector.joined(facts);
                    found.joined.push(facts.clone());
                }
                !wanted
            });
            if undecided.len() == before {
                break;
            }
        }
        for facts in undecided.drain(..) {
            self.not_watched(facts.pid, now_ns);
        }
        self.undecided = undecided;
    }

    fn not_watched(&mut self, pid: u32, now_ns: u64) {
        let round = self.round;
        let known =
            self.unwatched.entry(pid).or_insert(Unwatched { first_ns: now_ns, looked_ns: now_ns, round });
        known.round = round;
    }
}
