//! Merges the events of all processors, each of which is in order, chronologically.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ortscope_core::kernel::KernelEvent;

/// The ring of one processor.
pub trait Lane {
    /// The next event up to and including `until_ns`.
    fn next(&mut self, until_ns: u64) -> Option<KernelEvent>;
}

/// Buffers that are reused between merges.
#[derive(Debug, Default)]
pub struct Merge {
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    waiting: Vec<Option<KernelEvent>>,
}

impl Merge {
    /// Emits every event up to `until_ns`, oldest first.
    pub fn run<L: Lane>(&mut self, lanes: &mut [L], until_ns: u64, out: &mut impl FnMut(KernelEvent)) {
        self.heap.clear();
        self.waiting.clear();
        for (index, lane) in lanes.iter_mut().enumerate() {
            let event = lane.next(until_ns);
            self.heap.extend(event.map(|event| Reverse((event.at_ns(), index))));
            self.waiting.push(event);
        }
        while let Some(Reverse((_, index))) = self.heap.pop() {
            // Events come in bursts from one processor: the heap is used only when another one is older.
            let rival_ns = self.heap.peek().map_or(u64::MAX, |Reverse((at_ns, _))| *at_ns);
            let mut event = self.waiting[index].take();
            while let Some(current) = event {
                if current.at_ns() > rival_ns {
                    self.heap.push(Reverse((current.at_ns(), index)));
                    self.waiting[index] = event;
                    break;
                }
                out(current);
                event = lanes[index].next(until_ns);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use ortscope_core::kernel::{Migration, Task};

    use super::*;

    impl Lane for VecDeque<KernelEvent> {
        fn next(&mut self, until_ns: u64) -> Option<KernelEvent> {
            self.pop_front_if(|event| event.at_ns() <= until_ns)
        }
    }

    fn event(at_ns: u64, cpu: u32) -> KernelEvent {
        KernelEvent::Migration(Migration { at_ns, cpu, thread: Task::IDLE, from_cpu: 0, to_cpu: 1 })
    }

    #[test]
    fn lanes_are_merged_by_time_and_later_events_wait() {
        let mut lanes: Vec<VecDeque<KernelEvent>> = vec![
            [1, 2, 3, 10, 30].map(|at| event(at, 0)).into(),
            VecDeque::new(),
            [2, 4, 5, 11, 20].map(|at| event(at, 2)).into(),
            [7].map(|at| event(at, 3)).into(),
        ];
        let mut merge = Merge::default();
        let mut seen = Vec::new();
        merge.run(&mut lanes, 11, &mut |event| seen.push(event.at_ns()));
        assert_eq!(seen, [1, 2, 2, 3, 4, 5, 7, 10, 11]);
        merge.run(&mut lanes, 100, &mut |event| seen.push(event.at_ns()));
        assert_eq!(seen[9..], [20, 30]);
    }
}
