//! Limits hold for any input, and evictions follow the documented order.

use ortscope_core::live::{GapReason, Limits, Subject, Tier, TrackId};
use ortscope_core::random::Random;
use ortscope_core::schema::{DeviceSampleRow, Text};

use crate::support::{HOUR, MS, Memory, SECOND, inference, pid, process, system};

#[test]
fn short_lived_processes_leave_a_bounded_trace() {
    let mut memory = Memory::new(Limits { tracks: 300, ..Limits::default() });
    memory.take([system(0, 1.0)]);
    let session: Text = "a".into();
    memory.take([inference(&session, 0, 1)]);
    let mut most = 0;
    // 500 processes per second for a while, each seen twice.
    for number in 0..100_000_u32 {
        let at = u64::from(number) * 2 * MS;
        memory.take([process(pid(number), at, 0), process(pid(number), at + MS, MS / 2)]);
        most = most.max(memory.view.bytes());
    }
    let tracks = memory.view.tracks();
    assert!(tracks.len() <= 300);
    assert!(most < 20_000_000, "{most} bytes");
    let losses = memory.view.losses();
    assert!(losses.evicted_tracks > 0 && losses.refused_rows > 0, "{losses:?}");
    // Subjects more important than an idle process are still there.
    assert!(tracks.iter().any(|track| track.id.subject == Subject::System));
    assert!(tracks.iter().any(|track| track.id.subject == Subject::Session("a".into())));
    // After five silent seconds, new processes replace old ones.
    let newest = tracks.iter().map(|track| track.newest_ns).max().expect("tracks");
    assert!(newest > 190 * SECOND, "{newest}");
}

#[test]
fn the_least_recently_updated_session_goes() {
    let mut memory = Memory::new(Limits { tracks: 50, ..Limits::default() });
    for number in 0..100_u64 {
        let session: Text = format!("{number}").into();
        memory.take([inference(&session, number * SECOND, 1)]);
    }
    let tracks = memory.view.tracks();
    assert!(tracks.len() <= 50);
    assert!(memory.view.history(&TrackId::session("99", "latency_ns"), 0, u64::MAX, 10).is_ok());
    assert!(memory.view.history(&TrackId::session("0", "latency_ns"), 0, u64::MAX, 10).is_err());
    assert_eq!(memory.view.losses().evicted_tracks + tracks.len() as u64, 200);
}

fn noisy_device(random: &mut Random, name: &str, time_ns: u64) -> DeviceSampleRow {
    DeviceSampleRow {
        timestamp_ns: time_ns,
        device: name.into(),
        metric: "power_watts".into(),
        value: 100.0 + 10.0 * random.normal(),
        source: "sim".into(),
        method: "measured".into(),
    }
}

#[test]
fn when_full_the_oldest_seconds_of_the_least_important_go_first() {
    let limits = Limits {
        total_bytes: 4_000_000,
        full_rate_bytes: 1_000_000,
        selected_processes: 2,
        ..Limits::default()
    };
    let mut memory = Memory::new(limits);
    let mut random = Random::new(3);
    let session: Text = "a".into();
    let mut cpu_ns = [0; 30];
    for second in 0..4 * 3600 {
        for half in 0..2 {
            let at = second * SECOND + half * 500 * MS;
            memory.take((0..30).map(|number| {
                let used = &mut cpu_ns[number as usize];
                *used += random.below(500 * MS);
                process(pid(number), at, *used)
            }));
            memory.take([system(at, 50.0 + random.normal()), system(at + 100 * MS, 50.0 + random.normal())]);
            memory.take([noisy_device(&mut random, "gpu0", at)]);
            memory.take((0..2).map(|n| inference(&session, at + n, 1_000_000 + random.below(100_000))));
        }
        assert!(memory.view.bytes() <= 4_000_000, "second {second}: {}", memory.view.bytes());
    }
    let losses = memory.view.losses();
    assert!(losses.second_buckets > 10_000, "{losses:?}");
    assert_eq!((losses.minute_buckets, losses.evicted_tracks), (0, 0));
    let now = 4 * HOUR;
    let seconds_from = |track: TrackId| {
        let history = memory.view.history(&track, now - 64 * SECOND, now, 128).expect("known");
        let wide = memory.view.history(&track, 0, now, 1_000_000).expect("known");
        (history.tier, wide.tier, wide.covered_from_ns)
    };
    // Sessions, system and devices have all their seconds.
    for track in [
        TrackId::session("a", "latency_ns"),
        TrackId::system("cpu_percent"),
        TrackId::device("gpu0", "power_watts"),
    ] {
        assert_eq!(seconds_from(track).1, Tier::Seconds);
    }
    // Processes that are not selected have their minutes, and recent seconds.
    let chosen = memory.view.selected_processes();
    let other = (0..30).map(pid).find(|process| !chosen.contains(process)).expect("thirty");
    let (recent, wide, covered) = seconds_from(TrackId::process(other, "cpu_percent"));
    assert_eq!((recent, wide, covered), (Tier::Seconds, Tier::Minutes, Some(500 * MS)));
    let history = memory
        .view
        .history(&TrackId::process(other, "cpu_percent"), now - HOUR, now, 1_000_000)
        .expect("known");
    assert!(!history.gaps.iter().any(|gap| gap.reason == GapReason::Forgotten), "minutes have it all");
}

#[test]
fn a_tiny_budget_holds_however_much_comes() {
    let limits = Limits { total_bytes: 0, tracks: usize::MAX, ..Limits::default() };
    let mut memory = Memory::new(limits);
    assert_eq!(memory.view.limits().total_bytes, Limits::MIN_TOTAL_BYTES);
    let mut random = Random::new(4);
    for round in 0..300_u64 {
        let sessions: Vec<Text> = (0..20).map(|_| format!("{}", random.below(3000)).into()).collect();
        memory.take((0..1000).map(|number| {
            let session = &sessions[random.below(20) as usize];
            inference(session, round * SECOND + number * MS, random.below(1 << 40))
        }));
        memory.take((0..200).map(|_| {
            let name = format!("device{}", random.below(5000));
            noisy_device(&mut random, &name, round * SECOND)
        }));
        memory.take(
            (0..200).map(|_| process(pid(random.below(10_000) as u32), round * SECOND, random.next_u64())),
        );
        assert!(memory.view.bytes() <= Limits::MIN_TOTAL_BYTES, "{}", memory.view.bytes());
    }
    assert!(memory.view.losses().evicted_tracks > 0);
}

#[test]
fn sessions_share_the_inferences_at_the_full_rate() {
    let mut memory = Memory::new(Limits::default());
    let sessions: Vec<Text> = (0..10).map(|number| format!("{number}").into()).collect();
    let rows = |memory: &Memory, session: usize| {
        let track = TrackId::session(&sessions[session], "latency_ns");
        memory.view.rows(&track, 0, u64::MAX).map_or(0, |rows| rows.values.len())
    };
    memory.take((0..150_000).map(|number| inference(&sessions[0], number * MS / 10, 1)));
    assert_eq!(rows(&memory, 0), 100_000, "one alone has all");
    memory.take((150_000..250_000).map(|number| inference(&sessions[1], number * MS / 10, 1)));
    assert_eq!((rows(&memory, 0), rows(&memory, 1)), (50_000, 50_000));
    for number in 250_000..500_000_u64 {
        let session = &sessions[number as usize % 10];
        memory.take([inference(session, number * MS / 10, 1)]);
    }
    for session in 0..10 {
        assert!((9_900..=10_100).contains(&rows(&memory, session)), "{session}: {}", rows(&memory, session));
    }
    assert!((0..10).map(|session| rows(&memory, session)).sum::<usize>() <= 100_000);
    assert_eq!(memory.view.losses().shared_out_rows, memory.view.losses().total());
    // Nine of them fall silent: after ten minutes the last one may use everything.
    let later = 50 * SECOND + 11 * 60 * SECOND;
    memory.take((0..150_000).map(|number| inference(&sessions[4], later + number * MS / 10, 1)));
    assert_eq!(rows(&memory, 4), 100_000);
    // One that wakes up gets its share again.
    memory.take((150_000..300_000).map(|number| inference(&sessions[7], later + number * MS / 10, 1)));
    assert_eq!((rows(&memory, 4), rows(&memory, 7)), (50_000, 50_000));
}

#[test]
fn rows_at_the_full_rate_stay_within_their_bytes() {
    let mut memory = Memory::new(Limits { full_rate_bytes: 1_000_000, ..Limits::default() });
    let mut random = Random::new(5);
    let names: Vec<String> = (0..20).map(|number| format!("gpu{number}")).collect();
    for tick in 0..6_000 {
        memory.take(
            names.iter().map(|name| noisy_device(&mut random, name, tick * 10 * MS)).collect::<Vec<_>>(),
        );
    }
    let rows = |name: &str| {
        memory.view.rows(&TrackId::device(name, "power_watts"), 0, u64::MAX).expect("known").values.len()
    };
    let total: usize = names.iter().map(|name| rows(name)).sum();
    assert!(total * 16 <= 1_000_000 && total * 16 > 800_000, "{total}");
    // A later session still gets rows, from less important ones.
    let session: Text = "late".into();
    memory.take((0..1000).map(|number| inference(&session, number * MS, 1)));
    let late = memory.view.rows(&TrackId::session("late", "latency_ns"), 0, u64::MAX).expect("known");
    assert!(late.values.len() >= 256, "{}", late.values.len());
}
