//! Giving up rights that a server does not need: capabilities of Linux, and the way to new ones.
//!
//! Rights belong to threads, and a new thread has those of the one that made it: this is called before there is a second.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs};

/// What is kept, if it is there, and why.
const KEPT: CapabilitySet = CapabilitySet::from_bits_retain(
    // Reads of what other users' processes do, which is what the live view shows.
    CapabilitySet::SYS_PTRACE.bits()
        // Recordings that were named and belong to somebody else; read only.
        | CapabilitySet::DAC_READ_SEARCH.bits()
        // Counters and kernel events.
        | CapabilitySet::PERFMON.bits()
        | CapabilitySet::BPF.bits()
        // Ports below 1024.
        | CapabilitySet::NET_BIND_SERVICE.bits(),
);

/// Gives up every capability but those above. Files in `places` that belong to somebody else stay writable. With
/// `never_more`, programs that are started cannot get more either. Gives how many capabilities were given up.
pub fn drop_unneeded(places: &[PathBuf], never_more: bool) -> Result<u32, String> {
    let in_words = |error: rustix::io::Errno| error.to_string();
    let before = capabilities(None).map_err(in_words)?;
    let mut kept = KEPT;
    // Kernels before 5.8 know no narrower right to count events.
    if !before.permitted.contains(CapabilitySet::PERFMON) {
        kept |= CapabilitySet::SYS_ADMIN;
    }
    if places.iter().any(|place| !is_own(place)) {
        kept |= CapabilitySet::DAC_OVERRIDE;
    }
    let after = CapabilitySets {
        effective: before.effective & kept,
        permitted: before.permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, after).map_err(in_words)?;
    if never_more {
        set_no_new_privs(true).map_err(in_words)?;
    }
    Ok(before.permitted.difference(after.permitted).bits().count_ones())
}

/// Whether a place, or the directory in which it would be made, belongs to the user of this process.
fn is_own(place: &Path) -> bool {
    let found = place.ancestors().find_map(|path| std::fs::metadata(path).ok());
    found.is_none_or(|found| found.uid() == geteuid().as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_listed_is_left_and_it_is_this_threads_own_business() {
        let place = tempfile::tempdir().expect("a directory");
        let places = vec![place.path().join("not/there/yet")];
        let was = rustix::thread::no_new_privs();
        let thread = std::thread::Builder::new().name("drops".to_owned()).spawn(move || {
            let dropped = drop_unneeded(&places, true);
            (dropped, capabilities(None).expect("readable"), rustix::thread::no_new_privs())
        });
        let (dropped, left, never_more) = thread.expect("a thread").join().expect("no panic");
        let before = capabilities(None).expect("readable");
        let dropped = dropped.expect("dropped");
        assert_eq!(left.permitted.bits() & !(KEPT | CapabilitySet::SYS_ADMIN).bits(), 0);
        assert_eq!(before.permitted.bits().count_ones() - left.permitted.bits().count_ones(), dropped);
        assert_eq!(never_more, Ok(true));
        assert_eq!(rustix::thread::no_new_privs(), was, "of the other thread alone");
    }
}
