//! Stack samples of this program: the busy function must be found with its callers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ortscope_core::kernel::{FrameKind, StackProfile};
use ortscope_sources::SampleTrace;
use ortscope_sources::kernel::SampleOptions;

use crate::support::or_skip;

#[inline(never)]
fn ortscope_test_inner(stop: &AtomicBool) -> u64 {
    let mut sum = 0u64;
    while !stop.load(Ordering::Relaxed) {
        // Without iterators, whose functions are not inlined in unoptimized tests.
        let mut number = 0u64;
        while number < 100_000 {
            number += 1;
            sum ^= sum << 7 ^ number;
        }
    }
    sum
}

#[inline(never)]
fn ortscope_test_outer(stop: &AtomicBool) -> u64 {
    std::hint::black_box(ortscope_test_inner(stop)).wrapping_add(1)
}

fn sample(stack_bytes: u32) -> Option<(StackProfile, SampleTrace)> {
    let stop = Arc::new(AtomicBool::new(false));
    let options =
        SampleOptions { pids: vec![std::process::id()], hertz: 999, stack_bytes, ..SampleOptions::default() };
    let mut trace = or_skip(SampleTrace::open(&options))?;
    // Started after the events were opened: it is sampled because it inherits them.
    let busy = {
        let stop = stop.clone();
        std::thread::Builder::new().name("busy".to_owned()).spawn(move || ortscope_test_outer(&stop)).unwrap()
    };
    let mut profile = StackProfile::default();
    let (mut shown, begun) = (0, Instant::now());
    while begun.elapsed() < Duration::from_secs(20) && trace.counts().samples < 200 {
        std::thread::sleep(Duration::from_millis(50));
        trace.drain(&mut profile, &mut |sample, leaf| {
            shown += 1;
            assert_eq!(sample.thread.pid, std::process::id());
            assert!(sample.user.len() <= ortscope_core::kernel::MAX_FRAMES);
            assert!(leaf.is_some());
        });
    }
    stop.store(true, Ordering::Relaxed);
    busy.join().unwrap();
    println!("{:?} missing {:?}", trace.counts(), trace.missing());
    assert_eq!(shown, trace.counts().samples);
    assert_eq!(profile.samples(), trace.counts().samples);
    Some((profile, trace))
}

#[test]
fn a_busy_function_is_found_with_its_callers_by_unwind_tables() {
    let Some((profile, trace)) = sample(16 << 10) else { return };
    let counts = trace.counts();
    assert!(counts.samples >= 200, "{counts:?}");
    let is = |name: &str, part: &str| name.contains(part);
    let mut inside = 0;
    for (stack, count) in profile.stacks() {
        let place = |part: &str| stack.iter().position(|frame| is(&frame.name, part));
        if let (Some(outer), Some(inner)) = (place("ortscope_test_outer"), place("ortscope_test_inner")) {
            assert!(outer < inner, "callers come first");
            assert_eq!(stack[0].kind, FrameKind::Process);
            // Every thread's entry functions are below it.
            assert!(outer > 2, "{stack:?}");
            inside += count;
        }
    }
    // Nearly all samples of the function have its caller; the other samples are of this test itself.
    let hottest = &profile.hottest(1)[0];
    assert!(is(&hottest.frame.name, "ortscope_test_inner"), "{:?}", profile.hottest(5));
    assert!(inside * 10 >= hottest.total * 9, "{inside} of {}", hottest.total);
    assert!(counts.by_tables * 10 > counts.samples * 8, "{counts:?}");
}

#[test]
fn frame_pointers_alone_find_the_function_itself() {
    let Some((profile, trace)) = sample(0) else { return };
    assert_eq!(trace.counts().by_tables + trace.counts().cut, 0);
    assert!(profile.hottest(1)[0].frame.name.contains("ortscope_test_inner"), "{:?}", profile.hottest(5));
}

#[test]
fn a_nonexistent_process_is_an_error() {
    let options = SampleOptions { pids: vec![4_194_303], ..SampleOptions::default() };
    let error = SampleTrace::open(&options).unwrap_err().to_string();
    assert!(error.contains("already exited"), "{error}");
}
