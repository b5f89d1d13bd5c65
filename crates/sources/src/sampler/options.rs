//! Sampler options: targets, rates and limits.

use ortscope_core::config::{Monitoring, UseCase};
use ortscope_core::rate_control::{MAX_HERTZ, MIN_HERTZ, RateError, check_hertz};

use super::glob::GlobError;
use super::groups::MetricGroup;
use super::targets::{Exclude, Targets};

/// Samples per second of each group, 0.1 to 1000. `None` disables a group.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates {
    pub discovery_hertz: f64,
    pub cpu_hertz: f64,
    pub memory_hertz: f64,
    pub io_hertz: Option<f64>,
    pub threads_hertz: f64,
    pub details_hertz: Option<f64>,
    pub network_hertz: Option<f64>,
    pub system_hertz: f64,
    pub environment_hertz: f64,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            discovery_hertz: 10.0,
            cpu_hertz: 50.0,
            memory_hertz: 10.0,
            io_hertz: Some(10.0),
            threads_hertz: 10.0,
            details_hertz: Some(1.0),
            network_hertz: Some(1.0),
            system_hertz: 10.0,
            environment_hertz: 1.0,
        }
    }
}

impl Rates {
    pub fn of(&self, group: MetricGroup) -> Option<f64> {
        match group {
            MetricGroup::Discovery => Some(self.discovery_hertz),
            MetricGroup::Cpu => Some(self.cpu_hertz),
            MetricGroup::Memory => Some(self.memory_hertz),
            MetricGroup::Io => self.io_hertz,
            MetricGroup::Threads => Some(self.threads_hertz),
            MetricGroup::Details => self.details_hertz,
            MetricGroup::Network => self.network_hertz,
            MetricGroup::System => Some(self.system_hertz),
            MetricGroup::Environment => Some(self.environment_hertz),
        }
    }
}

/// How much of a command line is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CommandLines {
    Off,
    /// The program and the names of its options; values are replaced because they may be secrets.
    #[default]
    Redacted,
    Full,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SamplerOptions {
    pub targets: Targets,
    pub exclude: Exclude,
    /// Emit rows for every thread of the watched processes.
    pub threads: bool,
    /// Count cycles of the watched processes with processor counters, which costs them about a microsecond per
    /// switch.
    pub cycles: bool,
    /// Emit rows for the machine and the environment of the processes (container limits, pressure).
    pub system: bool,
    /// Emit rows about the cost of sampling once per second (`device_samples` of `ortscope`).
    pub own_cost_rows: bool,
    pub rates: Rates,
    pub command_lines: CommandLines,
    /// Percentage of one core that sampling may use before its rates are lowered. Default: 5, as in production.
    pub overhead_limit_percent: f64,
    /// Limit for watched processes. Default 16,384; further ones are not watched and are counted as lost.
    pub max_processes: usize,
    /// Limit for thread rows per tick. Default 65,536; further ones are dropped and counted as lost.
    pub max_threads: usize,
    /// End when every watched process has exited, including those whose children are watched. Names and patterns
    /// without a match so far are waited for. Otherwise sampling continues until it is stopped.
    pub end_with_targets: bool,
}

impl Default for SamplerOptions {
    fn default() -> Self {
        Self {
            targets: Targets::default(),
            exclude: Exclude::default(),
            threads: false,
            cycles: false,
            system: true,
            own_cost_rows: true,
            rates: Rates::default(),
            command_lines: CommandLines::default(),
            overhead_limit_percent: UseCase::Production.overhead_limit_percent(),
            max_processes: 16_384,
            max_threads: 65_536,
            end_with_targets: false,
        }
    }
}

/// Invalid options.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OptionsError {
    #[error(transparent)]
    Rate(#[from] RateError),
    #[error(transparent)]
    Pattern(#[from] GlobError),
    #[error("process 0 cannot be watched: it is the idle process")]
    PidZero,
    #[error("{0} must be at least 1")]
    NoRoom(&'static str),
}

impl SamplerOptions {
    /// Some processes until they exit, CPU and memory at the same rate, without rows about the machine and the
    /// sampler. A rate outside the valid range is clamped.
    pub fn of_pids(pids: Vec<u32>, hertz: f64) -> Self {
        let hertz =
            if hertz.is_nan() { Rates::default().cpu_hertz } else { hertz.clamp(MIN_HERTZ, MAX_HERTZ) };
        let slower = |requested: f64| requested.min(hertz);
        let defaults = Rates::default();
        Self {
            targets: Targets::of_pids(pids),
            system: false,
            own_cost_rows: false,
            rates: Rates {
                cpu_hertz: hertz,
                memory_hertz: hertz,
                io_hertz: defaults.io_hertz.map(slower),
                details_hertz: defaults.details_hertz.map(slower),
                network_hertz: None,
                threads_hertz: slower(defaults.threads_hertz),
                discovery_hertz: slower(defaults.discovery_hertz),
                ..defaults
            },
            end_with_targets: true,
            ..Self::default()
        }
    }

    /// Rates and limit from `[monitoring]`; `disk_io` is the rate of the I/O counters.
    #[must_use]
    pub fn with_monitoring(mut self, monitoring: &Monitoring) -> Self {
        self.rates.cpu_hertz = monitoring.cpu.sampling_hz;
        self.rates.memory_hertz = monitoring.memory.sampling_hz;
        self.rates.io_hertz = Some(monitoring.disk_io.sampling_hz);
        self.rates.network_hertz = Some(monitoring.network.sampling_hz);
        self.overhead_limit_percent = monitoring.overhead_limit;
        self
    }

    /// The rate of a group, if these options need it at all.
    pub(super) fn rate_of(&self, group: MetricGroup) -> Option<f64> {
        let wanted = match group {
            MetricGroup::Threads => self.threads,
            MetricGroup::System | MetricGroup::Environment => self.system,
            // Without machine rows, the process list is needed only if targets can appear.
            MetricGroup::Discovery => self.targets.can_grow() || self.system,
            _ => true,
        };
        self.rates.of(group).filter(|_| wanted)
    }

    pub(super) fn fastest_hertz(&self) -> f64 {
        MetricGroup::ALL.iter().filter_map(|group| self.rate_of(*group)).fold(MIN_HERTZ, f64::max)
    }

    pub fn check(&self) -> Result<(), OptionsError> {
        for group in MetricGroup::ALL {
            if let Some(hertz) = self.rates.of(group) {
                check_hertz(rate_name(group), hertz)?;
            }
        }
        if !(self.overhead_limit_percent > 0.0 && self.overhead_limit_percent <= 100.0) {
            return Err(RateError::Limit { percent: self.overhead_limit_percent }.into());
        }
        if self.targets.pids.contains(&0) || self.targets.children_of.contains(&0) {
            return Err(OptionsError::PidZero);
        }
        match (self.max_processes, self.max_threads) {
            (0, _) => Err(OptionsError::NoRoom("max_processes")),
            (_, 0) => Err(OptionsError::NoRoom("max_threads")),
            _ => Ok(()),
        }
    }
}

fn rate_name(group: MetricGroup) -> &'static str {
    match group {
        MetricGroup::Discovery => "the process discovery rate",
        MetricGroup::Cpu => "the CPU sampling rate",
        MetricGroup::Memory => "the memory sampling rate",
        MetricGroup::Io => "the I/O sampling rate",
        MetricGroup::Threads => "the thread sampling rate",
        MetricGroup::Details => "the handle sampling rate",
        MetricGroup::Network => "the network sampling rate",
        MetricGroup::System => "the machine sampling rate",
        MetricGroup::Environment => "the container sampling rate",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_match_the_documentation() {
        let options = SamplerOptions::default();
        options.check().unwrap();
        assert_eq!((options.rates.cpu_hertz, options.rates.memory_hertz), (50.0, 10.0));
        assert_eq!((options.rates.io_hertz, options.rates.details_hertz), (Some(10.0), Some(1.0)));
        assert_eq!(options.overhead_limit_percent, 5.0);
        assert_eq!(options.fastest_hertz(), 50.0);
        assert_eq!(options.rate_of(MetricGroup::Threads), None);
    }

    #[test]
    fn invalid_rates_are_named() {
        for hertz in [0.0, f64::NAN, 1e9, -3.0] {
            let rates = Rates { memory_hertz: hertz, ..Rates::default() };
            let error = SamplerOptions { rates, ..SamplerOptions::default() }.check().unwrap_err();
            let text = error.to_string();
            assert!(text.contains("memory sampling") && text.contains("between 0.1 and 1000"), "{text}");
        }
        assert!(SamplerOptions::of_pids(vec![1], f64::NAN).check().is_ok());
        assert_eq!(SamplerOptions::of_pids(vec![1], 1e9).rates.cpu_hertz, 1000.0);
        assert_eq!(SamplerOptions::of_pids(vec![0], 1.0).check(), Err(OptionsError::PidZero));
    }

    #[test]
    fn the_configuration_sets_rates_and_the_limit() {
        let mut monitoring = Monitoring::default();
        monitoring.cpu.sampling_hz = 200.0;
        monitoring.overhead_limit = 2.0;
        let options = SamplerOptions::default().with_monitoring(&monitoring);
        assert_eq!((options.rates.cpu_hertz, options.rates.io_hertz), (200.0, Some(1.0)));
        assert_eq!(options.overhead_limit_percent, 2.0);
    }
}
