//! A look at what a processor executes: where, and by which calls it came there.
//!
//! Not a [`super::KernelEvent`]: those are small values that are copied by the million, a stack is neither.

use super::event::Task;

/// Frames of one half of a stack that are kept. Deeper stacks lose their outermost frames and say so.
pub const MAX_FRAMES: usize = 256;

/// One sample of a processor. Frames are addresses, the innermost first: the first one is where it executes, the others
/// are where calls return to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuSample {
    pub at_ns: u64,
    pub cpu: u32,
    pub thread: Task,
    /// At most [`MAX_FRAMES`]; empty outside the kernel, or where it may not be looked at.
    pub kernel: Vec<u64>,
    /// At most [`MAX_FRAMES`].
    pub user: Vec<u64>,
    pub walk: StackWalk,
}

/// How the frames of the program were found, which says how far they can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StackWalk {
    /// The thread was in no program: a thread of the kernel.
    #[default]
    None,
    /// By frame pointers; code that was compiled without them hides its callers.
    FramePointers,
    /// By the program's own tables for unwinding, to the outermost frame.
    Tables,
    /// By tables up to where the copy of the stack ended or a table was missing: callers are missing.
    TablesCut,
}
