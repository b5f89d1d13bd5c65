//! Without privileges, the error names what is missing.

use std::process::Command;

use ortscope_sources::kernel::TraceOptions;
use ortscope_sources::{KernelTrace, ThreadSnapshot};

use crate::skips;

const CHILD: &str = "ORTSCOPE_TEST_WITHOUT_RIGHTS";

/// The child's half of the test below: prints the result of opening.
#[test]
fn child_without_rights() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let events = KernelTrace::open(&TraceOptions::default()).map(|trace| trace.backend());
    let snapshot = ThreadSnapshot::open().map(|_| ());
    println!(
        "events: {}",
        events.map_or_else(|error| error.to_string(), |backend| format!("opened {backend:?}"))
    );
    println!("snapshot: {}", snapshot.map_or_else(|error| error.to_string(), |()| "opened".to_owned()));
}

/// Output of the child with only these capabilities; `None` after noting why that cannot be tested.
fn with_capabilities(capabilities: &str) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        skips::skipped("only root can drop privileges");
        return None;
    }
    let own = std::env::current_exe().unwrap();
    let answer = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .args(["--inh-caps", capabilities, "--ambient-caps", capabilities])
        .arg(own)
        .args(["--exact", "rights::child_without_rights", "--nocapture"])
        .env(CHILD, "1")
        .output();
    let Ok(answer) = answer else {
        skips::skipped("setpriv is not installed");
        return None;
    };
    let text = String::from_utf8_lossy(&answer.stdout).into_owned();
    if !text.contains("events: ") {
        let why = String::from_utf8_lossy(&answer.stderr).replace('\n', " ");
        skips::skipped(&format!("another user cannot run the test program: {why}"));
        return None;
    }
    println!("{capabilities}:\n{text}");
    Some(text)
}

fn is_paranoid() -> bool {
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    level.trim().parse::<i32>().unwrap_or(2) > 0
}

#[test]
fn missing_privileges_are_named() {
    let Some(text) = with_capabilities("-all") else { return };
    if is_paranoid() {
        assert!(text.contains("needs CAP_BPF and CAP_PERFMON"), "{text}");
        assert!(text.contains("perf rings: ") && text.contains("kernel.perf_event_paranoid is "), "{text}");
        assert!(text.contains("hint: run as root"), "{text}");
    }
    assert!(text.contains("snapshot: a thread snapshot needs CAP_BPF and CAP_PERFMON"), "{text}");
}

#[test]
fn two_capabilities_are_enough() {
    let Some(text) = with_capabilities("+bpf,+perfmon") else { return };
    assert!(text.contains("events: opened Bpf") && text.contains("snapshot: opened"), "{text}");
}

#[test]
fn one_capability_is_enough_for_perf_rings() {
    let Some(text) = with_capabilities("+perfmon") else { return };
    assert!(text.contains("events: opened PerfRing"), "{text}");
    assert!(text.contains("snapshot: a thread snapshot needs CAP_BPF"), "{text}");
}
