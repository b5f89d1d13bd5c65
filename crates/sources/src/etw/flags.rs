//! Kernel flags of a session, with their Windows names.

use std::fmt;
use std::ops::BitOr;
use std::str::FromStr;

use crate::kernel::Class;

/// A combination of `EVENT_TRACE_FLAG_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct KernelFlags(pub u32);

const PREFIX: &str = "EVENT_TRACE_FLAG_";

/// Names without their prefix; of names with the same value the first one is shown.
const NAMES: &[(&str, u32)] = &[
    ("PROCESS", 0x1),
    ("THREAD", 0x2),
    ("IMAGE_LOAD", 0x4),
    ("PROCESS_COUNTERS", 0x8),
    ("CSWITCH", 0x10),
    ("DPC", 0x20),
    ("INTERRUPT", 0x40),
    ("SYSTEMCALL", 0x80),
    ("DISK_IO", 0x100),
    ("DISK_FILE_IO", 0x200),
    ("DISK_IO_INIT", 0x400),
    ("DISPATCHER", 0x800),
    ("MEMORY_PAGE_FAULTS", 0x1000),
    ("MEMORY_HARD_FAULTS", 0x2000),
    ("VIRTUAL_ALLOC", 0x4000),
    ("VAMAP", 0x8000),
    ("NETWORK_TCPIP", 0x1_0000),
    ("REGISTRY", 0x2_0000),
    ("ALPC", 0x10_0000),
    ("SPLIT_IO", 0x20_0000),
    ("DRIVER", 0x80_0000),
    ("PROFILE", 0x100_0000),
    ("FILE_IO", 0x200_0000),
    ("FILE_IO_INIT", 0x400_0000),
    // Not a Windows name, but commonly used.
    ("MEMORY_PAGE", 0x3000),
];

/// The name of a nonexistent flag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a kernel flag\n  hint: the names are {PREFIX}PROCESS, THREAD, IMAGE_LOAD, CSWITCH, DISK_IO, MEMORY_PAGE, \
     PROFILE and the others of EVENT_TRACE_PROPERTIES.EnableFlags"
)]
pub struct UnknownFlag(pub String);

impl KernelFlags {
    pub const PROCESS: Self = Self(0x1);
    pub const THREAD: Self = Self(0x2);
    pub const IMAGE_LOAD: Self = Self(0x4);
    pub const CSWITCH: Self = Self(0x10);
    pub const PROFILE: Self = Self(0x100_0000);
    /// Starts, ends and switches, which are always recorded.
    pub const ALWAYS: Self = Self(0x13);

    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The flags of an event class; `None` if Windows has no event for it.
    pub fn of_class(class: Class) -> Option<Self> {
        Some(Self(match class {
            Class::Wakeups => 0x800,
            // Every switch has its processor; a migration has no event of its own.
            Class::Migrations => return None,
            Class::PageFaults => 0x3000,
            Class::BlockIo => 0x500,
            Class::MemoryCalls => 0x4000,
            Class::FileIo => 0x600_0200,
            Class::Images => 0x4,
        }))
    }

    /// Event classes enabled by these flags.
    pub fn classes(self) -> Vec<Class> {
        let is_asked = |class: &Class| Self::of_class(*class).is_some_and(|flags| self.0 & flags.0 != 0);
        Class::ALL.into_iter().filter(is_asked).collect()
    }

    pub fn names(self) -> Vec<String> {
        let single = NAMES.iter().filter(|(_, value)| value.is_power_of_two() && self.0 & value != 0);
        single.map(|(name, _)| format!("{PREFIX}{name}")).collect()
    }
}

impl BitOr for KernelFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl FromStr for KernelFlags {
    type Err = UnknownFlag;

    /// One name, with or without its prefix, in any case.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let upper = text.trim().to_ascii_uppercase();
        let name = upper.strip_prefix(PREFIX).unwrap_or(&upper);
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| Self(*value)).ok_or_else(|| UnknownFlag(text.to_owned()))
    }
}

impl fmt::Display for KernelFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().join(" | "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_accepted_with_and_without_prefix() {
        let flag = |text: &str| text.parse::<KernelFlags>();
        assert_eq!(flag("EVENT_TRACE_FLAG_CSWITCH"), Ok(KernelFlags::CSWITCH));
        assert_eq!(flag("cswitch"), Ok(KernelFlags::CSWITCH));
        assert_eq!(flag("EVENT_TRACE_FLAG_MEMORY_PAGE"), Ok(KernelFlags(0x3000)));
        assert!(
            flag("EVENT_TRACE_FLAG_CSWTCH")
                .unwrap_err()
                .to_string()
                .starts_with("'EVENT_TRACE_FLAG_CSWTCH' is not")
        );
        assert!(flag("").is_err());
    }

    #[test]
    fn flags_enable_classes() {
        let of = |name: &str| name.parse::<KernelFlags>().unwrap().classes();
        assert_eq!(of("EVENT_TRACE_FLAG_DISK_IO"), [Class::BlockIo]);
        assert_eq!(of("EVENT_TRACE_FLAG_MEMORY_PAGE"), [Class::PageFaults]);
        assert_eq!(of("EVENT_TRACE_FLAG_IMAGE_LOAD"), [Class::Images]);
        // Always recorded.
        assert!(of("EVENT_TRACE_FLAG_CSWITCH").is_empty() && of("EVENT_TRACE_FLAG_THREAD").is_empty());
    }

    #[test]
    fn every_shown_name_is_parsed_back() {
        for (_, value) in NAMES {
            let names = KernelFlags(*value).names();
            let back = names.iter().map(|name| name.parse::<KernelFlags>().unwrap());
            assert_eq!(back.fold(KernelFlags::default(), KernelFlags::bitor), KernelFlags(*value));
        }
    }
}
