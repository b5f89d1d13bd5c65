//! `NtQuerySystemInformation` of all processes: a list of `SYSTEM_PROCESS_INFORMATION`, each followed by its threads, by
//! an extension since Windows 10 1709, and by its name.

use super::bytes::{Fixed, push_utf16, u16_at, u32_at, u64_at};
use super::thread::{self, Threads};

/// Size of a process before its threads.
const HEADER_BYTES: usize = 0x100;
/// The part of the extension that is read; it is larger and grows with every Windows version.
const EXTENSION_BYTES: usize = 0x30;

/// The three information classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessClass {
    /// `SystemProcessInformation`.
    Plain,
    /// `SystemExtendedProcessInformation`: threads with their start address.
    Extended,
    /// `SystemFullProcessInformation`: extended, for administrators.
    Full,
}

impl ProcessClass {
    /// The system's number.
    pub fn number(self) -> i32 {
        match self {
            Self::Plain => 5,
            Self::Extended => 57,
            Self::Full => 148,
        }
    }

    fn thread_bytes(self) -> usize {
        match self {
            Self::Plain => thread::PLAIN_BYTES,
            Self::Extended | Self::Full => thread::EXTENDED_BYTES,
        }
    }
}

/// The bytes are not such a list from this offset on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the system's process list has an unknown format at byte {at}; please report this with your Windows version"
)]
pub struct Damaged {
    pub at: usize,
}

/// A whole answer.
#[derive(Debug, Clone, Copy)]
pub struct ProcessList<'a> {
    bytes: &'a [u8],
    /// Address of the bytes when the system filled them: names are given by address.
    address: u64,
    class: ProcessClass,
}

impl<'a> ProcessList<'a> {
    pub fn new(bytes: &'a [u8], address: u64, class: ProcessClass) -> Self {
        Self { bytes, address, class }
    }

    pub fn processes(&self) -> Processes<'a> {
        Processes { list: *self, next: Some(0) }
    }

    /// The process that begins at [`Process::offset`].
    pub fn at(&self, offset: usize) -> Result<Process<'a>, Damaged> {
        let damaged = Damaged { at: offset };
        let rest = self.bytes.get(offset..).ok_or(damaged)?;
        let next = u32_at(rest, 0).ok_or(damaged)? as usize;
        let bytes = if next == 0 { rest } else { rest.get(..next).ok_or(damaged)? };
        let threads = bytes.get(HEADER_BYTES..).ok_or(damaged)?;
        let count = u32_at(bytes, 4).ok_or(damaged)? as usize;
        let thread_bytes = count.checked_mul(self.class.thread_bytes()).ok_or(damaged)?;
        if thread_bytes > threads.len() {
            return Err(damaged);
        }
        let id = |at| u64_at(bytes, at).and_then(|id| u32::try_from(id).ok()).ok_or(damaged);
        let process = Process {
            list: *self,
            offset,
            bytes,
            threads_end: HEADER_BYTES + thread_bytes,
            pid: id(0x50)?,
            parent_pid: id(0x58)?,
        };
        Ok(process)
    }
}

/// Ends with the first damage.
#[derive(Debug, Clone)]
pub struct Processes<'a> {
    list: ProcessList<'a>,
    next: Option<usize>,
}

impl<'a> Iterator for Processes<'a> {
    type Item = Result<Process<'a>, Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        let offset = self.next.take()?;
        let process = self.list.at(offset);
        if let Ok(process) = &process {
            // No entry is shorter than its header, so offsets always increase.
            let length = process.fixed().u32(0) as usize;
            self.next = offset.checked_add(length).filter(|_| length > 0);
        }
        Some(process)
    }
}

/// I/O call counts of all kinds: files, devices and network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IoCounters {
    pub read_operations: u64,
    pub write_operations: u64,
    pub other_operations: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub other_bytes: u64,
}

/// Disk transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskCounters {
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub read_operations: u64,
    pub write_operations: u64,
    pub flush_operations: u64,
}

/// Extension of Windows 10 1709 and newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extension {
    pub disk: DiskCounters,
    /// Of all threads, including exited ones.
    pub context_switches: u64,
}

/// One process. Times are in units of 100 ns, sizes in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Process<'a> {
    list: ProcessList<'a>,
    offset: usize,
    /// From its header to the next process.
    bytes: &'a [u8],
    threads_end: usize,
    pid: u32,
    parent_pid: u32,
}

impl<'a> Process<'a> {
    fn fixed(&self) -> Fixed<'a> {
        Fixed(self.bytes)
    }

    /// Its offset in the list.
    pub fn offset(&self) -> usize {
        self.offset
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Id of the creator, which may have exited and whose id may have been reused.
    pub fn parent_pid(&self) -> u32 {
        self.parent_pid
    }

    pub fn thread_count(&self) -> u32 {
        self.fixed().u32(0x04)
    }

    /// Wraps.
    pub fn hard_faults(&self) -> u32 {
        self.fixed().u32(0x10)
    }

    pub fn peak_thread_count(&self) -> u32 {
        self.fixed().u32(0x14)
    }

    pub fn cycles(&self) -> u64 {
        self.fixed().u64(0x18)
    }

    /// Since 1601; identifies the process together with its id.
    pub fn create_time(&self) -> u64 {
        self.fixed().u64(0x20)
    }

    pub fn user_ticks(&self) -> u64 {
        self.fixed().u64(0x28)
    }

    pub fn kernel_ticks(&self) -> u64 {
        self.fixed().u64(0x30)
    }

    pub fn base_priority(&self) -> i32 {
        self.fixed().i32(0x48)
    }

    pub fn handle_count(&self) -> u32 {
        self.fixed().u32(0x60)
    }

    pub fn session(&self) -> u32 {
        self.fixed().u32(0x64)
    }

    pub fn virtual_bytes(&self) -> u64 {
        self.fixed().u64(0x78)
    }

    /// All kinds. Wraps.
    pub fn page_faults(&self) -> u32 {
        self.fixed().u32(0x80)
    }

    pub fn peak_working_set_bytes(&self) -> u64 {
        self.fixed().u64(0x88)
    }

    pub fn working_set_bytes(&self) -> u64 {
        self.fixed().u64(0x90)
    }

    pub fn paged_pool_bytes(&self) -> u64 {
        self.fixed().u64(0xA0)
    }

    pub fn non_paged_pool_bytes(&self) -> u64 {
        self.fixed().u64(0xB0)
    }

    /// Memory of its own, in RAM or paged out; called private bytes in Windows.
    pub fn private_bytes(&self) -> u64 {
        self.fixed().u64(0xC8)
    }

    pub fn io(&self) -> IoCounters {
        let count = |index: usize| self.fixed().u64(0xD0 + 8 * index);
        IoCounters {
            read_operations: count(0),
            write_operations: count(1),
            other_operations: count(2),
            read_bytes: count(3),
            write_bytes: count(4),
            other_bytes: count(5),
        }
    }

    pub fn threads(&self) -> Threads<'a> {
        let bytes = self.bytes.get(HEADER_BYTES..self.threads_end).unwrap_or_default();
        Threads::new(bytes, self.list.class.thread_bytes())
    }

    /// Appends the name of the program as UTF-8, without its directory; `false` if it has none.
    pub fn push_name(&self, out: &mut Vec<u8>) -> bool {
        let Some(text) =
            self.name_offset().and_then(|at| self.list.bytes.get(at..)?.get(..self.name_bytes()))
        else {
            return false;
        };
        let begin = out.len();
        push_utf16(text, out);
        // The full list has complete paths.
        if let Some(slash) = out[begin..].iter().rposition(|byte| *byte == b'\\') {
            out.drain(begin..=begin + slash);
        }
        out.len() > begin
    }

    fn name_bytes(&self) -> usize {
        u16_at(self.bytes, 0x38).map_or(0, usize::from)
    }

    /// Offset in the whole list.
    fn name_offset(&self) -> Option<usize> {
        let address = u64_at(self.bytes, 0x40).filter(|address| *address != 0)?;
        usize::try_from(address.checked_sub(self.list.address)?).ok()
    }

    /// Present only if it fits between the threads and the name, and if its switch count is plausible: nothing else
    /// in the list indicates whether it exists.
    pub fn extension(&self) -> Option<Extension> {
        let name_at = self.name_offset().and_then(|at| at.checked_sub(self.offset));
        let end = name_at.filter(|at| *at <= self.bytes.len())?;
        let bytes = self.bytes.get(self.threads_end..end).filter(|bytes| bytes.len() >= EXTENSION_BYTES)?;
        let fixed = Fixed(bytes);
        let extension = Extension {
            disk: DiskCounters {
                read_bytes: fixed.u64(0x00),
                write_bytes: fixed.u64(0x08),
                read_operations: fixed.u64(0x10),
                write_operations: fixed.u64(0x18),
                flush_operations: fixed.u64(0x20),
            },
            context_switches: fixed.u64(0x28),
        };
        let max = self.threads().map(|thread| thread.context_switches()).max().unwrap_or(0);
        (extension.context_switches >= u64::from(max)).then_some(extension)
    }
}
