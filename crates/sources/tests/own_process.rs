//! This process on the real system.

use ortscope_sources::{UsageError, machine_facts, own_usage, process_usage};

#[test]
fn memory_of_this_process_grows() {
    let before = own_usage().unwrap();
    assert!(before.working_set_bytes > 100_000, "{before:?}");
    let block = std::hint::black_box(vec![1u8; 64 << 20]);
    let after = own_usage().unwrap();
    assert!(after.working_set_bytes >= before.working_set_bytes + (60 << 20), "{before:?} {after:?}");
    assert_eq!(before.identity, after.identity);
    drop(block);
    let seen_from_outside = process_usage(std::process::id()).unwrap();
    assert_eq!(seen_from_outside.identity, before.identity);
}

#[test]
fn cpu_time_advances_when_work_is_done() {
    let before = own_usage().unwrap().cpu_time_ns;
    let mut sum = 0u64;
    while own_usage().unwrap().cpu_time_ns < before + 20_000_000 {
        sum = (0..200_000u64).fold(sum, |sum, number| std::hint::black_box(sum ^ number));
    }
    std::hint::black_box(sum);
}

#[test]
fn a_nonexistent_process_is_named() {
    assert_eq!(process_usage(u32::MAX - 7), Err(UsageError::NoSuchProcess(u32::MAX - 7)));
}

#[test]
fn the_machine_has_cores_and_memory() {
    let facts = machine_facts();
    assert!(facts.logical_cpus >= 1);
    assert!(facts.memory_bytes.is_some_and(|bytes| bytes > 64 << 20), "{facts:?}");
}
