//! Any text as a list of names that other programs write: the kernel's symbols, maps of code that was made at run time, maps of
//! processes, and the names as linkers write them. Never a panic, every name is short and keeps to its line.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ortscope_decode::symbols::{demangle, parse_kallsyms, parse_maps, parse_perf_map};

fuzz_target!(|data: &[u8]| {
    for line in parse_maps(data) {
        assert!(line.path.len() <= data.len());
    }
    let text = String::from_utf8_lossy(data);
    for list in [parse_kallsyms(&text), parse_perf_map(&text)] {
        for address in [0, 1, 0x7f00, 0xffff_ffff_8100_0100, u64::MAX] {
            if let Some((start, name)) = list.find(address) {
                assert!(start <= address && !name.contains('\n'));
            }
        }
    }
    for name in text.lines().take(4) {
        let shown = demangle(name);
        assert!(shown.chars().count() <= 241, "{shown}");
        assert!(!shown.contains(|letter: char| letter.is_control() || letter == ';'), "{shown}");
    }
});
