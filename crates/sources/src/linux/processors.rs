//! Numbers of processors, and thread affinity.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A list like `0-3,8-11`: the highest number plus one.
fn count(list: &str) -> Option<usize> {
    let last = list.trim().rsplit([',', '-']).next()?;
    Some(last.parse::<usize>().ok()? + 1)
}

fn read(path: &str) -> Option<usize> {
    count(&std::fs::read_to_string(path).ok()?)
}

/// Upper bound of processor numbers, including processors that may come online later.
pub fn possible() -> usize {
    read("/sys/devices/system/cpu/possible").unwrap_or_else(online)
}

/// Upper bound of the numbers of processors that are online now.
pub fn online() -> usize {
    let available = || std::thread::available_parallelism().map_or(1, usize::from);
    read("/sys/devices/system/cpu/online").unwrap_or_else(available)
}

/// Processors that a thread may run on.
#[derive(Debug)]
pub struct Processors(CpuSet);

impl Processors {
    pub fn of_this_thread() -> Option<Self> {
        sched_getaffinity(None).ok().map(Self)
    }

    /// Splits into two disjoint parts; `None` if there is only one processor.
    pub fn halves(&self) -> Option<(Self, Self)> {
        let numbers: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|number| self.0.is_set(*number)).collect();
        let (low, high) = numbers.split_at(numbers.len() / 2);
        (!low.is_empty()).then(|| (Self::of(low), Self::of(high)))
    }

    fn of(numbers: &[usize]) -> Self {
        let mut set = CpuSet::new();
        numbers.iter().for_each(|number| set.set(*number));
        Self(set)
    }

    /// Returns false if the system refuses, which keeps the previous affinity.
    pub fn keep_this_thread(&self) -> bool {
        sched_setaffinity(None, &self.0).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{Processors, count};

    #[test]
    fn halves_are_disjoint_and_complete() {
        let halved = |numbers: &[usize]| {
            let (low, high) = Processors::of(numbers).halves()?;
            let listed = |part: Processors| (0..64).filter(|n| part.0.is_set(*n)).collect::<Vec<_>>();
            Some((listed(low), listed(high)))
        };
        assert_eq!(halved(&[0, 1]), Some((vec![0], vec![1])));
        assert_eq!(halved(&[2, 5, 63]), Some((vec![2], vec![5, 63])));
        assert_eq!(halved(&[3]), None);
        assert_eq!(halved(&[]), None);
    }

    #[test]
    fn a_pinned_thread_stays_on_its_processors() {
        let thread = std::thread::Builder::new().spawn(|| {
            let all = Processors::of_this_thread().expect("known");
            let Some((low, _)) = all.halves() else { return };
            assert!(low.keep_this_thread());
            assert_eq!(Processors::of_this_thread().expect("known").0, low.0);
            assert!(all.keep_this_thread());
            assert_eq!(Processors::of_this_thread().expect("known").0, all.0);
        });
        thread.expect("a thread").join().expect("it ends");
    }

    #[test]
    fn processor_lists_are_parsed() {
        assert_eq!(count("0\n"), Some(1));
        assert_eq!(count("0-3"), Some(4));
        assert_eq!(count("0-3,8,10-11\n"), Some(12));
        assert_eq!(count(""), None);
    }
}
