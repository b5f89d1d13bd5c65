//! Sampling options and results.

/// Options for processor samples with stacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleOptions {
    /// These processes with all their threads and descendants.
    pub pids: Vec<u32>,
    /// Samples per second on each processor, 1 to 20,000. Reduced to the kernel's limit, which is reported.
    pub hertz: u32,
    /// Bytes of the stack copied with every sample, to unwind code without frame pointers: 16 KB by default, at most
    /// 56 KB. 0 for frame pointers only.
    pub stack_bytes: u32,
    /// Include kernel frames where permitted.
    pub kernel: bool,
    /// All rings together: 32 MB. When one is full, new samples are dropped and counted.
    pub ring_bytes_total: usize,
}

impl Default for SampleOptions {
    fn default() -> Self {
        Self { pids: Vec::new(), hertz: 99, stack_bytes: 16 << 10, kernel: true, ring_bytes_total: 32 << 20 }
    }
}

/// Counts of a sampling run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SampleCounts {
    pub samples: u64,
    /// Samples and other records that found a full ring.
    pub lost: u64,
    /// How often the kernel throttled sampling because it took too long.
    pub throttled: u64,
    /// User stacks unwound by frame pointers, by tables, and by tables but not to the outermost function.
    pub by_frame_pointers: u64,
    pub by_tables: u64,
    pub cut: u64,
    /// Records that could not be decoded.
    pub damaged: u64,
}
