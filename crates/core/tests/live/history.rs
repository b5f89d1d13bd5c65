//! Histories agree with brute force, and the tier is the finest that answers.

use ortscope_core::live::{Gap, GapReason, Limits, Tier, TrackId};
use ortscope_core::random::Random;
use ortscope_core::schema::{InferenceRow, Text};

use crate::support::{
    HOUR, MINUTE, MS, Memory, SECOND, assert_near, buckets, inference, inferences, quantile, system,
};

const ALL: u64 = u64::MAX;

/// Inferences of one session at a changing rate with pauses, out of order by up to `disorder_ns`.
fn random_inferences(random: &mut Random, session: &Text, count: u64, disorder_ns: u64) -> Vec<InferenceRow> {
    let mut time_ns = 1_000 * SECOND + random.below(MINUTE);
    let mut step_ns = 1;
    (0..count)
        .map(|number| {
            if number % 500 == 0 {
                let pace_ns = [2 * MS, 50 * MS, 900 * MS][random.below(3) as usize];
                step_ns = 1 + random.below(pace_ns);
                time_ns += if random.below(3) == 0 { random.below(20 * MINUTE) } else { 0 };
            }
            time_ns += random.below(2 * step_ns);
            let slow = if random.below(50) == 0 { 10 } else { 1 };
            let run_ns = slow * (1_000_000.0 * (1.0 + 0.2 * random.unit()).powi(3)) as u64;
            inference(session, time_ns - random.below(disorder_ns + 1), run_ns)
        })
        .collect()
}

#[test]
fn every_tier_agrees_with_brute_force() {
    let session: Text = "a".into();
    let track = TrackId::session("a", "latency_ns");
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let disorder_ns = [0, 3 * MS, 25 * SECOND][seed as usize % 3];
        let rows = random_inferences(&mut random, &session, 20_000, disorder_ns);
        let mut memory = Memory::new(Limits { inference_samples: 5_000, ..Limits::default() });
        for part in rows.chunks(1 + random.below(2000) as usize) {
            memory.give(&inferences(part));
        }
        assert_eq!(memory.view.losses().total(), 0);
        let values: Vec<(u64, f64)> = rows.iter().map(|row| (row.timestamp_ns, row.run_ns as f64)).collect();

        let seconds = memory.view.history(&track, 0, ALL, 1_000_000).expect("known");
        assert_eq!(seconds.tier, Tier::Seconds);
        assert_near(&seconds.points, &buckets(&values, SECOND));
        let minutes = memory.view.history(&track, 0, ALL, seconds.points.len() - 1).expect("known");
        assert_eq!((minutes.tier, minutes.interpolated), (Tier::Minutes, false));
        assert_near(&minutes.points, &buckets(&values, MINUTE));

        let mut newest = values[values.len() - 5_000..].to_vec();
        newest.sort_by_key(|(time, _)| *time);
        let rows = memory.view.rows(&track, 0, ALL).expect("known");
        let rows: Vec<(u64, f64)> = rows.times_ns.into_iter().zip(rows.values).collect();
        assert_eq!(rows, newest);
    }
}

#[test]
fn parts_of_the_past_agree_with_brute_force() {
    let session: Text = "a".into();
    let track = TrackId::session("a", "latency_ns");
    let mut random = Random::new(77);
    let rows = random_inferences(&mut random, &session, 20_000, 5 * MS);
    let mut memory = Memory::new(Limits::default());
    memory.give(&inferences(&rows));
    let values: Vec<(u64, f64)> = rows.iter().map(|row| (row.timestamp_ns, row.run_ns as f64)).collect();
    let (start, end) = (values[0].0, values[values.len() - 1].0);
    let (in_seconds, in_minutes) = (buckets(&values, SECOND), buckets(&values, MINUTE));
    let mut tiers = [0; 3];
    for _ in 0..300 {
        let from_ns = start + random.below(end - start);
        let to_ns = from_ns + 1 + random.below(end - from_ns);
        let max_points = 1 + random.below(3000) as usize;
        let history = memory.view.history(&track, from_ns, to_ns, max_points).expect("known");
        assert!(history.points.len() <= max_points);
        tiers[history.tier as usize] += 1;
        let mut wanted = match history.tier {
            Tier::FullRate => {
                let inside = values.iter().filter(|(time, _)| from_ns <= *time && *time < to_ns).count();
                assert_eq!(history.points.len(), inside);
                continue;
            }
            Tier::Seconds => in_seconds.clone(),
            Tier::Minutes if history.interpolated => continue,
            Tier::Minutes => in_minutes.clone(),
        };
        wanted.retain(|point| point.from_ns < to_ns && point.to_ns > from_ns);
        assert_near(&history.points, &wanted);
    }
    assert!(tiers.iter().all(|count| *count > 10), "every tier was asked: {tiers:?}");
}

/// More than a day of one value per second; rings hold the last 10,000 rows, so that each tier has a span of its own.
fn a_day() -> Memory {
    let mut memory = Memory::new(Limits::default());
    memory.take((0..27 * 3600).map(|second| system(second * SECOND, 20.0 + (second % 50) as f64)));
    memory
}

#[test]
fn the_finest_sufficient_tier_is_chosen() {
    let memory = a_day();
    let track = TrackId::system("cpu_percent");
    let now = 27 * HOUR;
    let ask = |from_ns, max_points| {
        let history = memory.view.history(&track, from_ns, now, max_points).expect("known");
        (history.tier, history.points.len(), history.interpolated)
    };
    assert_eq!(ask(now - HOUR, 5000), (Tier::FullRate, 3600, false));
    assert_eq!(ask(now - HOUR, 3600), (Tier::FullRate, 3600, false));
    // One value per second: buckets of a second would be as many as the values.
    assert_eq!(ask(now - HOUR, 3599), (Tier::Minutes, 60, false));
    assert_eq!(ask(now - 4 * HOUR, 20_000), (Tier::Seconds, 4 * 3600, false));
    assert_eq!(ask(now - 4 * HOUR, 1000), (Tier::Minutes, 240, false));
    assert_eq!(ask(now - 24 * HOUR, 86_400), (Tier::Seconds, 86_400, false));
    let (tier, points, interpolated) = ask(now - 24 * HOUR, 100);
    assert!(tier == Tier::Minutes && (50..=100).contains(&points) && interpolated);
}

#[test]
fn time_before_the_memory_is_reported_as_forgotten() {
    let memory = a_day();
    let history = memory.view.history(&TrackId::system("cpu_percent"), 0, 27 * HOUR, 100_000).expect("known");
    assert_eq!(history.tier, Tier::Seconds);
    let covered = history.covered_from_ns.expect("something");
    assert!(covered > 2 * HOUR && covered <= 3 * HOUR, "{covered}");
    assert_eq!(history.gaps, [Gap { from_ns: 0, to_ns: covered, reason: GapReason::Forgotten }]);
    assert_eq!(memory.view.losses().total(), 0, "age is no loss");
}

#[test]
fn time_before_the_first_value_is_reported_as_not_yet() {
    let mut memory = Memory::new(Limits::default());
    memory.take([system(10 * SECOND, 1.0)]);
    let track = TrackId::system("cpu_percent");
    let history = memory.view.history(&track, 4 * SECOND, 20 * SECOND, 10).expect("known");
    let not_yet = Gap { from_ns: 4 * SECOND, to_ns: 10 * SECOND, reason: GapReason::NotYet };
    assert_eq!((history.points.len(), history.gaps), (1, vec![not_yet]));
    assert_eq!(memory.view.history(&track, 30 * SECOND, 40 * SECOND, 10).expect("known").points, []);
}

#[test]
fn empty_ranges_and_absurd_questions_have_defined_answers() {
    let memory = a_day();
    let track = TrackId::system("cpu_percent");
    for (from_ns, to_ns) in [(5, 5), (HOUR, HOUR), (HOUR, 0), (ALL, ALL), (ALL, 0)] {
        let history = memory.view.history(&track, from_ns, to_ns, 10).expect("known");
        assert!(history.points.is_empty() && history.gaps.is_empty(), "{from_ns} to {to_ns}: {history:?}");
        assert!(memory.view.rows(&track, from_ns, to_ns).expect("known").values.is_empty());
    }
    assert_eq!(memory.view.history(&track, 0, ALL, 0).expect("known").points.len(), 1);
    let unknown = TrackId::system("no_such_metric");
    let error = memory.view.history(&unknown, 0, ALL, 10).expect_err("unknown").to_string();
    assert!(error.starts_with("there is no track system/no_such_metric in memory"), "{error}");
    assert!(memory.view.rows(&TrackId::session("x", "latency_ns"), 0, ALL).is_err());
}

#[test]
fn latency_percentiles_are_exact_over_the_window() {
    let session: Text = "a".into();
    let mut random = Random::new(5);
    let rows = random_inferences(&mut random, &session, 30_000, 10 * MS);
    let mut memory = Memory::new(Limits::default());
    memory.give(&inferences(&rows));
    let now = rows.iter().map(|row| row.timestamp_ns).max().expect("rows");
    for window_ns in [0, MS, SECOND, 10 * SECOND, HOUR, ALL] {
        let inside: Vec<f64> = rows
            .iter()
            .filter(|row| row.timestamp_ns >= now.saturating_sub(window_ns))
            .map(|row| row.run_ns as f64)
            .collect();
        let got = memory.view.latency("a", "latency_ns", now, window_ns).expect("known");
        assert_eq!(got.count, inside.len() as u64);
        let percentiles = [(got.p50, 0.5, 6), (got.p90, 0.9, 36), (got.p95, 0.95, 72), (got.p99, 0.99, 368)];
        for (got, q, needed) in percentiles.into_iter().chain([(got.p99_9, 0.999, 3688)]) {
            let wanted = (inside.len() >= needed).then(|| quantile(&inside, q));
            assert_eq!(got, wanted);
        }
    }
    assert!(memory.view.latency("b", "latency_ns", now, SECOND).is_err());
}

#[test]
fn latency_says_how_far_its_rows_reach() {
    let session: Text = "a".into();
    let mut memory = Memory::new(Limits { inference_samples: 1000, ..Limits::default() });
    memory.take((0..5000).map(|number| inference(&session, number * MS, 1000)));
    let got = memory.view.latency("a", "latency_ns", 5 * SECOND, 3 * SECOND).expect("known");
    assert_eq!((got.count, got.from_ns), (1000, 3999 * MS + 1));
}

#[test]
fn tracks_describe_themselves() {
    let memory = a_day();
    let tracks = memory.view.tracks();
    assert_eq!(tracks.len(), 1);
    let track = &tracks[0];
    assert_eq!(track.id.to_string(), "system/cpu_percent");
    assert_eq!((&*track.source, &*track.method, track.full_rate), ("system_samples", "measured", true));
    assert_eq!((track.first_ns, track.newest_ns), (0, (27 * 3600 - 1) * SECOND));
    let json = serde_json::to_value(&tracks).expect("JSON");
    assert_eq!((&json[0]["id"], &json[0]["unit"]), (&"system/cpu_percent".into(), &"percent".into()));
    let current = memory.view.current(27 * HOUR);
    assert_eq!((current.values.len(), current.values[0].age_ns), (1, SECOND));
}
