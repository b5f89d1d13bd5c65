//! Whether the index of a program's unwind tables (`.eh_frame_hdr`) can be believed: readers subtract addresses in it from each
//! other, and a made-up program could have a difference below zero.

use std::sync::Arc;

/// Version, and the ways in which linkers write: the tables' address from here, a count, entries from the section's start, each
/// in four bytes.
const HEAD: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
const HEAD_BYTES: usize = 12;
const ENTRY_BYTES: usize = 8;

/// Whether an index, with the address of its section, is of the usual form and all that it names lies in the tables.
pub(super) fn points_into((address, index): (u64, &[u8]), (frames, table): &(u64, Arc<[u8]>)) -> bool {
    let word = |at: usize| index.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    let (Some(tables), Some(count)) = (word(4), word(8)) else { return false };
    if !index.starts_with(&HEAD) || address.checked_add(index.len() as u64).is_none() {
        return false;
    }
    let end =
        usize::try_from(count).ok().and_then(|count| count.checked_mul(ENTRY_BYTES)?.checked_add(HEAD_BYTES));
    let Some(entries) = end.and_then(|end| index.get(HEAD_BYTES..end)) else { return false };
    let from = |base: u64, distance: u32| base.checked_add_signed(i64::from(distance as i32));
    let Some(frames_end) = frames.checked_add(table.len() as u64) else { return false };
    from(address + 4, tables) == Some(*frames)
        && entries.chunks_exact(ENTRY_BYTES).all(|entry| {
            let [_, _, _, _, distance @ ..] = entry else { return false };
            let distance = distance.try_into().map(u32::from_le_bytes).ok();
            distance
                .and_then(|distance| from(address, distance))
                .is_some_and(|at| (*frames..frames_end).contains(&at))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: u64 = 0x2000;
    const INDEX: u64 = 0x1000;

    fn index(tables: i32, entries: &[(i32, i32)]) -> Vec<u8> {
        let mut bytes = HEAD.to_vec();
        bytes.extend(tables.to_le_bytes());
        bytes.extend((entries.len() as u32).to_le_bytes());
        bytes.extend(entries.iter().flat_map(|(from, to)| [from.to_le_bytes(), to.to_le_bytes()]).flatten());
        bytes
    }

    fn holds(bytes: &[u8]) -> bool {
        points_into((INDEX, bytes), &(FRAMES, Arc::from(vec![0; 64])))
    }

    #[test]
    fn an_index_as_linkers_write_it_is_believed() {
        assert!(holds(&index(0xffc, &[(0x100, 0x1000), (0x200, 0x103f)])));
        assert!(holds(&index(0xffc, &[])));
    }

    /// gimli subtracts the address of the tables from that of an entry: with an entry before them a debug build panicked, found by
    /// fuzzing.
    #[test]
    fn one_that_points_elsewhere_is_not() {
        let good = index(0xffc, &[(0x100, 0x1000)]);
        assert!(!holds(&index(0xffc, &[(0x100, 0xfff)])), "before the tables");
        assert!(!holds(&index(0xffc, &[(0x100, 0x1040)])), "behind them");
        assert!(!holds(&index(0xffc, &[(0x100, -0x2000)])), "before everything");
        assert!(!holds(&index(0x1000, &[])), "another place for the tables");
        for length in 0..good.len() {
            assert!(!holds(&good[..length]), "{length} bytes");
        }
        for at in 0..HEAD.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 0x10;
            assert!(!holds(&bytes), "byte {at}");
        }
        assert!(!points_into((u64::MAX - 3, &good), &(FRAMES, Arc::from(vec![0; 64]))));
        assert!(!points_into((INDEX, &good), &(u64::MAX, Arc::from(vec![0; 64]))));
    }
}
