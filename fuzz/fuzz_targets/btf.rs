//! Any bytes as the kernel's description of its own types: never a panic, and every question is answered in bounded time.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ortscope_decode::btf::{Btf, Kind};

fuzz_target!(|data: &[u8]| {
    let Ok(btf) = Btf::parse(data) else { return };
    assert!(btf.len() <= data.len() + 1);
    for (holder, path) in [("a", "b"), ("a", "b.c"), ("task_struct", "se.sum_exec_runtime"), ("u", "")] {
        if let Ok(member) = btf.member(holder, path) {
            assert!(member.byte_offset() <= member.bit_offset);
            btf.size_bytes(member.type_id);
        }
    }
    for name in ["f", "do_exit"] {
        for kind in [Kind::Struct, Kind::Union, Kind::Function, Kind::Typedef] {
            if let Ok(found) = btf.find(kind, name) {
                btf.parameter_count(found);
                btf.size_bytes(found);
            }
        }
        btf.enumerator(name).ok();
    }
});
