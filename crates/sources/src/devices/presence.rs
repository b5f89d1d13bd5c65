//! Whether something that was there still is. Its loss is told once, its return too.

use super::Missing;

/// Something that could not be read for a while can be again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Back {
    /// As its loss was told.
    pub missing: Missing,
    pub from_ns: u64,
    pub to_ns: u64,
}

#[derive(Debug, Default)]
pub(super) struct Presence(Option<(u64, Missing)>);

impl Presence {
    pub fn is_lost(&self) -> bool {
        self.0.is_some()
    }

    /// It cannot be read. Only the first time is told.
    pub fn lose(&mut self, at_ns: u64, missing: impl FnOnce() -> Missing, lost: &mut Vec<Missing>) {
        if self.0.is_none() {
            let missing = missing();
            lost.push(missing.clone());
            self.0 = Some((at_ns, missing));
        }
    }

    /// It was read.
    pub fn find(&mut self, at_ns: u64, back: &mut Vec<Back>) {
        if let Some((from_ns, missing)) = self.0.take() {
            back.push(Back { missing, from_ns, to_ns: at_ns });
        }
    }
}
