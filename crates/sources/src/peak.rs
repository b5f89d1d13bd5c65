//! Measures the processor's peak performance with a short benchmark of multiply-adds and memory reads, so that the
//! roofline of an operator is measured instead of taken from a data sheet.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "calls code compiled for instructions that were detected just before")
)]

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use ortscope_core::session::MachinePeak;

/// Independent multiply-add chains: enough to hide their latency on two units, few enough for the registers.
const CHAINS: usize = 10;
const STEPS: usize = 4096;
/// Per thread; together they are larger than any current cache.
const ARRAY_WORDS: usize = 8 << 20;

/// One lap of the clock's chain: 0.1 ms.
const STEPS_OF_CLOCK: u64 = 200_000;
const CLOCK_BUDGET: Duration = Duration::from_millis(20);

/// Cycles of a chain in which every step, an addition and an exclusive or, depends on the previous one.
fn dependent_steps(steps: u64) -> f64 {
    let (addend, mask) = (black_box(0x9e37_79b9_7f4a_7c15_u64), black_box(0x5555_5555_5555_5555_u64));
    let mut value = black_box(1_u64);
    for _ in 0..steps {
        value = value.wrapping_add(addend) ^ mask;
    }
    black_box(value);
    2.0 * steps as f64
}

/// Measures for about the given time, half for each figure. Keeps the best of many short laps, because disturbances only
/// make a lap slower.
pub fn measure_peak(threads: usize, budget: Duration) -> MachinePeak {
    let begin = Instant::now();
    let threads = threads.max(1);
    let (kernel, instructions) = kernel();
    let flops = best_rate(threads, budget / 2, || {
        move || {
            let (value, multiply_adds) = kernel(black_box(1.0), black_box(0.999_9), black_box(1e-4));
            black_box(value);
            2.0 * multiply_adds as f64
        }
    });
    let bytes = best_rate(threads, budget / 2, || {
        let array: Vec<u64> = (0..ARRAY_WORDS as u64).collect();
        move || {
            black_box(sum(black_box(&array)));
            (ARRAY_WORDS * size_of::<u64>()) as f64
        }
    });
    MachinePeak {
        threads,
        flops_per_second: flops,
        bytes_per_second: bytes,
        instructions: instructions.to_owned(),
        clock_hertz: best_rate(1, CLOCK_BUDGET.min(budget), || || dependent_steps(black_box(STEPS_OF_CLOCK))),
        seconds: begin.elapsed().as_secs_f64(),
    }
}

/// Combined work per second of all threads: the sum of each thread's best lap.
fn best_rate<W>(threads: usize, budget: Duration, make: impl Fn() -> W + Sync) -> f64
where
    W: FnMut() -> f64,
{
    let ready = Barrier::new(threads);
    let one = || {
        let mut work = make();
        work();
        ready.wait();
        let deadline = Instant::now() + budget;
        let mut best: f64 = 0.0;
        while Instant::now() < deadline {
            let begin = Instant::now();
            let done = work();
            let seconds = begin.elapsed().as_secs_f64();
            if seconds > 0.0 {
                best = best.max(done / seconds);
            }
        }
        best
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .filter_map(|number| {
                let builder = std::thread::Builder::new().name(format!("peak-{number}"));
                builder.spawn_scoped(scope, one).ok()
            })
            .collect();
        let own = one();
        own + others.into_iter().filter_map(|thread| thread.join().ok()).sum::<f64>()
    })
}

/// Four independent sums, so that the additions do not depend on each other.
fn sum(array: &[u64]) -> u64 {
    let mut sums = [0u64; 16];
    for chunk in array.chunks_exact(16) {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum = sum.wrapping_add(*value);
        }
    }
    sums.iter().fold(0, |all, sum| all.wrapping_add(*sum))
}

/// Runs multiply-adds on every chain; returns one of the results and the number of multiply-adds.
type Kernel = fn(f32, f32, f32) -> (f32, usize);

/// `LANES`: values per vector register.
#[inline(always)]
fn multiply_add<const LANES: usize>(start: f32, factor: f32, addend: f32) -> (f32, usize) {
    let mut chains = [[start; LANES]; CHAINS];
    for _ in 0..STEPS {
        for chain in &mut chains {
            for value in chain {
                *value = value.mul_add(factor, addend);
            }
        }
    }
    black_box(&chains);
    (chains[0][0], LANES * CHAINS * STEPS)
}

/// Without fused instructions `mul_add` would call a library function for each value.
#[cfg(any(test, not(target_arch = "aarch64")))]
fn portable(start: f32, factor: f32, addend: f32) -> (f32, usize) {
    let mut chains = [[start; 4]; CHAINS];
    for _ in 0..STEPS {
        for chain in &mut chains {
            for value in chain {
                *value = *value * factor + addend;
            }
        }
    }
    black_box(&chains);
    (chains[0][0], 4 * CHAINS * STEPS)
}

#[cfg(target_arch = "x86_64")]
fn kernel() -> (Kernel, &'static str) {
    #[target_feature(enable = "avx512f")]
    fn wide(start: f32, factor: f32, addend: f32) -> (f32, usize) {
        multiply_add::<16>(start, factor, addend)
    }
    #[target_feature(enable = "avx2,fma")]
    fn fused(start: f32, factor: f32, addend: f32) -> (f32, usize) {
        multiply_add::<8>(start, factor, addend)
    }
    if std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has these instructions.
        (|start, factor, addend| unsafe { wide(start, factor, addend) }, "avx512")
    } else if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: the processor has these instructions.
        (|start, factor, addend| unsafe { fused(start, factor, addend) }, "avx2-fma")
    } else {
        (portable, "portable")
    }
}

/// Every 64-bit ARM processor has 128-bit fused multiply-adds, and the compiler uses them.
#[cfg(target_arch = "aarch64")]
fn kernel() -> (Kernel, &'static str) {
    (multiply_add::<4>, "neon")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn kernel() -> (Kernel, &'static str) {
    (portable, "portable")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_computes_the_same_result() {
        let (chosen, _) = kernel();
        // Halving and adding a quarter converges to exactly a half.
        assert_eq!(chosen(1.0, 0.5, 0.25).0, 0.5);
        assert_eq!(portable(1.0, 0.5, 0.25).0, 0.5);
    }

    #[test]
    fn the_measured_peak_is_plausible() {
        let peak = measure_peak(1, Duration::from_millis(40));
        assert!(peak.flops_per_second > 1e6 && peak.bytes_per_second > 1e6, "{peak:?}");
        assert_eq!(sum(&[1; 32]), 32);
    }
}
