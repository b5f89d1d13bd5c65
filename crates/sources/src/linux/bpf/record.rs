//! A ring record: 64 bytes, one cache line, written by the programs of `events` and decoded here.

use ortscope_core::kernel::{
    BlockIo, BlockPhase, Exec, Exit, FaultKind, KernelEvent, MemoryCall, MemoryCallKind, Migration,
    PageFault, Start, Switch, SwitchReason, Task, ThreadName, Wakeup,
};

/// Words of a record.
pub const WORDS: usize = 8;
pub const BYTES: usize = WORDS * 8;

/// Offsets of the fields. Each kind uses those that it needs.
pub mod at {
    /// Written last: the record's number plus one, so that an unfinished record is recognized.
    pub const SEQUENCE: i16 = 0;
    pub const TIME: i16 = 8;
    pub const KIND: i16 = 16;
    pub const FLAGS: i16 = 20;
    /// Followed by the process id.
    pub const TID: i16 = 24;
    pub const OTHER_TID: i16 = 32;
    pub const OTHER_PID: i16 = 36;
    pub const VALUE: i16 = 40;
    pub const VALUE_2: i16 = 48;
    pub const VALUE_3: i16 = 56;
}

/// Kinds of records.
pub mod kind {
    pub const SWITCH: i32 = 1;
    pub const WAKEUP: i32 = 2;
    pub const MIGRATION: i32 = 3;
    pub const START: i32 = 4;
    pub const EXEC: i32 = 5;
    pub const EXIT: i32 = 6;
    pub const MINOR_FAULT: i32 = 7;
    pub const MAJOR_FAULT: i32 = 12;
    pub const RENAME: i32 = 13;
    pub const BLOCK_ISSUED: i32 = 8;
    pub const BLOCK_COMPLETED: i32 = 9;
    pub const MAP: i32 = 10;
    pub const UNMAP: i32 = 11;
    pub const HEAP: i32 = 14;
}

/// Set in a switch record, in addition to the state, if the thread was preempted.
pub const PREEMPTED: u32 = 1 << 31;
/// A write request; the operation is in the lowest bits of the request's flags.
const WRITE: u32 = 1;
/// Value for unknown.
pub const UNKNOWN: u64 = u64::MAX;

/// Bits of a thread's state from `include/linux/sched.h`, stable for many years.
mod state {
    pub const INTERRUPTIBLE: u32 = 0x01;
    pub const UNINTERRUPTIBLE: u32 = 0x02;
    pub const STOPPED_OR_TRACED: u32 = 0x04 | 0x08;
    pub const ENDED: u32 = 0x10 | 0x20 | 0x80;
    /// Uninterruptible without counting as load: a kernel thread that waits for work.
    pub const NO_LOAD: u32 = 0x400;
}

/// Why a thread with this state was switched out.
pub fn reason(flags: u32) -> SwitchReason {
    if flags & PREEMPTED != 0 || flags == 0 {
        SwitchReason::Preempted
    } else if flags & state::ENDED != 0 {
        SwitchReason::Ended
    } else if flags & (state::INTERRUPTIBLE | state::NO_LOAD) != 0 {
        SwitchReason::Sleeping
    } else if flags & state::UNINTERRUPTIBLE != 0 {
        SwitchReason::Blocked
    } else if flags & state::STOPPED_OR_TRACED != 0 {
        SwitchReason::Stopped
    } else {
        SwitchReason::Unknown
    }
}

/// Converts a record to an event; `None` for an unknown kind.
#[inline]
pub fn decode(words: &[u64; WORDS], cpu: u32) -> Option<KernelEvent> {
    let [_, at_ns, head, first, second, value, value_2, value_3] = *words;
    let (low, high) = (|word: u64| word as u32, |word: u64| (word >> 32) as u32);
    let flags = high(head);
    let thread = Task { tid: low(first), pid: high(first) };
    let other = Task { tid: low(second), pid: high(second) };
    let known = |value: u64| (value != UNKNOWN).then_some(value);
    Some(match low(head) as i32 {
        kind::SWITCH => KernelEvent::Switch(Switch {
            at_ns,
            cpu,
            prev: thread,
            next: other,
            reason: reason(flags),
            prev_run_ns: Some(value),
            prev_wait_ns: known(value_2),
            prev_memory_mark: known(value_3),
        }),
        kind::WAKEUP => KernelEvent::Wakeup(Wakeup { at_ns, cpu, thread, waker: other }),
        kind::MIGRATION => {
            KernelEvent::Migration(Migration { at_ns, cpu, thread, from_cpu: low(value), to_cpu: flags })
        }
        kind::START => {
            let stack_bytes = known(value_2).filter(|bytes| *bytes > 0);
            KernelEvent::Start(Start {
                at_ns,
                cpu,
                thread,
                parent: other,
                start_ns: Some(value),
                stack_bytes,
            })
        }
        what @ (kind::EXEC | kind::RENAME) => {
            let mut name = [0; 16];
            name[..8].copy_from_slice(&value.to_ne_bytes());
            name[8..].copy_from_slice(&value_2.to_ne_bytes());
            let name = ThreadName::from_bytes(&name);
            let is_rename = what == kind::RENAME;
            let old_tid = if is_rename { thread.tid } else { flags };
            KernelEvent::Exec(Exec { at_ns, cpu, thread, old_tid, name, is_rename })
        }
        kind::EXIT => KernelEvent::Exit(Exit {
            at_ns,
            cpu,
            thread,
            code: Some(flags as i32),
            is_last: (other.tid != u32::MAX).then_some(other.tid & 0xff != 0),
            run_ns: Some(value),
            start_ns: Some(value_2),
        }),
        fault @ (kind::MINOR_FAULT | kind::MAJOR_FAULT) => {
            let kind = if fault == kind::MAJOR_FAULT { FaultKind::Major } else { FaultKind::Minor };
            KernelEvent::PageFault(PageFault { at_ns, cpu, thread, address: value, kind })
        }
        phase @ (kind::BLOCK_ISSUED | kind::BLOCK_COMPLETED) => {
            let completed = phase == kind::BLOCK_COMPLETED;
            KernelEvent::BlockIo(BlockIo {
                at_ns,
                cpu,
                thread,
                phase: if completed { BlockPhase::Completed } else { BlockPhase::Issued },
                device: other.pid,
                sector: value,
                bytes: other.tid,
                is_write: flags & 0xff == WRITE,
                device_ns: (completed && value_2 != 0).then(|| at_ns.saturating_sub(value_2)),
                failed: completed && flags >> 31 == 1,
            })
        }
        call @ (kind::MAP | kind::UNMAP | kind::HEAP) => {
            let kind = match call {
                kind::MAP => MemoryCallKind::Map,
                kind::UNMAP => MemoryCallKind::Unmap,
                _ => MemoryCallKind::Heap,
            };
            KernelEvent::MemoryCall(MemoryCall { at_ns, cpu, thread, kind, address: value, bytes: value_2 })
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_map_to_reasons() {
        let reasons = [
            (0, SwitchReason::Preempted),
            (1 | PREEMPTED, SwitchReason::Preempted),
            (1, SwitchReason::Sleeping),
            (0x402, SwitchReason::Sleeping),
            (2, SwitchReason::Blocked),
            (0x102, SwitchReason::Blocked),
            (4, SwitchReason::Stopped),
            (8, SwitchReason::Stopped),
            (0x80, SwitchReason::Ended),
            (0x1000, SwitchReason::Unknown),
        ];
        for (state, expected) in reasons {
            assert_eq!(reason(state), expected, "{state:#x}");
        }
    }

    #[test]
    fn unknown_kinds_give_no_event() {
        for number in [0u64, 15, 99, u64::from(u32::MAX)] {
            assert_eq!(decode(&[1, 2, number, 4, 5, 6, 7, 8], 0), None);
        }
    }
}
