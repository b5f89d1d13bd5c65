//! The programs that write events, one per tracepoint or function.

use ortscope_decode::btf::{Btf, BtfError};

use super::asm::{Assembler, Helper, Reg, Width};
use super::call::ProgramKind;
use super::layout::{Registers, Structure, TaskLayout, tracepoint};
use super::namespace::{Namespace, store_ids};
use super::program::Program;
use super::record::{PREEMPTED, UNKNOWN, at, kind};
use super::ring::Rings;
use crate::kernel::{Class, TraceError};
use crate::sys::{perf_open, processors, rights};

use Reg::{R0, R1, R2, R3, R4, R6, R8};
use Width::{U32, U64};

/// Common parts of all programs.
#[derive(Debug)]
pub struct ProgramBuilder<'a> {
    btf: &'a Btf<'a>,
    rings: &'a Rings,
    task: TaskLayout,
    /// Set only inside a container.
    namespace: Option<Namespace>,
}

impl<'a> ProgramBuilder<'a> {
    pub fn new(btf: &'a Btf<'a>, rings: &'a Rings) -> Result<Self, TraceError> {
        Ok(Self { btf, rings, task: TaskLayout::find(btf)?, namespace: Namespace::own(btf) })
    }

    /// Switches, starts, execs and exits.
    pub fn always(&self) -> Result<Vec<(&'static str, Program)>, TraceError> {
        const STARTS_AND_ENDS: &str = "starts and ends";
        // Exits before starts, and switches last: the first programs must not report threads whose start was
        // missed.
        let mut programs = vec![
            (STARTS_AND_ENDS, self.exit()?),
            (STARTS_AND_ENDS, self.exec()?),
            (STARTS_AND_ENDS, self.fork()?),
        ];
        // Without it threads keep their initial names until a snapshot provides new ones.
        programs.extend(self.rename().map(|program| (STARTS_AND_ENDS, program)));
        programs.push(("switches", self.switch()?));
        Ok(programs)
    }

    /// The programs of a class.
    pub fn class(&self, class: Class) -> Result<Vec<Program>, TraceError> {
        match class {
            Class::Wakeups => Ok(vec![self.waking()?]),
            Class::Migrations => Ok(vec![self.migrate()?]),
            Class::PageFaults => Ok(vec![
                self.fault("minor_fault", kind::MINOR_FAULT)?,
                self.fault("major_fault", kind::MAJOR_FAULT)?,
            ]),
            Class::BlockIo => Ok(vec![
                self.block("block_rq_issue", kind::BLOCK_ISSUED)?,
                self.block("block_rq_complete", kind::BLOCK_COMPLETED)?,
            ]),
            Class::MemoryCalls => Ok(vec![self.memory()?]),
            // These have their own tables and rings.
            Class::FileIo | Class::Images => Ok(Vec::new()),
        }
    }

    /// A program at a tracepoint. `body` receives the number of arguments, which are read from R6.
    fn at_tracepoint(
        &self,
        name: &'static str,
        kind: i32,
        body: impl FnOnce(&mut Assembler, usize) -> Result<(), BtfError>,
    ) -> Result<Program, TraceError> {
        let (id, arguments) = tracepoint(self.btf, name)?;
        let mut code = Assembler::default();
        let out = self.rings.reserve(&mut code, kind, |_, _| ());
        body(&mut code, arguments)?;
        self.rings.commit(&mut code, out);
        Program::load(name, ProgramKind::Tracepoint, id.0, code)
    }

    /// Writes the ids of the task in `task` to the record.
    fn store_task(&self, code: &mut Assembler, task: Reg, tid_at: i16) {
        store_ids(code, &self.task, self.namespace.as_ref(), task, R8, tid_at);
    }

    pub fn btf(&self) -> &'a Btf<'a> {
        self.btf
    }

    /// Writes the ids of the current thread to the record.
    fn store_current(&self, code: &mut Assembler, tid_at: i16) {
        self.store_current_to(code, R8, tid_at);
    }

    /// The same for another destination.
    pub fn store_current_to(&self, code: &mut Assembler, to: Reg, tid_at: i16) {
        if self.namespace.is_some() {
            code.call(Helper::CurrentTask);
            store_ids(code, &self.task, self.namespace.as_ref(), R0, to, tid_at);
        } else {
            code.call(Helper::CurrentPidTgid);
            code.store(U64, to, tid_at, R0);
        }
    }

    fn switch(&self) -> Result<Program, TraceError> {
        self.at_tracepoint("sched_switch", kind::SWITCH, |code, arguments| {
            code.load(U64, R1, R6, 8);
            self.store_task(code, R1, at::TID);
            code.load(U64, R2, R1, self.task.run_ns);
            code.store(U64, R8, at::VALUE, R2);
            match self.task.wait_ns {
                Some(wait_ns) => {
                    code.load(U64, R2, R1, wait_ns);
                    code.store(U64, R8, at::VALUE_2, R2);
                }
                None => code.store_immediate(U64, R8, at::VALUE_2, UNKNOWN as i32),
            }
            self.memory_mark(code);
            // Since 5.18 the state is an argument; before, it is read from the thread.
            if arguments >= 4 {
                code.load(U64, R2, R6, 24);
            } else {
                code.load(U32, R2, R1, self.task.state);
            }
            code.load(U64, R3, R6, 0);
            code.and_immediate(R3, 1);
            code.shift_left(R3, PREEMPTED.ilog2() as i32);
            code.or(R2, R3);
            code.store(U32, R8, at::FLAGS, R2);
            code.load(U64, R1, R6, 16);
            self.store_task(code, R1, at::OTHER_TID);
            Ok(())
        })
    }

    /// For the thread in R1: page faults, address space size and resident pages combined into a number that changes
    /// when any of them does. Resident pages exclude what each processor has not yet added to the sum.
    fn memory_mark(&self, code: &mut Assembler) {
        /// File pages, anonymous pages and shared memory; swapped pages are in between.
        const COUNTERS: [i16; 3] = [0, 1, 3];
        let Some(memory) = self.task.memory else {
            code.store_immediate(U64, R8, at::VALUE_3, UNKNOWN as i32);
            return;
        };
        code.load(U64, R2, R1, memory.minor_faults);
        code.shift_left(R2, 32);
        code.load(U64, R3, R1, memory.space);
        code.load(U64, R4, R3, memory.pages);
        code.add(R2, R4);
        for counter in COUNTERS {
            code.load(U64, R4, R3, memory.resident + counter * memory.counter_bytes);
            code.add(R2, R4);
        }
        code.store(U64, R8, at::VALUE_3, R2);
    }

    fn waking(&self) -> Result<Program, TraceError> {
        self.at_tracepoint("sched_waking", kind::WAKEUP, |code, _| {
            code.load(U64, R1, R6, 0);
            self.store_task(code, R1, at::TID);
            self.store_current(code, at::OTHER_TID);
            Ok(())
        })
    }

    fn migrate(&self) -> Result<Program, TraceError> {
        self.at_tracepoint("sched_migrate_task", kind::MIGRATION, |code, _| {
            code.load(U64, R1, R6, 0);
            self.store_task(code, R1, at::TID);
            code.load(U32, R2, R1, self.task.cpu);
            code.store(U64, R8, at::VALUE, R2);
            code.load(U64, R2, R6, 8);
            code.store(U32, R8, at::FLAGS, R2);
            Ok(())
        })
    }

    fn fork(&self) -> Result<Program, TraceError> {
        self.at_tracepoint("sched_process_fork", kind::START, |code, _| {
            code.load(U64, R1, R6, 8);
            self.store_task(code, R1, at::TID);
            code.load(U64, R2, R1, self.task.start_ns);
            code.store(U64, R8, at::VALUE, R2);
            code.load(U64, R1, R6, 0);
            self.store_task(code, R1, at::OTHER_TID);
            self.stack_size(code)
        })
    }

    /// `clone3` provides the stack size of the new thread; other calls only its top.
    fn stack_size(&self, code: &mut Assembler) -> Result<(), BtfError> {
        const STACK_SIZE: i32 = 48;
        let registers = Registers::find(self.btf)?;
        let (has_size, done) = (code.label(), code.label());
        code.call(Helper::TaskRegisters);
        code.load(U32, R2, R0, registers.number);
        code.jump_if_equal(R2, libc::SYS_clone3 as i32, has_size);
        code.store_immediate(U64, R8, at::VALUE_2, UNKNOWN as i32);
        code.jump(done);
        code.place(has_size);
        code.load(U64, R3, R0, registers.first);
        code.add_immediate(R3, STACK_SIZE);
        code.mov(R1, R8);
        code.add_immediate(R1, i32::from(at::VALUE_2));
        code.mov_immediate(R2, 8);
        code.call(Helper::ReadUser);
        code.place(done);
        Ok(())
    }

    fn exec(&self) -> Result<Program, TraceError> {
        self.at_tracepoint("sched_process_exec", kind::EXEC, |code, _| {
            code.load(U64, R1, R6, 0);
            self.store_task(code, R1, at::TID);
            for half in [0, 8] {
                code.load(U64, R2, R1, self.task.name + half);
                code.store(U64, R8, at::VALUE + half, R2);
            }
            // The previous id is the machine's; in a container the current one replaces it.
            match self.namespace {
                None => code.load(U64, R2, R6, 8),
                Some(_) => code.load(U32, R2, R8, at::TID),
            }
            code.store(U32, R8, at::FLAGS, R2);
            Ok(())
        })
    }

    /// A thread sets its name, or gets one by executing a program; the name is not in the thread yet.
    fn rename(&self) -> Result<Program, TraceError> {
        self.at_tracepoint("task_rename", kind::RENAME, |code, _| {
            code.load(U64, R1, R6, 0);
            self.store_task(code, R1, at::TID);
            code.mov(R1, R8);
            code.add_immediate(R1, i32::from(at::VALUE));
            code.mov_immediate(R2, 16);
            code.load(U64, R3, R6, 8);
            code.call(Helper::ReadKernelText);
            Ok(())
        })
    }

    fn exit(&self) -> Result<Program, TraceError> {
        self.at_tracepoint("sched_process_exit", kind::EXIT, |code, arguments| {
            code.load(U64, R1, R6, 0);
            self.store_task(code, R1, at::TID);
            code.load(U32, R2, R1, self.task.exit_code);
            code.store(U32, R8, at::FLAGS, R2);
            code.load(U64, R2, R1, self.task.run_ns);
            code.store(U64, R8, at::VALUE, R2);
            code.load(U64, R2, R1, self.task.start_ns);
            code.store(U64, R8, at::VALUE_2, R2);
            // Since 6.16 the tracepoint states whether the thread is the last one of its process.
            if arguments >= 2 {
                code.load(U64, R2, R6, 8);
                code.and_immediate(R2, 0xff);
                code.store(U32, R8, at::OTHER_TID, R2);
            } else {
                code.store_immediate(U32, R8, at::OTHER_TID, -1);
            }
            Ok(())
        })
    }

    /// The kernel's software events, one per processor: they distinguish minor from major faults and fire when a
    /// fault is resolved.
    fn fault(&self, name: &'static str, kind: i32) -> Result<Program, TraceError> {
        let context = Structure::find(self.btf, "bpf_perf_event_data")?;
        let address = context.offset("addr")?;
        let mut code = Assembler::default();
        let out = self.rings.reserve(&mut code, kind, |_, _| ());
        code.load(U64, R1, R6, address);
        code.store(U64, R8, at::VALUE, R1);
        self.store_current(&mut code, at::TID);
        self.rings.commit(&mut code, out);
        let mut program = Program::load(name, ProgramKind::PerfEvent, 0, code)?;
        for cpu in 0..processors::online() as u32 {
            match perf_open::open_faults(cpu, kind == kind::MAJOR_FAULT) {
                Ok(event) => program.attach_to(event)?,
                // The processor does not exist or is offline.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
                Err(error) => {
                    return Err(rights::perf_error("recording page faults of every processor", error));
                }
            }
        }
        Ok(program)
    }

    /// `mmap`, `munmap` and `brk` on return; the program runs at the end of every system call and exits early for
    /// others.
    fn memory(&self) -> Result<Program, TraceError> {
        let registers = Registers::find(self.btf)?;
        let (map, unmap, heap) = (libc::SYS_mmap as i32, libc::SYS_munmap as i32, libc::SYS_brk as i32);
        let start_of_heap = [
            Structure::find(self.btf, "task_struct")?.offset("mm")?,
            Structure::find(self.btf, "mm_struct")?.offset("start_brk")?,
        ];
        let (id, _) = tracepoint(self.btf, "sys_exit")?;
        let mut code = Assembler::default();
        let out = self.rings.reserve(&mut code, kind::MAP, |code, out| {
            let wanted = code.label();
            code.load(U64, R2, R6, 0);
            code.load(U32, R2, R2, registers.number);
            code.jump_if_equal(R2, map, wanted);
            code.jump_if_equal(R2, heap, wanted);
            code.jump_if_not_equal(R2, unmap, out);
            code.place(wanted);
            // A failed call changed nothing.
            code.load(U64, R3, R6, 8);
            code.jump_if_negative(R3, out);
        });
        let (mapped, other) = (code.label(), code.label());
        code.load(U64, R1, R6, 0);
        code.load(U32, R2, R1, registers.number);
        code.jump_if_not_equal(R2, heap, other);
        // It returns the end of the heap, whether that moved or not.
        code.store_immediate(U32, R8, at::KIND, kind::HEAP);
        code.call(Helper::CurrentTask);
        code.load(U64, R1, R0, start_of_heap[0]);
        code.mov_immediate(R2, 0);
        let no_memory = code.label();
        code.load(U64, R3, R6, 8);
        code.jump_if_zero(R1, no_memory);
        code.load(U64, R1, R1, start_of_heap[1]);
        code.mov(R2, R3);
        code.sub(R2, R1);
        code.place(no_memory);
        code.store(U64, R8, at::VALUE_2, R2);
        let stored = code.label();
        code.store(U64, R8, at::VALUE, R3);
        code.jump(stored);
        code.place(other);
        code.load(U64, R1, R6, 0);
        code.load(U64, R2, R1, registers.second);
        code.store(U64, R8, at::VALUE_2, R2);
        // Mapping returns the address.
        code.load(U64, R3, R6, 8);
        code.load(U32, R2, R1, registers.number);
        code.jump_if_equal(R2, map, mapped);
        code.store_immediate(U32, R8, at::KIND, kind::UNMAP);
        code.load(U64, R3, R1, registers.first);
        code.place(mapped);
        code.store(U64, R8, at::VALUE, R3);
        code.place(stored);
        self.store_current(&mut code, at::TID);
        self.rings.commit(&mut code, out);
        Program::load("sys_exit", ProgramKind::Tracepoint, id.0, code)
    }

    fn block(&self, name: &'static str, kind: i32) -> Result<Program, TraceError> {
        let completed = kind == kind::BLOCK_COMPLETED;
        self.at_tracepoint(name, kind, |code, arguments| {
            let request = Structure::find(self.btf, "request")?;
            let device = Structure::find(self.btf, "block_device")?;
            // Before 5.11 an issued request had the queue as its first argument.
            let first = if !completed && arguments == 2 { 8 } else { 0 };
            code.load(U64, R1, R6, first);
            code.load(U64, R2, R1, request.offset("__sector")?);
            code.store(U64, R8, at::VALUE, R2);
            code.load(U64, R2, R1, request.offset("io_start_time_ns")?);
            code.store(U64, R8, at::VALUE_2, R2);
            code.load(U32, R2, R1, request.offset("cmd_flags")?);
            code.and_immediate(R2, 0xff);
            if completed {
                // Any error sets the highest bit.
                let fine = code.label();
                code.load(U64, R3, R6, 8);
                code.shift_left(R3, 32);
                code.shift_right(R3, 32);
                code.jump_if_zero(R3, fine);
                code.mov_immediate(R3, 1);
                code.shift_left(R3, 31);
                code.or(R2, R3);
                code.place(fine);
            }
            code.store(U32, R8, at::FLAGS, R2);
            if completed {
                code.load(U64, R2, R6, 16);
            } else {
                code.load(U32, R2, R1, request.offset("__data_len")?);
            }
            code.store(U32, R8, at::OTHER_TID, R2);
            code.load(U64, R1, R1, request.offset("part")?);
            code.load(U32, R2, R1, device.offset("bd_dev")?);
            code.store(U32, R8, at::OTHER_PID, R2);
            self.store_current(code, at::TID);
            Ok(())
        })
    }
}
