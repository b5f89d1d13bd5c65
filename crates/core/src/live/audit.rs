//! The books must balance: after every batch of hostile rows the counted bytes and tracks are the real ones, and bounds
//! hold.

use super::limits::Limits;
use super::state::State;
use super::subject::{Key, SubjectState};
use crate::batch::Batch;
use crate::identity::ProcessIdentity;
use crate::random::Random;
use crate::schema::{
    DeviceSampleRow, InferenceRow, ProcessRow, ProcessSampleRow, Row, SampleEndRow, SystemSampleRow, Text,
    TickRow, UnavailabilityRow,
};

/// Generates rows that no correct source would produce, among many valid ones.
struct Hostile {
    random: Random,
    clock_ns: u64,
}

impl Hostile {
    fn below(&mut self, end: u64) -> u64 {
        self.random.below(end)
    }

    fn time(&mut self) -> u64 {
        self.clock_ns += self.random.below(300_000_000);
        match self.below(1000) {
            0 => self.random.next_u64(),
            1 => 0,
            2 => u64::MAX,
            3 => {
                self.clock_ns = self.below(1 << 45);
                self.clock_ns
            }
            4 => {
                self.clock_ns += self.below(1 << 47);
                self.clock_ns
            }
            _ => {
                let bits = self.below(37);
                self.clock_ns.saturating_sub(self.random.below(1 << bits))
            }
        }
    }

    fn number(&mut self) -> f64 {
        match self.below(12) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => -1e308,
            3 => 0.0,
            4 => f64::MIN_POSITIVE,
            _ => (self.random.normal() * 40.0).exp() * if self.below(2) == 0 { 1.0 } else { -1.0 },
        }
    }

    fn whole(&mut self) -> u64 {
        let bits = self.below(64);
        self.random.next_u64() >> bits
    }

    fn name(&mut self) -> Text {
        let number = self.below(40);
        format!("thing/{number}").into()
    }

    fn batch<R: Row>(&mut self, mut row: impl FnMut(&mut Self) -> R) -> Batch {
        let mut batch = Batch::new(R::TABLE);
        for _ in 0..self.below(600) {
            batch.push(&row(self));
        }
        batch
    }

    fn any_batch(&mut self) -> Batch {
        match self.below(8) {
            0 => self.batch(|from| InferenceRow {
                timestamp_ns: from.time(),
                planned_ns: from.time(),
                session_id: from.name(),
                copy_in_ns: from.whole(),
                run_ns: from.whole(),
                queue_depth: Some(from.below(9)).filter(|depth| *depth > 4),
                ok: from.below(10) > 0,
                ..InferenceRow::default()
            }),
            1 => self.batch(|from| ProcessSampleRow {
                timestamp_ns: from.time(),
                pid: if from.below(500) == 0 { u64::MAX } else { from.below(300) },
                process_start: from.below(3),
                cpu_time_ns: from.whole(),
                working_set_bytes: from.whole(),
                private_bytes: Some(from.whole()).filter(|bytes| *bytes > 1000),
                read_bytes: Some(from.whole()),
                ..ProcessSampleRow::default()
            }),
            2 => self.batch(|from| SystemSampleRow {
                timestamp_ns: from.time(),
                cpu_percent: Some(from.number()),
                memory_used_bytes: Some(from.whole()),
                memory_total_bytes: Some(from.below(3)),
                ..SystemSampleRow::default()
            }),
            3 => self.batch(|from| DeviceSampleRow {
                timestamp_ns: from.time(),
                device: from.name(),
                metric: from.name(),
                value: from.number(),
                source: from.name(),
                method: "measured".into(),
            }),
            4 => self.batch(|from| UnavailabilityRow {
                from_ns: from.time(),
                to_ns: Some(from.time()).filter(|time| time % 3 > 0),
                track: from.name(),
                reason: from.name(),
                hint: None,
            }),
            5 => {
                let tables = ["process_samples", "system_samples", "device_samples", "inferences"];
                let table = tables[self.below(4) as usize];
                let mut batch = Batch::new(TickRow::TABLE);
                batch.push(&TickRow { timestamp_ns: self.time(), table: table.into() });
                batch
            }
            6 => self.batch(|from| ProcessRow {
                timestamp_ns: from.time(),
                pid: from.below(300),
                process_start: from.below(3),
                event: ["seen", "started", "exited"][from.below(3) as usize].into(),
                name: from.name(),
                ..ProcessRow::default()
            }),
            _ => self.batch(|from| SampleEndRow {
                timestamp_ns: from.time(),
                table: "process_samples".into(),
                key: format!("[{}, {}]", from.below(300), from.below(3)).into(),
            }),
        }
    }
}

fn audit(state: &State) {
    let subjects = || state.subjects.iter().map(|(_, subject)| subject);
    for subject in subjects() {
        assert!(!subject.touched);
        // The second from last on know their bytes without counting: they must be right.
        let counted_now: usize = subject.open.iter().rev().skip(1).map(|open| open.bytes).sum();
        let counted: usize = subject.open.iter().rev().skip(1).map(|open| open.count_bytes()).sum();
        assert_eq!(counted_now, counted);
        assert!(subject.open.iter().is_sorted_by(|a, b| a.second < b.second));
        for track in &subject.tracks {
            assert!(track.first_ns.is_some() || (track.newest.is_none() && track.seconds.last().is_none()));
        }
        assert_eq!(subject.ring.is_some(), !matches!(subject.key, Key::Process(_)) || subject.selected);
    }
    assert_eq!(state.subjects.bytes, subjects().map(SubjectState::count_bytes).sum::<usize>());
    assert_eq!(state.subjects.tracks, subjects().map(SubjectState::tracks_with_data).sum::<usize>());
    assert!(state.subjects.tracks <= state.limits.tracks);
    assert!(state.bytes() <= state.limits.total_bytes, "{} bytes", state.bytes());
    assert!(state.unavailable.iter().count() <= state.limits.unavailable_intervals);
    assert!(subjects().filter(|subject| subject.selected).count() <= state.limits.selected_processes);
}

fn run(limits: Limits, seed: u64, batches: usize) -> State {
    let mut state = State::new(limits);
    let mut hostile = Hostile { random: Random::new(seed), clock_ns: 0 };
    for _ in 0..batches {
        let batch = hostile.any_batch();
        state.take(&batch, 0..batch.len());
        state.settle();
        audit(&state);
        if hostile.below(10) == 0 {
            let identity =
                |from: &mut Hostile| ProcessIdentity { pid: from.below(300) as u32, start: from.below(3) };
            let wanted = hostile.below(30);
            let selected = (0..wanted).map(|_| identity(&mut hostile)).collect();
            state.select(selected);
            audit(&state);
        }
        for info in state.tracks().iter().take(20) {
            let (from_ns, to_ns) = (hostile.time(), hostile.time());
            let max_points = 1 + hostile.below(100) as usize;
            let material = state.gather(&info.id, from_ns, to_ns, max_points).expect("listed");
            let history = material.into_history(from_ns, to_ns, max_points);
            assert!(history.points.is_sorted_by(|a, b| a.to_ns <= b.from_ns), "{history:?}");
            for point in &history.points {
                assert!(point.count > 0 && point.min <= point.mean && point.mean <= point.max, "{point:?}");
                assert!(point.min <= point.p50 && point.p50 <= point.p95, "{point:?}");
                assert!(point.p95 <= point.p99 && point.p99 <= point.max, "{point:?}");
            }
        }
        state.current(hostile.clock_ns);
    }
    state
}

#[test]
fn the_books_balance_whatever_comes() {
    for seed in 0..3 {
        run(Limits::default(), seed, 80);
    }
}

#[test]
fn the_books_balance_in_a_narrow_place() {
    for seed in 10..14 {
        let limits = Limits {
            total_bytes: 0,
            full_rate_bytes: 300_000,
            tracks: 400,
            ring_samples: 500,
            inference_samples: 3_000,
            selected_processes: 7,
            retention_seconds: 3_000,
            late_seconds: 5,
            unavailable_intervals: 20,
        };
        let state = run(limits, seed, 120);
        assert!(state.losses.total() > 0);
    }
}

#[test]
fn accounting_is_exact_with_limits_of_zero() {
    let limits = Limits {
        total_bytes: 0,
        full_rate_bytes: 0,
        tracks: 0,
        ring_samples: 0,
        inference_samples: 0,
        selected_processes: 0,
        retention_seconds: 0,
        late_seconds: 0,
        unavailable_intervals: 0,
    };
    run(limits.clone(), 20, 100);
    run(Limits { tracks: 100, ..limits }, 21, 100);
    run(Limits { tracks: 100, late_seconds: u64::MAX, retention_seconds: u64::MAX, ..limits }, 22, 100);
}
