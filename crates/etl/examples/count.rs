//! Counts the records of traces, once in order on one thread and once without order on all of them.
//!
//! `cargo run -p ortscope-etl --example count -- FILE.etl…`

#![expect(clippy::print_stdout, reason = "prints its answer")]

use std::error::Error;
use std::ops::ControlFlow;
use std::time::Instant;

use ortscope_etl::{EtlBytes, EtlError, EtlFile};

const RUNS: usize = 7;

fn main() -> Result<(), Box<dyn Error>> {
    for path in std::env::args_os().skip(1) {
        let file = EtlFile::open(&path)?;
        let header = file.header();
        println!("{}: build {}, from {}", path.display(), header.os_build, header.start_time);
        let walk = file.ordered(|_| ControlFlow::Continue(()))?;
        println!("  {:?}", walk.losses);
        let in_order = |sum: &mut u64, ticks: u64| {
            *sum = sum.wrapping_add(ticks);
            ControlFlow::Continue(())
        };
        let mut sum = 0;
        best("in order from disk", || Ok(file.ordered(|record| in_order(&mut sum, record.ticks))?.records))?;
        best("on all threads from disk", || {
            let (sums, walk) = file.unordered(0, || 0_u64, |sum, record| *sum ^= record.ticks)?;
            sum ^= sums.into_iter().fold(0, |sum, more| sum ^ more);
            Ok(walk.records)
        })?;
        let bytes = std::fs::read(&path)?;
        let in_memory = EtlBytes::new(&bytes)?;
        best("in order in memory", || {
            Ok(in_memory.ordered(|record| in_order(&mut sum, record.ticks))?.records)
        })?;
        best("on one thread in memory", || {
            let (sums, walk) = in_memory.unordered(1, || 0_u64, |sum, record| *sum ^= record.ticks)?;
            sum ^= sums.into_iter().fold(0, |sum, more| sum ^ more);
            Ok(walk.records)
        })?;
        println!("  checksum {sum:016x}");
    }
    Ok(())
}

/// The best of several runs, because the others were disturbed.
fn best(how: &str, mut walk: impl FnMut() -> Result<u64, EtlError>) -> Result<(), EtlError> {
    let (mut records, mut seconds) = (0, f64::INFINITY);
    for _ in 0..RUNS {
        let started = Instant::now();
        records = walk()?;
        seconds = seconds.min(started.elapsed().as_secs_f64());
    }
    println!("  {records} records {how}: {:.1} ms, {:.1} M/s", seconds * 1e3, records as f64 / seconds / 1e6);
    Ok(())
}
