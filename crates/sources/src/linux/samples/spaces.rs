//! Address spaces: the mappings of each process, and names for its addresses.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use ortscope_core::kernel::{Frame, FrameKind};
use ortscope_decode::perf_record_samples::Mapped;
use ortscope_decode::symbols::{ElfImage, NameList, demangle, parse_maps, parse_perf_map};
use ortscope_decode::unwind::{Machine, Snapshot, Unwinder};

use super::images::{Images, MappedFile};

/// Limit for mappings per process: 20,000. Later mappings have no names.
const MAX_MAPPINGS: usize = 20_000;
/// Maximum length of a list of JIT-compiled code.
const MAX_LIST_BYTES: u64 = 64 << 20;
/// A longer list is read again at most once per second.
const LONG_LIST_BYTES: u64 = 4 << 20;
/// Prefix of CPython's names.
const PYTHON: &str = "py::";

/// The address space of one process.
#[derive(Debug)]
pub struct Space {
    pid: u32,
    pub name: Arc<str>,
    /// Sorted by start, without overlaps.
    mappings: Vec<Mapping>,
    unwinder: Option<Unwinder>,
    jit: JitNames,
    /// Number of mappings whose file was not read yet: nothing is read for processes that are never sampled.
    unread: usize,
}

#[derive(Debug, Clone)]
struct Mapping {
    range: Range<u64>,
    file_offset: u64,
    file: Option<MappedFile>,
    label: Arc<str>,
    is_read: bool,
    /// With the bias to subtract from addresses.
    image: Option<(Arc<ElfImage>, u64)>,
}

/// Names of JIT-compiled code.
#[derive(Debug, Default)]
struct JitNames {
    list: NameList,
    read_bytes: u64,
    read_ns: u64,
}

impl Space {
    pub fn new(pid: u32, machine: Option<Machine>) -> Self {
        let unwinder = machine.map(Unwinder::new);
        let name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
        let name = String::from_utf8_lossy(name.trim_ascii_end()).into_owned();
        let name = if name.is_empty() { format!("process {pid}") } else { clean(&name) };
        Self { pid, name: name.into(), mappings: Vec::new(), unwinder, jit: JitNames::default(), unread: 0 }
    }

    /// A process that is already running: its mappings are in `/proc`.
    pub fn running(pid: u32, machine: Option<Machine>) -> Self {
        let mut space = Self::new(pid, machine);
        let text = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        for line in parse_maps(&text).filter(|line| line.is_executable) {
            let inode = Some(line.inode).filter(|inode| *inode != 0);
            space.insert(line.start..line.end, line.file_offset, line.path, None, inode);
        }
        space
    }

    /// A child starts with the mappings of its parent.
    pub fn fork(&self, pid: u32, machine: Option<Machine>) -> Self {
        let mut child = Self {
            pid,
            name: self.name.clone(),
            mappings: self.mappings.clone(),
            unwinder: machine.map(Unwinder::new),
            jit: JitNames::default(),
            unread: self.mappings.len(),
        };
        for mapping in &mut child.mappings {
            mapping.is_read = false;
            if let Some(file) = &mut mapping.file {
                file.pid = pid;
            }
        }
        child
    }

    pub fn rename(&mut self, name: &str) {
        self.name = clean(name).into();
    }

    pub fn map(&mut self, mapped: &Mapped<'_>) {
        if mapped.is_executable {
            let range = mapped.address..mapped.address.saturating_add(mapped.bytes);
            self.insert(range, mapped.file_offset, mapped.path, mapped.build_id.map(<[u8]>::to_vec), None);
        }
    }

    fn insert(
        &mut self,
        range: Range<u64>,
        file_offset: u64,
        path: &[u8],
        build_id: Option<Vec<u8>>,
        inode: Option<u64>,
    ) {
        let Self { mappings, unwinder, .. } = self;
        mappings.retain(|known| {
            let stays = known.range.end <= range.start || known.range.start >= range.end;
            if !stays && let Some(unwinder) = unwinder {
                unwinder.remove(known.range.start);
            }
            stays
        });
        if mappings.len() >= MAX_MAPPINGS || range.is_empty() {
            return;
        }
        let is_file = path == b"[vdso]" || (path.starts_with(b"/") && !is_memory(path));
        let (pid, start, end) = (self.pid, range.start, range.end);
        let file = is_file.then(|| MappedFile { pid, start, end, path: path.to_vec(), build_id, inode });
        let text = String::from_utf8_lossy(path);
        let label: Arc<str> = match text.rsplit('/').next() {
            Some(name) if is_file => clean(name).into(),
            _ => "anonymous memory".into(),
        };
        let at = mappings.partition_point(|known| known.range.start < range.start);
        mappings.insert(at, Mapping { range, file_offset, file, label, is_read: false, image: None });
        self.unread += 1;
    }

    /// Reads the files of new mappings.
    pub fn read(&mut self, images: &mut Images) {
        if self.unread == 0 {
            return;
        }
        self.unread = 0;
        for mapping in self.mappings.iter_mut().filter(|mapping| !mapping.is_read) {
            mapping.is_read = true;
            let Some(image) = mapping.file.as_ref().and_then(|file| images.get(file)) else { continue };
            // The vDSO is not part of a file, but begins like one.
            let Some(bias) = image.bias(mapping.range.start, mapping.file_offset) else { continue };
            if let Some(unwinder) = &mut self.unwinder {
                unwinder.add(mapping.range.clone(), bias, &image.unwind);
            }
            mapping.image = Some((image, bias));
        }
    }

    fn mapping(&self, address: u64) -> Option<&Mapping> {
        let after = self.mappings.partition_point(|mapping| mapping.range.start <= address);
        self.mappings.get(after.checked_sub(1)?).filter(|mapping| mapping.range.contains(&address))
    }

    /// The callers of a sample, from the unwind tables of its code.
    pub fn walk(&mut self, snapshot: Snapshot<'_>) -> Option<(Vec<u64>, bool)> {
        let jit = &self.jit.list;
        let mut is_python =
            |address: u64| jit.find(address).is_some_and(|(_, name)| name.starts_with(PYTHON));
        Some(self.unwinder.as_mut()?.walk(snapshot, &mut is_python))
    }

    /// Reads the list of JIT-compiled code again if it has grown.
    pub fn refresh_jit(&mut self, now_ns: u64) {
        let wait_ns = if self.jit.read_bytes > LONG_LIST_BYTES { 1_000_000_000 } else { 0 };
        if self.jit.read_ns != 0 && now_ns.saturating_sub(self.jit.read_ns) < wait_ns {
            return;
        }
        let inner = inner_pid(self.pid).unwrap_or(self.pid);
        let inside = format!("/proc/{}/root/tmp/perf-{inner}.map", self.pid);
        let outside = format!("/tmp/perf-{}.map", self.pid);
        for path in [inside, outside] {
            let Ok(metadata) = std::fs::metadata(&path) else { continue };
            if !metadata.is_file() {
                continue;
            }
            if metadata.len() != self.jit.read_bytes
                && metadata.len() <= MAX_LIST_BYTES
                && let Ok(text) = std::fs::read(&path)
            {
                self.jit.read_bytes = metadata.len();
                self.jit.list = parse_perf_map(&String::from_utf8_lossy(&text));
            }
            self.jit.read_ns = now_ns;
            return;
        }
    }

    /// The function at an address.
    pub fn frame(&self, address: u64) -> Frame {
        let mapping = self.mapping(address);
        if let Some((image, bias)) = mapping.and_then(|mapping| mapping.image.as_ref())
            && let Some((_, name)) = image.function(address.wrapping_sub(*bias))
            && let Some(mapping) = mapping
        {
            return Frame {
                name: demangle(name).into(),
                module: mapping.label.clone(),
                kind: FrameKind::Native,
            };
        }
        if mapping.is_none_or(|mapping| mapping.file.is_none())
            && let Some((_, name)) = self.jit.list.find(address)
        {
            return jit_frame(name);
        }
        match mapping {
            Some(mapping) => {
                let name = format!("[{}]", mapping.label);
                Frame { name: name.into(), module: mapping.label.clone(), kind: FrameKind::Native }
            }
            None => Frame { name: "[unknown]".into(), module: "".into(), kind: FrameKind::Native },
        }
    }
}

/// Memory that has a path but no file.
fn is_memory(path: &[u8]) -> bool {
    [&b"//anon"[..], b"/memfd:", b"/dev/zero", b"/SYSV", b"/anon_hugepage"]
        .iter()
        .any(|begin| path.starts_with(begin))
}

fn clean(name: &str) -> String {
    name.chars().map(|letter| if letter.is_control() || letter == ';' { '?' } else { letter }).collect()
}

/// `py::function:/path/file.py` is a Python function.
fn jit_frame(name: &str) -> Frame {
    let Some((function, path)) = name.strip_prefix(PYTHON).and_then(|rest| rest.split_once(':')) else {
        return Frame { name: demangle(name).into(), module: "".into(), kind: FrameKind::Jit };
    };
    let file = path.rsplit('/').next().unwrap_or(path);
    Frame { name: clean(function).into(), module: clean(file).into(), kind: FrameKind::Python }
}

/// The process's id in its own namespace, which differs from ours in a container.
fn inner_pid(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().next_back()?.parse().ok()
}

/// All observed processes.
#[derive(Debug)]
pub struct Spaces {
    pub machine: Option<Machine>,
    by_pid: HashMap<u32, Space>,
    /// Exited processes, whose ids may be reused.
    ended: HashSet<u32>,
    pub images: Images,
}

/// Limit for concurrently tracked processes.
const MAX_PROCESSES: usize = 20_000;

impl Spaces {
    pub fn new(machine: Option<Machine>) -> Self {
        Self { machine, by_pid: HashMap::new(), ended: HashSet::new(), images: Images::default() }
    }

    pub fn add_running(&mut self, pid: u32) {
        self.by_pid.insert(pid, Space::running(pid, self.machine));
    }

    pub fn knows(&self, pid: u32) -> bool {
        self.by_pid.contains_key(&pid)
    }

    /// The process; its mappings are looked up if its start was not observed.
    pub fn get(&mut self, pid: u32) -> Option<(&mut Space, &mut Images)> {
        if !self.by_pid.contains_key(&pid) {
            if self.by_pid.len() >= MAX_PROCESSES {
                return None;
            }
            self.add_running(pid);
        }
        Some((self.by_pid.get_mut(&pid)?, &mut self.images))
    }

    pub fn fork(&mut self, parent: u32, child: u32) {
        if self.by_pid.len() >= MAX_PROCESSES {
            return;
        }
        self.ended.remove(&child);
        if let Some(parent) = self.by_pid.get(&parent) {
            let space = parent.fork(child, self.machine);
            self.by_pid.insert(child, space);
        }
    }

    /// Another program was executed: the old mappings are gone.
    pub fn exec(&mut self, pid: u32, name: &str) {
        let mut space = Space::new(pid, self.machine);
        space.rename(name);
        self.by_pid.insert(pid, space);
    }

    pub fn end(&mut self, pid: u32) {
        self.ended.insert(pid);
    }

    /// Drops processes that exited before the last read records.
    pub fn forget_ended(&mut self) {
        #[expect(clippy::iter_over_hash_type, reason = "removals do not depend on the order")]
        for pid in self.ended.drain() {
            self.by_pid.remove(&pid);
        }
    }
}
