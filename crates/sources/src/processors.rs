//! The processors of the machine: which are performance and which efficiency cores, and where their memory is. With the
//! processor of a thread's sample it says what kind of core the thread ran on.

use serde::Serialize;

/// What kind of core a processor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CoreKind {
    /// All cores of the machine are alike, or the machine does not say.
    Uniform,
    Performance,
    Efficiency,
}

/// One logical processor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Processor {
    pub number: u32,
    pub kind: CoreKind,
    /// Group of processors with memory of their own; `None` if the machine does not say.
    pub numa_node: Option<u32>,
    /// Physical core within the machine: two processors with the same number share one.
    pub core: Option<u32>,
}
