//! The reported memory use of the live memory matches the allocator's. A separate program, because it replaces the
//! allocator.
#![expect(unsafe_code, reason = "an allocator can only be replaced by unsafe code")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use ortscope_core::batch::Batch;
use ortscope_core::live::{Limits, LiveMemory};
use ortscope_core::pipeline::Sink;
use ortscope_core::schema::{DeviceSampleRow, InferenceRow, ProcessSampleRow, Row, Text};

struct Counting;

static TAKEN: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is forwarded to the system's allocator unchanged; only sizes are counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same for the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        TAKEN.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the pointer came from `alloc` above with this layout, so from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn mixed(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

fn give<R: Row>(memory: &mut LiveMemory, rows: impl IntoIterator<Item = R>) {
    let mut batch = Batch::new(R::TABLE);
    for row in rows {
        batch.push(&row);
    }
    memory.consume(&batch).expect("the live memory takes every batch");
}

fn second(memory: &mut LiveMemory, second: u64, sessions: &[Text], device: &Text, seed: &mut u64) {
    for tick in 0..10 {
        let timestamp_ns = second * 1_000_000_000 + tick * 100_000_000;
        give(
            memory,
            (0..60).map(|pid| ProcessSampleRow {
                timestamp_ns,
                pid,
                process_start: 1,
                cpu_time_ns: timestamp_ns / 2 + mixed(seed) % 10_000_000,
                working_set_bytes: 100_000_000 + mixed(seed) % 10_000_000,
                private_bytes: Some(90_000_000 + mixed(seed) % 10_000_000),
                ..ProcessSampleRow::default()
            }),
        );
        give(
            memory,
            sessions.iter().flat_map(|session| (0..30).map(move |number| (session, number))).map(
                |(session, number)| InferenceRow {
                    timestamp_ns: timestamp_ns + number * 1_000_000,
                    session_id: session.clone(),
                    run_ns: 1_000_000 + mixed(seed) % 300_000,
                    ok: true,
                    ..InferenceRow::default()
                },
            ),
        );
        give(
            memory,
            (0..10).map(|metric| DeviceSampleRow {
                timestamp_ns,
                device: device.clone(),
                metric: ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"][metric].into(),
                value: (mixed(seed) % 1000) as f64,
                source: device.clone(),
                method: "measured".into(),
            }),
        );
    }
}

#[test]
fn reported_bytes_match_allocated_bytes() {
    let sessions: Vec<Text> = (0..4).map(|number| format!("session-{number}").into()).collect();
    let device: Text = "gpu0".into();
    let mut seed = 1;
    for (name, limits) in [
        ("roomy", Limits::default()),
        ("narrow", Limits { total_bytes: 8_000_000, full_rate_bytes: 3_000_000, ..Limits::default() }),
    ] {
        let before = TAKEN.load(Ordering::Relaxed);
        let mut memory = LiveMemory::new(limits);
        let view = memory.view();
        for end_s in [1, 10, 60, 400, 1500] {
            let start_s =
                view.tracks().iter().map(|track| track.newest_ns / 1_000_000_000 + 1).max().unwrap_or(0);
            for at in start_s..end_s {
                second(&mut memory, at, &sessions, &device, &mut seed);
            }
            let (reported, taken) = (view.bytes(), TAKEN.load(Ordering::Relaxed) - before);
            println!("{name}, {end_s} s: {reported} reported, {taken} taken");
            // Told is above: it adds what an allocator needs for itself per packed block.
            assert!(
                taken <= reported + reported / 50 + 20_000,
                "{name}, {end_s} s: {reported} reported, {taken} taken"
            );
            assert!(
                reported <= taken + taken / 50 + 20_000,
                "{name}, {end_s} s: {reported} reported, {taken} taken"
            );
            assert!(taken <= view.limits().total_bytes);
        }
    }
}
