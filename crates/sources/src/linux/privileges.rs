//! Drops privileges that a server does not need: Linux capabilities, and the ability to regain them.
//!
//! Privileges are per thread, and a new thread inherits those of its creator, so this must be called before the second
//! thread starts.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs};

/// Capabilities that are kept if present, and why.
const KEPT: CapabilitySet = CapabilitySet::from_bits_retain(
    // Reading other users' processes for the live view.
    CapabilitySet::SYS_PTRACE.bits()
        // Reading recordings that belong to another user.
        | CapabilitySet::DAC_READ_SEARCH.bits()
        // Counters and kernel events.
        | CapabilitySet::PERFMON.bits()
        | CapabilitySet::BPF.bits()
        // Ports below 1024.
        | CapabilitySet::NET_BIND_SERVICE.bits(),
);

/// Drops all other capabilities. Files in `writable` that belong to another user stay writable. With
/// `no_new_privileges`, started programs cannot regain any. Returns the number of dropped capabilities.
pub fn drop_unneeded(writable: &[PathBuf], no_new_privileges: bool) -> Result<u32, String> {
    let in_words = |error: rustix::io::Errno| error.to_string();
    let before = capabilities(None).map_err(in_words)?;
    let mut kept = KEPT;
    // Kernels before 5.8 have no narrower capability for counting events.
    if !before.permitted.contains(CapabilitySet::PERFMON) {
        kept |= CapabilitySet::SYS_ADMIN;
    }
    if writable.iter().any(|path| !is_own(path)) {
        kept |= CapabilitySet::DAC_OVERRIDE;
    }
    let after = CapabilitySets {
        effective: before.effective & kept,
        permitted: before.permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, after).map_err(in_words)?;
    if no_new_privileges {
        set_no_new_privs(true).map_err(in_words)?;
    }
    Ok(before.permitted.difference(after.permitted).bits().count_ones())
}

/// Whether a path, or the directory in which it would be created, belongs to the user of this process.
fn is_own(path: &Path) -> bool {
    let found = path.ancestors().find_map(|path| std::fs::metadata(path).ok());
    found.is_none_or(|found| found.uid() == geteuid().as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_capabilities_remain_and_only_this_thread_is_affected() {
        let path = tempfile::tempdir().expect("a directory");
        let writable = vec![path.path().join("not/there/yet")];
        let was = rustix::thread::no_new_privs();
        let thread = std::thread::Builder::new().name("drops".to_owned()).spawn(move || {
            let dropped = drop_unneeded(&writable, true);
            (dropped, capabilities(None).expect("readable"), rustix::thread::no_new_privs())
        });
        let (dropped, left, no_new_privileges) = thread.expect("a thread").join().expect("no panic");
        let before = capabilities(None).expect("readable");
        let dropped = dropped.expect("dropped");
        assert_eq!(left.permitted.bits() & !(KEPT | CapabilitySet::SYS_ADMIN).bits(), 0);
        assert_eq!(before.permitted.bits().count_ones() - left.permitted.bits().count_ones(), dropped);
        assert_eq!(no_new_privileges, Ok(true));
        assert_eq!(rustix::thread::no_new_privs(), was, "other threads are unaffected");
    }
}
