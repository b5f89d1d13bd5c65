//! Functions, unwind tables and build id of a program or library.
//!
//! Reads through `object`'s [`ReadRef`], so that the caller decides whether the bytes are in memory or are read on
//! demand.

use object::elf::{FileHeader64, PT_LOAD, SHT_DYNSYM, SHT_NOBITS, SHT_SYMTAB, STT_FUNC, STT_GNU_IFUNC};
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _, Sym as _};
use object::{Endianness, ReadRef};
use thiserror::Error;

use super::unwind_tables::UnwindTables;

/// Limit per section kept in memory: 256 MB. Larger ones count as missing.
const MAX_TABLE_BYTES: u64 = 256 << 20;

#[derive(Debug, Error)]
pub enum ElfError {
    #[error("it is not a 64-bit ELF file: {0}")]
    NotElf(object::read::Error),
    #[error("its {what} cannot be read: {why}")]
    Damaged { what: &'static str, why: object::read::Error },
}

/// A function: its start, length and the offset of its name.
#[derive(Debug, Clone, Copy)]
struct Function {
    address: u64,
    bytes: u32,
    name: u32,
    is_dynamic: bool,
}

/// A mapped part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    file_offset: u64,
    file_bytes: u64,
    address: u64,
}

/// The kept parts of an ELF file.
#[derive(Debug, Clone, Default)]
pub struct ElfImage {
    pub build_id: Option<Vec<u8>>,
    pub unwind: UnwindTables,
    segments: Vec<Segment>,
    functions: Vec<Function>,
    names: Box<[u8]>,
    dynamic_names: Box<[u8]>,
    /// Whether it has the full symbol table instead of only exported symbols.
    pub has_symbol_table: bool,
}

impl ElfImage {
    pub fn parse<'data, R: ReadRef<'data>>(data: R) -> Result<Self, ElfError> {
        let header = FileHeader64::<Endianness>::parse(data).map_err(ElfError::NotElf)?;
        let endian = header.endian().map_err(ElfError::NotElf)?;
        let damaged = |what| move |why| ElfError::Damaged { what, why };
        let mut image = Self::default();
        let programs = header.program_headers(endian, data).map_err(damaged("program headers"))?;
        for program in programs.iter().filter(|program| program.p_type(endian) == PT_LOAD) {
            image.segments.push(Segment {
                file_offset: program.p_offset(endian),
                file_bytes: program.p_filesz(endian),
                address: program.p_vaddr(endian),
            });
        }
        let sections = header.sections(endian, data).map_err(damaged("section headers"))?;
        let section = |name: &[u8]| {
            let (_, section) = sections.section_by_name(endian, name)?;
            // Sections of a debug information file may have no content.
            let has_content =
                section.sh_type(endian) != SHT_NOBITS && section.sh_size(endian) <= MAX_TABLE_BYTES;
            let bytes = has_content.then(|| section.data(endian, data).ok()).flatten()?;
            Some((section.sh_addr(endian), bytes))
        };
        image.build_id = section(b".note.gnu.build-id").and_then(|(_, note)| build_id(note));
        let text = sections.section_by_name(endian, b".text").map(|(_, text)| {
            let begin = text.sh_addr(endian);
            begin..begin.saturating_add(text.sh_size(endian))
        });
        image.unwind = UnwindTables::checked(section(b".eh_frame"), section(b".eh_frame_hdr"), text);
        for (kind, is_dynamic) in [(SHT_DYNSYM, true), (SHT_SYMTAB, false)] {
            let Some(header) = sections.iter().find(|section| section.sh_type(endian) == kind) else {
                continue;
            };
            if header.sh_size(endian) > MAX_TABLE_BYTES {
                continue;
            }
            let table = sections.symbols(endian, data, kind).map_err(damaged("symbols"))?;
            let Ok(strings) = sections.section(table.string_section()) else { continue };
            if strings.sh_size(endian) > MAX_TABLE_BYTES {
                continue;
            }
            let names = strings.data(endian, data).map_err(damaged("names of symbols"))?;
            *(if is_dynamic { &mut image.dynamic_names } else { &mut image.names }) = names.into();
            image.has_symbol_table |= !is_dynamic;
            for symbol in table.iter() {
                let address = symbol.st_value(endian);
                if address == 0 || !matches!(symbol.st_type(), STT_FUNC | STT_GNU_IFUNC) {
                    continue;
                }
                let bytes = u32::try_from(symbol.st_size(endian)).unwrap_or(u32::MAX);
                image.functions.push(Function { address, bytes, name: symbol.st_name(endian), is_dynamic });
            }
        }
        // Of several names for one address the longest function wins, and the exported name over the internal
        // one.
        image
            .functions
            .sort_unstable_by_key(|function| (function.address, function.bytes, function.is_dynamic));
        image.functions.dedup_by(|later, kept| {
            let is_same = later.address == kept.address;
            if is_same {
                *kept = *later;
            }
            is_same
        });
        Ok(image)
    }

    /// Adopts the functions of a debug information file for the same code.
    pub fn adopt_functions(&mut self, other: Self) {
        self.functions = other.functions;
        self.names = other.names;
        self.dynamic_names = other.dynamic_names;
        self.has_symbol_table = other.has_symbol_table;
    }

    /// The difference between process addresses and file addresses, for a mapping of the file.
    pub fn bias(&self, mapped_at: u64, file_offset: u64) -> Option<u64> {
        // Mappings begin at a page boundary, while the segment may begin within the page.
        let holds = |segment: &&Segment| {
            let begin = segment.file_offset & !0xfff;
            let end = segment.file_offset.saturating_add(segment.file_bytes);
            (begin..end.max(begin + 1)).contains(&file_offset)
        };
        let segment = self.segments.iter().rfind(holds)?;
        let address = segment.address.wrapping_sub(segment.file_offset).wrapping_add(file_offset);
        Some(mapped_at.wrapping_sub(address))
    }

    /// The function at a file address: its start and its linker name.
    pub fn function(&self, address: u64) -> Option<(u64, &str)> {
        let after = self.functions.partition_point(|function| function.address <= address);
        // A function inside another one (a local label in assembly) must not hide it.
        let (functions, _) = self.functions.split_at(after);
        let covers = |function: &&Function| address - function.address < u64::from(function.bytes.max(1));
        let function = functions.iter().rev().take(8).find(covers).or_else(|| {
            // Assembly functions often have no size: they extend to the next one, but not beyond the code
            // into jump tables.
            let text = self.unwind.text.as_ref()?;
            functions
                .last()
                .filter(|last| last.bytes == 0 && text.contains(&last.address) && text.contains(&address))
        })?;
        let names = if function.is_dynamic { &self.dynamic_names } else { &self.names };
        let rest = names.get(function.name as usize..)?;
        let name = &rest[..rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len())];
        Some((function.address, std::str::from_utf8(name).ok()?)).filter(|(_, name)| !name.is_empty())
    }
}

/// A note: three 4-byte lengths and kinds, the owner's name, then the id.
fn build_id(note: &[u8]) -> Option<Vec<u8>> {
    let length = usize::try_from(u32::from_ne_bytes(note.get(4..8)?.try_into().ok()?)).ok()?;
    (note.get(12..16)? == b"GNU\0")
        .then(|| note.get(16..16usize.checked_add(length)?).map(<[u8]>::to_vec))
        .flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn other_files_are_rejected() {
        assert!(ElfImage::parse(&b"MZ not this one"[..]).is_err());
        assert!(ElfImage::parse(&[][..]).is_err());
    }

    #[test]
    fn addresses_follow_the_segment_of_the_offset() {
        let mut image = ElfImage::default();
        image.segments.push(Segment { file_offset: 0, file_bytes: 0x1234, address: 0 });
        // Like linkers place code: at the same offset in its page, with another distance.
        image.segments.push(Segment { file_offset: 0x2340, file_bytes: 0x1000, address: 0x3340 });
        assert_eq!(image.bias(0x7000_0000_2000, 0x2000), Some(0x7000_0000_2000 - 0x3000));
        assert_eq!(image.bias(0x7000_0000_0000, 0), Some(0x7000_0000_0000));
        assert_eq!(image.bias(0x1000, 0x9000), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(mut bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            ElfImage::parse(&bytes[..]).ok();
            // The same after the first bytes of a real header.
            if bytes.len() > 64 {
                bytes[..8].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0]);
                ElfImage::parse(&bytes[..]).ok();
            }
        }
    }
}
