//! A thread that has to wake in time beside a program that takes every processor.
#![expect(unsafe_code, reason = "sched_setattr has no safe wrapper")]

use std::mem::{size_of, zeroed};

/// A tick takes a fraction of it. From Linux 6.12 on a shorter slice is an earlier turn, for any user; before, it is ignored.
const SLICE_NS: u64 = 200_000;
/// Only who may (root, CAP_SYS_NICE, RLIMIT_NICE).
const NICE: i32 = -10;

/// Lets the calling thread run soon after it wakes. Returns how nice it is now; `None` where nothing was changed, because the
/// kernel refused or because this process was started with another priority on purpose.
pub fn prefer_this_thread() -> Option<i32> {
    let is_usual = nice_of_this_thread()? == 0 && has_usual_policy();
    is_usual.then(|| [NICE, 0].into_iter().find(|nice| set(*nice)))?
}

/// Not one for background work (`chrt --idle`, `--batch`), and not one that is better already.
fn has_usual_policy() -> bool {
    // SAFETY: takes a number; 0 is the calling thread.
    unsafe { libc::sched_getscheduler(0) == libc::SCHED_OTHER }
}

fn nice_of_this_thread() -> Option<i32> {
    rustix::process::getpriority_process(None).ok()
}

fn set(nice: i32) -> bool {
    // SAFETY: a struct of plain numbers.
    let mut wanted: libc::sched_attr = unsafe { zeroed() };
    wanted.size = size_of::<libc::sched_attr>() as u32;
    wanted.sched_policy = libc::SCHED_OTHER.cast_unsigned();
    wanted.sched_nice = nice;
    wanted.sched_runtime = SLICE_NS;
    // SAFETY: 0 is the calling thread; the struct lives through the call and says its own size.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wanted, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("preferred".into()).spawn_scoped(scope, work);
            thread.expect("a thread").join().expect("it ends")
        })
    }

    #[test]
    fn a_thread_is_preferred_and_the_others_stay() {
        let ours = nice_of_this_thread();
        let (changed, is) = in_a_thread(|| (prefer_this_thread(), nice_of_this_thread()));
        if ours == Some(0) && has_usual_policy() {
            assert!(changed == Some(NICE) || changed == Some(0), "{changed:?}");
            assert_eq!(is, changed);
        } else {
            assert_eq!((changed, is), (None, ours));
        }
        assert_eq!(nice_of_this_thread(), ours);
    }

    #[test]
    fn who_was_started_with_another_priority_keeps_it() {
        let after = in_a_thread(|| {
            rustix::process::setpriority_process(None, 19).expect("anybody may be nicer");
            (prefer_this_thread(), nice_of_this_thread())
        });
        assert_eq!(after, (None, Some(19)));
    }
}
