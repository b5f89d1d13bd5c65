//! `/proc/mounts`: whether /proc hides other users' processes.

use super::scan::{fields, whole_lines};

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
