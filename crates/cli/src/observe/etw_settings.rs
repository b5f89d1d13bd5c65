//! What a session of event tracing is asked for: the configuration, and flags by the names of Windows.

use ortscope_core::config::EtwSettings;
use ortscope_sources::etw::{KernelFlags, ProcessFilter, Settings, UnknownFlag};

use crate::exit::Failure;

/// How flags begin where they stand among classes.
const PREFIX: &str = "EVENT_TRACE_FLAG_";

pub fn is_flag(name: &str) -> bool {
    name.get(..PREFIX.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(PREFIX))
}

pub fn flags<'a>(names: impl IntoIterator<Item = &'a String>) -> Result<KernelFlags, Failure> {
    names.into_iter().try_fold(KernelFlags::default(), |flags, name| {
        let flag: KernelFlags = name.parse().map_err(|error: UnknownFlag| {
            let text = error.to_string();
            let (message, hint) = text.split_once("\n  hint: ").unwrap_or((&text, ""));
            Failure::usage(message).with_hint(hint)
        })?;
        Ok(flags | flag)
    })
}

/// `asked`: flags of the command line.
pub fn settings(config: &EtwSettings, asked: KernelFlags) -> Result<Settings, Failure> {
    let usual = Settings::default();
    Ok(Settings {
        // Beside sessions of other processes of ours.
        name: config.session_name.clone().unwrap_or_else(|| format!("ortscope-{}", std::process::id())),
        buffer_kilobytes: config.buffer_size_kb,
        minimum_buffers: config.min_buffers,
        maximum_buffers: config.max_buffers,
        flush_seconds: config.flush_timer_seconds,
        kernel: usual.kernel | asked | flags(&config.kernel_flags)?,
        counters: config.pmc_sources.clone(),
        filter: ProcessFilter {
            include_pids: config.include_pids.clone(),
            include_names: config.include_names.clone(),
            exclude_pids: config.exclude_pids.clone(),
            exclude_names: config.exclude_names.clone(),
        },
        ..usual
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_of_the_configuration_are_those_of_a_session() {
        let settings = settings(&EtwSettings::default(), KernelFlags::default()).expect("good names");
        let name = settings.name.clone();
        assert!(name.starts_with("ortscope-"), "{name}");
        assert_eq!(settings, Settings { name, ..Settings::default() });
    }

    #[test]
    fn what_is_configured_is_asked_for() {
        let config = EtwSettings {
            session_name: Some("mine".to_owned()),
            kernel_flags: vec!["EVENT_TRACE_FLAG_MEMORY_PAGE".to_owned(), "disk_io".to_owned()],
            pmc_sources: vec!["CacheMisses".to_owned()],
            flush_timer_seconds: 3,
            include_names: vec!["python".to_owned()],
            exclude_pids: Vec::new(),
            ..EtwSettings::default()
        };
        let settings = settings(&config, KernelFlags(0x4)).expect("good names");
        assert_eq!((settings.name.as_str(), settings.flush_seconds, settings.kernel.0), ("mine", 3, 0x3117));
        assert_eq!(
            (&settings.counters, &settings.filter.include_names),
            (&config.pmc_sources, &config.include_names)
        );
        assert!(settings.filter.exclude_pids.is_empty());
        let wrong = EtwSettings { kernel_flags: vec!["CSWTCH".to_owned()], ..EtwSettings::default() };
        let told = super::settings(&wrong, KernelFlags::default()).expect_err("no such flag").to_string();
        assert!(told.contains("'CSWTCH' is not a kernel flag"), "{told}");
        assert!(is_flag("event_trace_flag_cswitch") && !is_flag("disk") && !is_flag("EVENT_TRACE"));
    }
}
