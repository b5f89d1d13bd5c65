//! Names for addresses: symbol tables of ELF files, the kernel's list, the maps of code made at run time, and names made
//! readable. Nothing here opens a file.

mod demangle;
mod elf;
mod lists;
mod maps;
mod unwind_tables;

pub use demangle::demangle;
pub use elf::{ElfError, ElfImage};
pub use lists::{NameList, parse_kallsyms, parse_perf_map};
pub use maps::{MapLine, parse_maps};
/// Bytes of a file as they are needed, for [`ElfImage::parse`].
pub use object::read::ReadCache;
pub use unwind_tables::UnwindTables;
