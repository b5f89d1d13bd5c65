//! The machine's processors: performance or efficiency core, and NUMA node. Together with the processor of a thread's
//! sample this gives the kind of core that the thread ran on.

use serde::Serialize;

/// The kind of core of a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CoreKind {
    /// All cores are alike, or the machine does not distinguish them.
    Uniform,
    Performance,
    Efficiency,
}

/// One logical processor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Processor {
    pub number: u32,
    pub kind: CoreKind,
    /// NUMA node; `None` if unknown.
    pub numa_node: Option<u32>,
    /// Physical core within the machine, shared by processors with the same number.
    pub core: Option<u32>,
}
