//! Files of the whole machine: `/proc/{stat,loadavg,meminfo,vmstat,net/dev,pressure,mounts}`.

use super::scan::{blank_pairs, colon_pairs, fields, kilobytes, number, whole_lines};

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

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MachineMemory {
    pub total_bytes: Option<u64>,
    /// The kernel's estimate of memory that is available without swapping.
    pub available_bytes: Option<u64>,
    pub swap_total_bytes: Option<u64>,
    pub swap_free_bytes: Option<u64>,
}

impl MachineMemory {
    pub fn used_bytes(&self) -> Option<u64> {
        self.total_bytes?.checked_sub(self.available_bytes?)
    }

    pub fn swap_used_bytes(&self) -> Option<u64> {
        self.swap_total_bytes?.checked_sub(self.swap_free_bytes?)
    }
}

pub fn parse_machine_memory(bytes: &[u8]) -> MachineMemory {
    let mut memory = MachineMemory::default();
    for (key, value) in colon_pairs(bytes) {
        match key {
            b"MemTotal" => memory.total_bytes = kilobytes(value),
            b"MemAvailable" => memory.available_bytes = kilobytes(value),
            b"SwapTotal" => memory.swap_total_bytes = kilobytes(value),
            b"SwapFree" => {
                memory.swap_free_bytes = kilobytes(value);
                // The last required one; some thirty lines follow.
                break;
            }
            _ => {}
        }
    }
    memory
}

/// A `Key:   123 kB` line as bytes.
pub fn meminfo_bytes(text: &str, key: &str) -> Option<u64> {
    colon_pairs(text.as_bytes())
        .find(|(name, _)| *name == key.as_bytes())
        .and_then(|(_, value)| kilobytes(value))
}

/// Totals since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PagingCounters {
    pub faults: Option<u64>,
    pub major_faults: Option<u64>,
    pub swapped_in_pages: Option<u64>,
    pub swapped_out_pages: Option<u64>,
    pub out_of_memory_kills: Option<u64>,
}

pub fn parse_vmstat(bytes: &[u8]) -> PagingCounters {
    let mut counters = PagingCounters::default();
    for (key, value) in blank_pairs(bytes) {
        let slot = match key {
            b"pgfault" => &mut counters.faults,
            b"pgmajfault" => &mut counters.major_faults,
            b"pswpin" => &mut counters.swapped_in_pages,
            b"pswpout" => &mut counters.swapped_out_pages,
            b"oom_kill" => &mut counters.out_of_memory_kills,
            _ => continue,
        };
        *slot = number(value);
    }
    counters
}

/// Totals since the interfaces came up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NetworkTotals {
    pub received_bytes: u64,
    pub received_packets: u64,
    pub sent_bytes: u64,
    pub sent_packets: u64,
}

/// All interfaces except loopback, which would count every byte twice although none is on a wire.
pub fn parse_net_dev(bytes: &[u8]) -> Option<NetworkTotals> {
    let mut totals = None::<NetworkTotals>;
    for line in whole_lines(bytes) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            continue;
        };
        let mut numbers = [0u64; 10];
        let mut known = 0;
        for (slot, field) in numbers.iter_mut().zip(fields(&line[colon + 1..])) {
            let Some(value) = number(field) else {
                break;
            };
            *slot = value;
            known += 1;
        }
        if known < numbers.len() {
            continue;
        }
        let totals = totals.get_or_insert_default();
        if line[..colon].trim_ascii() != b"lo" {
            totals.received_bytes = totals.received_bytes.saturating_add(numbers[0]);
            totals.received_packets = totals.received_packets.saturating_add(numbers[1]);
            totals.sent_bytes = totals.sent_bytes.saturating_add(numbers[8]);
            totals.sent_packets = totals.sent_packets.saturating_add(numbers[9]);
        }
    }
    totals
}

/// Fraction of time in which some, or all, tasks waited for a resource.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PressureLine {
    /// Over the last ten seconds, 0 to 1.
    pub ratio_10s: f64,
    pub total_micros: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pressure {
    pub some: Option<PressureLine>,
    pub full: Option<PressureLine>,
}

pub fn parse_pressure(bytes: &[u8]) -> Pressure {
    let mut pressure = Pressure::default();
    for line in whole_lines(bytes) {
        let mut left = fields(line);
        match left.next() {
            Some(b"some") => pressure.some = parse_line(left),
            Some(b"full") => pressure.full = parse_line(left),
            _ => {}
        }
    }
    pressure
}

fn parse_line<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Option<PressureLine> {
    let (mut ratio, mut total) = (None, None);
    for part in parts {
        if let Some(percent) = part.strip_prefix(b"avg10=") {
            let percent: f64 = std::str::from_utf8(percent).ok()?.parse().ok()?;
            ratio = Some(percent / 100.0).filter(|ratio| (0.0..=1.0).contains(ratio));
        } else if let Some(micros) = part.strip_prefix(b"total=") {
            total = number(micros);
        }
    }
    Some(PressureLine { ratio_10s: ratio?, total_micros: total? })
}

/// Visibility of other users' processes in `/proc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HidePid {
    Everything,
    /// Their directories exist but are not accessible.
    NoAccess,
    /// Only processes with ptrace permission are listed.
    Invisible,
}

/// Uses the last mount on /proc. `None` if there is none.
pub fn hide_pid(mounts: &[u8]) -> Option<HidePid> {
    let line = whole_lines(mounts).filter(|line| fields(line).nth(1) == Some(b"/proc")).last()?;
    let options = fields(line).nth(3)?;
    let value = options.split(|byte| *byte == b',').find_map(|option| option.strip_prefix(b"hidepid="));
    Some(match value {
        None | Some(b"0" | b"off") => HidePid::Everything,
        Some(b"1" | b"noaccess") => HidePid::NoAccess,
        Some(_) => HidePid::Invisible,
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

    #[test]
    fn used_memory_is_total_minus_available() {
        let memory = parse_machine_memory(
            b"MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 600 kB\nSwapTotal: 50 kB\nSwapFree: 20 kB\nDirty: 1 kB\n",
        );
        assert_eq!((memory.used_bytes(), memory.swap_used_bytes()), (Some(400 * 1024), Some(30 * 1024)));
        assert_eq!(parse_machine_memory(b"MemTotal: 1000 kB\n").used_bytes(), None);
        assert_eq!(meminfo_bytes("MemTotal: 1000 kB\n", "MemTotal"), Some(1_024_000));
    }

    #[test]
    fn paging() {
        let counters =
            parse_vmstat(b"nr_free_pages 1\npswpin 2\npswpout 3\npgfault 4\npgmajfault 5\noom_kill 6\n");
        assert_eq!((counters.swapped_in_pages, counters.swapped_out_pages), (Some(2), Some(3)));
        assert_eq!((counters.faults, counters.major_faults), (Some(4), Some(5)));
        assert_eq!(counters.out_of_memory_kills, Some(6));
    }

    #[test]
    fn interfaces_are_summed_without_loopback() {
        let text = b"Inter-|   Receive  |  Transmit\n face |bytes packets|bytes\n\
            \x20   lo: 5625677 5320 0 0 0 0 0 0 5625677 5320 0 0 0 0 0 0\n\
            \x20 eth0:100 2 0 0 0 0 0 0 30 4 0 0 0 0 0 0\n  eth1: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n";
        let totals = parse_net_dev(text).unwrap();
        let wanted =
            NetworkTotals { received_bytes: 101, received_packets: 3, sent_bytes: 31, sent_packets: 5 };
        assert_eq!(totals, wanted);
        assert_eq!(parse_net_dev(b"Inter-|\n"), None);
    }

    #[test]
    fn one_or_both_lines_are_parsed() {
        let pressure = parse_pressure(
            b"some avg10=25.00 avg60=11.56 avg300=13.07 total=10541467438\nfull avg10=0.00 avg60=0 total=7\n",
        );
        assert_eq!(pressure.some, Some(PressureLine { ratio_10s: 0.25, total_micros: 10_541_467_438 }));
        assert_eq!(pressure.full, Some(PressureLine { ratio_10s: 0.0, total_micros: 7 }));
        assert_eq!(parse_pressure(b"some avg10=nan total=1\n"), Pressure::default());
        assert_eq!(parse_pressure(b"some avg10=1.0 total="), Pressure::default());
    }

    #[test]
    fn numeric_and_named_options_are_parsed() {
        let with = |options: &str| {
            hide_pid(format!("sysfs /sys sysfs rw 0 0\nproc /proc proc {options} 0 0\n").as_bytes())
        };
        assert_eq!(with("rw,nosuid"), Some(HidePid::Everything));
        assert_eq!(with("rw,hidepid=0"), Some(HidePid::Everything));
        assert_eq!(with("rw,hidepid=noaccess,gid=5"), Some(HidePid::NoAccess));
        assert_eq!(with("hidepid=2"), Some(HidePid::Invisible));
        assert_eq!(with("hidepid=ptraceable"), Some(HidePid::Invisible));
        assert_eq!(hide_pid(b"sysfs /sys sysfs rw 0 0\n"), None);
    }
}
