//! One watched process: its descriptors, and the state that allows skipping reads.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

use ortscope_core::schema::ProcessSampleRow;
use ortscope_decode::procfs::{self, Stat};
use rustix::io::Errno;

use super::clock::process_cpu_ns;
use super::cycles::{self, Cycles};
use super::exits::{self, Exits};
use super::files::{self, Budget, Buffer, Kept, Path, read_error};
use super::sockets::Traffic;
use super::threads::Threads;
use crate::sampler::{Missing, ProcessFacts, ReadError};
use crate::sys::perf_open::Counter;

/// Interval for reading files again although the process did not run: the kernel can reclaim memory of a sleeping
/// process.
const REFRESH_NS: u64 = 1_000_000_000;
/// `stat` costs several times as much as `statm`, and its CPU times have tick resolution, so it is read at most this
/// often for a process that runs continuously. CPU time itself and memory are read at the full rate.
const STAT_NS: u64 = 100_000_000;

/// Constants of the machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Units {
    pub page_bytes: u64,
    pub nanos_per_tick: u64,
}

impl Units {
    pub fn current() -> Self {
        Self {
            page_bytes: rustix::param::page_size() as u64,
            nanos_per_tick: 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1),
        }
    }
}

/// CPU time and moment of the last read of a file.
#[derive(Debug, Clone, Copy, Default)]
struct Fresh {
    cpu_ns: Option<u64>,
    at_ns: u64,
}

impl Fresh {
    /// Whether the file must be read: the process has run since, or the last read is too old.
    fn is_stale(&self, cpu_ns: u64, now_ns: u64) -> bool {
        self.is_due(cpu_ns, now_ns, 0)
    }

    /// The same for a file that is read at most every `min_ns`.
    fn is_due(&self, cpu_ns: u64, now_ns: u64, min_ns: u64) -> bool {
        let age_ns = now_ns.saturating_sub(self.at_ns);
        let has_run = self.cpu_ns != Some(cpu_ns);
        has_run && (age_ns >= min_ns || self.cpu_ns.is_none()) || age_ns >= REFRESH_NS
    }
}

#[derive(Debug)]
pub(super) struct Process {
    pub pid: u32,
    start: u64,
    kernel_thread: bool,
    exit: Option<Kept>,
    /// `/proc/PID`, through which other files are opened without resolving the pid again.
    directory: Option<Kept>,
    statm: Option<Kept>,
    stat: Option<Kept>,
    io: Option<Kept>,
    memory_fresh: Fresh,
    stat_fresh: Fresh,
    io_fresh: Fresh,
    details_fresh: Fresh,
    /// Its I/O counters are readable, which implies that its exit code is.
    pub traceable: Option<bool>,
    /// Set after the first read.
    pub traffic: Option<Traffic>,
    pub is_network_denied: bool,
    cycles: Option<Cycles>,
    pub threads: Threads,
}

/// External state needed by a read.
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
        // The process descriptor comes first: if the pid is reused before the directory is opened, it reports the
        // exit of the original process.
        let exit = exits.watch(pid, slot, budget);
        let path = Path::new(format_args!("/proc/{pid}"));
        let directory = files::open_directory(files::no_directory(), path.as_c_str()).map_err(read_error)?;
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

    /// Enables cycle counting; returns what is missing.
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
        // Only files of this exact process are kept, so only through its directory.
        let directory = self.directory.as_ref().filter(|_| budget.has_budget())?;
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
            Some(kept) => buffer.read(kept).map_err(read_error),
            None => {
                let file = self.open(name).map_err(read_error)?;
                buffer.read(file).map_err(read_error)
            }
        }
    }

    pub fn read_stat<'a>(&self, buffer: &'a mut Buffer) -> Result<Stat<'a>, ReadError> {
        let bytes = self.read(self.stat.as_ref(), c"stat", buffer)?;
        let stat = procfs::parse_stat(bytes)
            .ok_or_else(|| ReadError::Failed("stat has an unknown format".into()))?;
        // An exited first thread looks like an exited process while other threads are running.
        let ended = stat.has_ended() && stat.threads <= 1;
        if stat.start_ticks != self.start || ended { Err(ReadError::Gone) } else { Ok(stat) }
    }

    fn check_identity(&self, context: &mut Context<'_>) -> Result<(), ReadError> {
        self.read_stat(context.buffer).map(drop)
    }

    pub fn cpu(&mut self, row: &mut ProcessSampleRow, context: &mut Context<'_>) -> Result<(), ReadError> {
        let nanos = process_cpu_ns(self.pid)?;
        // The clock is read by pid. A new process with this pid has used less.
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
        let pages = procfs::parse_statm(bytes)
            .ok_or_else(|| ReadError::Failed("statm has an unknown format".into()))?;
        // All zero for an exiting process: the previous values are its last ones.
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
            // I/O calls use CPU time.
            return Ok(());
        }
        let result = self.read(self.io.as_ref(), c"io", context.buffer);
        if result == Err(ReadError::Denied) {
            self.traceable = Some(false);
        }
        let io =
            procfs::parse_io(result?).ok_or_else(|| ReadError::Failed("io has an unknown format".into()))?;
        self.traceable = Some(true);
        row.read_bytes = Some(io.read_bytes);
        row.write_bytes = Some(io.write_bytes);
        row.read_operations = Some(io.read_calls);
        row.write_operations = Some(io.write_calls);
        self.io_fresh = Fresh { cpu_ns: Some(row.cpu_time_ns), at_ns: context.now_ns };
        Ok(())
    }

    /// Peak memory, affinity, open descriptors and context switches. The latter two need more privileges.
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

    /// Since Linux 6.2 the size of the directory; before, its entries are counted.
    fn count_descriptors(&self, context: &mut Context<'_>) -> Result<u64, ReadError> {
        let directory = self.directory.as_ref();
        let size = directory.and_then(|directory| {
            let stat = rustix::fs::statat(directory, c"fd", rustix::fs::AtFlags::empty()).ok()?;
            u64::try_from(stat.st_size).ok().filter(|size| *size > 0)
        });
        if let Some(size) = size {
            return Ok(size);
        }
        let directory = self.open_directory(c"fd").map_err(read_error)?;
        let mut count = 0;
        files::each_number(directory.as_fd(), context.scratch, |_| count += 1).map_err(read_error)?;
        Ok(count)
    }

    pub fn exit_code(&self, buffer: &mut Buffer) -> Option<i64> {
        if let Some(status) = self.exit.as_ref().and_then(exits::exit_status) {
            return Some(exits::exit_code(status));
        }
        // Not reaped by its parent yet: its stat has the code, but zero without permission.
        let stat = procfs::parse_stat(self.read(self.stat.as_ref(), c"stat", buffer).ok()?)?;
        let status = stat.exit_status.filter(|_| stat.start_ticks == self.start && stat.has_ended())?;
        (status != 0 || self.traceable == Some(true)).then(|| exits::exit_code(status))
    }
}
