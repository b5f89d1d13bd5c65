//! The process sampler on Windows: one snapshot of the whole system per tick, and handles of the watched processes for
//! figures that snapshots lack.
//!
//! | group | from | needs |
//! |---|---|---|
//! | discovery, cpu, memory, io, threads | the snapshot: no process has to be opened, and none is hidden | nothing |
//! | details | handles: affinity, peak handles, windows; context switches from the snapshot | same user, or more |
//! | thread cycles and names | a handle of each thread | same user, or more |
//! | exits and exit codes | the kept handle; without one, the process is missing in the snapshot | |
//!
//! A snapshot takes 0.5 to 3 ms, depending on the number of threads. A tick that needs only times, memory and I/O of a
//! few processes reads their handles instead, if that is cheaper than the last snapshot.

use ortscope_core::clock::{ClockReading, WallAnchor, ahead_of_monotonic};
use ortscope_core::metric::Availability;
use ortscope_core::schema::{ProcessSampleRow, SystemSampleRow};
use ortscope_decode::nt::{Count32, IoCounters, Process};

use super::handles::{self, ProcessHandle};
use super::missing::{self, Absent, Reasons};
use super::native;
use super::snapshot::Snapshot;
use super::system::{self, System};
use super::threads::Threads;
use crate::sampler::{
    GroupSet, MANY_SKIPPED, MetricGroup, Missing, ProcessBackend, ProcessFacts, ReadError, ThreadReading,
};

/// Units of 100 ns between 1601 and 1970.
const UNIX_EPOCH_TICKS: u64 = 116_444_736_000_000_000;
/// The kernel as a process.
const SYSTEM_PID: u32 = 4;
/// Parts of the kernel that look like programs; their parent is the kernel.
const KERNEL_NAMES: [&[u8]; 5] =
    [b"System", b"Registry", b"Memory Compression", b"MemCompression", b"Secure System"];
/// Approximate duration of reading times, memory and I/O of one process through its handle.
const HANDLE_NS: u64 = 5_000;
/// A process that is missing in the snapshot ends within this time.
const END_MILLIS: u32 = 20;

#[derive(Debug)]
struct Watched {
    pid: u32,
    create_time: u64,
    handle: Option<ProcessHandle>,
    page_faults: Count32,
    hard_faults: Count32,
    threads: Threads,
}

impl Watched {
    fn is_over(&self) -> bool {
        self.handle.as_ref().is_none_or(|handle| handle.has_ended(0))
    }
}

#[derive(Debug)]
pub struct SnapshotBackend {
    snapshot: Snapshot,
    /// The snapshot belongs to this tick.
    is_fresh: bool,
    /// Thread rows are requested in this tick.
    wants_threads: bool,
    /// This tick reads handles.
    by_handles: bool,
    slots: Vec<Option<Watched>>,
    is_wine: bool,
    now_ns: u64,
    system: Option<System>,
    reasons: Reasons,
}

impl SnapshotBackend {
    pub fn new() -> Self {
        Self {
            snapshot: Snapshot::new(),
            is_fresh: false,
            wants_threads: false,
            by_handles: false,
            slots: Vec::new(),
            is_wine: native::is_wine(),
            now_ns: 0,
            system: None,
            reasons: Reasons::default(),
        }
    }

    /// The snapshot of this tick, taken on first use.
    fn refresh(&mut self) -> Result<(), ReadError> {
        if !self.is_fresh {
            self.snapshot.take(self.wants_threads)?;
            self.is_fresh = true;
        }
        Ok(())
    }

    /// Whether handles of the watched processes provide everything that is due, at less cost than a snapshot.
    fn can_use_handles(&self, due: GroupSet) -> bool {
        let by_handle = GroupSet::of(&[
            MetricGroup::Cpu,
            MetricGroup::Memory,
            MetricGroup::Io,
            MetricGroup::Network,
            MetricGroup::System,
            MetricGroup::Environment,
        ]);
        let mut watched = self.slots.iter().flatten();
        due.and(by_handle) == due
            && watched.clone().count() as u64 * HANDLE_NS < self.snapshot.cost_ns()
            && watched.all(|process| process.handle.is_some())
    }

    /// The process in the snapshot, if listed. A process that is neither listed nor has exited is just exiting.
    fn with<T>(
        &mut self,
        slot: usize,
        read: impl FnOnce(&mut Watched, Option<&Process<'_>>, bool) -> T,
    ) -> Result<T, ReadError> {
        if !self.by_handles {
            self.refresh()?;
        }
        let watched = self.slots.get_mut(slot).and_then(Option::as_mut).ok_or(ReadError::Gone)?;
        let process = match self.by_handles {
            true => None,
            false => self.snapshot.same(watched.pid, watched.create_time),
        };
        // Only a process without threads can be listed after its exit.
        let is_alive = process.as_ref().is_some_and(|process| process.thread_count() > 0);
        if !is_alive && watched.is_over() {
            return Err(ReadError::Gone);
        }
        Ok(read(watched, process.as_ref(), self.is_wine))
    }
}

impl ProcessBackend for SnapshotBackend {
    fn name(&self) -> &'static str {
        "system snapshots"
    }

    fn probe(&mut self) -> Availability {
        if size_of::<usize>() != 8 {
            return Availability::Unavailable {
                why: "this is a 32-bit program".into(),
                hint: "install ortscope for 64-bit Windows".into(),
            };
        }
        (self.is_fresh, self.reasons) = (false, Reasons::default());
        match self.refresh() {
            Err(error) => Availability::Unavailable {
                why: format!("the process list cannot be read: {error}"),
                hint: "please report this with your Windows version".into(),
            },
            Ok(()) if self.is_wine => Availability::Degraded {
                why: "running on Wine instead of Windows: many counters are missing".into(),
                hint: "run on Windows for complete data".into(),
            },
            Ok(()) => Availability::Ready,
        }
    }

    fn never(&self) -> Vec<Missing> {
        missing::never(self.is_wine)
    }

    fn newly_missing(&mut self, emit: &mut dyn FnMut(Missing)) {
        self.reasons.take(emit);
    }

    fn begin_tick(&mut self, now_ns: u64, due: GroupSet, ended: &mut Vec<usize>) {
        self.now_ns = now_ns;
        self.is_fresh = false;
        self.wants_threads = due.has(MetricGroup::Threads);
        self.by_handles = self.can_use_handles(due);
        let of_processes = GroupSet::OF_PROCESSES.with(MetricGroup::Discovery).with(MetricGroup::Threads);
        if self.by_handles || due.and(of_processes).is_empty() {
            return;
        }
        if let Err(error) = self.refresh() {
            self.reasons.no_list(&error);
            return;
        }
        for (slot, watched) in self.slots.iter().enumerate() {
            let Some(watched) = watched else { continue };
            if self.snapshot.same(watched.pid, watched.create_time).is_none() && watched.is_over() {
                ended.push(slot);
            }
        }
    }

    fn list(&mut self, pids: &mut Vec<u32>) -> Result<(), ReadError> {
        self.refresh()?;
        pids.extend(self.snapshot.pids());
        Ok(())
    }

    fn look(&mut self, pid: u32, facts: &mut ProcessFacts) -> Result<(), ReadError> {
        self.refresh()?;
        if self.snapshot.process(pid).is_none() && pid != 0 {
            // Requested by a caller that knows it from elsewhere: it may be newer than the snapshot.
            self.is_fresh = false;
            self.refresh()?;
        }
        let process = self.snapshot.process(pid).ok_or(ReadError::Gone)?;
        facts.pid = pid;
        facts.start = process.create_time();
        facts.name.clear();
        process.push_name(&mut facts.name);
        facts.parent_pid = self.snapshot.parent_of(&process);
        facts.os_session = Some(u64::from(process.session()));
        let since_1970 = process.create_time().checked_sub(UNIX_EPOCH_TICKS);
        facts.create_time_unix_ns = since_1970.map(|ticks| ticks.saturating_mul(100));
        let of_kernel = pid == SYSTEM_PID || process.parent_pid() == SYSTEM_PID;
        facts.kernel_thread = of_kernel && KERNEL_NAMES.contains(&&facts.name[..]);
        Ok(())
    }

    fn watch(&mut self, slot: usize, facts: &ProcessFacts) -> Result<(), ReadError> {
        let handle = match ProcessHandle::open(facts.pid, facts.start) {
            Ok(handle) if handle.has_ended(0) => return Err(ReadError::Gone),
            Ok(handle) => Some(handle),
            // The snapshot still includes it.
            Err(ReadError::Denied) => {
                self.reasons.report(Absent::Handle);
                None
            }
            Err(error) => return Err(error),
        };
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        self.slots[slot] = Some(Watched {
            pid: facts.pid,
            create_time: facts.start,
            handle,
            page_faults: Count32::default(),
            hard_faults: Count32::default(),
            threads: Threads::default(),
        });
        Ok(())
    }

    fn forget(&mut self, slot: usize) {
        if let Some(watched) = self.slots.get_mut(slot) {
            *watched = None;
        }
    }

    fn command_line(&mut self, slot: usize) -> Option<Vec<Vec<u8>>> {
        self.slots.get(slot)?.as_ref()?.handle.as_ref()?.command_line()
    }

    fn exit_code(&mut self, slot: usize) -> Option<i64> {
        let handle = self.slots.get(slot)?.as_ref()?.handle.as_ref()?;
        handle.has_ended(END_MILLIS).then(|| handle.exit_code()).flatten()
    }

    fn cpu(&mut self, slot: usize, row: &mut ProcessSampleRow) -> Result<(), ReadError> {
        self.with(slot, |watched, process, is_wine| {
            let handle = watched.handle.as_ref();
            let (kernel, user, cycles) = match process {
                Some(process) => (process.kernel_ticks(), process.user_ticks(), Some(process.cycles())),
                None => {
                    let Some(times) = handle.and_then(ProcessHandle::times) else { return };
                    (times.kernel, times.user, handle.and_then(ProcessHandle::cycles))
                }
            };
            let nanos = |ticks: u64| ticks.saturating_mul(100);
            row.cpu_time_ns = row.cpu_time_ns.max(nanos(kernel.saturating_add(user)));
            row.kernel_time_ns = Some(nanos(kernel));
            row.user_time_ns = Some(nanos(user));
            row.cpu_cycles = cycles.filter(|_| !is_wine).max(row.cpu_cycles);
        })
    }

    fn memory(&mut self, slot: usize, row: &mut ProcessSampleRow) -> Result<(), ReadError> {
        self.with(slot, |watched, process, is_wine| {
            let counted = |count: u64| Some(count).filter(|_| !is_wine);
            let of_handle = match process {
                Some(_) => None,
                None => watched.handle.as_ref().and_then(ProcessHandle::memory),
            };
            let resident = process
                .map(Process::working_set_bytes)
                .or_else(|| of_handle.map(|memory| memory.working_set_bytes));
            // An exiting process has released its memory but is still listed: the last value is kept.
            if resident == Some(0) && row.working_set_bytes > 0 {
                return;
            }
            if let Some(process) = process {
                row.working_set_bytes = process.working_set_bytes();
                row.peak_working_set_bytes = Some(process.peak_working_set_bytes());
                row.private_bytes = private_bytes(process, watched.handle.as_ref());
                row.virtual_bytes = Some(process.virtual_bytes());
                row.page_faults = counted(watched.page_faults.read(process.page_faults()));
                row.hard_faults = counted(watched.hard_faults.read(process.hard_faults()));
                row.paged_pool_bytes = counted(process.paged_pool_bytes());
                row.non_paged_pool_bytes = counted(process.non_paged_pool_bytes());
                // Wine numbers them differently.
                row.priority = Some(i64::from(process.base_priority())).filter(|_| !is_wine);
                row.thread_count = Some(u64::from(process.thread_count()));
                row.handle_count = Some(u64::from(process.handle_count()));
            } else if let Some(memory) = of_handle {
                row.working_set_bytes = memory.working_set_bytes;
                row.peak_working_set_bytes = Some(memory.peak_working_set_bytes);
                row.private_bytes = Some(memory.private_bytes).filter(|bytes| *bytes > 0);
                row.virtual_bytes = Some(memory.virtual_bytes);
                row.page_faults = counted(watched.page_faults.read(memory.page_faults));
                row.paged_pool_bytes = counted(memory.paged_pool_bytes);
                row.non_paged_pool_bytes = counted(memory.non_paged_pool_bytes);
            }
        })
    }

    fn io(&mut self, slot: usize, row: &mut ProcessSampleRow) -> Result<(), ReadError> {
        if self.is_wine {
            return Err(ReadError::Unsupported);
        }
        let io = self.with(slot, |watched, process, _| match process {
            Some(process) => Some(process.io()),
            None => watched.handle.as_ref().and_then(ProcessHandle::io),
        })?;
        if let Some(io) = io {
            fill_io(row, io);
        }
        Ok(())
    }

    fn details(&mut self, slot: usize, row: &mut ProcessSampleRow) -> Result<(), ReadError> {
        let mut news = Vec::new();
        self.with(slot, |watched, process, is_wine| {
            if let Some(process) = process {
                fill_switches(watched, process, row, is_wine);
            }
            let Some(handle) = watched.handle.as_ref() else { return };
            row.affinity_mask = handle.affinity_mask();
            if row.affinity_mask.is_none() {
                news.push(Absent::Affinity);
            }
            if is_wine {
                return;
            }
            row.peak_handle_count = handle.peak_handles();
            let objects = handle.gui_objects();
            (row.gdi_objects, row.user_objects) = objects.unzip();
            if objects.is_none() {
                news.push(Absent::Objects);
            }
        })?;
        news.into_iter().for_each(|reason| self.reasons.report(reason));
        Ok(())
    }

    fn network(&mut self, slot: usize, row: &mut ProcessSampleRow) -> Result<(), ReadError> {
        let watched = self.slots.get(slot).and_then(Option::as_ref).ok_or(ReadError::Gone)?;
        let counted = watched.handle.as_ref().ok_or(ReadError::Denied)?.network();
        match counted {
            Ok((received, sent)) => {
                row.network_received_bytes = Some(received);
                row.network_sent_bytes = Some(sent);
                Ok(())
            }
            Err(error) => {
                self.reasons.report(Absent::Network);
                Err(error)
            }
        }
    }

    fn threads(
        &mut self,
        slot: usize,
        row: &mut ProcessSampleRow,
        emit: &mut dyn FnMut(&ThreadReading<'_>),
    ) -> Result<(), ReadError> {
        self.by_handles = false;
        self.with(slot, |watched, process, is_wine| {
            let Some(process) = process else { return };
            fill_switches(watched, process, row, is_wine);
            row.thread_count = Some(u64::from(process.thread_count()));
            let counts = watched.threads.emit_all(process, watched.handle.as_ref(), is_wine, emit);
            row.active_threads = Some(counts.active).filter(|_| !is_wine);
            row.suspended_threads = Some(counts.suspended).filter(|_| !is_wine);
        })
    }

    fn system(&mut self, row: &mut SystemSampleRow) -> Result<(), ReadError> {
        self.system.get_or_insert_default().read(self.now_ns, row, self.is_wine);
        Ok(())
    }

    fn processors(&mut self, emit: &mut dyn FnMut(u32, f64)) {
        if let Some(system) = &mut self.system {
            system.processors(emit);
        }
    }

    fn environment(&mut self, emit: &mut dyn FnMut(&'static str, &'static str, f64)) {
        if !super::power::environment(emit) {
            self.reasons.report(Absent::Power);
        }
        // Wine has only the function's name, and ends programs that call it.
        if !self.is_wine {
            let handles = self.slots.iter().flatten().filter_map(|watched| watched.handle.as_ref());
            let eco = handles.filter(|handle| handle.is_eco() == Some(true)).count();
            emit("power", "eco_processes_count", eco as f64);
        }
    }

    fn clocks(&mut self) -> Option<ClockReading> {
        let anchor = WallAnchor::now();
        Some(ClockReading {
            monotonic_ns: anchor.monotonic_ns,
            asleep_ns: ahead_of_monotonic(system::awake_ns).map(i64::wrapping_neg),
            monotonic_goes_on: true,
            unix_ns: anchor.unix_ns,
            error_ns: anchor.error_ns,
        })
    }

    /// Time stolen by a hypervisor is not reported.
    fn needs_backup_thread(&mut self, skipped: u64) -> bool {
        skipped >= MANY_SKIPPED
    }

    fn own_cpu_ns(&mut self) -> Option<u64> {
        handles::own_thread_ns()
    }

    fn own_memory_bytes(&mut self) -> Option<u64> {
        super::own_usage().ok().map(|usage| usage.working_set_bytes)
    }
}

/// Every program has some: Wine's list has zero, and then the handle knows it.
fn private_bytes(process: &Process<'_>, handle: Option<&ProcessHandle>) -> Option<u64> {
    let listed = Some(process.private_bytes()).filter(|bytes| *bytes > 0);
    let from_handle = || handle?.memory().map(|memory| memory.private_bytes).filter(|bytes| *bytes > 0);
    listed.or_else(from_handle)
}

fn fill_io(row: &mut ProcessSampleRow, io: IoCounters) {
    row.read_operations = Some(io.read_operations);
    row.write_operations = Some(io.write_operations);
    row.other_operations = Some(io.other_operations);
    row.read_bytes = Some(io.read_bytes);
    row.write_bytes = Some(io.write_bytes);
}

/// The kernel's own count includes threads that exited before watching began; where it is missing, ours has the observed
/// ones.
fn fill_switches(watched: &mut Watched, process: &Process<'_>, row: &mut ProcessSampleRow, is_wine: bool) {
    watched.threads.update(process);
    let counted = process.extension().map(|extension| extension.context_switches);
    let switches = counted.unwrap_or_else(|| watched.threads.context_switches());
    row.context_switches = Some(switches).filter(|_| !is_wine).max(row.context_switches);
}

#[cfg(test)]
mod tests;
