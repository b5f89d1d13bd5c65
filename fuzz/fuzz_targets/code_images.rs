//! Any bytes as a program: its functions, and its tables for unwinding used on a stack of the same bytes. Never a panic, and
//! every walk ends.
//!
//! Input: 4 words for registers, then the file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ortscope_core::kernel::MAX_FRAMES;
use ortscope_decode::symbols::ElfImage;
use ortscope_decode::unwind::{Machine, Snapshot, Unwinder};

const REGISTER_BYTES: usize = 32;
/// Where the code is said to be mapped.
const MAPPED_AT: u64 = 0x5555_5555_4000;

fuzz_target!(|data: &[u8]| {
    let Some((words, file)) = data.split_first_chunk::<REGISTER_BYTES>() else { return };
    let registers: Vec<u64> = words
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
        .collect();
    let Ok(image) = ElfImage::parse(file) else { return };
    let shown: usize = registers
        .iter()
        .chain(&[0, 0x1000, 0x1040, u64::MAX])
        .filter_map(|address| image.function(*address))
        .map(|(_, name)| name.len())
        .sum();
    assert!(shown <= 8 * file.len());
    let Some(bias) = image.bias(MAPPED_AT, registers[0] & 0xffff) else { return };
    for machine in [Machine::X86_64, Machine::Aarch64] {
        let mut unwinder = Unwinder::new(machine);
        unwinder.add(MAPPED_AT..MAPPED_AT + 0x10_0000, bias, &image.unwind);
        let mut own = registers.clone();
        own.truncate(machine.register_count());
        // As it is, and at a place inside of the code.
        for round in 0..2 {
            if round == 1 {
                let last = own.len() - 1;
                let text = image.unwind.text.as_ref().map_or(0, |text| text.start);
                own[last] = text.wrapping_add(bias).wrapping_add(own[last] & 0xff);
            }
            let snapshot = Snapshot { registers: &own, stack: file };
            let (frames, _) = unwinder.walk(snapshot, &mut |address| address & 0xfff == 0x123);
            assert!(frames.len() <= MAX_FRAMES);
        }
        unwinder.remove(MAPPED_AT);
    }
});
