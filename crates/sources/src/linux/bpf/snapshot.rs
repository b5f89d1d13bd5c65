//! The state of all threads in one call: a program walks the kernel's thread list and fills a shared array.
//!
//! 300 threads take a few microseconds, compared to milliseconds with /proc. Requires open-coded iterators (Linux 6.7).
//!
//! The array keeps the result of the previous call. A thread that has not run since is compared but not copied, and a
//! list next to the array names the changed entries: most threads sleep, and their memory stays cold. The compared
//! fields are in one cache line of the kernel's structure and in a compact array of their own, because the cost of a
//! snapshot is the number of cold lines that it touches.

use std::os::fd::OwnedFd;

use ortscope_core::clock::now_ns;
use ortscope_core::kernel::{RunState, Task, ThreadIo, ThreadName, ThreadState};
use ortscope_decode::btf::{Btf, BtfError, Kind};

use super::asm::{Assembler, Reg, Width};
use super::call::{self, ProgramKind};
use super::layout::{Structure, TaskLayout, read_btf};
use super::namespace::{Namespace, store_ids};
use super::program::Program;
use super::ring::lookup;
use crate::kernel::TraceError;
use crate::sys::rights;
use crate::sys::shared::SharedMemory;

use Reg::{R0, R1, R2, R3, R6, R7, R8, R10};
use Width::{U32, U64};

/// Three cache lines.
const WORDS: usize = 24;
const BYTES: usize = WORDS * 8;
/// Initial capacity in threads; it grows as needed.
const FIRST_CAPACITY: usize = 1024;
/// Compared fields: the run time of a thread, then as half words whether it is runnable, and its id.
const MARK_BYTES: usize = 16;
const MARK_RUN: i16 = 0;
const MARK_RUNNABLE: i16 = 8;
const MARK_ID: i16 = 12;
/// In the list of changes: their number, then one word for each.
const CHANGE_BYTES: usize = 8;
/// 50 MB; the kernel's own thread limit is rarely higher.
const MAX_CAPACITY: usize = 1 << 18;
/// `PF_KTHREAD` of `include/linux/sched.h`.
const KERNEL_THREAD: u32 = 0x0020_0000;
/// `BPF_TASK_ITER_ALL_THREADS`.
const ALL_THREADS: i32 = 1;

/// A program that fills an array with all threads.
#[derive(Debug)]
pub struct ThreadSnapshot {
    plan: Plan,
    capacity: usize,
    program: Program,
    entries: SharedMemory,
    changes: SharedMemory,
    /// Decoded entries; those beyond `count` belong to an earlier call.
    states: Vec<ThreadState>,
    count: usize,
    changed: Vec<u32>,
}

impl ThreadSnapshot {
    pub fn open() -> Result<Self, TraceError> {
        // First, because this call reports missing privileges.
        let maps = Maps::create(FIRST_CAPACITY)?;
        let bytes = read_btf()?;
        let btf = Btf::parse(&bytes)?;
        let plan = Plan::find(&btf).map_err(|error| TraceError::Unsupported {
            what: "a thread snapshot".to_owned(),
            why: error.to_string(),
            hint: "requires Linux 6.7 or newer; without it /proc is read, which takes longer".to_owned(),
        })?;
        Self::with(plan, &maps, FIRST_CAPACITY)
    }

    fn with(plan: Plan, maps: &Maps, capacity: usize) -> Result<Self, TraceError> {
        let program = Program::load("all_threads", ProgramKind::Call, 0, plan.assemble(maps))?;
        let map = |map: &OwnedFd, bytes: usize| {
            SharedMemory::map(map, bytes.next_multiple_of(4096))
                .map_err(|source| TraceError::System { what: "mapping the snapshot".to_owned(), source })
        };
        let entries = map(&maps.entries, capacity * BYTES)?;
        let changes = map(&maps.changes, (capacity + 1) * CHANGE_BYTES)?;
        Ok(Self {
            plan,
            capacity,
            program,
            entries,
            changes,
            states: Vec::new(),
            count: 0,
            changed: Vec::new(),
        })
    }

    /// Reads all threads of the machine, including kernel threads; returns the time just before.
    pub fn refresh(&mut self) -> Result<u64, TraceError> {
        let (at_ns, count) = loop {
            let at_ns = now_ns();
            let count =
                self.program.run().map_err(|error| rights::bpf_error("running the snapshot", error))?
                    as usize;
            if count <= self.capacity || self.capacity >= MAX_CAPACITY {
                break (at_ns, count.min(self.capacity));
            }
            // The program stops at the end of the array: repeat with a larger one.
            let capacity = self.capacity * 2;
            *self = Self::with(self.plan.clone(), &Maps::create(capacity)?, capacity)?;
        };
        self.count = count;
        self.changed.clear();
        let changes = self.changes.words::<1>(0)[0].min(count as u64) as usize;
        for change in 1..=changes {
            let [number] = self.changes.words::<1>(change * CHANGE_BYTES);
            let entry = number as usize;
            if entry >= count {
                continue;
            }
            let state = self.plan.decode(&self.entries.words(entry * BYTES));
            match self.states.get_mut(entry) {
                Some(known) => *known = state,
                // Entries are filled in order: the next one is the first new one.
                None => self.states.push(state),
            }
            self.changed.push(number as u32);
        }
        self.count = self.count.min(self.states.len());
        Ok(at_ns)
    }

    /// All threads found by [`Self::refresh`].
    pub fn threads(&self) -> &[ThreadState] {
        &self.states[..self.count]
    }

    /// Indices in [`Self::threads`] of threads that ran, changed their state or moved to another index between the
    /// last two calls.
    pub fn changed(&self) -> &[u32] {
        &self.changed
    }

    /// Replaces `out` by all threads of the machine, including kernel threads; returns the time just before.
    pub fn take(&mut self, out: &mut Vec<ThreadState>) -> Result<u64, TraceError> {
        let at_ns = self.refresh()?;
        out.clear();
        out.extend_from_slice(self.threads());
        Ok(at_ns)
    }
}

/// The arrays that the program fills.
#[derive(Debug)]
struct Maps {
    /// Used only by the program.
    marks: OwnedFd,
    entries: OwnedFd,
    changes: OwnedFd,
}

impl Maps {
    fn create(capacity: usize) -> Result<Self, TraceError> {
        let create = |label: &str, bytes: usize, entries: usize| {
            call::create_array(label, bytes as u32, entries as u32)
                .map_err(|error| rights::bpf_error("a thread snapshot", error))
        };
        Ok(Self {
            marks: create("ortscope_marks", MARK_BYTES, capacity)?,
            entries: create("ortscope_snap", BYTES, capacity)?,
            changes: create("ortscope_news", CHANGE_BYTES, capacity + 1)?,
        })
    }
}

/// The fields copied from each thread: offset, width and destination half word.
#[derive(Debug, Clone)]
struct Plan {
    task: TaskLayout,
    namespace: Option<Namespace>,
    fields: Vec<(Width, i16, i16)>,
    runnable: Runnable,
    parent: i16,
    ended_run_ns: Option<[i16; 2]>,
    has_wait: bool,
    has_io: bool,
    functions: Functions,
}

/// Fields that change with the state of a thread, besides its run time: a thread changes its state only while it runs,
/// or when it is woken and then waits for a processor.
#[derive(Debug, Clone, Copy)]
struct Runnable {
    queued: (Width, i16),
    /// Since 6.12 a sleeping thread may remain in the queue for a while.
    delayed: Option<(Width, i16)>,
}

impl Runnable {
    fn find(structure: Structure<'_>, task: &TaskLayout) -> Self {
        match structure.sized("se.on_rq") {
            Ok(queued) => Self { queued, delayed: structure.sized("se.sched_delayed").ok() },
            Err(_) => Self { queued: (U32, task.state), delayed: None },
        }
    }

    /// Loads into R1, for the thread in R6.
    fn load(&self, code: &mut Assembler) {
        let done = code.label();
        if let Some((width, from)) = self.delayed {
            code.load(width, R2, R6, from);
            code.mov_immediate(R1, 0);
            code.jump_if_not_zero(R2, done);
        }
        let (width, from) = self.queued;
        code.load(width, R1, R6, from);
        code.place(done);
    }
}

/// BTF ids of kernel functions.
#[derive(Debug, Clone, Copy)]
struct Functions {
    lock: u32,
    unlock: u32,
    begin: u32,
    next: u32,
    end: u32,
}

/// Byte offsets in the array's entries.
mod at {
    pub const TID: i16 = 0;
    pub const PID: i16 = 4;
    /// Thread id of the parent's first thread, then its process id.
    pub const PARENT_IDS: i16 = 176;
    pub const PARENT: i16 = 180;
    pub const RUN: i16 = 8;
    pub const STATE: i16 = 40;
    pub const FLAGS: i16 = 16;
    pub const CPU: i16 = 20;
    pub const PRIORITY: i16 = 24;
    pub const EXIT_STATE: i16 = 28;
    pub const START: i16 = 32;
    pub const WAIT: i16 = 48;
    pub const USER: i16 = 56;
    pub const SYSTEM: i16 = 64;
    pub const VOLUNTARY: i16 = 72;
    pub const INVOLUNTARY: i16 = 80;
    pub const MINOR: i16 = 88;
    pub const MAJOR: i16 = 96;
    pub const IO: i16 = 104;
    pub const ENDED_RUN: i16 = 152;
    pub const NAME: i16 = 160;
}

impl Plan {
    fn find(btf: &Btf<'_>) -> Result<Self, BtfError> {
        let task = TaskLayout::find(btf)?;
        let structure = Structure::find(btf, "task_struct")?;
        let mut fields = vec![
            (U32, task.state, at::STATE),
            (U32, structure.offset("exit_state")?, at::EXIT_STATE),
            (U32, structure.offset("flags")?, at::FLAGS),
            (U32, task.cpu, at::CPU),
            (U32, structure.offset("prio")?, at::PRIORITY),
            (U64, task.start_ns, at::START),
            (U64, task.run_ns, at::RUN),
            (U64, structure.offset("utime")?, at::USER),
            (U64, structure.offset("stime")?, at::SYSTEM),
            (U64, structure.offset("nvcsw")?, at::VOLUNTARY),
            (U64, structure.offset("nivcsw")?, at::INVOLUNTARY),
            (U64, structure.offset("min_flt")?, at::MINOR),
            (U64, structure.offset("maj_flt")?, at::MAJOR),
            (U64, task.name, at::NAME),
            (U64, task.name + 8, at::NAME + 8),
        ];
        fields.extend(task.wait_ns.map(|from| (U64, from, at::WAIT)));
        // In the order of `ThreadIo`; kernels without I/O accounting lack some.
        let io = ["rchar", "wchar", "syscr", "syscw", "read_bytes", "write_bytes"];
        let io: Vec<i16> =
            io.iter().filter_map(|name| structure.offset(&format!("ioac.{name}")).ok()).collect();
        let has_io = io.len() == 6;
        if has_io {
            fields.extend(io.iter().zip(0..).map(|(from, number)| (U64, *from, at::IO + 8 * number)));
        }
        let function = |name: &str| btf.find(Kind::Function, name).map(|id| id.0);
        let ended =
            Structure::find(btf, "signal_struct").and_then(|signal| signal.offset("sum_sched_runtime"));
        Ok(Self {
            task,
            namespace: Namespace::own(btf),
            fields,
            runnable: Runnable::find(structure, &task),
            parent: structure.offset("real_parent")?,
            ended_run_ns: ended.ok().and_then(|ended| Some([structure.offset("signal").ok()?, ended])),
            has_wait: task.wait_ns.is_some(),
            has_io,
            functions: Functions {
                lock: function("bpf_rcu_read_lock")?,
                unlock: function("bpf_rcu_read_unlock")?,
                begin: function("bpf_iter_task_new")?,
                next: function("bpf_iter_task_next")?,
                end: function("bpf_iter_task_destroy")?,
            },
        })
    }

    fn assemble(&self, maps: &Maps) -> Assembler {
        let mut code = Assembler::default();
        let (top, new, out) = (code.label(), code.label(), code.label());
        // The iterator's state is on the stack.
        let iterator = |code: &mut Assembler| {
            code.mov(R1, R10);
            code.add_immediate(R1, -32);
        };
        code.call_kernel(self.functions.lock);
        iterator(&mut code);
        code.mov_immediate(R2, 0);
        code.mov_immediate(R3, ALL_THREADS);
        code.call_kernel(self.functions.begin);
        code.mov_immediate(R7, 0);
        code.mov_immediate(R8, 0);
        code.place(top);
        iterator(&mut code);
        code.call_kernel(self.functions.next);
        code.jump_if_zero(R0, out);
        code.mov(R6, R0);
        // The end of the array ends the loop: comparing the count would prevent the verifier from proving
        // termination. The count is incremented first, so that it is too large by one if threads did not fit.
        code.mov(R1, R7);
        code.add_immediate(R7, 1);
        lookup(&mut code, &maps.marks, R1, out);
        let known = code.label();
        code.load(U64, R1, R6, self.task.run_ns);
        code.load(U64, R2, R0, MARK_RUN);
        code.jump_if_different(R1, R2, new);
        // No two threads have the same nonzero run time.
        code.jump_if_not_zero(R1, known);
        code.load(U32, R1, R6, self.task.tid);
        code.load(U32, R2, R0, MARK_ID);
        code.jump_if_different(R1, R2, new);
        code.place(known);
        self.runnable.load(&mut code);
        code.load(U32, R2, R0, MARK_RUNNABLE);
        code.jump_if_same(R1, R2, top);
        code.place(new);
        // Compared fields first: later changes are found by the next call.
        code.load(U64, R1, R6, self.task.run_ns);
        code.store(U64, R0, MARK_RUN, R1);
        code.load(U32, R1, R6, self.task.tid);
        code.store(U32, R0, MARK_ID, R1);
        self.runnable.load(&mut code);
        code.store(U32, R0, MARK_RUNNABLE, R1);
        code.mov(R1, R7);
        code.add_immediate(R1, -1);
        lookup(&mut code, &maps.entries, R1, out);
        for (width, from, to) in &self.fields {
            code.load(*width, R1, R6, *from);
            code.store(*width, R0, *to, R1);
        }
        let namespace = self.namespace.as_ref();
        store_ids(&mut code, &self.task, namespace, R6, R0, at::TID);
        code.load(U64, R1, R6, self.parent);
        store_ids(&mut code, &self.task, namespace, R1, R0, at::PARENT_IDS);
        if let Some([signal, ended]) = self.ended_run_ns {
            code.load(U64, R1, R6, signal);
            code.load(U64, R1, R1, ended);
            code.store(U64, R0, at::ENDED_RUN, R1);
        }
        code.add_immediate(R8, 1);
        code.mov(R1, R8);
        lookup(&mut code, &maps.changes, R1, out);
        code.mov(R1, R7);
        code.add_immediate(R1, -1);
        code.store(U64, R0, 0, R1);
        code.jump(top);
        code.place(out);
        iterator(&mut code);
        code.call_kernel(self.functions.end);
        code.call_kernel(self.functions.unlock);
        let end = code.label();
        code.mov_immediate(R1, 0);
        lookup(&mut code, &maps.changes, R1, end);
        code.store(U64, R0, 0, R8);
        code.place(end);
        code.mov(R0, R7);
        code.exit();
        code
    }

    fn decode(&self, words: &[u64; WORDS]) -> ThreadState {
        let word = |at: i16| words[at as usize / 8];
        let half = |at: i16| (word(at) >> (8 * (at as u32 % 8))) as u32;
        let thread = Task { tid: half(at::TID), pid: half(at::PID) };
        let mut name = [0; 16];
        name[..8].copy_from_slice(&word(at::NAME).to_ne_bytes());
        name[8..].copy_from_slice(&word(at::NAME + 8).to_ne_bytes());
        let io = |number: i16| word(at::IO + 8 * number);
        ThreadState {
            thread,
            parent_pid: half(at::PARENT),
            start_ns: word(at::START),
            name: ThreadName::from_bytes(&name),
            state: run_state(half(at::STATE), half(at::EXIT_STATE)),
            is_kernel_thread: half(at::FLAGS) & KERNEL_THREAD != 0,
            cpu: half(at::CPU),
            run_ns: word(at::RUN),
            wait_ns: self.has_wait.then(|| word(at::WAIT)),
            user_ns: word(at::USER),
            system_ns: word(at::SYSTEM),
            voluntary_switches: word(at::VOLUNTARY),
            involuntary_switches: word(at::INVOLUNTARY),
            minor_faults: word(at::MINOR),
            major_faults: word(at::MAJOR),
            io: self.has_io.then(|| ThreadIo {
                read_call_bytes: io(0),
                write_call_bytes: io(1),
                read_calls: io(2),
                write_calls: io(3),
                disk_read_bytes: io(4),
                disk_write_bytes: io(5),
            }),
            priority: half(at::PRIORITY) as i32,
            ended_threads_run_ns: if thread.tid == thread.pid { word(at::ENDED_RUN) } else { 0 },
        }
    }
}

fn run_state(state: u32, exit_state: u32) -> RunState {
    const NO_LOAD: u32 = 0x400;
    match state {
        _ if exit_state != 0 => RunState::Ended,
        0 => RunState::Running,
        state if state & 0x1 != 0 => RunState::Sleeping,
        state if state & NO_LOAD != 0 => RunState::Idle,
        state if state & 0x2 != 0 => RunState::Blocked,
        state if state & (0x4 | 0x8) != 0 => RunState::Stopped,
        state if state & 0x80 != 0 => RunState::Ended,
        _ => RunState::Unknown,
    }
}
