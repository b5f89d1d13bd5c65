//! Unwinds a copy of the stack with the tables that compilers write for exceptions, which works for code without frame
//! pointers.
//!
//! `framehop` unwinds one frame at a time. Between frames there is one rule of our own: the trampolines that CPython
//! generates around Python functions have no tables.

use std::ops::Range;
use std::sync::Arc;

use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder as _};
use ortscope_core::kernel::MAX_FRAMES;

use crate::symbols::UnwindTables;

/// The processor architecture of the registers. Both are always compiled: a recording may come from another machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    X86_64,
    Aarch64,
}

impl Machine {
    /// The architecture of this program.
    pub fn native() -> Option<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Self::X86_64),
            "aarch64" => Some(Self::Aarch64),
            _ => None,
        }
    }

    /// Bits of `perf_event_attr.sample_regs_user`: frame pointer, stack pointer, instruction pointer; the link
    /// register.
    pub fn register_mask(self) -> u64 {
        match self {
            Self::X86_64 => (1 << 6) | (1 << 7) | (1 << 8),
            Self::Aarch64 => (1 << 29) | (1 << 30) | (1 << 31) | (1 << 32),
        }
    }

    pub fn register_count(self) -> usize {
        self.register_mask().count_ones() as usize
    }
}

enum Engine {
    X86_64(framehop::x86_64::UnwinderX86_64<Arc<[u8]>>, framehop::x86_64::CacheX86_64),
    Aarch64(framehop::aarch64::UnwinderAarch64<Arc<[u8]>>, framehop::aarch64::CacheAarch64),
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Engine")
    }
}

/// The code of one process and its unwind tables.
#[derive(Debug)]
pub struct Unwinder {
    engine: Engine,
}

/// Registers and stack of one sample.
#[derive(Debug, Clone, Copy)]
pub struct Snapshot<'a> {
    /// In the order of [`Machine::register_mask`].
    pub registers: &'a [u64],
    /// Starting at the stack pointer.
    pub stack: &'a [u8],
}

impl Unwinder {
    pub fn new(machine: Machine) -> Self {
        use framehop::{aarch64, x86_64};
        Self {
            engine: match machine {
                Machine::X86_64 => Engine::X86_64(x86_64::UnwinderX86_64::new(), x86_64::CacheX86_64::new()),
                Machine::Aarch64 => {
                    Engine::Aarch64(aarch64::UnwinderAarch64::new(), aarch64::CacheAarch64::new())
                }
            },
        }
    }

    /// Adds code mapped at `range`; `bias` is the difference between its addresses and those in the file.
    pub fn add(&mut self, range: Range<u64>, bias: u64, tables: &UnwindTables) {
        let place =
            |(address, bytes): &(u64, Arc<[u8]>)| *address..address.saturating_add(bytes.len() as u64);
        let bytes = |(_, bytes): &(u64, Arc<[u8]>)| bytes.clone();
        let sections = ExplicitModuleSectionInfo {
            base_svma: 0,
            text_svma: tables.text.clone(),
            eh_frame_svma: tables.frames.as_ref().map(place),
            eh_frame: tables.frames.as_ref().map(bytes),
            eh_frame_hdr_svma: tables.index.as_ref().map(place),
            eh_frame_hdr: tables.index.as_ref().map(bytes),
            ..Default::default()
        };
        let module = Module::new(String::new(), range, bias, sections);
        match &mut self.engine {
            Engine::X86_64(unwinder, _) => unwinder.add_module(module),
            Engine::Aarch64(unwinder, _) => unwinder.add_module(module),
        }
    }

    pub fn remove(&mut self, start: u64) {
        match &mut self.engine {
            Engine::X86_64(unwinder, _) => unwinder.remove_module(start),
            Engine::Aarch64(unwinder, _) => unwinder.remove_module(start),
        }
    }

    /// Returns the frames, innermost first, and whether the outermost one was reached. `is_trampoline` tests whether
    /// an address is in one of CPython's trampolines.
    pub fn walk(
        &mut self,
        snapshot: Snapshot<'_>,
        is_trampoline: &mut dyn FnMut(u64) -> bool,
    ) -> (Vec<u64>, bool) {
        match &mut self.engine {
            Engine::X86_64(unwinder, cache) => {
                let [frame_pointer, stack_pointer, at] = *snapshot.registers else {
                    return (Vec::new(), false);
                };
                let mut read = reader(snapshot.stack, stack_pointer);
                let mut registers = framehop::x86_64::UnwindRegsX86_64::new(at, stack_pointer, frame_pointer);
                frames(at, &mut |address| {
                    if !is_return_to(address, is_trampoline) {
                        return unwinder
                            .unwind_frame(address, &mut registers, cache, &mut read)
                            .map_err(drop);
                    }
                    // One word below the return address, for alignment or with the frame pointer.
                    let top = registers.sp();
                    if registers.bp() == top {
                        registers.set_bp(read(top)?);
                    }
                    let caller = read(top.wrapping_add(8))?;
                    registers.set_sp(top.wrapping_add(16));
                    registers.set_ip(caller);
                    Ok(Some(caller))
                })
            }
            Engine::Aarch64(unwinder, cache) => {
                let [frame_pointer, link, stack_pointer, at] = *snapshot.registers else {
                    return (Vec::new(), false);
                };
                let mut read = reader(snapshot.stack, stack_pointer);
                let mask =
                    framehop::aarch64::PtrAuthMask::from_max_known_address(unwinder.max_known_code_address());
                let mut registers = framehop::aarch64::UnwindRegsAarch64::new_with_ptr_auth_mask(
                    mask,
                    link,
                    stack_pointer,
                    frame_pointer,
                );
                // CPython's trampolines keep frame pointers here, which framehop follows without tables.
                frames(at, &mut |address| {
                    unwinder.unwind_frame(address, &mut registers, cache, &mut read).map_err(drop)
                })
            }
        }
    }
}

fn is_return_to(address: FrameAddress, is_trampoline: &mut dyn FnMut(u64) -> bool) -> bool {
    address.is_return_address() && is_trampoline(address.address_for_lookup())
}

fn reader(stack: &[u8], from: u64) -> impl FnMut(u64) -> Result<u64, ()> {
    move |address| {
        let at = usize::try_from(address.checked_sub(from).ok_or(())?).map_err(drop)?;
        let word = stack.get(at..at.checked_add(8).ok_or(())?).ok_or(())?;
        Ok(u64::from_ne_bytes(word.try_into().map_err(drop)?))
    }
}

fn frames(at: u64, next: &mut dyn FnMut(FrameAddress) -> Result<Option<u64>, ()>) -> (Vec<u64>, bool) {
    let mut found = vec![at];
    let mut address = FrameAddress::from_instruction_pointer(at);
    while found.len() < MAX_FRAMES {
        match next(address) {
            Ok(Some(caller)) => match FrameAddress::from_return_address(caller) {
                Some(caller_address) => {
                    found.push(caller);
                    address = caller_address;
                }
                // Many programs start a thread with the return address 0.
                None => return (found, true),
            },
            Ok(None) => return (found, true),
            Err(()) => return (found, false),
        }
    }
    (found, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_pointers_are_followed_and_trampolines_skipped_without_tables() {
        let mut unwinder = Unwinder::new(Machine::X86_64);
        let top = 0x7ffe_0000u64;
        // The frame of the innermost function, CPython's trampoline (one word and the return address), the
        // caller's frame.
        let words = [top + 32, 0x5001, 0xdead, 0x6001, 0, 0];
        let stack: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_ne_bytes()).collect();
        let snapshot = Snapshot { registers: &[top, top, 0x4000], stack: &stack };
        let (found, is_whole) = unwinder.walk(snapshot, &mut |address| address == 0x5000);
        assert_eq!(found, [0x4000, 0x5001, 0x6001]);
        assert!(is_whole);
    }

    #[test]
    fn a_truncated_stack_is_reported_as_incomplete() {
        let mut unwinder = Unwinder::new(Machine::X86_64);
        let stack: Vec<u8> = [0x7000_0040u64, 0x5001].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let snapshot = Snapshot { registers: &[0x7000_0000, 0x7000_0000, 0x4000], stack: &stack };
        assert_eq!(unwinder.walk(snapshot, &mut |_| false), (vec![0x4000, 0x5001], false));
        let nothing = Snapshot { registers: &[], stack: &[] };
        assert_eq!(unwinder.walk(nothing, &mut |_| false), (vec![], false));
    }
}
