//! Processors and what they share: the result of `GetLogicalProcessorInformationEx` for all relations.

use super::bytes::{u8_at, u16_at, u32_at, u64_at};

/// More groups of 64 processors than any Windows supports.
const MAX_GROUPS: usize = 128;
const HEADER_BYTES: usize = 8;
/// `GROUP_AFFINITY`.
const AFFINITY_BYTES: usize = 16;

const CORE: u32 = 0;
const NUMA_NODE: u32 = 1;
const GROUP: u32 = 4;

/// One logical processor, numbered across all groups like in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogicalProcessor {
    pub number: u32,
    /// Larger is faster; equal for all on a machine with one kind of core.
    pub efficiency_class: u8,
    pub core: u32,
    pub numa_node: Option<u32>,
}

/// Online processors by number; empty if the answer has an unknown format.
pub fn parse_logical_processors(answer: &[u8]) -> Vec<LogicalProcessor> {
    let mut groups = vec![0u32; 1];
    each_entry(answer, |relation, body| {
        if relation == GROUP {
            groups = group_begins(body);
        }
    });
    let mut processors: Vec<LogicalProcessor> = Vec::new();
    let mut core = 0;
    each_entry(answer, |relation, body| {
        if relation == CORE {
            let efficiency_class = u8_at(body, 1).unwrap_or(0);
            each_processor(body, &groups, |number| {
                processors.push(LogicalProcessor { number, efficiency_class, core, numa_node: None });
            });
            core += 1;
        }
    });
    processors.sort_unstable_by_key(|processor| processor.number);
    processors.dedup_by_key(|processor| processor.number);
    each_entry(answer, |relation, body| {
        if relation == NUMA_NODE {
            let node = u32_at(body, 0);
            each_processor(body, &groups, |number| {
                if let Ok(at) = processors.binary_search_by_key(&number, |processor| processor.number) {
                    processors[at].numa_node = node;
                }
            });
        }
    });
    processors
}

fn each_entry(mut rest: &[u8], mut emit: impl FnMut(u32, &[u8])) {
    while let (Some(relation), Some(length)) = (u32_at(rest, 0), u32_at(rest, 4)) {
        let length = length as usize;
        let Some(body) = rest.get(HEADER_BYTES..length) else { return };
        emit(relation, body);
        rest = rest.get(length..).unwrap_or_default();
    }
}

/// The number of each group's first processor.
fn group_begins(body: &[u8]) -> Vec<u32> {
    const GROUPS_AT: usize = 24;
    const GROUP_BYTES: usize = 48;
    let active = u16_at(body, 2).map_or(0, usize::from).min(MAX_GROUPS);
    let (mut begins, mut next) = (Vec::with_capacity(active), 0u32);
    for group in 0..active {
        begins.push(next);
        next += u32::from(u8_at(body, GROUPS_AT + group * GROUP_BYTES + 1).unwrap_or(0));
    }
    begins
}

/// The processors of a core or a node: both have the group count and the masks at the same offsets.
fn each_processor(body: &[u8], groups: &[u32], mut emit: impl FnMut(u32)) {
    const COUNT_AT: usize = 22;
    const MASKS_AT: usize = 24;
    // Nodes have a single mask and no count before Windows 10 20H2.
    let count = u16_at(body, COUNT_AT).map_or(0, usize::from).clamp(1, MAX_GROUPS);
    for index in 0..count {
        let at = MASKS_AT + index * AFFINITY_BYTES;
        let (Some(mask), Some(group)) = (u64_at(body, at), u16_at(body, at + 8)) else { return };
        let Some(begin) = groups.get(usize::from(group)) else { continue };
        for bit in (0..u64::BITS).filter(|bit| mask & (1 << bit) != 0) {
            emit(begin + bit);
        }
    }
}
