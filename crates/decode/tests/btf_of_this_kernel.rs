//! The BTF parser on the running kernel, if it provides BTF.

use std::time::Instant;

use ortscope_decode::btf::{Btf, Kind};

#[path = "../../ort/tests/support/skips.rs"]
mod skips;

#[test]
fn the_running_kernel_describes_its_tasks() {
    let Ok(bytes) = std::fs::read("/sys/kernel/btf/vmlinux") else {
        return skips::skipped("/sys/kernel/btf/vmlinux is missing or unreadable");
    };
    let begin = Instant::now();
    let btf = Btf::parse(&bytes).unwrap();
    let parsed = begin.elapsed();
    assert!(btf.is_complete(), "{} types, then an unknown one", btf.len());
    let pid = btf.member("task_struct", "pid").unwrap();
    let tgid = btf.member("task_struct", "tgid").unwrap();
    assert_eq!(pid.size_bytes, Some(4));
    assert_eq!(pid.byte_offset() + 4, tgid.byte_offset(), "the two are adjacent since Linux 2.6");
    let name = btf.member("task_struct", "comm").unwrap();
    assert_eq!(name.size_bytes, Some(16));
    assert_eq!(btf.member("task_struct", "se.sum_exec_runtime").unwrap().size_bytes, Some(8));
    assert!(btf.find(Kind::Typedef, "btf_trace_sched_switch").is_ok());
    assert!(btf.member("task_struct", "no_such_member").is_err());
    println!("{} types, parsed in {parsed:?}, all answers in {:?}", btf.len(), begin.elapsed());
}
