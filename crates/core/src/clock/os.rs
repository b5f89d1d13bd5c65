//! The system call behind the monotonic clock: the only code in `core` that differs between systems, because every
//! crate below `sources` stamps with it.

std::cfg_select! {
    unix => {
        pub const NAME: &str = "CLOCK_MONOTONIC";

        #[inline]
        pub fn monotonic_ns() -> u64 {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
            // Both parts are non-negative for a monotonic clock.
            (time.tv_sec as u64) * 1_000_000_000 + time.tv_nsec as u64
        }
    }
    windows => {
        use std::sync::OnceLock;

        use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};

        pub const NAME: &str = "QueryPerformanceCounter";

        static TICKS_PER_SECOND: OnceLock<u64> = OnceLock::new();

        #[expect(unsafe_code, reason = "QPC is a C function")]
        fn ticks_per_second() -> u64 {
            *TICKS_PER_SECOND.get_or_init(|| {
                let mut frequency = 0i64;
                // SAFETY: the pointer is to a live i64; the call cannot fail since Windows XP.
                unsafe { QueryPerformanceFrequency(&mut frequency) };
                u64::try_from(frequency).unwrap_or(10_000_000).max(1)
            })
        }

        #[inline]
        #[expect(unsafe_code, reason = "QPC is a C function")]
        pub fn monotonic_ns() -> u64 {
            let mut ticks = 0i64;
            // SAFETY: the pointer is to a live i64; the call cannot fail since Windows XP.
            unsafe { QueryPerformanceCounter(&mut ticks) };
            let (ticks, frequency) = (ticks as u64, ticks_per_second());
            // Split so that neither product overflows for centuries of uptime.
            (ticks / frequency) * 1_000_000_000 + (ticks % frequency) * 1_000_000_000 / frequency
        }
    }
    _ => {
        use std::sync::OnceLock;
        use std::time::Instant;

        pub const NAME: &str = "std::time::Instant";

        static START: OnceLock<Instant> = OnceLock::new();

        pub fn monotonic_ns() -> u64 {
            START.get_or_init(Instant::now).elapsed().as_nanos() as u64
        }
    }
}
