//! Metric groups, each read at its own rate.

/// A group of metrics with a common rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum MetricGroup {
    /// The list of processes.
    Discovery,
    /// CPU time of processes.
    Cpu,
    /// Resident and virtual memory, page faults, user and kernel time, priority, number of threads.
    Memory,
    /// Read and write calls and their bytes.
    Io,
    /// Every thread: CPU time, state, processor.
    Threads,
    /// Expensive, slowly changing metrics: open handles, peak memory, affinity, context switches, name.
    Details,
    /// Network traffic per process, where the system counts it.
    Network,
    /// The whole machine.
    System,
    /// Environment of the processes: container limits, pressure, network traffic and load.
    Environment,
}

impl MetricGroup {
    pub const ALL: [Self; 9] = [
        Self::Discovery,
        Self::Cpu,
        Self::Memory,
        Self::Io,
        Self::Threads,
        Self::Details,
        Self::Network,
        Self::System,
        Self::Environment,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Discovery => "discovery",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Io => "io",
            Self::Threads => "threads",
            Self::Details => "details",
            Self::Network => "network",
            Self::System => "system",
            Self::Environment => "environment",
        }
    }
}

/// A set of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupSet(u16);

impl GroupSet {
    /// The groups that fill columns of a process sample.
    pub const OF_PROCESSES: Self = Self(
        1 << MetricGroup::Cpu as u16
            | 1 << MetricGroup::Memory as u16
            | 1 << MetricGroup::Io as u16
            | 1 << MetricGroup::Details as u16
            | 1 << MetricGroup::Network as u16,
    );

    pub fn of(groups: &[MetricGroup]) -> Self {
        groups.iter().fold(Self::default(), |set, group| set.with(*group))
    }

    #[must_use]
    pub fn with(self, group: MetricGroup) -> Self {
        Self(self.0 | 1 << group as u16)
    }

    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub fn has(self, group: MetricGroup) -> bool {
        self.0 & (1 << group as u16) != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_contain_their_groups() {
        let set = GroupSet::of(&[MetricGroup::Io, MetricGroup::System]);
        for group in MetricGroup::ALL {
            assert_eq!(set.has(group), matches!(group, MetricGroup::Io | MetricGroup::System), "{group:?}");
        }
        assert!(set.and(GroupSet::OF_PROCESSES).has(MetricGroup::Io));
        assert!(GroupSet::of(&[MetricGroup::Threads]).and(GroupSet::OF_PROCESSES).is_empty());
    }
}
