//! Returns unused memory to the system.
#![expect(unsafe_code, reason = "the allocator's settings have no safe wrapper")]

/// Blocks of at least this size have their own mapping, which is released when they are freed.
#[cfg(target_env = "gnu")]
const OWN_MAPPING_BYTES: libc::c_int = 256 << 10;
/// Unused memory at the end of the heap beyond this is released.
#[cfg(target_env = "gnu")]
const SPARE_BYTES: libc::c_int = 1 << 20;

/// Fixes both limits. By default glibc raises them with the largest block that was ever freed, up to 32 MB, and then
/// permanently keeps the memory of a recording's segments: 50 MB more after a few of them.
pub fn limit_retained() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes two numbers and changes allocator settings under the allocator's lock; rejected values have no
    // effect.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_MAPPING_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, SPARE_BYTES);
    }
}

/// Also releases free pages between used blocks. Otherwise the heap of a thread that writes segments keeps up to 7 MB of
/// each, depending on the layout of the blocks.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes a number; inspects free blocks under the allocator's locks.
    unsafe {
        libc::malloc_trim(0);
    }
}
