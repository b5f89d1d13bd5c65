//! Validates unwind tables: the unwinder later executes them for every frame of every sample, and a malicious program
//! could contain computations that never end.
//!
//! In `.eh_frame` every description is read once; none may contain jumps (a loop would never end) or more steps than
//! compilers generate. Its index, `.eh_frame_hdr`, must have the linkers' format and refer to descriptions that were
//! read.

use std::sync::Arc;

use gimli::{
    BaseAddresses, CallFrameInstruction, CallFrameInstructionIter, CieOrFde, EhFrame, Encoding, EndianSlice,
    LittleEndian, Operation, UnwindExpression, UnwindSection as _,
};

/// Limit for instructions per function; the largest generated ones have thousands.
const MAX_INSTRUCTIONS: usize = 100_000;
/// Limit for the bytes of one computation; linkers write eleven.
const MAX_EXPRESSION_BYTES: usize = 512;

/// Version and encodings used by linkers: a relative table address, a count, and 4-byte entries relative to the section.
const INDEX_HEAD: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
const INDEX_HEAD_BYTES: usize = 12;
const INDEX_ENTRY_BYTES: usize = 8;

/// Unwind tables with their file addresses.
#[derive(Debug, Clone, Default)]
pub struct UnwindTables {
    pub frames: Option<(u64, Arc<[u8]>)>,
    /// Without it the unwinder builds its own index.
    pub index: Option<(u64, Arc<[u8]>)>,
    /// Location of the code.
    pub text: Option<std::ops::Range<u64>>,
}

/// A section: its address and bytes.
pub(super) type Section<'a> = (u64, &'a [u8]);

impl UnwindTables {
    /// The usable parts of a file's tables.
    pub(super) fn checked(
        frames: Option<Section<'_>>,
        index: Option<Section<'_>>,
        text: Option<std::ops::Range<u64>>,
    ) -> Self {
        let shared = |(address, bytes): Section<'_>| (address, Arc::from(bytes));
        let known = frames.and_then(|frames| Some((frames, descriptions(frames, index, text.as_ref())?)));
        let Some((frames, known)) = known else { return Self { text, ..Self::default() } };
        let index = index.filter(|index| refers_to(*index, frames.0, &known));
        Self { frames: Some(shared(frames)), index: index.map(shared), text }
    }
}

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// Offsets of the descriptions in order; `None` if one of them is unreadable or must not be executed.
fn descriptions(
    (address, bytes): Section<'_>,
    index: Option<Section<'_>>,
    text: Option<&std::ops::Range<u64>>,
) -> Option<Vec<u32>> {
    address.checked_add(bytes.len() as u64)?;
    let bases = BaseAddresses::default()
        .set_eh_frame(address)
        .set_eh_frame_hdr(index.map_or(0, |(address, _)| address))
        .set_text(text.map_or(0, |text| text.start));
    let mut section = EhFrame::from(EndianSlice::new(bytes, LittleEndian));
    section.set_address_size(8);
    let mut known = Vec::new();
    let mut common = None;
    let mut entries = section.entries(&bases);
    while let Some(entry) = entries.next().ok()? {
        let CieOrFde::Fde(entry) = entry else { continue };
        let entry = entry.parse(EhFrame::cie_from_offset).ok()?;
        let (cie, encoding) = (entry.cie(), entry.cie().encoding());
        // Thousands of functions share one.
        if common.replace(cie.offset()) != Some(cie.offset())
            && !can_be_executed(cie.instructions(&section, &bases), &section, encoding)
        {
            return None;
        }
        if !can_be_executed(entry.instructions(&section, &bases), &section, encoding) {
            return None;
        }
        known.push(u32::try_from(entry.offset()).ok()?);
    }
    Some(known)
}

fn can_be_executed(
    mut instructions: CallFrameInstructionIter<'_, Bytes<'_>>,
    section: &EhFrame<Bytes<'_>>,
    encoding: Encoding,
) -> bool {
    for _ in 0..MAX_INSTRUCTIONS {
        // The unwinder stops at an unknown instruction too.
        let Ok(Some(instruction)) = instructions.next() else { return true };
        let (CallFrameInstruction::DefCfaExpression { expression }
        | CallFrameInstruction::Expression { expression, .. }
        | CallFrameInstruction::ValExpression { expression, .. }) = instruction
        else {
            continue;
        };
        if !terminates(expression, section, encoding) {
            return false;
        }
    }
    false
}

/// Whether a computation terminates: without jumps each step is executed once.
fn terminates(expression: UnwindExpression<usize>, section: &EhFrame<Bytes<'_>>, encoding: Encoding) -> bool {
    if expression.length > MAX_EXPRESSION_BYTES {
        return false;
    }
    let Ok(expression) = expression.get(section) else { return true };
    let mut operations = expression.operations(encoding);
    loop {
        match operations.next() {
            Ok(Some(Operation::Skip { .. } | Operation::Bra { .. })) => return false,
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return true,
        }
    }
}

/// Whether an index has the usual format and all of its entries refer to descriptions.
fn refers_to((address, index): Section<'_>, frames: u64, known: &[u32]) -> bool {
    let word = |at: usize| index.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    let (Some(tables), Some(count)) = (word(4), word(8)) else { return false };
    if !index.starts_with(&INDEX_HEAD) || address.checked_add(index.len() as u64).is_none() {
        return false;
    }
    let end = usize::try_from(count).ok().and_then(|count| count.checked_mul(INDEX_ENTRY_BYTES));
    let end = end.and_then(|bytes| bytes.checked_add(INDEX_HEAD_BYTES));
    let Some(entries) = end.and_then(|end| index.get(INDEX_HEAD_BYTES..end)) else { return false };
    let from = |base: u64, distance: u32| base.checked_add_signed(i64::from(distance as i32));
    from(address + 4, tables) == Some(frames)
        && entries.chunks_exact(INDEX_ENTRY_BYTES).all(|entry| {
            let [.., a, b, c, d] = *entry else { return false };
            let place = from(address, u32::from_le_bytes([a, b, c, d]));
            let place = place.and_then(|place| u32::try_from(place.checked_sub(frames)?).ok());
            place.is_some_and(|place| known.binary_search(&place).is_ok())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: u64 = 0x2000;
    const INDEX: u64 = 0x1000;

    fn entry(bytes: &[u8]) -> Vec<u8> {
        let mut entry = (bytes.len() as u32).to_le_bytes().to_vec();
        entry.extend_from_slice(bytes);
        entry
    }

    /// One common entry, and one function whose table has these instructions; returns the function's offset.
    fn table(instructions: &[u8]) -> (Vec<u8>, i32) {
        let mut bytes = entry(b"\0\0\0\0\x01zR\0\x01\x78\x10\x01\x1b\x0c\x07\x08\x90\x01\0\0");
        let place = bytes.len() as i32;
        let mut function = (place + 4).to_le_bytes().to_vec();
        function.extend((-0x100i32).to_le_bytes());
        function.extend(0x40u32.to_le_bytes());
        function.push(0);
        function.extend_from_slice(instructions);
        bytes.extend(entry(&function));
        bytes.extend([0; 4]);
        (bytes, place)
    }

    fn index(tables: i32, entries: &[(i32, i32)]) -> Vec<u8> {
        let mut bytes = INDEX_HEAD.to_vec();
        bytes.extend(tables.to_le_bytes());
        bytes.extend((entries.len() as u32).to_le_bytes());
        bytes.extend(entries.iter().flat_map(|(from, to)| [from.to_le_bytes(), to.to_le_bytes()]).flatten());
        bytes
    }

    fn is_used(instructions: &[u8]) -> bool {
        let (table, _) = table(instructions);
        UnwindTables::checked(Some((FRAMES, &table)), None, None).frames.is_some()
    }

    #[test]
    fn tables_of_compilers_and_linkers_are_accepted() {
        assert!(is_used(&[]));
        // Frames relative to the stack pointer; the computation that linkers generate for calls into libraries.
        assert!(is_used(&[0x41, 0x0e, 0x10, 0x86, 0x02, 0x0d, 0x06]));
        let linkage = [0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
        assert!(is_used(&linkage));
        assert!(is_used(&[0x3e]), "an unknown instruction terminates only its function's table");
    }

    /// framehop has no limit: a jump to itself would keep the recorder busy forever.
    #[test]
    fn a_table_with_an_endless_computation_is_rejected() {
        let jump = [0x2f, 0xfd, 0xff];
        for begin in [&[0x0f, 3][..], &[0x10, 6, 3], &[0x16, 6, 3]] {
            assert!(!is_used(&[begin, &jump].concat()), "{begin:?}");
        }
        assert!(!is_used(&[0x0f, 4, 0x31, 0x28, 0xfc, 0xff]), "a jump with a condition");
        let mut long = vec![0x0f, 0x81, 0x04];
        long.resize(3 + 513, 0x96);
        assert!(!is_used(&long), "too many steps");
        assert!(!is_used(&vec![0; MAX_INSTRUCTIONS]), "too many instructions");
    }

    #[test]
    fn unreadable_tables_are_rejected() {
        let (table, _) = table(&[]);
        for length in (1..table.len() - 4).filter(|length| *length != 24) {
            let cut = UnwindTables::checked(Some((FRAMES, &table[..length])), None, None);
            assert!(cut.frames.is_none(), "{length} bytes");
        }
        assert!(UnwindTables::checked(Some((u64::MAX, &table)), None, None).frames.is_none());
    }

    /// Found by fuzzing: gimli subtracts the table address from that of an entry, which panicked in debug builds if
    /// an entry preceded the tables.
    #[test]
    fn an_index_must_refer_to_descriptions() {
        let (table, place) = table(&[]);
        let holds = |at: u64, frames: u64, bytes: &[u8]| {
            UnwindTables::checked(Some((frames, &table)), Some((at, bytes)), None).index.is_some()
        };
        let good = index(0xffc, &[(0xf00, 0x1000 + place)]);
        assert!(holds(INDEX, FRAMES, &good) && holds(INDEX, FRAMES, &index(0xffc, &[])));
        for wrong in [0x1000, 0x1000 + place + 1, 0xfff, 0x1fff, -0x2000] {
            assert!(!holds(INDEX, FRAMES, &index(0xffc, &[(0xf00, wrong)])), "{wrong:#x}");
        }
        assert!(!holds(INDEX, FRAMES, &index(0x1000, &[])), "another place for the tables");
        for length in 0..good.len() {
            assert!(!holds(INDEX, FRAMES, &good[..length]), "{length} bytes");
        }
        for at in 0..INDEX_HEAD.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 0x10;
            assert!(!holds(INDEX, FRAMES, &bytes), "byte {at}");
        }
        assert!(!holds(u64::MAX - 3, FRAMES, &good));
    }
}
