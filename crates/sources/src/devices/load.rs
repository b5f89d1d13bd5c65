//! Utilization of all processors together, the reference for a process's share of the energy.

use super::{Found, Reader, Reading};

/// Processor times, summed over all processors, in a system-specific unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineTimes {
    pub busy: u64,
    pub idle: u64,
}

impl MachineTimes {
    /// `None` if no time has passed or a counter decreased.
    fn busy_since(self, before: Self) -> Option<f64> {
        let (busy, idle) = (self.busy.checked_sub(before.busy)?, self.idle.checked_sub(before.idle)?);
        let all = busy.saturating_add(idle);
        (all > 0).then(|| busy as f64 / all as f64)
    }
}

#[derive(Debug)]
struct Load(MachineTimes);

/// Adds the machine's load where the system reports it.
pub fn machine_load(found: &mut Found) {
    if let Some(times) = crate::sys::machine_times() {
        found.readers.push(Box::new(Load(times)));
    }
}

impl Reader for Load {
    fn describe(&self) -> String {
        "utilization of all processors".to_owned()
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
    fn busy_ratio_is_relative_to_elapsed_time() {
        let at = |busy, idle| MachineTimes { busy, idle };
        assert_eq!(at(130, 270).busy_since(at(100, 200)), Some(0.3));
        assert_eq!(at(100, 200).busy_since(at(100, 200)), None);
        assert_eq!(at(90, 300).busy_since(at(100, 200)), None);
    }

    #[test]
    fn this_machine_reports_its_load() {
        let mut found = Found::default();
        machine_load(&mut found);
        std::thread::sleep(std::time::Duration::from_millis(60));
        let mut values = Vec::new();
        for reader in &mut found.readers {
            reader.read(1, &mut |reading| values.push(reading.value), &mut Vec::new());
        }
        assert!(values.iter().all(|value| (0.0..=1.0).contains(value)), "{values:?}");
        assert!(!values.is_empty() || !["linux", "windows"].contains(&std::env::consts::OS));
    }
}
