//! What to sample, and what came of it.

/// Samples of processors with their stacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleOptions {
    /// These processes with all their threads, and everything they start.
    pub pids: Vec<u32>,
    /// Samples of each processor per second, 1 to 20,000. Lowered to what the kernel allows, and said.
    pub hertz: u32,
    /// Bytes of the stack that are copied with every sample, to go back through code without frame pointers: 16 KB, at
    /// most 56 KB. 0: frame pointers only.
    pub stack_bytes: u32,
    /// Frames of the kernel too, where that is allowed.
    pub kernel: bool,
    /// All rings together: 32 MB. When one is full, new samples are dropped and counted.
    pub ring_bytes_total: usize,
}

impl Default for SampleOptions {
    fn default() -> Self {
        Self { pids: Vec::new(), hertz: 99, stack_bytes: 16 << 10, kernel: true, ring_bytes_total: 32 << 20 }
    }
}

/// What came of sampling.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SampleCounts {
    pub samples: u64,
    /// Samples and other records that found a full ring.
    pub lost: u64,
    /// Times that the kernel held sampling back because it took too long.
    pub throttled: u64,
    /// Stacks of programs by frame pointers, by tables, and by tables but not to the outermost function.
    pub by_frame_pointers: u64,
    pub by_tables: u64,
    pub cut: u64,
    /// Records that could not be read.
    pub damaged: u64,
}
