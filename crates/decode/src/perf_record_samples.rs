//! Records of a sampling perf ring: stacks, and what is needed to name their frames.
//!
//! Requires `sample_id_all` and the sample type `TID | TIME | CPU | CALLCHAIN`, optionally with `REGS_USER |
//! STACK_USER`. Values borrow from the record.

use ortscope_core::kernel::{MAX_FRAMES, Task, ThreadName};

/// Bits of `perf_event_attr.sample_type`.
pub const SAMPLE_TYPE: u64 = (1 << 1) | (1 << 2) | (1 << 5) | (1 << 7);
pub const SAMPLE_TYPE_STACK: u64 = SAMPLE_TYPE | (1 << 12) | (1 << 13);

/// Trailer of every record except samples.
const TRAILER_BYTES: usize = 24;

mod kind {
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const EXIT: u32 = 4;
    pub const THROTTLE: u32 = 5;
    pub const FORK: u32 = 7;
    pub const SAMPLE: u32 = 9;
    pub const MMAP2: u32 = 10;
    pub const LOST_SAMPLES: u32 = 13;
}

const MISC_COMM_EXEC: u16 = 1 << 13;
const MISC_BUILD_ID: u16 = 1 << 14;
const EXECUTABLE: u32 = 4;
/// Addresses above this one are markers in a call chain: what follows is in the kernel, in the program, …
const FIRST_MARK: u64 = -4095_i64 as u64;
const MARK_KERNEL: u64 = -128_i64 as u64;
const MARK_USER: u64 = -512_i64 as u64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SampleRecord<'a> {
    Sample(Sample<'a>),
    Mapped(Mapped<'a>),
    /// A name; with `is_exec` another program was executed, and all mappings are gone.
    Named {
        thread: Task,
        name: ThreadName,
        is_exec: bool,
    },
    Forked {
        thread: Task,
        parent: Task,
    },
    Exited {
        thread: Task,
    },
    Lost(u64),
    /// The kernel throttled sampling because it took too much time.
    Throttled,
    Other,
    Damaged,
}

/// A sample as recorded by the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample<'a> {
    pub cpu: u32,
    pub thread: Task,
    /// Frames by frame pointers, innermost first.
    pub kernel: Vec<u64>,
    pub user: Vec<u64>,
    /// User registers in the order of their bits; empty if not recorded.
    pub registers: Vec<u64>,
    /// A copy of the user stack, starting at the stack pointer.
    pub stack: &'a [u8],
}

/// Code was mapped into a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapped<'a> {
    pub pid: u32,
    pub address: u64,
    pub bytes: u64,
    pub file_offset: u64,
    /// Read by the kernel from the mapped file: a different file at the same path has a different one.
    pub build_id: Option<&'a [u8]>,
    pub is_executable: bool,
    pub path: &'a [u8],
}

/// Time of a record; `None` if it has none.
pub fn time_ns(record: &[u8]) -> Option<u64> {
    let u64_at = |at: usize| Some(u64::from_ne_bytes(record.get(at..at + 8)?.try_into().ok()?));
    match u32::from_ne_bytes(record.get(0..4)?.try_into().ok()?) {
        kind::SAMPLE => u64_at(16),
        _ => u64_at(record.len().checked_sub(TRAILER_BYTES).filter(|at| *at >= 8)? + 8),
    }
}

/// Decodes one record, including its header. `register_count`: the number of requested registers.
pub fn decode(record: &[u8], register_count: usize) -> SampleRecord<'_> {
    parse(record, register_count).unwrap_or(SampleRecord::Damaged)
}

fn parse(record: &[u8], register_count: usize) -> Option<SampleRecord<'_>> {
    let u32_at = |at: usize| Some(u32::from_ne_bytes(record.get(at..at + 4)?.try_into().ok()?));
    let u64_at = |at: usize| Some(u64::from_ne_bytes(record.get(at..at + 8)?.try_into().ok()?));
    let misc = u16::from_ne_bytes(record.get(4..6)?.try_into().ok()?);
    let number = u32_at(0)?;
    match number {
        kind::SAMPLE => return sample(record, register_count).map(SampleRecord::Sample),
        kind::LOST => return Some(SampleRecord::Lost(u64_at(16)?)),
        kind::LOST_SAMPLES => return Some(SampleRecord::Lost(u64_at(8)?)),
        kind::THROTTLE => return Some(SampleRecord::Throttled),
        kind::COMM | kind::EXIT | kind::FORK | kind::MMAP2 => {}
        _ => return Some(SampleRecord::Other),
    }
    let trailer = record.len().checked_sub(TRAILER_BYTES).filter(|at| *at >= 16)?;
    Some(match number {
        kind::COMM => SampleRecord::Named {
            thread: Task { pid: u32_at(8)?, tid: u32_at(12)? },
            name: ThreadName::from_bytes(record.get(16..trailer)?),
            is_exec: misc & MISC_COMM_EXEC != 0,
        },
        kind::MMAP2 => {
            let path = record.get(72..trailer)?;
            let path = &path[..path.iter().position(|byte| *byte == 0).unwrap_or(path.len())];
            let build_id = if misc & MISC_BUILD_ID != 0 {
                let length = usize::from(*record.get(40)?).min(20);
                record.get(44..44 + length).filter(|id| !id.is_empty())
            } else {
                None
            };
            SampleRecord::Mapped(Mapped {
                pid: u32_at(8)?,
                address: u64_at(16)?,
                bytes: u64_at(24)?,
                file_offset: u64_at(32)?,
                build_id,
                is_executable: u32_at(64)? & EXECUTABLE != 0,
                path,
            })
        }
        _ => {
            let thread = Task { pid: u32_at(8)?, tid: u32_at(16)? };
            let parent = Task { pid: u32_at(12)?, tid: u32_at(20)? };
            match number {
                kind::FORK => SampleRecord::Forked { thread, parent },
                _ => SampleRecord::Exited { thread },
            }
        }
    })
}

fn sample(record: &[u8], register_count: usize) -> Option<Sample<'_>> {
    let u64_at = |at: usize| Some(u64::from_ne_bytes(record.get(at..at.checked_add(8)?)?.try_into().ok()?));
    let u32_at = |at: usize| Some(u32::from_ne_bytes(record.get(at..at + 4)?.try_into().ok()?));
    let thread = Task { pid: u32_at(8)?, tid: u32_at(12)? };
    let cpu = u32_at(24)?;
    let count = usize::try_from(u64_at(32)?).ok()?;
    // The record itself bounds the chain.
    let end = count.checked_mul(8)?.checked_add(40).filter(|end| *end <= record.len())?;
    let (mut kernel, mut user) = (Vec::new(), Vec::new());
    let mut half = None;
    for word in record[40..end].as_chunks::<8>().0 {
        match u64::from_ne_bytes(*word) {
            MARK_KERNEL => half = Some(&mut kernel),
            MARK_USER => half = Some(&mut user),
            mark if mark >= FIRST_MARK => half = None,
            address => {
                if let Some(frames) = half.as_mut().filter(|frames| frames.len() < MAX_FRAMES) {
                    frames.push(address);
                }
            }
        }
    }
    let (mut registers, mut stack) = (Vec::new(), &record[..0]);
    if register_count > 0 {
        let mut at = end;
        // A kernel thread has no user registers.
        let has_registers = u64_at(at)? != 0;
        at += 8;
        if has_registers {
            let wanted = record.get(at..at + register_count * 8)?;
            registers = wanted.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
            at += register_count * 8;
        }
        let space = usize::try_from(u64_at(at)?).ok()?;
        at += 8;
        if space > 0 {
            let bytes = record.get(at..at.checked_add(space)?)?;
            // The space always has the requested size; the filled length follows it.
            let filled = usize::try_from(u64_at(at + space)?).ok()?;
            stack = bytes.get(..filled)?;
        }
    }
    Some(Sample { cpu, thread, kernel, user, registers, stack })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(misc.to_ne_bytes());
        bytes.extend(((8 + body.len()) as u16).to_ne_bytes());
        bytes.extend(body);
        bytes
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn trailer() -> Vec<u8> {
        words(&[70 | (71 << 32), 1234, 3])
    }

    #[test]
    fn a_sample_has_both_stacks_registers_and_a_stack_copy() {
        let chain = [6, MARK_KERNEL, 100, 101, MARK_USER, 7, 8];
        let mut body = words(&[70 | (71 << 32), 999, 3]);
        body.extend(words(&chain));
        body.extend(words(&[2, 11, 12, 13, 16, 0xaa, 0xbb, 8]));
        let bytes = record(kind::SAMPLE, 0, &body);
        assert_eq!(time_ns(&bytes), Some(999));
        let SampleRecord::Sample(sample) = decode(&bytes, 3) else { panic!("{:?}", decode(&bytes, 3)) };
        assert_eq!((sample.thread, sample.cpu), (Task { pid: 70, tid: 71 }, 3));
        assert_eq!((sample.kernel, sample.user), (vec![100, 101], vec![7, 8]));
        assert_eq!((sample.registers, sample.stack), (vec![11, 12, 13], &words(&[0xaa])[..]));
        // A chain that claims to be longer than the record.
        let mut lying = bytes;
        lying[32..40].copy_from_slice(&u64::MAX.to_ne_bytes());
        assert_eq!(decode(&lying, 3), SampleRecord::Damaged);
    }

    #[test]
    fn a_mapping_has_its_build_id() {
        let mut body = words(&[70 | (71 << 32), 0x1000, 0x2000, 0x3000]);
        body.extend([4, 0, 0, 0, 1, 2, 3, 4]);
        body.extend([0; 16]);
        body.extend(words(&[5]));
        body.extend(b"/a b\0\0\0\0");
        body.extend(trailer());
        let bytes = record(kind::MMAP2, MISC_BUILD_ID, &body);
        assert_eq!(time_ns(&bytes), Some(1234));
        let SampleRecord::Mapped(mapped) = decode(&bytes, 0) else { panic!() };
        assert_eq!((mapped.address, mapped.bytes, mapped.file_offset), (0x1000, 0x2000, 0x3000));
        assert_eq!((mapped.build_id, mapped.path), (Some(&[1u8, 2, 3, 4][..]), &b"/a b"[..]));
        assert!(mapped.is_executable);
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(kind in 0u32..20, bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            decode(&bytes, 3);
            let mut with_kind = kind.to_ne_bytes().to_vec();
            with_kind.extend(&bytes);
            decode(&with_kind, 3);
            decode(&with_kind, 0);
            time_ns(&with_kind);
        }
    }
}
