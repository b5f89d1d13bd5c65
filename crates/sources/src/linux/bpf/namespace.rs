//! Thread ids in our pid namespace: in a container the kernel's ids differ from those in `/proc`.
//!
//! Programs see every thread with the ids of the whole machine. If we are in a pid namespace, they write the ids of our
//! namespace instead. Threads outside of it, which have none there, keep the machine's id with an otherwise unused bit
//! set.

use ortscope_decode::btf::{Btf, BtfError};

use super::asm::{Assembler, Helper, Reg, Width};
use super::call::ProgramKind;
use super::layout::{Structure, TaskLayout};
use super::program::Program;

use Reg::{R0, R2, R3};
use Width::{U32, U64};

/// Inode of the machine's initial namespace, the same in every kernel.
const WHOLE_MACHINE: u32 = 0xEFFF_FFFC;
/// Marks ids of threads outside our namespace; the kernel assigns no ids above 4,194,304.
pub const OUTSIDE: u32 = 1 << 31;

/// Our pid namespace, and the offsets of a thread's id in it.
#[derive(Debug, Clone, Copy)]
pub struct Namespace {
    inode: u32,
    /// Nesting depth; 0 is the whole machine.
    level: i32,
    /// In `task_struct`.
    ids: i16,
    leader: i16,
    /// In `struct pid`.
    level_at: i16,
    /// Offset of the entry for our level.
    number: i16,
    namespace: i16,
    /// In `struct pid_namespace`.
    inode_at: i16,
}

impl Namespace {
    /// `None` if ids are those of the machine, or the kernel does not expose enough to translate them.
    pub fn own(btf: &Btf<'_>) -> Option<Self> {
        let link = std::fs::read_link("/proc/self/ns/pid").ok()?;
        let inode = link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()?;
        if inode == WHOLE_MACHINE {
            return None;
        }
        let mut namespace = Self::layout(btf, inode).ok()?;
        namespace.level =
            i32::try_from(namespace.query_level().ok()?).ok().filter(|level| (1..=32).contains(level))?;
        let entry = Structure::find(btf, "upid").ok()?;
        let size = entry.offset("ns").ok()? + 8;
        namespace.number += size * namespace.level as i16;
        namespace.namespace += size * namespace.level as i16;
        Some(namespace)
    }

    fn layout(btf: &Btf<'_>, inode: u32) -> Result<Self, BtfError> {
        let task = Structure::find(btf, "task_struct")?;
        let pid = Structure::find(btf, "pid")?;
        let entry = Structure::find(btf, "upid")?;
        let numbers = pid.offset("numbers")?;
        Ok(Self {
            inode,
            level: 0,
            ids: task.offset("thread_pid")?,
            leader: task.offset("group_leader")?,
            level_at: pid.offset("level")?,
            number: numbers + entry.offset("nr")?,
            namespace: numbers + entry.offset("ns")?,
            inode_at: Structure::find(btf, "pid_namespace")?.offset("ns.inum")?,
        })
    }

    /// Runs a program that inspects the current thread.
    fn query_level(&self) -> std::io::Result<u32> {
        let mut code = Assembler::default();
        code.call(Helper::CurrentTask);
        code.load(U64, R2, R0, self.ids);
        code.load(U32, R0, R2, self.level_at);
        code.exit();
        let program =
            Program::load("own_level", ProgramKind::Call, 0, code).map_err(std::io::Error::other)?;
        program.run()
    }
}

/// Writes the thread and process id of the thread in `task` to `to` at `tid_at`. Uses R2 and R3.
pub fn store_ids(
    code: &mut Assembler,
    layout: &TaskLayout,
    namespace: Option<&Namespace>,
    task: Reg,
    to: Reg,
    tid_at: i16,
) {
    let machine = |code: &mut Assembler, mark: bool| {
        for (from, at) in [(layout.tid, tid_at), (layout.pid, tid_at + 4)] {
            code.load(U32, R2, task, from);
            if mark {
                code.or_immediate(R2, OUTSIDE as i32);
            }
            code.store(U32, to, at, R2);
        }
    };
    let Some(own) = namespace else { return machine(code, false) };
    let (idle, outside, done) = (code.label(), code.label(), code.label());
    code.load(U32, R2, task, layout.tid);
    code.jump_if_zero(R2, idle);
    // A reaped thread has no ids: reads through a null pointer give 0.
    code.load(U64, R2, task, own.ids);
    code.load(U32, R3, R2, own.level_at);
    code.jump_if_below(R3, own.level, outside);
    code.load(U64, R3, R2, own.namespace);
    code.load(U32, R3, R3, own.inode_at);
    code.jump_if_half_not_equal(R3, own.inode, outside);
    code.load(U32, R3, R2, own.number);
    code.store(U32, to, tid_at, R3);
    code.load(U64, R2, task, own.leader);
    code.load(U64, R2, R2, own.ids);
    code.load(U32, R3, R2, own.number);
    code.store(U32, to, tid_at + 4, R3);
    code.jump(done);
    code.place(outside);
    machine(code, true);
    code.jump(done);
    code.place(idle);
    machine(code, false);
    code.place(done);
}
