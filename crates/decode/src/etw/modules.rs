//! Finds the program or library that an address belongs to.
//!
//! A trace names images when they are loaded. Images that were loaded before are listed at its beginning or its end, so
//! a reader that can read the trace twice adds all of them ([`Modules::learn`]) before it looks up the first address.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use ortscope_core::kernel::{CpuSample, Frame, FrameKind};
use ortscope_etl::EventRecord;
use ortscope_etl::payload::kernel::{KernelBody, KernelPayload};

use super::UNKNOWN_ID;

/// Maximum number of images of all processes together. Addresses in further images have no name, and those images are counted.
const MAX_IMAGES: usize = 200_000;
/// Maximum number of frames in a folded stack. Deeper stacks lose their outermost frames.
const MAX_FRAMES: usize = 64;
/// The kernel and its drivers are listed under these process ids.
pub const KERNEL_PROCESSES: [u32; 2] = [0, 4];

/// The images of all processes.
#[derive(Debug, Default)]
pub struct Modules {
    /// By process and first address: the end address (exclusive) and the file name. A later image at the same address
    /// replaces the earlier one.
    images: BTreeMap<(u32, u64), (u64, Arc<str>)>,
    names: HashSet<Arc<str>>,
    /// Images beyond the limit.
    pub dropped: u64,
}

impl Modules {
    /// Adds the image if the record describes one.
    pub fn learn(&mut self, record: &EventRecord<'_>) {
        let Ok(KernelPayload { body: KernelBody::Image(image), .. }) = KernelPayload::decode(record) else {
            return;
        };
        if let Some(pid) = image.process_id.or(record.process_id) {
            self.add(pid, image.image_base.0, image.size(), &image.file_name.to_string());
        }
    }

    pub fn add(&mut self, pid: u32, base: u64, bytes: u64, path: &str) {
        let key = (pid, base);
        if self.images.len() >= MAX_IMAGES && !self.images.contains_key(&key) {
            self.dropped += 1;
            return;
        }
        let name = path.rsplit(['\\', '/']).next().unwrap_or(path);
        let name = match self.names.get(name) {
            Some(known) => Arc::clone(known),
            None => {
                let name: Arc<str> = name.into();
                self.names.insert(Arc::clone(&name));
                name
            }
        };
        self.images.insert(key, (base.saturating_add(bytes), name));
    }

    /// The image's file name, and the offset of the address in it.
    fn find(&self, pid: u32, address: u64, is_kernel: bool) -> Option<(&Arc<str>, u64)> {
        if is_kernel {
            return KERNEL_PROCESSES.iter().find_map(|pid| self.find(*pid, address, false));
        }
        let ((owner, base), (end, name)) = self.images.range(..=(pid, address)).next_back()?;
        (pid != UNKNOWN_ID && *owner == pid && address < *end).then(|| (name, address - base))
    }

    /// The frame of an address. A return address is behind its call, so the byte before it belongs to the caller.
    pub fn frame(&self, pid: u32, address: u64, is_kernel: bool, is_return: bool) -> Frame {
        let address = address.saturating_sub(u64::from(is_return));
        let kind = if is_kernel { FrameKind::Kernel } else { FrameKind::Native };
        match self.find(pid, address, is_kernel) {
            Some((module, offset)) => {
                Frame { name: format!("{module}+{offset:#x}").into(), module: Arc::clone(module), kind }
            }
            None => Frame { name: format!("{address:#x}").into(), module: "".into(), kind },
        }
    }

    /// The frames from the outermost to the innermost, such as `ntdll.dll+0x1a2b;app.exe+0x10`, in the format of flame
    /// graph tools.
    pub fn folded(&self, sample: &CpuSample) -> String {
        let mut text = String::new();
        let kernel = sample.kernel.iter().map(|address| (true, *address));
        let frames: Vec<(bool, u64)> =
            kernel.chain(sample.user.iter().map(|address| (false, *address))).take(MAX_FRAMES).collect();
        for (is_kernel, address) in frames.into_iter().rev() {
            if !text.is_empty() {
                text.push(';');
            }
            text.push_str(&match self.find(sample.thread.pid, address, is_kernel) {
                Some((name, offset)) => format!("{name}+{offset:#x}"),
                None => format!("{address:#x}"),
            });
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use ortscope_core::kernel::Task;

    use super::*;

    #[test]
    fn an_address_belongs_to_the_image_of_its_own_process() {
        let mut modules = Modules::default();
        modules.add(7, 0x5000, 0x1000, r"\Device\a.dll");
        modules.add(4, 0xffff_8000_0000_0000, 0x1000, "nt.exe");
        let sample = |pid| CpuSample {
            thread: Task { tid: 1, pid },
            kernel: vec![0xffff_8000_0000_0010],
            user: vec![0x5010, 0x6000],
            ..CpuSample::default()
        };
        assert_eq!(modules.folded(&sample(7)), "0x6000;a.dll+0x10;nt.exe+0x10");
        // The nearest image below the address belongs to another process.
        assert_eq!(modules.folded(&sample(8)), "0x6000;0x5010;nt.exe+0x10");
        assert_eq!(&*modules.frame(7, 0x5010, false, true).name, "a.dll+0xf");
    }
}
