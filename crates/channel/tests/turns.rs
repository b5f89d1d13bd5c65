//! Two processes that take turns never run at the same time, and one continues alone when the other has ended.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ortscope_channel::turn_taking::{Side, TurnTaking};

#[test]
fn both_sides_run_but_never_simultaneously() {
    let directory = tempfile::tempdir().expect("a directory");
    TurnTaking::create(directory.path(), Side::B).expect("a page");
    let (running, turns) = (AtomicU32::new(0), [AtomicU32::new(0), AtomicU32::new(0)]);
    let work = |side: Side, count: &AtomicU32, most: u32| {
        // As another process has it.
        let page = TurnTaking::open(directory.path()).expect("the page is there");
        for _ in 0..most {
            assert!(page.wait(side, Duration::ZERO, || false));
            assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "both run");
            count.fetch_add(1, Ordering::SeqCst);
            std::thread::yield_now();
            running.fetch_sub(1, Ordering::SeqCst);
            page.pass(side);
        }
        page.finish(side);
    };
    std::thread::scope(|scope| {
        let b = std::thread::Builder::new().name("b".to_owned());
        b.spawn_scoped(scope, || work(Side::B, &turns[1], 3)).expect("a thread");
        // More turns than the other one takes: the rest alone.
        work(Side::A, &turns[0], 20);
    });
    assert_eq!(turns.map(AtomicU32::into_inner), [20, 3]);
}

#[test]
fn a_waiting_side_can_be_stopped() {
    let directory = tempfile::tempdir().expect("a directory");
    let page = TurnTaking::create(directory.path(), Side::A).expect("a page");
    let mut looks = 0;
    // The other side never comes.
    assert!(!page.wait(Side::A, Duration::ZERO, || {
        looks += 1;
        looks > 3
    }));
}
