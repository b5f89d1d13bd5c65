//! Gives a thread timely wake-ups next to a program that uses every processor.
#![expect(unsafe_code, reason = "sched_setattr has no safe wrapper")]

use std::mem::{size_of, zeroed};

/// A tick takes a fraction of this. Since Linux 6.12 a shorter slice is scheduled earlier, for any user; before, it is
/// ignored.
const SLICE_NS: u64 = 200_000;
/// Requires root, CAP_SYS_NICE or RLIMIT_NICE.
const NICE: i32 = -10;

/// Lets the calling thread run soon after it wakes. Returns its new nice value; `None` if unchanged because the kernel
/// refused or this process was deliberately started with another priority.
pub fn prefer_this_thread() -> Option<i32> {
    let is_usual = current_nice()? == 0 && has_usual_policy();
    is_usual.then(|| [NICE, 0].into_iter().find(|nice| set(*nice)))?
}

/// Neither a background policy (`chrt --idle`, `--batch`) nor an already better one.
fn has_usual_policy() -> bool {
    // SAFETY: takes a number; 0 is the calling thread.
    unsafe { libc::sched_getscheduler(0) == libc::SCHED_OTHER }
}

fn current_nice() -> Option<i32> {
    rustix::process::getpriority_process(None).ok()
}

fn set(nice: i32) -> bool {
    // SAFETY: a struct of plain numbers.
    let mut attributes: libc::sched_attr = unsafe { zeroed() };
    attributes.size = size_of::<libc::sched_attr>() as u32;
    attributes.sched_policy = libc::SCHED_OTHER.cast_unsigned();
    attributes.sched_nice = nice;
    attributes.sched_runtime = SLICE_NS;
    // SAFETY: 0 is the calling thread; the struct outlives the call and states its own size.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) == 0 }
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
    fn only_the_calling_thread_is_preferred() {
        let ours = current_nice();
        let (changed, is) = in_a_thread(|| (prefer_this_thread(), current_nice()));
        if ours == Some(0) && has_usual_policy() {
            assert!(changed == Some(NICE) || changed == Some(0), "{changed:?}");
            assert_eq!(is, changed);
        } else {
            assert_eq!((changed, is), (None, ours));
        }
        assert_eq!(current_nice(), ours);
    }

    #[test]
    fn a_deliberate_priority_is_kept() {
        let after = in_a_thread(|| {
            rustix::process::setpriority_process(None, 19).expect("lower priority is always permitted");
            (prefer_this_thread(), current_nice())
        });
        assert_eq!(after, (None, Some(19)));
    }
}
