//! The displayed process metrics by the names of their tracks, and the columns of the table.

use ortscope_core::units;

/// A number of a process. The name of its track contains its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Metric {
    Cpu,
    User,
    Kernel,
    Rss,
    PeakRss,
    Private,
    Threads,
    Handles,
    Read,
    Write,
    Switches,
    Faults,
    HardFaults,
}

impl Metric {
    pub const ALL: [Self; 13] = [
        Self::Cpu,
        Self::User,
        Self::Kernel,
        Self::Rss,
        Self::PeakRss,
        Self::Private,
        Self::Threads,
        Self::Handles,
        Self::Read,
        Self::Write,
        Self::Switches,
        Self::Faults,
        Self::HardFaults,
    ];

    /// Name of the track in the live memory, and of the field in JSON. A track that does not exist yet is simply
    /// without values.
    pub fn track(self) -> &'static str {
        match self {
            Self::Cpu => "cpu_percent",
            Self::User => "user_percent",
            Self::Kernel => "kernel_percent",
            Self::Rss => "working_set_bytes",
            Self::PeakRss => "peak_working_set_bytes",
            Self::Private => "private_bytes",
            Self::Threads => "thread_count",
            Self::Handles => "handle_count",
            Self::Read => "read_bytes_per_second",
            Self::Write => "write_bytes_per_second",
            Self::Switches => "context_switches_per_second",
            Self::Faults => "page_faults_per_second",
            Self::HardFaults => "hard_faults_per_second",
        }
    }

    pub fn of_track(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.track() == name)
    }

    /// Derived from the growth between two samples, so that a single value of a fast source means little.
    pub fn is_rate(self) -> bool {
        !matches!(self, Self::Rss | Self::PeakRss | Self::Private | Self::Threads | Self::Handles)
    }

    /// The number in a narrow column.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Cpu | Self::User | Self::Kernel => units::narrow_percent(value),
            Self::Rss | Self::PeakRss | Self::Private | Self::Read | Self::Write => {
                units::narrow_bytes(value)
            }
            Self::Threads | Self::Handles | Self::Switches | Self::Faults | Self::HardFaults => {
                units::narrow_count(value)
            }
        }
    }
}

/// The numbers of one process; a metric without a value is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Values([Option<f64>; Metric::ALL.len()]);

impl Values {
    pub fn get(&self, metric: Metric) -> Option<f64> {
        self.0.get(metric as usize).copied().flatten()
    }

    pub fn set(&mut self, metric: Metric, value: f64) {
        if let Some(place) = self.0.get_mut(metric as usize) {
            *place = Some(value);
        }
    }
}

/// A column of the table, in the order from left to right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Column {
    Pid,
    Name,
    Cpu,
    /// CPU of the last minute; not to sort by.
    Minute,
    Rss,
    Threads,
    Read,
    Write,
    Switches,
    Faults,
}

impl Column {
    pub const ALL: [Self; 10] = [
        Self::Pid,
        Self::Name,
        Self::Cpu,
        Self::Minute,
        Self::Rss,
        Self::Threads,
        Self::Read,
        Self::Write,
        Self::Switches,
        Self::Faults,
    ];

    pub fn title(self) -> &'static str {
        match self {
            Self::Pid => "PID",
            Self::Name => "NAME",
            Self::Cpu => "CPU%",
            Self::Minute => "60 s",
            Self::Rss => "RSS",
            Self::Threads => "THR",
            Self::Read => "READ/s",
            Self::Write => "WRITE/s",
            Self::Switches => "CTX/s",
            Self::Faults => "FLT/s",
        }
    }

    pub fn metric(self) -> Option<Metric> {
        match self {
            Self::Pid | Self::Name | Self::Minute => None,
            Self::Cpu => Some(Metric::Cpu),
            Self::Rss => Some(Metric::Rss),
            Self::Threads => Some(Metric::Threads),
            Self::Read => Some(Metric::Read),
            Self::Write => Some(Metric::Write),
            Self::Switches => Some(Metric::Switches),
            Self::Faults => Some(Metric::Faults),
        }
    }

    /// By name as a user would write it: `cpu`, `rss`, `read`.
    pub fn of_name(name: &str) -> Option<Self> {
        let names = ["pid", "name", "cpu", "", "rss", "threads", "read", "write", "switches", "faults"];
        let index = names.iter().position(|known| !known.is_empty() && known.eq_ignore_ascii_case(name))?;
        Self::ALL.get(index).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for (index, metric) in Metric::ALL.into_iter().enumerate() {
            assert_eq!((metric as usize, Metric::of_track(metric.track())), (index, Some(metric)));
        }
        for (name, column) in [("cpu", Column::Cpu), ("RSS", Column::Rss), ("faults", Column::Faults)] {
            assert_eq!(Column::of_name(name), Some(column));
        }
        assert_eq!((Column::of_name(""), Column::of_name("minute")), (None, None));
    }
}
