//! The chain of switches on each processor: the next thread of one switch is the previous thread of the following
//! one. A mismatch reveals lost switches that no source reported.

#[derive(Debug, Clone, Default)]
pub struct Chains {
    /// By processor: the thread that runs, as far as is known.
    running: Vec<Option<u32>>,
    breaks: u64,
    checked: u64,
}

/// Machines with more processors are supported, but their chains are not checked.
const MAX_CPUS: usize = 8192;

impl Chains {
    /// Follows a switch. If the chain is broken, returns the thread that should have left.
    pub fn follow(&mut self, cpu: u32, prev: u32, next: u32) -> Option<u32> {
        let cpu = cpu as usize;
        if cpu >= MAX_CPUS {
            return None;
        }
        if cpu >= self.running.len() {
            self.running.resize(cpu + 1, None);
        }
        let expected = self.running[cpu].replace(next)?;
        self.checked += 1;
        let broken = expected != prev;
        self.breaks += u64::from(broken);
        broken.then_some(expected)
    }

    pub fn running(&self, cpu: u32) -> Option<u32> {
        self.running.get(cpu as usize).copied().flatten()
    }

    /// Number of mismatches and number of links checked.
    pub fn breaks(&self) -> (u64, u64) {
        (self.breaks, self.checked)
    }
}

#[cfg(test)]
mod tests {
    use super::Chains;

    #[test]
    fn each_processor_has_its_own_chain() {
        let mut chains = Chains::default();
        assert_eq!(chains.follow(0, 1, 2), None);
        assert_eq!(chains.follow(3, 7, 8), None);
        assert_eq!(chains.follow(0, 2, 1), None);
        assert_eq!(chains.follow(3, 7, 9), Some(8));
        assert_eq!(chains.breaks(), (1, 2));
        assert_eq!((chains.running(0), chains.running(1), chains.running(3)), (Some(1), None, Some(9)));
        assert_eq!(chains.follow(u32::MAX, 1, 2), None);
    }
}
