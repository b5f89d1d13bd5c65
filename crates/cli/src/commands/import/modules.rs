//! Which program or library an address belongs to.
//!
//! A trace names images when they are loaded and, of those that were there before, in a list at its beginning or its end.
//! So all of them are collected on a first pass: an address that is asked for may be explained at the end of the trace.

use std::collections::BTreeMap;
use std::sync::Arc;

use ortscope_core::kernel::CpuSample;
use ortscope_decode::etw::UNKNOWN_ID;
use ortscope_etl::EventRecord;
use ortscope_etl::payload::kernel::{KernelBody, KernelPayload};

/// Images of all processes that are kept: 200,000. Addresses in further ones are told as numbers, and counted.
const MAX_IMAGES: usize = 200_000;
/// Frames of one stack that are written; of deeper ones the outermost are left out.
const MAX_FRAMES: usize = 64;
/// The kernel and its drivers are listed under these processes.
const KERNEL_PROCESSES: [u32; 2] = [0, 4];

#[derive(Debug, Default)]
pub struct Modules {
    /// By process and first address: the address behind the last, and the name. Where a process loads something else at the
    /// same place later, the last one wins.
    images: BTreeMap<(u32, u64), (u64, Arc<str>)>,
    names: BTreeMap<Arc<str>, ()>,
    pub left_out: u64,
}

impl Modules {
    pub fn learn(&mut self, record: &EventRecord<'_>) {
        let Ok(KernelPayload { body: KernelBody::Image(image), .. }) = KernelPayload::decode(record) else {
            return;
        };
        let Some(pid) = image.process_id.or(record.process_id) else { return };
        let (base, bytes) = (image.image_base.0, image.size());
        let key = (pid, base);
        if self.images.len() >= MAX_IMAGES && !self.images.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        let path = image.file_name.to_string();
        let name: Arc<str> = path.rsplit(['\\', '/']).next().unwrap_or(&path).into();
        let name = match self.names.get_key_value(&name) {
            Some((known, ())) => Arc::clone(known),
            None => {
                self.names.insert(Arc::clone(&name), ());
                name
            }
        };
        self.images.insert(key, (base.saturating_add(bytes), name));
    }

    fn find(&self, pid: u32, address: u64) -> Option<(&Arc<str>, u64)> {
        let ((of, base), (end, name)) = self.images.range(..=(pid, address)).next_back()?;
        (*of == pid && address < *end).then(|| (name, address - base))
    }

    /// The frames from the outermost to the innermost, such as `ntdll.dll+0x1a2b;app.exe+0x10`, as flame graphs take them.
    pub fn folded(&self, sample: &CpuSample) -> String {
        let mut text = String::new();
        let kernel = sample.kernel.iter().map(|address| (true, *address));
        let frames: Vec<(bool, u64)> =
            kernel.chain(sample.user.iter().map(|address| (false, *address))).take(MAX_FRAMES).collect();
        for (is_kernel, address) in frames.into_iter().rev() {
            if !text.is_empty() {
                text.push(';');
            }
            let found = if is_kernel {
                KERNEL_PROCESSES.iter().find_map(|pid| self.find(*pid, address))
            } else if sample.thread.pid == UNKNOWN_ID {
                None
            } else {
                self.find(sample.thread.pid, address)
            };
            text.push_str(&match found {
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
        let name: Arc<str> = "a.dll".into();
        modules.images.insert((7, 0x5000), (0x6000, Arc::clone(&name)));
        modules.images.insert((4, 0xffff_8000_0000_0000), (0xffff_8000_0000_1000, "nt.exe".into()));
        let sample = |pid| CpuSample {
            thread: Task { tid: 1, pid },
            kernel: vec![0xffff_8000_0000_0010],
            user: vec![0x5010, 0x6000],
            ..CpuSample::default()
        };
        assert_eq!(modules.folded(&sample(7)), "0x6000;a.dll+0x10;nt.exe+0x10");
        // The image before it is of another process and lies higher.
        assert_eq!(modules.folded(&sample(8)), "0x6000;0x5010;nt.exe+0x10");
    }
}
