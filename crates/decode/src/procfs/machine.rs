//! `/proc/stat` and `/proc/loadavg`: the whole machine.

use super::scan::{fields, number, whole_lines};

/// Clock ticks since boot, of all processors together or of one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessorTicks {
    pub busy: u64,
    /// Idle and waiting for I/O.
    pub idle: u64,
    /// Taken by the hypervisor; included in neither.
    pub stolen: u64,
}

/// Totals since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MachineStat {
    pub all: Option<ProcessorTicks>,
    pub processors: u64,
    pub interrupts: Option<u64>,
    pub context_switches: Option<u64>,
    pub boot_unix_seconds: Option<u64>,
    pub forks: Option<u64>,
    pub running: Option<u64>,
    pub blocked: Option<u64>,
}

pub fn parse_machine_stat(bytes: &[u8]) -> MachineStat {
    let mut machine = MachineStat::default();
    for line in whole_lines(bytes) {
        let mut left = fields(line);
        let (Some(key), mut first) = (left.next(), || left.next().and_then(number)) else {
            continue;
        };
        match key {
            b"cpu" => machine.all = ticks(line),
            b"intr" => machine.interrupts = first(),
            b"ctxt" => machine.context_switches = first(),
            b"btime" => machine.boot_unix_seconds = first(),
            b"processes" => machine.forks = first(),
            b"procs_running" => machine.running = first(),
            b"procs_blocked" => machine.blocked = first(),
            _ => machine.processors += u64::from(key.starts_with(b"cpu")),
        }
    }
    machine
}

/// Each online processor, by its number.
pub fn each_processor(bytes: &[u8], mut emit: impl FnMut(u32, ProcessorTicks)) {
    for line in whole_lines(bytes) {
        let number = fields(line).next().and_then(|key| number(key.strip_prefix(b"cpu")?));
        if let Some(number) = number.and_then(|number| u32::try_from(number).ok())
            && let Some(ticks) = ticks(line)
        {
            emit(number, ticks);
        }
    }
}

/// user nice system idle iowait irq softirq steal; guest time is already included in user time.
fn ticks(line: &[u8]) -> Option<ProcessorTicks> {
    let mut numbers = [0u64; 8];
    let mut known = 0;
    for (slot, field) in numbers.iter_mut().zip(fields(line).skip(1)) {
        *slot = number(field)?;
        known += 1;
    }
    let [user, nice, system, idle, io_wait, interrupt, soft_interrupt, stolen] = numbers;
    (known >= 4).then(|| ProcessorTicks {
        busy: [user, nice, system, interrupt, soft_interrupt].into_iter().fold(0, u64::saturating_add),
        idle: idle.saturating_add(io_wait),
        stolen,
    })
}

impl ProcessorTicks {
    /// Busy percentage since `before`; `None` if no time has passed or a counter decreased.
    pub fn busy_percent_since(self, before: Self) -> Option<f64> {
        let busy = self.busy.checked_sub(before.busy)?;
        let idle = self.idle.checked_sub(before.idle)?;
        let total = busy.checked_add(idle).filter(|total| *total > 0)?;
        Some(100.0 * busy as f64 / total as f64)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadAverage {
    pub one_minute: f64,
    pub five_minutes: f64,
    pub fifteen_minutes: f64,
    /// Runnable threads, and all threads.
    pub runnable: u64,
    pub threads: u64,
}

pub fn parse_load_average(bytes: &[u8]) -> Option<LoadAverage> {
    let mut left = std::str::from_utf8(bytes.strip_suffix(b"\n")?).ok()?.split_ascii_whitespace();
    let mut average = || left.next()?.parse::<f64>().ok().filter(|load| load.is_finite() && *load >= 0.0);
    let (one_minute, five_minutes, fifteen_minutes) = (average()?, average()?, average()?);
    let (runnable, threads) = left.next()?.split_once('/')?;
    Some(LoadAverage {
        one_minute,
        five_minutes,
        fifteen_minutes,
        runnable: runnable.parse().ok()?,
        threads: threads.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &[u8] =
        b"cpu  100 20 30 800 50 1 2 7 3 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu1 1 2 3 4 5 6 7 8 0 0\n\
        intr 22677867 0 0 1\nctxt 53319396\nbtime 1794773988\nprocesses 505387\nprocs_running 3\n\
        procs_blocked 0\nsoftirq 8092878 0\n";

    #[test]
    fn totals_of_the_machine() {
        let stat = parse_machine_stat(STAT);
        assert_eq!(stat.all, Some(ProcessorTicks { busy: 153, idle: 850, stolen: 7 }));
        assert_eq!((stat.processors, stat.interrupts), (2, Some(22_677_867)));
        assert_eq!((stat.context_switches, stat.forks), (Some(53_319_396), Some(505_387)));
        assert_eq!(
            (stat.boot_unix_seconds, stat.running, stat.blocked),
            (Some(1_794_773_988), Some(3), Some(0))
        );
    }

    #[test]
    fn processors_one_by_one() {
        let mut seen = Vec::new();
        each_processor(STAT, |number, ticks| seen.push((number, ticks)));
        let ticks = ProcessorTicks { busy: 19, idle: 9, stolen: 8 };
        assert_eq!(seen, [(0, ticks), (1, ticks)]);
    }

    #[test]
    fn busy_share_needs_time_to_pass() {
        let before = ProcessorTicks { busy: 100, idle: 100, stolen: 0 };
        let after = ProcessorTicks { busy: 125, idle: 175, stolen: 50 };
        assert_eq!(after.busy_percent_since(before), Some(25.0));
        assert_eq!(before.busy_percent_since(before), None);
        assert_eq!(before.busy_percent_since(after), None);
    }

    #[test]
    fn load_average() {
        let load = parse_load_average(b"1.66 1.96 1.91 3/101 18736\n").unwrap();
        assert_eq!((load.one_minute, load.runnable, load.threads), (1.66, 3, 101));
        assert_eq!(parse_load_average(b"1.66 nan 1.91 3/101 1\n"), None);
        assert_eq!(parse_load_average(b"1.66 1.96 1.91 3/10"), None);
    }
}
