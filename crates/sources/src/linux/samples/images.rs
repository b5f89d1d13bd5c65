//! Files that code is mapped from; each is read once, however many processes map it.
//!
//! The file at a path may have been replaced, deleted, or belong to another container. A mapped file is therefore opened
//! through the mapping itself where permitted; otherwise the file at the path is used only if its build id or inode
//! matches.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use ortscope_decode::symbols::{ElfImage, ReadCache, parse_maps};

/// Limit for cached files: 4096. Only the names of further ones are known.
const MAX_IMAGES: usize = 4096;
/// The vDSO has two pages; a much larger mapping is not a vDSO.
const MAX_VDSO_BYTES: u64 = 1 << 20;

/// A file mapping as reported by the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedFile {
    pub pid: u32,
    pub start: u64,
    pub end: u64,
    pub path: Vec<u8>,
    pub build_id: Option<Vec<u8>>,
    pub inode: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    BuildId(Vec<u8>),
    Inode(Vec<u8>, u64),
    Path(Vec<u8>),
    Vdso,
}

#[derive(Debug, Default)]
pub struct Images {
    known: HashMap<Key, Option<Arc<ElfImage>>>,
    /// Files that were replaced after they were mapped.
    pub replaced: u64,
    /// Files that could not be read.
    pub unreadable: u64,
}

enum Found {
    Image(ElfImage),
    Replaced,
    Unreadable,
}

impl Images {
    /// The file's symbols and tables; `None` if unavailable.
    pub fn get(&mut self, file: &MappedFile) -> Option<Arc<ElfImage>> {
        let is_vdso = file.path == b"[vdso]";
        let key = match (&file.build_id, file.inode) {
            _ if is_vdso => Key::Vdso,
            (Some(id), _) => Key::BuildId(id.clone()),
            (None, Some(inode)) => Key::Inode(file.path.clone(), inode),
            (None, None) => Key::Path(file.path.clone()),
        };
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        if self.known.len() >= MAX_IMAGES {
            return None;
        }
        let image = if is_vdso {
            own_vdso()
        } else {
            match find(file) {
                Found::Image(image) => Some(with_debug_symbols(image)),
                Found::Replaced => {
                    self.replaced += 1;
                    None
                }
                Found::Unreadable => {
                    self.unreadable += 1;
                    None
                }
            }
        };
        let image = image.map(Arc::new);
        self.known.insert(key, image.clone());
        image
    }
}

fn find(file: &MappedFile) -> Found {
    let MappedFile { pid, start, end, .. } = file;
    let (path, is_deleted) = match file.path.strip_suffix(b" (deleted)") {
        Some(path) => (path, true),
        None => (&file.path[..], false),
    };
    if let Some(image) = File::open(format!("/proc/{pid}/map_files/{start:x}-{end:x}")).ok().and_then(parse) {
        return Found::Image(image);
    }
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(path));
    // As seen by the process, which may run in a container; or by us, if the process has exited.
    let inside =
        path.strip_prefix("/").map(|path| PathBuf::from(format!("/proc/{pid}/root")).join(path)).ok();
    let mut was_replaced = is_deleted;
    for candidate in inside.into_iter().chain([path]) {
        let Ok(opened) = File::open(&candidate) else { continue };
        let Ok(metadata) = opened.metadata() else { continue };
        if !metadata.is_file() {
            continue;
        }
        let is_other_inode = file.inode.is_some_and(|inode| inode != metadata.ino());
        let Some(image) = parse(opened) else { continue };
        let is_same = match (&file.build_id, &image.build_id) {
            (Some(mapped), Some(found)) => mapped == found,
            (Some(_), None) => false,
            (None, _) => !is_other_inode && !is_deleted,
        };
        if is_same {
            return Found::Image(image);
        }
        was_replaced = true;
    }
    if was_replaced { Found::Replaced } else { Found::Unreadable }
}

fn parse(file: File) -> Option<ElfImage> {
    ElfImage::parse(&ReadCache::new(file)).ok()
}

/// A stripped file may have its symbols in the distribution's debug directory, under its build id.
fn with_debug_symbols(mut image: ElfImage) -> ElfImage {
    let Some(id) = image.build_id.as_ref().filter(|id| !image.has_symbol_table && id.len() > 2) else {
        return image;
    };
    let hexadecimal: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let (first, rest) = hexadecimal.split_at(2);
    let debug = File::open(format!("/usr/lib/debug/.build-id/{first}/{rest}.debug")).ok().and_then(parse);
    if let Some(debug) = debug.filter(|debug| debug.has_symbol_table) {
        image.adopt_functions(debug);
    }
    image
}

/// The kernel maps the same image into every process, so ours serves for all.
fn own_vdso() -> Option<ElfImage> {
    let maps = std::fs::read("/proc/self/maps").ok()?;
    let line = parse_maps(&maps).find(|line| line.path == b"[vdso]")?;
    let length = line.end.checked_sub(line.start).filter(|bytes| *bytes <= MAX_VDSO_BYTES)?;
    let mut memory = File::open("/proc/self/mem").ok()?;
    memory.seek(SeekFrom::Start(line.start)).ok()?;
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    memory.read_exact(&mut bytes).ok()?;
    ElfImage::parse(&bytes[..]).ok()
}
