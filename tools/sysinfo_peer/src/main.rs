//! Samples the children of a process with the sysinfo crate and says what it cost.
//!
//!     sysinfo_peer HERTZ SECONDS PARENT
//!
//! Prints one JSON object, as `psutil_peer.py` does. Each sample refreshes CPU and memory of the processes that were
//! there at the start, without their threads: the cheapest refresh that gives both.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn main() {
    let arguments: Vec<f64> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let [hertz, seconds, parent] = arguments[..] else {
        eprintln!("usage: sysinfo_peer HERTZ SECONDS PARENT");
        std::process::exit(2);
    };
    let parent = Pid::from_u32(parent as u32);
    let what = ProcessRefreshKind::nothing().with_cpu().with_memory().without_tasks();
    let Ok(mut system) = System::new() else {
        eprintln!("sysinfo cannot read this system");
        std::process::exit(1);
    };
    system.refresh_processes_specifics(ProcessesToUpdate::All, true, what);
    let watched: Vec<Pid> =
        system.processes().values().filter(|of| of.parent() == Some(parent)).map(|of| of.pid()).collect();
    let (begin, cpu) = (Instant::now(), cpu_ns());
    let (mut due, mut samples, mut rows, mut check) = (begin, 0u64, 0u64, 0u64);
    while begin.elapsed().as_secs_f64() < seconds {
        rows += system.refresh_processes_specifics(ProcessesToUpdate::Some(&watched), false, what) as u64;
        for pid in &watched {
            if let Some(process) = system.process(*pid) {
                check = check.wrapping_add(process.memory()).wrapping_add(process.cpu_usage() as u64);
            }
        }
        samples += 1;
        due = (due + Duration::from_secs_f64(1.0 / hertz)).max(begin);
        match due.checked_duration_since(Instant::now()) {
            Some(rest) => std::thread::sleep(rest),
            None => due = Instant::now(),
        }
    }
    let (passed, used) = (begin.elapsed().as_secs_f64(), (cpu_ns() - cpu) as f64);
    println!(
        r#"{{"us_per_sample":{},"core_percent":{},"achieved_hertz":{},"processes":{},"rows":{rows},"check":{check},"sysinfo":"0.40"}}"#,
        used / 1e3 / samples as f64,
        used / 1e7 / passed,
        samples as f64 / passed,
        watched.len(),
    );
}
