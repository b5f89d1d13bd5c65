//! Names for addresses: ELF symbol tables, kernel symbols, maps of JIT-compiled code, and demangling. Nothing here opens
//! a file.

mod demangle;
mod elf;
mod lists;
mod unwind_tables;

pub use demangle::demangle;
pub use elf::{ElfError, ElfImage};
pub use lists::{MapLine, NameList, parse_kallsyms, parse_maps, parse_perf_map};
/// Bytes of a file, read on demand, for [`ElfImage::parse`].
pub use object::read::ReadCache;
pub use unwind_tables::UnwindTables;
