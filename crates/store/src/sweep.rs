//! What recorders that were killed have left in memory: their recordings get it, then it goes.

use std::path::PathBuf;

use ortscope_channel::{LeftBehind, left_behind};
use ortscope_core::identity::ProcessIdentity;

use crate::StoreError;
use crate::repair::repair;

/// Removes the channels of this user whose recorder and programs are gone; before that, the recordings that they belong
/// to are repaired, because the rings may have rows that no journal has. Gives what could not be done: that stays.
pub fn sweep(is_alive: impl Fn(ProcessIdentity) -> bool) -> Vec<(PathBuf, StoreError)> {
    let swept = left_behind(is_alive).into_iter().map(|left| {
        let directory = left.directory().to_owned();
        complete(left).map_err(|error| (directory, error))
    });
    swept.filter_map(Result::err).collect()
}

fn complete(left: LeftBehind) -> Result<(), StoreError> {
    // A recording that was removed needs nothing any more.
    if let Some(recording) = left.recording().filter(|path| path.exists()) {
        repair(recording)?;
    }
    Ok(left.remove()?)
}
