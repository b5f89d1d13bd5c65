//! The document of `ortscope run`.

pub mod document;

pub use document::RunDocument;
pub use ortscope_result::RunResult;
