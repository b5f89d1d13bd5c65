//! One watched process: its descriptors and what the cheaper readings can be skipped by.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

use ortscope_core::schema::ProcessSampleRow;
use ortscope_decode::procfs::{self, Stat};
use rustix::io::Errno;

use super::clock::process_cpu_ns;
use super::cycles::{self, Cycles};
use super::exits::{self, Exits};
use super::files::{self, Budget, Buffer, Kept, Path, error_of};
use super::sockets::Traffic;
use super::threads::Threads;
use crate::sampler::{Missing, ProcessFacts, ReadError};
use crate::sys::perf_open::Counter;

/// What does not change without the process running is read again after this time all the same: the kernel can take
/// memory from a process that sleeps.
const REFRESH_NS: u64 = 1_000_000_000;
/// `stat` costs several times what `statm` does, and the kernel counts what it tells of CPU time by ticks: for a process
/// that runs all the time it is read at most this often. CPU time itself and memory come at the full rate.
const STAT_NS: u64 = 100_000_000;

/// Constants of the machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Units {
    pub page_bytes: u64,
    pub nanos_per_tick: u64,
}

impl Units {
    pub fn of_this_machine() -> Self {
        Self {
            page_bytes: rustix::param::page_size() as u64,
            nanos_per_tick: 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1),
        }
    }
}

/// CPU time and moment of the last reading of a file.
#[derive(Debug, Clone, Copy, Default)]
struct Fresh {
    cpu_ns: Option<u64>,
    at_ns: u64,
}

impl Fresh {
    /// Whether the file must be read: the process has run since, or it is a while ago.
    fn is_stale(&self, cpu_ns: u64, now_ns: u64) -> bool {
        self.is_due(cpu_ns, now_ns, 0)
    }

    /// The same for a file that is not read more often than every `least_ns`.
    fn is_due(&self, cpu_ns: u64, now_ns: u64, least_ns: u64) -> bool {
        let age_ns = now_ns.saturating_sub(self.at_ns);
        let has_run = self.cpu_ns != Some(cpu_ns);
        has_run && (age_ns >= least_ns || self.cpu_ns.is_none()) || age_ns >= REFRESH_NS
    }
}

#[derive(Debug)]
pub(super) struct Process {
    pub pid: u32,
    start: u64,
    kernel_thread: bool,
    exit: Option<Kept>,
    /// `/proc/PID`, where other files are opened without asking the number again.
    directory: Option<Kept>,
    statm: Option<Kept>,
    stat: Option<Kept>,
    io: Option<Kept>,
    memory_fresh: Fresh,
    stat_fresh: Fresh,
    io_fresh: Fresh,
    details_fresh: Fresh,
    /// Its I/O counters may be read, so that its exit code may be as well.
    pub traceable: Option<bool>,
    /// Once it was read.
    pub traffic: Option<Traffic>,
    pub is_network_denied: bool,
    cycles: Option<Cycles>,
    pub threads: Threads,
}

/// What a reading needs from outside.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub now_ns: u64,
    pub buffer: &'a mut Buffer,
    pub scratch: &'a mut Vec<u8>,
    pub budget: &'a Budget,
    pub units: Units,
}

impl Process {
    pub fn watch(
        slot: usize,
        facts: &ProcessFacts,
        exits: &Exits,
        context: &mut Context<'_>,
    ) -> Result<Self, ReadError> {
        let (pid, budget) = (facts.pid, context.budget);
        // The descriptor of the process comes first: if the number changes hands before the directory is opened, it
        // reports the end of the process it was opened for.
        let exit = exits.watch(pid, slot, budget);
        let path = Path::new(format_args!("/proc/{pid}"));
        let directory = files::open_directory(files::no_directory(), path.as_c_str()).map_err(error_of)?;
        let directory = budget.keep(directory);
        let mut process = Self {
            pid,
            start: facts.start,
            kernel_thread: facts.kernel_thread,
            exit,
            directory,
            statm: None,
            stat: None,
            io: None,
            memory_fresh: Fresh::default(),
            stat_fresh: Fresh::default(),
            io_fresh: Fresh::default(),
            details_fresh: Fresh::default(),
            traceable: None,
            traffic: None,
            is_network_denied: false,
            cycles: None,
            threads: Threads::default(),
        };
        process.statm = process.kept(c"statm", budget);
        process.stat = process.kept(c"stat", budget);
        process.io = process.kept(c"io", budget);
        process.check_identity(context)?;
        Ok(process)
    }

    /// Counts cycles from now on; what has to be said about it.
    pub fn count_cycles(&mut self, counter: Counter, scratch: &mut Vec<u8>) -> Option<Missing> {
        match Cycles::open(self, counter, scratch) {
            Ok((cycles, kernel)) => {
                self.cycles = Some(cycles);
                (!kernel).then(cycles::only_user)
            }
            Err(reason) => reason.missing(),
        }
    }

    fn kept(&self, name: &CStr, budget: &Budget) -> Option<Kept> {
        // Only files of this very process are kept, so only through its directory.
        let directory = self.directory.as_ref().filter(|_| budget.has_room())?;
        budget.keep(files::open(directory.as_fd(), name).ok()?)
    }

    fn open(&self, name: &CStr) -> Result<OwnedFd, Errno> {
        match &self.directory {
            Some(directory) => files::open(directory.as_fd(), name),
            None => {
                let path =
                    Path::new(format_args!("/proc/{}/{}", self.pid, name.to_str().unwrap_or_default()));
                files::open(files::no_directory(), path.as_c_str())
            }
        }
    }

    pub fn open_directory(&self, name: &CStr) -> Result<OwnedFd, Errno> {
        match &self.directory {
            Some(directory) => files::open_directory(directory.as_fd(), name),
            None => {
                let path =
                    Path::new(format_args!("/proc/{}/{}", self.pid, name.to_str().unwrap_or_default()));
                files::open_directory(files::no_directory(), path.as_c_str())
            }
        }
    }

    pub fn read<'a>(
        &self,
        kept: Option<&Kept>,
        name: &CStr,
        buffer: &'a mut Buffer,
    ) -> Result<&'a [u8], ReadError> {
        match kept {
            Some(kept) => buffer.read(kept).map_err(error_of),
            None => {
                let file = self.open(name).map_err(error_of)?;
                buffer.read(file).map_err(error_of)
            }
        }
    }

    pub fn read_stat<'a>(&self, buffer: &'a mut Buffer) -> Result<Stat<'a>, ReadError> {
        let bytes = self.read(self.stat.as_ref(), c"stat", buffer)?;
        let stat =
            procfs::parse_stat(bytes).ok_or_else(|| ReadError::Failed("stat has another form".into()))?;
        // A first thread that has ended before the others looks dead; the process is not.
        let ended = stat.has_ended() && stat.threads <= 1;
        if stat.start_ticks != self.start || ended { Err(ReadError::Gone) } else { Ok(stat) }
    }

    fn check_identity(&self, context: &mut Context<'_>) -> Result<(), ReadError> {
        self.read_stat(context.buffer).map(drop)
    }

    pub fn cpu(&mut self, row: &mut ProcessSampleRow, context: &mut Context<'_>) -> Result<(), ReadError> {
        let nanos = process_cpu_ns(self.pid)?;
        // The clock is asked by number. A new process with this number has used less.
        if nanos < row.cpu_time_ns {
            self.check_identity(context)?;
        }
        row.cpu_time_ns = row.cpu_time_ns.max(nanos);
        if let Some(cycles) = &mut self.cycles {
            row.cpu_cycles = cycles.read().or(row.cpu_cycles);
        }
        Ok(())
    }

    pub fn memory(&mut self, row: &mut ProcessSampleRow, context: &mut Context<'_>) -> Result<(), ReadError> {
        let now = Fresh { cpu_ns: Some(row.cpu_time_ns), at_ns: context.now_ns };
        if self.memory_fresh.is_stale(row.cpu_time_ns, context.now_ns) {
            self.read_pages(row, context)?;
            self.memory_fresh = now;
        }
        if self.stat_fresh.is_due(row.cpu_time_ns, context.now_ns, STAT_NS) {
            let stat = self.read_stat(context.buffer)?;
            let nanos = |ticks: u64| ticks.saturating_mul(context.units.nanos_per_tick);
            row.user_time_ns = Some(nanos(stat.user_ticks));
            row.kernel_time_ns = Some(nanos(stat.system_ticks));
            row.page_faults = Some(stat.minor_faults.saturating_add(stat.major_faults));
            row.hard_faults = Some(stat.major_faults);
            row.priority = Some(stat.priority);
            row.thread_count = Some(stat.threads);
            self.stat_fresh = now;
        }
        Ok(())
    }

    fn read_pages(&self, row: &mut ProcessSampleRow, context: &mut Context<'_>) -> Result<(), ReadError> {
        if self.kernel_thread {
            return Ok(());
        }
        let bytes = self.read(self.statm.as_ref(), c"statm", context.buffer)?;
        let pages =
            procfs::parse_statm(bytes).ok_or_else(|| ReadError::Failed("statm has another form".into()))?;
        // All zero is a process that is ending: the numbers before are its last ones.
        if pages.size > 0 {
            let bytes = |pages: u64| pages.saturating_mul(context.units.page_bytes);
            row.working_set_bytes = bytes(pages.resident);
            row.private_bytes = Some(bytes(pages.resident.saturating_sub(pages.shared)));
            row.virtual_bytes = Some(bytes(pages.size));
            let peak = row.peak_working_set_bytes.unwrap_or(0).max(row.working_set_bytes);
            row.peak_working_set_bytes = row.peak_working_set_bytes.map(|_| peak);
        }
        Ok(())
    }

    pub fn io(&mut self, row: &mut ProcessSampleRow, context: &mut Context<'_>) -> Result<(), ReadError> {
        if self.traceable == Some(false) {
            return Err(ReadError::Denied);
        }
        if self.io_fresh.cpu_ns == Some(row.cpu_time_ns) {
            // Calls cost CPU time.
            return Ok(());
        }
        let result = self.read(self.io.as_ref(), c"io", context.buffer);
        if result == Err(ReadError::Denied) {
            self.traceable = Some(false);
        }
        let io = procfs::parse_io(result?).ok_or_else(|| ReadError::Failed("io has another form".into()))?;
        self.traceable = Some(true);
        row.read_bytes = Some(io.read_bytes);
        row.write_bytes = Some(io.write_bytes);
        row.read_operations = Some(io.read_calls);
        row.write_operations = Some(io.write_calls);
        self.io_fresh = Fresh { cpu_ns: Some(row.cpu_time_ns), at_ns: context.now_ns };
        Ok(())
    }

    /// Peak memory, affinity, open descriptors and context switches. The last two need more rights than the first.
    pub fn details(
        &mut self,
        row: &mut ProcessSampleRow,
        context: &mut Context<'_>,
    ) -> Result<(), ReadError> {
        if self.details_fresh.cpu_ns == Some(row.cpu_time_ns) {
            return Ok(());
        }
        let status = procfs::parse_status(self.read(None, c"status", context.buffer)?);
        if let Some(peak) = status.peak_resident_bytes {
            row.peak_working_set_bytes = Some(peak.max(row.working_set_bytes));
        }
        row.affinity_mask = status.affinity_mask;
        if status.threads == Some(1) && self.threads.is_empty() {
            row.context_switches = status.context_switches;
        } else {
            self.update_threads(row, context)?;
        }
        self.details_fresh = Fresh { cpu_ns: Some(row.cpu_time_ns), at_ns: context.now_ns };
        row.handle_count = Some(self.count_descriptors(context)?);
        Ok(())
    }

    pub fn update_threads(
        &mut self,
        row: &mut ProcessSampleRow,
        context: &mut Context<'_>,
    ) -> Result<(), ReadError> {
        let mut threads = std::mem::take(&mut self.threads);
        let result = threads.update(self, row.thread_count, context);
        self.threads = threads;
        result?;
        row.context_switches = self.threads.context_switches();
        Ok(())
    }

    /// Since Linux 6.2 the size of the directory; before that its entries are counted.
    fn count_descriptors(&self, context: &mut Context<'_>) -> Result<u64, ReadError> {
        let directory = self.directory.as_ref();
        let size = directory.and_then(|directory| {
            let stat = rustix::fs::statat(directory, c"fd", rustix::fs::AtFlags::empty()).ok()?;
            u64::try_from(stat.st_size).ok().filter(|size| *size > 0)
        });
        if let Some(size) = size {
            return Ok(size);
        }
        let directory = self.open_directory(c"fd").map_err(error_of)?;
        let mut count = 0;
        files::each_number(directory.as_fd(), context.scratch, |_| count += 1).map_err(error_of)?;
        Ok(count)
    }

    pub fn exit_code(&self, buffer: &mut Buffer) -> Option<i64> {
        if let Some(status) = self.exit.as_ref().and_then(exits::exit_status) {
            return Some(exits::exit_code(status));
        }
        // Not collected by its parent yet: the code stands in its stat, as zero for those who have no right to it.
        let stat = procfs::parse_stat(self.read(self.stat.as_ref(), c"stat", buffer).ok()?)?;
        let status = stat.exit_status.filter(|_| stat.start_ticks == self.start && stat.has_ended())?;
        (status != 0 || self.traceable == Some(true)).then(|| exits::exit_code(status))
    }
}
