//! Which row of a sweep is recommended, and why.

use ortscope_analyze::Percentile;
use ortscope_analyze::recommend::{Goal, SettingsRow, recommend};

fn row(label: &str, settings: &[(&str, &str)], p50_ns: u64, memory_mb: u64) -> SettingsRow {
    SettingsRow {
        label: label.to_owned(),
        settings: settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        is_default: settings.is_empty(),
        p50: Some(Percentile {
            p: 0.5,
            value_ns: Some(p50_ns),
            low_ns: Some(p50_ns * 99 / 100),
            high_ns: Some(p50_ns * 101 / 100),
            noise_factor: 1.0,
            needs_runs: 6,
        }),
        throughput_per_second: Some(1e9 / p50_ns as f64),
        peak_memory_bytes: Some(memory_mb * 1_000_000),
        failed: None,
    }
}

#[test]
fn a_clear_winner_is_named_with_its_interval() {
    let rows = [
        row("default", &[], 2_000_000, 100),
        row("threads 4", &[("threads", "4")], 1_000_000, 100),
        row("threads 8", &[("threads", "8")], 1_500_000, 100),
    ];
    let result = recommend(&rows, Goal::Latency);
    assert_eq!(result.recommended, Some(1));
    assert_eq!(result.ranking.iter().map(|ranked| ranked.index).collect::<Vec<_>>(), [1, 2, 0]);
    assert!(result.within_noise.is_empty());
    assert_eq!(result.speed_up.unwrap().ratio, 2.0);
    assert_eq!(result.reason, "threads 4: 2.00× the speed of the default [1.96..2.04]");
}

#[test]
fn the_default_wins_within_noise() {
    let rows = [row("default", &[], 1_010_000, 200), row("threads 4", &[("threads", "4")], 1_000_000, 100)];
    for goal in [Goal::Latency, Goal::Throughput] {
        let result = recommend(&rows, goal);
        assert_eq!((result.recommended, result.within_noise.as_slice()), (Some(0), [1].as_slice()));
        assert_eq!(result.reason, "keep the default settings: threads 4 is not faster beyond noise");
    }
}

#[test]
fn fewer_changes_then_less_memory_win_within_noise() {
    let both = [("threads", "4"), ("arena", "off")];
    let mut rows = vec![
        row("default", &[], 2_000_000, 100),
        row("both", &both, 1_000_000, 50),
        row("threads 4", &[("threads", "4")], 1_005_000, 100),
    ];
    let result = recommend(&rows, Goal::Latency);
    assert_eq!((result.recommended, result.within_noise.as_slice()), (Some(2), [1].as_slice()));
    assert!(result.reason.ends_with("within noise of both and changes fewer settings"), "{}", result.reason);
    rows.push(row("threads 5", &[("threads", "5")], 1_008_000, 60));
    let result = recommend(&rows, Goal::Latency);
    assert_eq!(result.recommended, Some(3));
    rows.remove(1);
    let result = recommend(&rows, Goal::Latency);
    assert!(result.reason.ends_with("within noise of threads 4 and needs less memory"), "{}", result.reason);
}

#[test]
fn failures_are_listed_and_never_chosen() {
    let mut failed = row("broken", &[("x", "1")], 1, 1);
    failed.failed = Some("provider aborted".to_owned());
    let result = recommend(&[failed.clone(), row("default", &[], 1_000_000, 1)], Goal::Latency);
    assert_eq!((result.recommended, result.failed.as_slice()), (Some(1), [0].as_slice()));
    assert_eq!(result.reason, "the default settings are the fastest");
    let nothing = recommend(&[failed], Goal::Latency);
    assert_eq!(
        (nothing.recommended, nothing.reason.as_str()),
        (None, "no settings could be measured: provider aborted")
    );
    assert_eq!(recommend(&[], Goal::Latency).recommended, None);
}
