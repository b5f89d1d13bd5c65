//! Records of Linux's perf rings and files: bytes in, kernel events out.
//!
//! Requires `sample_id_all` and the sample type `TID | TIME | CPU`: every record ends with thread, time and processor.

use ortscope_core::kernel::{Exec, Exit, KernelEvent, Start, Switch, SwitchReason, Task, ThreadName};

/// Header of every record: kind (4), flags (2), size (2).
pub const HEADER_BYTES: usize = 8;
/// The shortest possible record with our sample type.
const TRAILER_BYTES: usize = 24;

/// Kinds of `enum perf_event_type`.
mod kind {
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const EXIT: u32 = 4;
    pub const FORK: u32 = 7;
    pub const LOST_SAMPLES: u32 = 13;
    pub const SWITCH_CPU_WIDE: u32 = 15;
}

/// Flag bits; two kinds of records use the same bit.
const MISC_COMM_EXEC: u16 = 1 << 13;
const MISC_SWITCH_OUT: u16 = 1 << 13;
const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;

/// Meaning of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PerfRecord {
    Event(KernelEvent),
    /// Records that found a full ring.
    Lost(u64),
    /// The second half of a switch, as a switch. There is no first half for the idle loop, so this is needed when
    /// the reader does not know yet that the thread is running.
    Entered(Switch),
    /// A kind without information about threads.
    Other,
    /// Shorter than its kind requires.
    Damaged,
}

/// Both ids of a thread that has exited and was reaped.
pub const GONE: u32 = u32::MAX;

/// The size in a record's header; `None` if the header is missing or invalid.
pub fn record_bytes(header: &[u8]) -> Option<usize> {
    let size = usize::from(u16::from_ne_bytes(header.get(6..8)?.try_into().ok()?));
    (size >= HEADER_BYTES && size.is_multiple_of(8)).then_some(size)
}

/// Decodes one record, including its header.
pub fn decode(record: &[u8]) -> PerfRecord {
    event(record).unwrap_or(PerfRecord::Damaged)
}

fn event(record: &[u8]) -> Option<PerfRecord> {
    let u32_at = |at: usize| Some(u32::from_ne_bytes(record.get(at..at + 4)?.try_into().ok()?));
    let u64_at = |at: usize| Some(u64::from_ne_bytes(record.get(at..at + 8)?.try_into().ok()?));
    let number = u32_at(0)?;
    let misc = u16::from_ne_bytes(record.get(4..6)?.try_into().ok()?);
    match number {
        kind::LOST => return Some(PerfRecord::Lost(u64_at(16)?)),
        kind::LOST_SAMPLES => return Some(PerfRecord::Lost(u64_at(8)?)),
        kind::COMM | kind::EXIT | kind::FORK | kind::SWITCH_CPU_WIDE => {}
        _ => return Some(PerfRecord::Other),
    }
    let trailer = record.len().checked_sub(TRAILER_BYTES).filter(|at| *at >= HEADER_BYTES + 8)?;
    let owner = Task { pid: u32_at(trailer)?, tid: u32_at(trailer + 4)? };
    let (at_ns, cpu) = (u64_at(trailer + 8)?, u32_at(trailer + 16)?);
    let event = match number {
        kind::SWITCH_CPU_WIDE => {
            let other = Task { pid: u32_at(8)?, tid: u32_at(12)? };
            let (prev_run_ns, prev_wait_ns) = (None, None);
            if misc & MISC_SWITCH_OUT == 0 {
                let reason = SwitchReason::Unknown;
                let (prev, next) = (other, owner);
                return Some(PerfRecord::Entered(Switch {
                    at_ns,
                    cpu,
                    prev,
                    next,
                    reason,
                    prev_run_ns,
                    prev_wait_ns,
                    prev_memory_mark: None,
                }));
            }
            let next = other;
            let reason = match misc & MISC_SWITCH_OUT_PREEMPT != 0 {
                true => SwitchReason::Preempted,
                false => SwitchReason::Unknown,
            };
            KernelEvent::Switch(Switch {
                at_ns,
                cpu,
                prev: owner,
                next,
                reason,
                prev_run_ns,
                prev_wait_ns,
                prev_memory_mark: None,
            })
        }
        kind::COMM => {
            let thread = Task { pid: u32_at(8)?, tid: u32_at(12)? };
            let name = ThreadName::from_bytes(record.get(16..trailer)?);
            let is_rename = misc & MISC_COMM_EXEC == 0;
            KernelEvent::Exec(Exec { at_ns, cpu, thread, old_tid: thread.tid, name, is_rename })
        }
        _ => {
            let thread = Task { pid: u32_at(8)?, tid: u32_at(16)? };
            let parent = Task { pid: u32_at(12)?, tid: u32_at(20)? };
            let at_ns = u64_at(24)?;
            if trailer < 32 {
                return None;
            }
            if number == kind::FORK {
                // The time of the announcement, which differs from the start time in snapshots, so it is
                // not an identity.
                KernelEvent::Start(Start { at_ns, cpu, thread, parent, start_ns: None, stack_bytes: None })
            } else {
                let (code, is_last, run_ns, start_ns) = (None, None, None, None);
                KernelEvent::Exit(Exit { at_ns, cpu, thread, code, is_last, run_ns, start_ns })
            }
        }
    };
    Some(PerfRecord::Event(event))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(kind: u32, misc: u16, body: &[u32]) -> Vec<u8> {
        let trailer = [70, 71, 1000, 0, 3, 0];
        let size = (HEADER_BYTES + 4 * body.len() + TRAILER_BYTES) as u16;
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(misc.to_ne_bytes());
        bytes.extend(size.to_ne_bytes());
        bytes.extend(body.iter().chain(&trailer).flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    #[test]
    fn switches_forks_exits_and_names_are_decoded() {
        let out = record(kind::SWITCH_CPU_WIDE, MISC_SWITCH_OUT | MISC_SWITCH_OUT_PREEMPT, &[80, 81]);
        assert_eq!(record_bytes(&out), Some(out.len()));
        let PerfRecord::Event(KernelEvent::Switch(switch)) = decode(&out) else {
            panic!("{:?}", decode(&out))
        };
        assert_eq!((switch.prev, switch.next), (Task { tid: 71, pid: 70 }, Task { tid: 81, pid: 80 }));
        assert_eq!((switch.at_ns, switch.cpu, switch.reason), (1000, 3, SwitchReason::Preempted));
        let PerfRecord::Entered(entered) = decode(&record(kind::SWITCH_CPU_WIDE, 0, &[80, 81])) else {
            panic!()
        };
        assert_eq!((entered.prev, entered.next), (Task { tid: 81, pid: 80 }, Task { tid: 71, pid: 70 }));

        let fork = decode(&record(kind::FORK, 0, &[90, 70, 91, 71, 2000, 0]));
        let PerfRecord::Event(KernelEvent::Start(start)) = fork else { panic!("{fork:?}") };
        assert_eq!(
            (start.thread, start.parent, start.at_ns),
            (Task { tid: 91, pid: 90 }, Task { tid: 71, pid: 70 }, 2000)
        );

        let name = u32::from_ne_bytes(*b"name");
        let comm = decode(&record(kind::COMM, MISC_COMM_EXEC, &[90, 90, name, 0]));
        let PerfRecord::Event(KernelEvent::Exec(exec)) = comm else { panic!("{comm:?}") };
        assert_eq!((exec.name.to_string().as_str(), exec.is_rename), ("name", false));

        assert_eq!(decode(&record(kind::LOST, 0, &[1, 0, 77, 0])), PerfRecord::Lost(77));
        assert_eq!(decode(&record(99, 0, &[])), PerfRecord::Other);
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(kind in 0u32..20, bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            decode(&bytes);
            let mut with_kind = kind.to_ne_bytes().to_vec();
            with_kind.extend(&bytes);
            decode(&with_kind);
            record_bytes(&bytes);
        }
    }
}
