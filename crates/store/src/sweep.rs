//! Removes channels orphaned by killed recorders, after adding their rows to the recordings.

use std::path::{Path, PathBuf};

use ortscope_channel::disk::{Overwritten, overwrite_before_removal};
use ortscope_channel::{OrphanedChannel, orphaned_channels, session_of_process};
use ortscope_core::identity::ProcessIdentity;

use crate::StoreError;
use crate::manifest::{ChannelPlace, Found, Manifest};
use crate::repair::repair;

/// Sessions of one process that get names here, the same that its recorder gave them or would have given: it writes
/// them into the manifest a moment after it has begun to read, and may have been killed before.
const SESSIONS_NAMED: usize = 256;

/// Removes the channels of this user whose recorder and programs are gone. Their recordings are repaired first,
/// because the rings may have rows that no journal has. Returns the failures; those channels stay.
pub fn sweep(is_alive: impl Fn(ProcessIdentity) -> bool) -> Vec<(PathBuf, StoreError)> {
    let swept = orphaned_channels(is_alive).into_iter().map(|left| {
        let directory = left.directory().to_owned();
        complete(left).map_err(|error| (directory, error))
    });
    swept.filter_map(Result::err).collect()
}

fn complete(left: OrphanedChannel) -> Result<(), StoreError> {
    // A recording that was removed needs nothing any more.
    if let Some(recording) = left.recording().filter(|path| path.exists()) {
        add_unseen(recording, &left)?;
        repair(recording)?;
    }
    Ok(left.remove()?)
}

/// A program may run and end before its recorder, which polls a few times a second, has seen its rings: then the
/// recording does not list them.
fn add_unseen(recording: &Path, left: &OrphanedChannel) -> Result<(), StoreError> {
    let Found::Whole(mut manifest) = Manifest::read(recording)? else { return Ok(()) };
    if manifest.encryption.is_some() {
        // The recorder would have.
        overwrite_before_removal(Overwritten::Temporary);
    }
    if manifest.end.is_some() {
        return Ok(());
    }
    for directory in left.processes() {
        let known = manifest.channels.iter().position(|place| place.directory == directory);
        let known = known.unwrap_or_else(|| {
            manifest.channels.push(ChannelPlace { directory, session_ids: Vec::new() });
            manifest.channels.len() - 1
        });
        let place = &mut manifest.channels[known];
        let names = &mut place.session_ids;
        for session in names.len()..SESSIONS_NAMED {
            names.push(session_of_process(&place.directory, session).to_string());
        }
    }
    manifest.write(recording)
}
