//! How busy all processors are together: what a process's share of the energy is measured against.

use super::{Found, Reader, Reading};

/// Times of all processors, in a unit of the system's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineTimes {
    pub busy: u64,
    pub idle: u64,
}

impl MachineTimes {
    /// `None` if no time has passed, or the counters went back.
    fn busy_since(self, before: Self) -> Option<f64> {
        let (busy, idle) = (self.busy.checked_sub(before.busy)?, self.idle.checked_sub(before.idle)?);
        let all = busy.saturating_add(idle);
        (all > 0).then(|| busy as f64 / all as f64)
    }
}

#[derive(Debug)]
struct Load(MachineTimes);

/// Adds the load of the machine, where the system tells it.
pub fn load_of_machine(found: &mut Found) {
    if let Some(times) = crate::sys::machine_times() {
        found.readers.push(Box::new(Load(times)));
    }
}

impl Reader for Load {
    fn describe(&self) -> String {
        "use of all processors".to_owned()
    }

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), _lost: &mut Vec<super::Missing>) {
        let Some(now) = crate::sys::machine_times() else { return };
        if let Some(value) = now.busy_since(std::mem::replace(&mut self.0, now)) {
            out(Reading { at_ns, device: "machine", metric: "cpu_busy_ratio", value, source: "system" });
        }
    }

    fn period_ns(&self) -> u64 {
        500_000_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_a_share_of_what_passed() {
        let at = |busy, idle| MachineTimes { busy, idle };
        assert_eq!(at(130, 270).busy_since(at(100, 200)), Some(0.3));
        assert_eq!(at(100, 200).busy_since(at(100, 200)), None);
        assert_eq!(at(90, 300).busy_since(at(100, 200)), None);
    }

    #[test]
    fn this_machine_tells_it() {
        let mut found = Found::default();
        load_of_machine(&mut found);
        std::thread::sleep(std::time::Duration::from_millis(60));
        let mut told = Vec::new();
        for reader in &mut found.readers {
            reader.read(1, &mut |reading| told.push(reading.value), &mut Vec::new());
        }
        assert!(told.iter().all(|value| (0.0..=1.0).contains(value)), "{told:?}");
        assert!(!told.is_empty() || !["linux", "windows"].contains(&std::env::consts::OS));
    }
}
