//! Processor counters of a machine, as listed by Windows (`TraceProfileSourceListInfo`).

/// Limit for sources; real machines have a few dozen.
const MAX_SOURCES: usize = 4096;
/// Offset of the next entry, number, minimum and maximum interval, eight reserved bytes; the name follows.
const HEAD_BYTES: usize = 24;

/// A processor counter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileSource {
    pub id: u32,
    /// For example `InstructionRetired`.
    pub name: String,
    /// Minimum and maximum number of events between two samples.
    pub shortest_interval: u32,
    pub longest_interval: u32,
}

/// Parses the list up to its end, or up to the first damaged entry.
pub fn profile_sources(bytes: &[u8]) -> Vec<ProfileSource> {
    let (mut sources, mut rest) = (Vec::new(), bytes);
    while sources.len() < MAX_SOURCES {
        let Some((head, name)) = rest.split_first_chunk::<HEAD_BYTES>() else { break };
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let next = number(0) as usize;
        let length = if next == 0 { name.len() } else { next.saturating_sub(HEAD_BYTES).min(name.len()) };
        let units = name[..length].as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit));
        let units: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
        sources.push(ProfileSource {
            id: number(4),
            name: String::from_utf16_lossy(&units),
            shortest_interval: number(8),
            longest_interval: number(12),
        });
        match rest.get(next..) {
            Some(after) if next > 0 => rest = after,
            _ => break,
        }
    }
    sources
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_entries_with_padding_are_parsed() {
        let mut bytes = Vec::new();
        for (next, id, name) in [(40u32, 0u32, "Timer"), (0, 19, "LLCMisses")] {
            bytes.extend([next, id, 1221, 10_000, 0, 0].map(u32::to_le_bytes).as_flattened());
            bytes.extend(name.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
            bytes.resize(bytes.len().next_multiple_of(8), 0xee);
        }
        let found = profile_sources(&bytes);
        assert_eq!(
            found.iter().map(|one| (one.id, one.name.as_str())).collect::<Vec<_>>(),
            [(0, "Timer"), (19, "LLCMisses")]
        );
        assert_eq!((found[0].shortest_interval, found[0].longest_interval), (1221, 10_000));
        assert!(profile_sources(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(profile_sources(&bytes).len() <= MAX_SOURCES);
        }
    }
}
