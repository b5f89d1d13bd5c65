//! Selection of the watched processes.

use std::collections::HashSet;

use super::backend::ProcessFacts;
use super::glob::{Glob, GlobError};

/// System processes that are left out unless requested: they always exist and are seldom of interest.
const SYSTEM_PROCESSES: &[&str] = &[
    // Linux
    "init",
    "systemd",
    "systemd-*",
    "(sd-pam)",
    "dbus-daemon",
    "dbus-broker*",
    "agetty",
    "cron",
    "crond",
    "rsyslogd",
    "polkitd",
    "irqbalance",
    "udevd",
    // Windows
    "Idle",
    "System",
    "System Idle Process",
    "Registry",
    "Memory Compression",
    "Secure System",
    "smss.exe",
    "csrss.exe",
    "wininit.exe",
    "winlogon.exe",
    "services.exe",
    "lsass.exe",
    "LsaIso.exe",
    "svchost.exe",
    "fontdrvhost.exe",
    "dwm.exe",
];

/// What to watch: processes that match any of these. Without any, all processes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Targets {
    /// Processes with these ids at the start of sampling; a later process with the same id is a different one.
    pub pids: Vec<u32>,
    /// Programs with exactly this name. Linux keeps only the first 15 bytes; longer names are compared accordingly.
    pub names: Vec<String>,
    pub patterns: Vec<Glob>,
    /// Descendants of these processes, but not the processes themselves.
    pub children_of: Vec<u32>,
}

/// What not to watch. Processes targeted by id are watched in any case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exclude {
    pub pids: Vec<u32>,
    pub patterns: Vec<Glob>,
    /// Leaves out the usual system processes, except those in [`Targets::names`].
    pub system_processes: bool,
    pub kernel_threads: bool,
}

impl Default for Exclude {
    fn default() -> Self {
        Self { pids: Vec::new(), patterns: Vec::new(), system_processes: true, kernel_threads: true }
    }
}

impl Exclude {
    /// Nothing is left out.
    pub fn nothing() -> Self {
        Self { system_processes: false, kernel_threads: false, ..Self::default() }
    }
}

impl Targets {
    pub fn of_pids(pids: Vec<u32>) -> Self {
        Self { pids, ..Self::default() }
    }

    /// Without a target everything is watched.
    pub fn is_everything(&self) -> bool {
        self == &Self::default()
    }

    /// Whether processes that start later can match.
    pub fn can_grow(&self) -> bool {
        self.is_everything()
            || !(self.names.is_empty() && self.patterns.is_empty() && self.children_of.is_empty())
    }
}

/// Decides once per process, and again when its name may have changed.
#[derive(Debug)]
pub(super) struct Selector {
    targets: Targets,
    exclude: Exclude,
    system: Vec<Glob>,
    /// Members of the families of [`Targets::children_of`]; they remain members after their parent has exited.
    family: HashSet<u32>,
}

impl Selector {
    pub fn new(targets: Targets, exclude: Exclude) -> Result<Self, GlobError> {
        let system = if exclude.system_processes { SYSTEM_PROCESSES } else { &[] };
        let system = system.iter().map(|name| Glob::new(name)).collect::<Result<_, _>>()?;
        let family = targets.children_of.iter().copied().collect();
        Ok(Self { targets, exclude, system, family })
    }

    /// For processes targeted by id, which cannot be excluded: without patterns this cannot fail.
    pub fn of_pids(targets: Targets) -> Self {
        Self { targets, exclude: Exclude::nothing(), system: Vec::new(), family: HashSet::new() }
    }

    pub fn targets(&self) -> &Targets {
        &self.targets
    }

    /// Whether to watch this listed process.
    pub fn wants(&self, facts: &ProcessFacts) -> bool {
        let named = self.targets.names.iter().any(|name| is_name(name.as_bytes(), &facts.name));
        if self.is_excluded(facts, named) {
            return false;
        }
        named
            || self.targets.is_everything()
            || self.targets.patterns.iter().any(|pattern| pattern.matches(&facts.name))
            || facts.parent_pid.is_some_and(|parent| self.family.contains(&parent))
    }

    fn is_excluded(&self, facts: &ProcessFacts, named: bool) -> bool {
        self.exclude.pids.contains(&facts.pid)
            || (self.exclude.kernel_threads && facts.kernel_thread)
            || self.exclude.patterns.iter().any(|pattern| pattern.matches(&facts.name))
            || (!named && self.system.iter().any(|pattern| pattern.matches(&facts.name)))
    }

    /// Records a watched process: its children belong to the family too.
    pub fn joined(&mut self, facts: &ProcessFacts) {
        if !self.targets.children_of.is_empty()
            && facts.parent_pid.is_some_and(|parent| self.family.contains(&parent))
        {
            self.family.insert(facts.pid);
        }
    }

    /// Records an exited process, whose id may be reused.
    pub fn left(&mut self, pid: u32) {
        self.family.remove(&pid);
    }
}

/// Exact match, or a match of a name truncated by Linux.
fn is_name(wanted: &[u8], name: &[u8]) -> bool {
    const KEPT: usize = 15;
    wanted.eq_ignore_ascii_case(name)
        || (name.len() == KEPT && wanted.get(..KEPT).is_some_and(|start| start.eq_ignore_ascii_case(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(pid: u32, parent: u32, name: &[u8]) -> ProcessFacts {
        ProcessFacts { pid, parent_pid: Some(parent), name: name.to_vec(), ..ProcessFacts::default() }
    }

    fn selector(targets: Targets, exclude: Exclude) -> Selector {
        Selector::new(targets, exclude).unwrap()
    }

    #[test]
    fn everything_excludes_system_and_kernel_processes() {
        let all = selector(Targets::default(), Exclude::default());
        assert!(all.wants(&facts(5, 1, b"python3")));
        assert!(!all.wants(&facts(1, 0, b"systemd")));
        assert!(!all.wants(&facts(9, 1, b"systemd-udevd")));
        assert!(!all.wants(&facts(4, 0, b"svchost.exe")));
        assert!(!all.wants(&ProcessFacts { kernel_thread: true, ..facts(2, 0, b"kthreadd") }));
        let really = selector(Targets::default(), Exclude::nothing());
        assert!(really.wants(&facts(1, 0, b"systemd")));
    }

    #[test]
    fn names_patterns_and_exclusions() {
        let targets = Targets {
            names: vec!["systemd".into(), "a-name-that-is-cut-by-linux".into()],
            patterns: vec![Glob::new("py*").unwrap()],
            ..Targets::default()
        };
        let exclude =
            Exclude { pids: vec![77], patterns: vec![Glob::new("*-helper").unwrap()], ..Exclude::default() };
        let chosen = selector(targets, exclude);
        assert!(chosen.wants(&facts(1, 0, b"systemd")), "named explicitly");
        assert!(chosen.wants(&facts(2, 0, b"a-name-that-is-")));
        assert!(chosen.wants(&facts(3, 0, b"pytest")));
        assert!(!chosen.wants(&facts(77, 0, b"pytest")));
        assert!(!chosen.wants(&facts(4, 0, b"py-helper")));
        assert!(!chosen.wants(&facts(5, 0, b"bash")));
    }

    #[test]
    fn families_grow_and_outlive_their_parents() {
        let targets = Targets { children_of: vec![10], ..Targets::default() };
        let mut family = selector(targets, Exclude::default());
        let (child, grandchild, stranger) = (facts(11, 10, b"a"), facts(12, 11, b"b"), facts(13, 1, b"c"));
        assert!(family.wants(&child) && !family.wants(&grandchild) && !family.wants(&stranger));
        family.joined(&child);
        assert!(family.wants(&grandchild));
        family.left(11);
        assert!(!family.wants(&facts(14, 11, b"d")), "an unrelated process with the id of an exited member");
    }

    #[test]
    fn pid_targets_cannot_grow() {
        assert!(!Targets::of_pids(vec![1]).can_grow());
        assert!(Targets::default().can_grow());
        assert!(Targets { children_of: vec![1], ..Targets::default() }.can_grow());
    }
}
