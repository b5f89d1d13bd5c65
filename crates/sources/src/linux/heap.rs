//! Memory that is free goes back to the system.
#![expect(unsafe_code, reason = "the allocator's settings have no safe wrapper")]

/// Blocks of this size and more have a mapping of their own, which goes when they are freed.
#[cfg(target_env = "gnu")]
const OWN_MAPPING_BYTES: libc::c_int = 256 << 10;
/// More than this at the end of the heap is given back.
#[cfg(target_env = "gnu")]
const SPARE_BYTES: libc::c_int = 1 << 20;

/// glibc raises both limits with the largest block that was ever freed, up to 32 MB, and then keeps what a recording's segments
/// took for ever: 50 MB more after a few of them. Set once, they stay.
pub fn give_back_freed() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes two numbers and changes settings of the allocator under its own lock; what it refuses stays as it is.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_MAPPING_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, SPARE_BYTES);
    }
}

/// Pages between blocks that are still in use go back too. The heap of a thread that makes segments else keeps up to 7 MB of what
/// one of them took, or not, as the blocks happen to lie.
pub fn give_back_now() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes a number; looks at free blocks under the allocator's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}
