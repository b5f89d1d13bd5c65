//! Processors that a thread may use, within the group of its process.

use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, GetCurrentThread, GetProcessAffinityMask, SetThreadAffinityMask,
};

/// Processors that a thread may run on, one bit each.
#[derive(Debug)]
pub struct Processors(usize);

impl Processors {
    /// Those of its process: a thread's own affinity is not readable.
    pub fn of_this_thread() -> Option<Self> {
        let (mut allowed, mut of_system) = (0, 0);
        // SAFETY: the pseudo handle of this process, which need not be closed, and two live numbers.
        let known = unsafe { GetProcessAffinityMask(GetCurrentProcess(), &mut allowed, &mut of_system) } != 0;
        // Zero for a process with threads in several groups.
        (known && allowed != 0).then_some(Self(allowed))
    }

    /// Splits into two disjoint parts; `None` if there is only one processor.
    pub fn halves(&self) -> Option<(Self, Self)> {
        let mut high = self.0;
        for _ in 0..self.0.count_ones() / 2 {
            high &= high - 1;
        }
        let low = self.0 & !high;
        (low != 0).then_some((Self(low), Self(high)))
    }

    /// Returns false if the system refuses, which keeps the previous affinity.
    pub fn keep_this_thread(&self) -> bool {
        // SAFETY: the pseudo handle of this thread, which need not be closed.
        unsafe { SetThreadAffinityMask(GetCurrentThread(), self.0) != 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::Processors;

    #[test]
    fn halves_share_nothing_and_leave_nothing_out() {
        let halved = |mask: usize| Processors(mask).halves().map(|(low, high)| (low.0, high.0));
        assert_eq!(halved(0b11), Some((0b01, 0b10)));
        assert_eq!(halved(0b1010_0100), Some((0b0000_0100, 0b1010_0000)));
        assert_eq!(halved(0b1000), None);
        assert_eq!(halved(0), None);
    }

    #[test]
    fn a_thread_can_be_kept() {
        let all = Processors::of_this_thread().expect("known");
        if let Some((low, high)) = all.halves() {
            assert!(low.keep_this_thread() && high.keep_this_thread());
        }
        assert!(all.keep_this_thread());
    }
}
