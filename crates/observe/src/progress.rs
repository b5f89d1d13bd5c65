//! How an observation reports its progress. The caller decides where it is shown.

/// Receives a short text a few times a second.
pub trait Progress: std::fmt::Debug {
    /// `text` is called only if the text will be shown.
    fn update(&mut self, text: &dyn Fn() -> String);
}

/// Shows nothing.
#[derive(Debug, Clone, Copy)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn update(&mut self, _text: &dyn Fn() -> String) {}
}
