//! Offsets in the running kernel, from its BTF.

use ortscope_decode::btf::{Btf, BtfError, Kind, TypeId};

use super::asm::Width;
use crate::kernel::TraceError;

const BTF_PATH: &str = "/sys/kernel/btf/vmlinux";

/// The bytes of the kernel's BTF.
pub fn read_btf() -> Result<Vec<u8>, TraceError> {
    std::fs::read(BTF_PATH).map_err(|error| TraceError::Unsupported {
        what: "tracing with BPF".to_owned(),
        why: format!("{BTF_PATH} cannot be read: {error}"),
        hint: "use a kernel built with CONFIG_DEBUG_INFO_BTF, as in all major distributions".to_owned(),
    })
}

/// A type that the BTF lacks: this kernel does not support the feature.
impl From<BtfError> for TraceError {
    fn from(error: BtfError) -> Self {
        Self::Unsupported {
            what: "tracing with BPF".to_owned(),
            why: error.to_string(),
            hint: "requires Linux 5.8 or newer for events, 6.7 or newer for snapshots".to_owned(),
        }
    }
}

/// Offsets in `struct task_struct`.
#[derive(Debug, Clone, Copy)]
pub struct TaskLayout {
    pub tid: i16,
    pub pid: i16,
    pub name: i16,
    pub start_ns: i16,
    pub run_ns: i16,
    /// Only in kernels with `CONFIG_SCHED_INFO`.
    pub wait_ns: Option<i16>,
    /// Its width changed together with its name.
    pub state: i16,
    pub exit_code: i16,
    pub cpu: i16,
    pub memory: Option<MemoryLayout>,
}

/// Offsets of fields that change with the memory of a process.
#[derive(Debug, Clone, Copy)]
pub struct MemoryLayout {
    /// In `task_struct`.
    pub minor_faults: i16,
    pub space: i16,
    /// In `mm_struct`: pages of the address space, and the first counter of resident pages.
    pub pages: i16,
    pub resident: i16,
    /// Distance between counters.
    pub counter_bytes: i16,
}

impl MemoryLayout {
    /// Before 6.2 resident pages were counted differently; without this mark memory is read more often.
    fn find(btf: &Btf<'_>, task: Structure<'_>) -> Result<Self, BtfError> {
        let space = Structure::find(btf, "mm_struct")?;
        let counter = Structure::find(btf, "percpu_counter")?;
        Ok(Self {
            minor_faults: task.offset("min_flt")?,
            space: task.offset("mm")?,
            pages: space.offset("total_vm")?,
            resident: space.offset("rss_stat")? + counter.offset("count")?,
            // A lock and the count, a list for CPU hotplug, and the per-processor parts.
            counter_bytes: counter.offset("counters")? + 8,
        })
    }
}

impl TaskLayout {
    pub fn find(btf: &Btf<'_>) -> Result<Self, BtfError> {
        let structure = Structure::find(btf, "task_struct")?;
        Ok(Self {
            tid: structure.offset("pid")?,
            pid: structure.offset("tgid")?,
            name: structure.offset("comm")?,
            start_ns: structure.offset("start_time")?,
            run_ns: structure.offset("se.sum_exec_runtime")?,
            wait_ns: structure.offset("sched_info.run_delay").ok(),
            state: structure.offset("__state").or_else(|_| structure.offset("state"))?,
            exit_code: structure.offset("exit_code")?,
            // Since 5.16 in `thread_info` on most processors.
            cpu: structure.offset("thread_info.cpu").or_else(|_| structure.offset("cpu"))?,
            memory: MemoryLayout::find(btf, structure).ok(),
        })
    }
}

/// Offsets of a system call's number and arguments in `struct pt_regs` when it returns.
#[derive(Debug, Clone, Copy)]
pub struct Registers {
    pub number: i16,
    pub first: i16,
    pub second: i16,
}

impl Registers {
    pub fn find(btf: &Btf<'_>) -> Result<Self, BtfError> {
        let structure = Structure::find(btf, "pt_regs")?;
        let x86 = || {
            let number = structure.offset("orig_ax")?;
            Ok::<_, BtfError>(Self {
                number,
                first: structure.offset("di")?,
                second: structure.offset("si")?,
            })
        };
        let arm = || {
            let (number, first) = (structure.offset("syscallno")?, structure.offset("orig_x0")?);
            Ok(Self { number, first, second: structure.offset("regs")? + 8 })
        };
        x86().or_else(|_| arm())
    }
}

/// A structure whose members are looked up.
#[derive(Debug, Clone, Copy)]
pub struct Structure<'a> {
    btf: &'a Btf<'a>,
    id: TypeId,
    name: &'static str,
}

impl<'a> Structure<'a> {
    pub fn find(btf: &'a Btf<'a>, name: &'static str) -> Result<Self, BtfError> {
        Ok(Self { btf, id: btf.find(Kind::Struct, name)?, name })
    }

    /// In bytes. Loads have 16-bit offsets: a member further away counts as missing.
    pub fn offset(&self, path: &str) -> Result<i16, BtfError> {
        let member = self.btf.member_of(self.id, self.name, path)?;
        i16::try_from(member.byte_offset())
            .map_err(|_| BtfError::NoSuchMember { holder: self.name.to_owned(), member: path.to_owned() })
    }

    /// With its width in this kernel: the verifier rejects loads that exceed a member.
    pub fn sized(&self, path: &str) -> Result<(Width, i16), BtfError> {
        let width = match self.btf.member_of(self.id, self.name, path)?.size_bytes {
            Some(1) => Width::U8,
            Some(4) => Width::U32,
            Some(8) => Width::U64,
            _ => {
                return Err(BtfError::NoSuchMember { holder: self.name.to_owned(), member: path.to_owned() });
            }
        };
        Ok((width, self.offset(path)?))
    }
}

/// A tracepoint: the id to attach to, and its number of arguments.
pub fn tracepoint(btf: &Btf<'_>, name: &str) -> Result<(TypeId, usize), BtfError> {
    let id = btf.find(Kind::Typedef, &format!("btf_trace_{name}"))?;
    // The first parameter is internal to the tracepoint.
    Ok((id, btf.parameter_count(id).unwrap_or(0).saturating_sub(1)))
}
