//! How many events of each kind: what a report shows beside the losses.

use super::event::KernelEvent;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventTally {
    pub switches: u64,
    pub wakeups: u64,
    pub migrations: u64,
    pub starts: u64,
    pub execs: u64,
    pub exits: u64,
    pub page_faults: u64,
    pub block_io: u64,
    pub memory_calls: u64,
}

impl EventTally {
    pub fn count(&mut self, event: &KernelEvent) {
        *match event {
            KernelEvent::Switch(_) => &mut self.switches,
            KernelEvent::Wakeup(_) => &mut self.wakeups,
            KernelEvent::Migration(_) => &mut self.migrations,
            KernelEvent::Start(_) => &mut self.starts,
            KernelEvent::Exec(_) => &mut self.execs,
            KernelEvent::Exit(_) => &mut self.exits,
            KernelEvent::PageFault(_) => &mut self.page_faults,
            KernelEvent::BlockIo(_) => &mut self.block_io,
            KernelEvent::MemoryCall(_) => &mut self.memory_calls,
        } += 1;
    }

    pub fn total(&self) -> u64 {
        let scheduling = self.switches + self.wakeups + self.migrations;
        scheduling
            + self.starts
            + self.execs
            + self.exits
            + self.page_faults
            + self.block_io
            + self.memory_calls
    }
}
