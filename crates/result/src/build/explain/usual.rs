//! What inferences near the median have inside.

use super::evidence::{Evidence, KernelKind, Mean, Tally};

/// What is usual in a session.
#[derive(Debug, Default)]
pub(super) struct Usual {
    pub n: u64,
    pub total_ns: f64,
    pub kernel: [Tally; KernelKind::ALL.len()],
    pub off_ns: f64,
    pub copies: Tally,
    pub waits: Tally,
    pub growth_bytes: f64,
    pub others_cores: Mean,
    pub cpu_percent: Mean,
    pub frequency_hertz: Mean,
    pub median_ns: f64,
    pub copy_in_ns: f64,
    pub copy_out_ns: f64,
}

impl Usual {
    /// Of inferences near this median, with these mean times for copying.
    pub fn new(median_ns: f64, copy_in_ns: f64, copy_out_ns: f64) -> Self {
        Self { median_ns, copy_in_ns, copy_out_ns, ..Self::default() }
    }

    pub fn add(&mut self, duration_ns: u64, evidence: &Evidence) {
        self.n += 1;
        self.total_ns += duration_ns as f64;
        for (sum, tally) in self.kernel.iter_mut().zip(&evidence.kernel) {
            add(sum, tally);
        }
        self.off_ns += evidence.longest_off_ns() as f64;
        add(&mut self.copies, &evidence.copies);
        add(&mut self.waits, &evidence.waits);
        self.growth_bytes += evidence.growth_bytes.largest().map_or(0.0, |(_, bytes)| bytes as f64);
        let given = [
            (&mut self.others_cores, evidence.cpu.others_cores()),
            (&mut self.cpu_percent, evidence.machine.cpu_percent.get()),
            (&mut self.frequency_hertz, evidence.machine.frequency_hertz.get()),
        ];
        for (mean, value) in given {
            value.into_iter().for_each(|value| mean.add(value));
        }
    }

    pub fn per_inference(&self, sum: f64) -> Option<f64> {
        (self.n > 0).then(|| sum / self.n as f64)
    }
}

fn add(sum: &mut Tally, tally: &Tally) {
    sum.count += tally.count;
    sum.duration_ns = sum.duration_ns.saturating_add(tally.duration_ns);
    sum.timed |= tally.timed;
}
