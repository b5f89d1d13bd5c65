//! For arbitrary bytes and pieces: the same result, and never a panic.

use ortscope_core::schema::OperatorKind;
use ortscope_decode::ort_profile::{
    NotAProfile, ProfileOptions, ProfileRows, RowOptions, ThreadStats, TypesAndShapes,
};
use proptest::prelude::*;

use crate::support::{VERSIONS, profile, read_in_pieces, rows};

/// Bytes with a meaning in profiles.
fn significant_bytes() -> impl Strategy<Value = Vec<u8>> {
    let pieces: Vec<&'static str> = vec![
        "{",
        "}",
        "[",
        "]",
        "\"",
        "\\",
        ",",
        ":",
        " ",
        "\n",
        "\\\"",
        "\n{\"cat\"",
        "{\"cat\" : \"Node\",",
        "\"ts\" :1,",
        "\"dur\" :2,",
        "\"name\" :\"x_kernel_time\",",
        "\"args\" : {",
        "}}",
        "},\n",
        "\"op_name\" : \"Add\"",
        "{\"traceEvents\": [",
        "-",
        "NaN",
        "1e9",
        "\\u12",
        "\u{feff}",
        "äö",
    ];
    prop::collection::vec(prop::sample::select(pieces), 0..60).prop_map(|pieces| pieces.concat().into_bytes())
}

/// A profile with bytes changed, removed and inserted.
fn damaged_profile() -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), 0..4u8, any::<u8>()), 0..12);
    (prop::sample::select(VERSIONS.to_vec()), 1..6000usize, changes).prop_map(|(version, length, changes)| {
        let mut bytes = profile(version);
        bytes.truncate(length);
        for (index, change, byte) in changes {
            let at = index.index(bytes.len().max(1));
            match change {
                0 if at < bytes.len() => bytes[at] = byte,
                1 if at < bytes.len() => {
                    bytes.remove(at);
                }
                2 => bytes.insert(at, byte),
                _ => bytes.insert(at, b"\"{}[],\\\n"[usize::from(byte) % 8]),
            }
        }
        bytes
    })
}

fn any_file() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        significant_bytes(),
        significant_bytes().prop_map(|bytes| [b"[\n".as_slice(), &bytes].concat()),
        damaged_profile(),
        prop::collection::vec(any::<u8>(), 0..400),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_split_into_pieces_does_not_matter(
        bytes in any_file(),
        sizes in prop::collection::vec(1..700usize, 1..20),
        max_event_bytes in prop_oneof![Just(4 << 20), 20..900usize],
    ) {
        let options = ProfileOptions { max_event_bytes, ..ProfileOptions::default() };
        let whole = read_in_pieces(&bytes, &[bytes.len()], &options);
        prop_assert_eq!(&read_in_pieces(&bytes, &sizes, &options), &whole);
        prop_assert_eq!(&read_in_pieces(&bytes, &[1], &options), &whole);
        prop_assert_eq!(whole.0.len() as u64, whole.1.events);
        prop_assert_eq!(whole.1.bytes, bytes.len() as u64);
        if whole.1.events == 0 && whole.1.skipped_events == 0 && !whole.1.truncated {
            let is_empty_list = whole.1.not_a_profile.is_none();
            prop_assert!(is_empty_list || whole.1.not_a_profile != Some(NotAProfile::Gzip) || bytes[0] == 0x1f);
        }
    }

    /// Every event becomes a row or is counted.
    #[test]
    fn every_event_is_a_row_or_counted(bytes in any_file(), max_pending_rows in 0..40usize) {
        let options = RowOptions { max_pending_rows, ..RowOptions::default() };
        let (rows, outcome, summary) = rows(&bytes, options);
        let notices = u64::from(outcome.capped && outcome.events > 0);
        let accounted = summary.rows + summary.empty_fences + summary.foreign_events;
        prop_assert!(accounted == outcome.events || accounted + notices == outcome.events);
        prop_assert_eq!(rows.len() as u64, summary.rows);
        prop_assert_eq!(summary.runs, outcome.runs);
        let runs = rows.iter().filter_map(|row| row.run).max();
        prop_assert!(runs.is_none_or(|last| last < summary.runs));
        prop_assert_eq!(rows.iter().filter(|row| row.kind == OperatorKind::Run).count() as u64, outcome.runs);
        prop_assert!(rows.iter().all(|row| row.kind != OperatorKind::Run || row.run.is_some()));
    }

    #[test]
    fn texts_never_panic(text in "\\PC*") {
        TypesAndShapes::parse(&text);
        ThreadStats::parse(&text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Everything before the damage is read, whatever follows.
    #[test]
    fn events_before_the_damage_are_kept(cut in 0..20_000usize, damage in significant_bytes()) {
        let bytes = profile("1.26.0");
        let cut = cut.min(bytes.len());
        let options = ProfileOptions::default();
        let (whole, _) = read_in_pieces(&bytes, &[bytes.len()], &options);
        let (before, _) = read_in_pieces(&bytes[..cut], &[cut.max(1)], &options);
        let (after, _) = read_in_pieces(&[&bytes[..cut], &damage].concat(), &[4096], &options);
        prop_assert_eq!(&whole[..before.len()], &before[..]);
        prop_assert!(after.len() >= before.len());
        prop_assert_eq!(&after[..before.len()], &before[..]);
    }
}

/// Any tree of nodes gives the same rows, whether written in end order or in start order.
mod trees {
    use super::*;
    use crate::support::Writer;

    #[derive(Debug, Clone)]
    struct Node {
        length: i64,
        /// Contained executions of subgraphs.
        executors: Vec<Vec<Node>>,
    }

    fn node() -> impl Strategy<Value = Node> {
        let leaf = (0..4i64).prop_map(|length| Node { length, executors: Vec::new() });
        leaf.prop_recursive(3, 24, 3, |inner| {
            (1..4i64, prop::collection::vec(prop::collection::vec(inner, 0..3), 0..3))
                .prop_map(|(length, executors)| Node { length, executors })
        })
    }

    /// Writes the nodes one after the other; returns their end. Starts of two events differ by at least a
    /// microsecond, like in reality.
    fn write(
        writer: &mut Writer,
        nodes: &[Node],
        start: i64,
        depth: usize,
        expected: &mut Vec<(String, u64)>,
    ) -> i64 {
        let mut at = start;
        for node in nodes {
            let begin = at;
            at += 1;
            for executor in &node.executors {
                let executor_begin = at;
                at = write(writer, executor, at + 1, depth + 1, expected);
                *writer = std::mem::take(writer).executor(5, (executor_begin, at));
                at += 1;
            }
            at = at.max(begin + node.length);
            let name = format!("node{}", expected.len());
            *writer = std::mem::take(writer).node(5, (begin, at), &name, "If");
            expected.push((name, depth as u64));
            at += 1;
        }
        at
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn depth_and_run_are_found(runs in prop::collection::vec(prop::collection::vec(node(), 0..5), 1..4)) {
            let mut writer = Writer::default();
            let mut expected = Vec::new();
            let mut at = 0;
            for (run, nodes) in runs.iter().enumerate() {
                let mut depths = Vec::new();
                let end = write(&mut writer, nodes, at + 2, 0, &mut depths);
                writer = writer.executor(5, (at + 1, end)).run(5, (at, end + 1));
                expected.extend(depths.into_iter().map(|(name, depth)| (Some(run as u64), name, depth)));
                at = end + 2;
            }
            expected.sort();
            let found = |writer: &Writer| {
                let (rows, _, summary) = rows(&writer.file(), RowOptions::default());
                let nodes = rows.iter().filter(|row| row.kind == OperatorKind::Operator);
                let mut nodes: Vec<_> = nodes.map(|row| (row.run, row.name.to_string(), row.depth)).collect();
                nodes.sort();
                (nodes, summary)
            };
            let (nodes, summary) = found(&writer);
            prop_assert_eq!(&nodes, &expected);
            prop_assert_eq!(summary.without_run, 0);
            let mut sorted = writer.clone();
            sorted.events.sort_by_key(|event| start_of(event));
            prop_assert_eq!(found(&sorted).0, expected);
        }
    }

    fn start_of(event: &str) -> i64 {
        let after = event.split("\"ts\" :").nth(1).expect("a start");
        after.split(',').next().and_then(|number| number.parse().ok()).expect("a number")
    }
}

#[test]
fn an_empty_file_is_finished() {
    let mut rows = Vec::new();
    let summary = ProfileRows::new(RowOptions::default()).finish(&mut |row| rows.push(row));
    assert_eq!((rows.len(), summary.rows), (0, 0));
}
