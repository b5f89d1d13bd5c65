//! Processes without privileges: CPU clocks by pid and small files through kept descriptors.
//!
//! | group | how | cost per process |
//! |---|---|---|
//! | cpu | `clock_gettime` of the process's clock: nanoseconds, all threads | 0.2 µs |
//! | memory | `statm` and `stat`, only if it has run since, otherwise once per second | 2 µs |
//! | io | `io`, only if it has run since; same user or ptrace permission | 0.7 µs |
//! | threads | `schedstat` of each (nanoseconds); `stat` of those that ran | 0.5 to 2 µs per thread |
//! | details | `status`, the size of `fd`, context switches of threads, only if it has run | 5 µs |
//! | exits | one `epoll` for all | none |
//!
//! Times of a running thread are as of its last tick (1 to 10 ms) or switch; kernel events are always exact.

mod clock;
mod cycles;
mod environment;
mod exits;
mod files;
mod process;
mod resident;
mod rights;
mod sockets;
mod system;
mod threads;
mod topology;

use std::os::fd::{AsFd, OwnedFd};

use ortscope_core::clock::{ClockReading, WallAnchor, ahead_of_monotonic};
use ortscope_core::metric::Availability;
use ortscope_core::schema::{ProcessSampleRow, SystemSampleRow};
use ortscope_decode::procfs;

use self::environment::Environment;
use self::exits::Exits;
use self::files::{Budget, Buffer, Path, read_error};
use self::process::{Context, Process, Units};
use self::sockets::Sockets;
use self::system::System;
use crate::sampler::{
    GroupSet, MANY_SKIPPED, Missing, ProcessBackend, ProcessFacts, ReadError, ThreadReading, ThreadState,
};
use crate::sys::perf_open::Counter;

/// Limit for arguments per process.
const MAX_ARGUMENTS: usize = 256;

pub(crate) use self::resident::ResidentMemory;
pub(super) use self::topology::processors;

#[derive(Debug)]
pub struct ProcBackend {
    root: Option<OwnedFd>,
    budget: Budget,
    units: Units,
    exits: Exits,
    buffer: Buffer,
    scratch: Vec<u8>,
    slots: Vec<Option<Process>>,
    now_ns: u64,
    system: Option<System>,
    environment: Option<Environment>,
    missing: Vec<Missing>,
    sockets: Sockets,
    counts_cycles: bool,
    own: Option<OwnedFd>,
}

impl ProcBackend {
    pub fn new() -> Self {
        Self::with_budget(Budget::of_this_process())
    }

    fn with_budget(budget: Budget) -> Self {
        Self {
            root: files::open_directory(files::no_directory(), c"/proc").ok(),
            budget,
            units: Units::current(),
            exits: Exits::new(),
            buffer: Buffer::new(),
            scratch: Vec::new(),
            slots: Vec::new(),
            now_ns: 0,
            system: None,
            environment: None,
            missing: Vec::new(),
            sockets: Sockets::default(),
            counts_cycles: false,
            own: files::open(files::no_directory(), c"/proc/self/statm").ok(),
        }
    }

    fn with<T>(
        &mut self,
        slot: usize,
        read: impl FnOnce(&mut Process, &mut Context<'_>) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let process = self.slots.get_mut(slot).and_then(Option::as_mut).ok_or(ReadError::Gone)?;
        let mut context = Context {
            now_ns: self.now_ns,
            buffer: &mut self.buffer,
            scratch: &mut self.scratch,
            budget: &self.budget,
            units: self.units,
        };
        read(process, &mut context)
    }
}

impl ProcessBackend for ProcBackend {
    fn name(&self) -> &'static str {
        "CPU clocks and /proc"
    }

    fn probe(&mut self) -> Availability {
        rights::probe()
    }

    fn count_cycles(&mut self) {
        self.counts_cycles = true;
    }

    fn never(&self) -> Vec<Missing> {
        rights::never(self.counts_cycles)
    }

    fn newly_missing(&mut self, emit: &mut dyn FnMut(Missing)) {
        self.missing.drain(..).for_each(emit);
    }

    fn begin_tick(&mut self, now_ns: u64, _due: GroupSet, ended: &mut Vec<usize>) {
        self.now_ns = now_ns;
        self.exits.take(ended);
    }

    fn list(&mut self, pids: &mut Vec<u32>) -> Result<(), ReadError> {
        let root = self.root.as_ref().ok_or_else(|| ReadError::Failed("/proc cannot be opened".into()))?;
        files::each_number(root.as_fd(), &mut self.scratch, |pid| pids.push(pid)).map_err(read_error)
    }

    fn look(&mut self, pid: u32, facts: &mut ProcessFacts) -> Result<(), ReadError> {
        let path = Path::new(format_args!("/proc/{pid}/stat"));
        let bytes = self.buffer.read_path(files::no_directory(), path.as_c_str()).map_err(read_error)?;
        let stat = procfs::parse_stat(bytes)
            .ok_or_else(|| ReadError::Failed("stat has an unknown format".into()))?;
        if stat.has_ended() && stat.threads <= 1 {
            return Err(ReadError::Gone);
        }
        facts.pid = pid;
        facts.start = stat.start_ticks;
        facts.name.clear();
        facts.name.extend_from_slice(stat.name);
        facts.parent_pid = Some(stat.parent_pid).filter(|parent| *parent > 0);
        facts.os_session = stat.session.filter(|session| *session > 0);
        facts.create_time_unix_ns = create_time(stat.start_ticks.saturating_mul(self.units.nanos_per_tick));
        facts.kernel_thread = stat.kernel_thread;
        Ok(())
    }

    fn watch(&mut self, slot: usize, facts: &ProcessFacts) -> Result<(), ReadError> {
        let mut context = Context {
            now_ns: self.now_ns,
            buffer: &mut self.buffer,
            scratch: &mut self.scratch,
            budget: &self.budget,
            units: self.units,
        };
        let mut process = Process::watch(slot, facts, &self.exits, &mut context)?;
        if self.counts_cycles && !facts.kernel_thread {
            self.missing.extend(process.count_cycles(Counter::Cycles, context.scratch));
        }
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        self.slots[slot] = Some(process);
        Ok(())
    }

    fn forget(&mut self, slot: usize) {
        if let Some(process) = self.slots.get_mut(slot) {
            *process = None;
        }
    }

    fn command_line(&mut self, slot: usize) -> Option<Vec<Vec<u8>>> {
        let bytes = self.with(slot, |process, context| {
            process.read(None, c"cmdline", context.buffer).map(<[u8]>::to_vec)
        });
        let bytes = bytes.ok().filter(|bytes| !bytes.is_empty())?;
        let text = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
        Some(text.split(|byte| *byte == 0).take(MAX_ARGUMENTS).map(<[u8]>::to_vec).collect())
    }

    fn renamed(&mut self, slot: usize, known: &[u8]) -> Option<Vec<u8>> {
        let name = self.with(slot, |process, context| {
            let stat = process.read_stat(context.buffer)?;
            Ok((stat.name != known).then(|| stat.name.to_vec()))
        });
        name.ok().flatten()
    }

    fn exit_code(&mut self, slot: usize) -> Option<i64> {
        let code = self.with(slot, |process, context| Ok(process.exit_code(context.buffer))).ok().flatten();
        if code.is_none() {
            self.missing.push(rights::no_exit_code());
        }
        code
    }

    fn cpu(&mut self, slot: usize, row: &mut ProcessSampleRow) -> Result<(), ReadError> {
        self.with(slot, |process, context| process.cpu(row, context))
    }

    fn memory(&mut self, slot: usize, row: &mut ProcessSampleRow) -> Result<(), ReadError> {
        self.with(slot, |process, context| process.memory(row, context))
    }

    fn io(&mut self, slot: usize, row: &mut ProcessSampleRow) -> Result<(), ReadError> {
        let (known, result) =
            self.with(slot, |process, context| Ok((process.traceable, process.io(row, context))))?;
        if result == Err(ReadError::Denied) && known.is_none() {
            self.missing.push(rights::no_rights_for_io());
        }
        result
    }

    fn details(&mut self, slot: usize, row: &mut ProcessSampleRow) -> Result<(), ReadError> {
        let result = self.with(slot, |process, context| process.details(row, context));
        if result == Err(ReadError::Denied) && self.missing.is_empty() {
            self.missing.push(rights::no_rights_for_handles());
        }
        result
    }

    fn network(&mut self, slot: usize, row: &mut ProcessSampleRow) -> Result<(), ReadError> {
        let process = self.slots.get_mut(slot).and_then(Option::as_mut).ok_or(ReadError::Gone)?;
        let (known, was_denied) = (process.traffic.is_some(), process.is_network_denied);
        if was_denied {
            return Err(ReadError::Denied);
        }
        let fd = process.open_directory(c"fd").map_err(read_error);
        let mut traffic = process.traffic.take().unwrap_or_default();
        let (now_ns, pid) = (self.now_ns, process.pid);
        let result = fd
            .and_then(|fd| self.sockets.read(pid, fd.as_fd(), now_ns, &mut self.scratch, &mut traffic, row));
        process.traffic = Some(traffic);
        if matches!(result, Err(ReadError::Denied | ReadError::Unsupported)) && !known {
            process.is_network_denied = true;
            self.missing.push(rights::no_network());
        }
        result
    }

    fn threads(
        &mut self,
        slot: usize,
        row: &mut ProcessSampleRow,
        emit: &mut dyn FnMut(&ThreadReading<'_>),
    ) -> Result<(), ReadError> {
        self.with(slot, |process, context| {
            process.update_threads(row, context)?;
            row.active_threads = Some(process.threads.count(ThreadState::Running));
            row.suspended_threads = Some(process.threads.count(ThreadState::Stopped));
            process.threads.each(emit);
            Ok(())
        })
    }

    fn system(&mut self, row: &mut SystemSampleRow) -> Result<(), ReadError> {
        let missing = &mut self.missing;
        let system = self.system.get_or_insert_with(|| {
            let system = System::open();
            if !system.has_frequencies() {
                missing.push(rights::no_frequency());
            }
            system
        });
        system.read(self.now_ns, row, &mut self.buffer);
        Ok(())
    }

    fn processors(&mut self, emit: &mut dyn FnMut(u32, f64)) {
        if let Some(system) = &mut self.system {
            system.processors(emit);
        }
    }

    fn environment(&mut self, emit: &mut dyn FnMut(&'static str, &'static str, f64)) {
        let missing = &mut self.missing;
        let environment = self.environment.get_or_insert_with(|| {
            let environment = Environment::open();
            if !environment.has_pressure() {
                missing.push(rights::no_pressure());
            }
            environment
        });
        environment.read(&mut self.buffer, emit);
    }

    fn clocks(&mut self) -> Option<ClockReading> {
        let anchor = WallAnchor::now();
        Some(ClockReading {
            monotonic_ns: anchor.monotonic_ns,
            asleep_ns: ahead_of_monotonic(boot_ns),
            monotonic_goes_on: false,
            unix_ns: anchor.unix_ns,
            error_ns: anchor.error_ns,
        })
    }

    fn needs_backup_thread(&mut self, skipped: u64) -> bool {
        skipped >= MANY_SKIPPED || system::has_stolen_time()
    }

    fn own_cpu_ns(&mut self) -> Option<u64> {
        clock::thread_cpu_ns()
    }

    fn own_memory_bytes(&mut self) -> Option<u64> {
        let pages = procfs::parse_statm(self.buffer.read(self.own.as_ref()?).ok()?)?;
        Some(pages.resident.saturating_mul(self.units.page_bytes))
    }
}

/// Time since boot, including suspended time.
fn boot_ns() -> Option<u64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).ok()?.checked_mul(1_000_000_000)?;
    seconds.checked_add(u64::try_from(time.tv_nsec).ok()?)
}

/// Wall time of a moment given relative to boot.
fn create_time(since_boot_ns: u64) -> Option<u64> {
    let wall = WallAnchor::now().unix_ns;
    wall.checked_sub(boot_ns()?)?.checked_add(since_boot_ns)
}

#[cfg(test)]
mod tests;
