//! Tells a process from the child it forked, at the cost of one memory load.
//!
//! A child of `fork` has its parent's memory, also the shared one: without care it would write into its parent's rings.
//! A page that the system wipes for the child makes the difference visible. Where there are no such pages, the process
//! id does it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::shared_memory::{SharedMemory, Word};

static PAGE: OnceLock<Option<SharedMemory>> = OnceLock::new();
/// In plain memory, which a child has a copy of: its numbers go on behind those of its parent.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// One process, as opposed to its parent and its children.
#[derive(Debug, Clone, Copy)]
pub struct Incarnation {
    number: u64,
    page: Option<&'static Word>,
}

impl Incarnation {
    /// The one that calls.
    pub fn current() -> Self {
        let page = PAGE.get_or_init(SharedMemory::wiped_on_fork).as_ref().map(|page| page.word(0));
        Self { number: number(page), page }
    }

    /// Whether the caller is still this one.
    #[inline]
    pub fn is_current(&self) -> bool {
        match self.page {
            Some(page) => page.load(Ordering::Relaxed) == self.number,
            None => u64::from(std::process::id()) == self.number,
        }
    }
}

fn number(page: Option<&Word>) -> u64 {
    let Some(page) = page else {
        return u64::from(std::process::id());
    };
    if page.load(Ordering::SeqCst) == 0 {
        // Another thread may be faster; its number is as good.
        let new = NEXT.fetch_add(1, Ordering::SeqCst);
        page.compare_exchange(0, new, Ordering::SeqCst, Ordering::SeqCst).ok();
    }
    page.load(Ordering::SeqCst)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_stays_itself() {
        let here = Incarnation::current();
        assert!(here.is_current());
        assert!(Incarnation::current().is_current() && here.is_current());
        assert!(!Incarnation { number: here.number + 1, ..here }.is_current());
    }
}
