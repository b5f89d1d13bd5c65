//! State of each processor: the running thread, and sums of its time.

use ortscope_core::kernel::Task;

use super::MAX_COUNTERS;

/// Limit of Windows and of the format.
const MAX_CORES: usize = 2048;

/// Time of one processor, from its first to its last context switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Core {
    pub cpu: u32,
    pub first_ns: u64,
    pub last_ns: u64,
    pub busy_ns: u64,
    pub idle_ns: u64,
    /// Time with an unknown thread, because switches were lost.
    pub unknown_ns: u64,
    pub switches: u64,
    /// Included in the time of the interrupted threads.
    pub interrupt_ns: u64,
    pub deferred_ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct Running {
    task: Task,
    since_ns: u64,
    counters: [u64; MAX_COUNTERS],
}

#[derive(Debug, Default)]
pub(super) struct Cores {
    cores: Vec<(Core, Option<Running>)>,
}

impl Cores {
    fn at(&mut self, cpu: u32) -> Option<&mut (Core, Option<Running>)> {
        let index = cpu as usize;
        if index >= MAX_CORES {
            return None;
        }
        while self.cores.len() <= index {
            let cpu = self.cores.len() as u32;
            self.cores.push((Core { cpu, ..Core::default() }, None));
        }
        self.cores.get_mut(index)
    }

    pub fn running(&self, cpu: u32) -> Option<Task> {
        self.cores.get(cpu as usize)?.1.map(|running| running.task)
    }

    /// Processors with data.
    pub fn list(&self) -> Vec<Core> {
        let is_known = |core: &Core| core.switches > 0 || core.interrupt_ns > 0 || core.deferred_ns > 0;
        self.cores.iter().map(|(core, _)| *core).filter(is_known).collect()
    }

    /// Applies a switch; returns the counter growth of the old thread, if known.
    pub fn switch(
        &mut self,
        cpu: u32,
        at_ns: u64,
        prev: Task,
        next: Task,
        counters: [u64; MAX_COUNTERS],
    ) -> Option<[u64; MAX_COUNTERS]> {
        let (core, running) = self.at(cpu)?;
        if core.switches == 0 {
            core.first_ns = at_ns;
        }
        core.switches += 1;
        core.last_ns = core.last_ns.max(at_ns);
        let before = running.replace(Running { task: next, since_ns: at_ns, counters })?;
        let ran_ns = at_ns.saturating_sub(before.since_ns);
        if before.task.tid != prev.tid {
            core.unknown_ns += ran_ns;
            return None;
        }
        if prev.is_idle() {
            core.idle_ns += ran_ns;
        } else {
            core.busy_ns += ran_ns;
        }
        Some(std::array::from_fn(|index| counters[index].wrapping_sub(before.counters[index])))
    }

    pub fn interrupted(&mut self, cpu: u32, duration_ns: u64, is_deferred: bool) {
        if let Some((core, _)) = self.at(cpu) {
            let sum = if is_deferred { &mut core.deferred_ns } else { &mut core.interrupt_ns };
            *sum = sum.saturating_add(duration_ns);
        }
    }
}
