//! Names that attack, times at the end of the world, and tables that cannot be read.

use ortscope_core::schema::{
    InferenceRow, KernelEventRow, MemoryRow, OperatorRow, ProcessSampleRow, SystemSampleRow, TableId,
};
use ortscope_core::tables::{Batches, MemoryTables, ReadError, Scan, Tables};
use proptest::prelude::*;

use super::scenes;
use super::support::{batch, build, input, tables};
use crate::{TextOptions, csv, html, junit, markdown, text};
use ortscope_result::{ReportError, ReportModel, ReportOptions};

#[test]
fn hostile_names_stay_names() {
    let (tables, input) = scenes::hostile();
    let model = build(&tables, &input);
    let page = html(&model);
    // One script of ours; the rest is data.
    let scripts = page.matches("<script").count();
    assert_eq!(scripts, 1 + page.matches("<script type=\"application/json\"").count());
    assert_eq!(page.matches("</title>").count(), page.matches("<title>").count());
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(!page.contains("alert(1)</script>") && !page.contains("<script>alert"));
    for form in
        [text(&model, &TextOptions::default()), markdown(&model), page, junit(&model, &[]), csv(&model)]
    {
        let control = form.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\r'));
        assert_eq!(control, None, "{form:.400}");
    }
    // Commands and identifiers stand between backticks, where nothing is markup.
    for line in markdown(&model).lines().filter(|line| !line.replace("\\`", "").contains('`')) {
        assert!(!line.contains("<script>") && !line.contains("[a](javascript:"), "{line}");
    }
}

#[test]
fn a_damaged_table_makes_a_report_of_the_rest() {
    /// Every second batch of the inferences is damaged.
    struct Damaged(MemoryTables);
    impl Tables for Damaged {
        fn row_count(&self, table: TableId) -> u64 {
            self.0.row_count(table)
        }
        fn time_range_ns(&self) -> Option<(u64, u64)> {
            self.0.time_range_ns()
        }
        fn scan(&self, table: TableId, scan: &Scan) -> Batches<'_> {
            let error =
                || ReadError::Damaged { place: "inferences-000001.seg".into(), problem: "checksum".into() };
            let rows = self.0.scan(table, scan);
            match table {
                TableId::Inferences => Box::new(rows.flat_map(move |batch| [Err(error()), batch])),
                _ => rows,
            }
        }
    }
    let (tables, input) = scenes::healthy();
    let model = ReportModel::build(&Damaged(tables), &input, &ReportOptions::default()).expect("a model");
    assert_eq!(model.sessions[0].counts.total, 4001);
    assert!(!model.header.complete);
    let expected = "1 batch of the table inferences could not be read: inferences-000001.seg: checksum";
    assert_eq!(model.header.condition, [expected]);
    assert!(html(&model).contains(expected));
}

#[test]
fn a_reader_that_fails_for_ever_is_given_up() {
    struct Endless;
    impl Tables for Endless {
        fn row_count(&self, _: TableId) -> u64 {
            1
        }
        fn time_range_ns(&self) -> Option<(u64, u64)> {
            Some((u64::MAX, 0))
        }
        fn scan(&self, _: TableId, _: &Scan) -> Batches<'_> {
            let error =
                || Err(ReadError::Damaged { place: "everywhere".into(), problem: "everything".into() });
            Box::new(std::iter::repeat_with(error))
        }
    }
    let model = ReportModel::build(&Endless, &input(), &ReportOptions::default()).expect("a model");
    assert!(model.header.condition.iter().all(|sentence| sentence.starts_with("10 000 batches")));
}

#[test]
fn a_disk_that_fails_is_an_error() {
    struct Broken;
    impl Tables for Broken {
        fn row_count(&self, _: TableId) -> u64 {
            1
        }
        fn time_range_ns(&self) -> Option<(u64, u64)> {
            None
        }
        fn scan(&self, _: TableId, _: &Scan) -> Batches<'_> {
            Box::new(std::iter::once(Err(ReadError::Io(std::io::Error::other("the disk is gone")))))
        }
    }
    let error = ReportModel::build(&Broken, &input(), &ReportOptions::default()).expect_err("no model");
    assert!(matches!(error, ReportError::Read(_)));
    assert_eq!(error.to_string(), "the recording cannot be read: the disk is gone");
}

/// Small numbers, large ones, and those at the ends.
fn any_number() -> impl Strategy<Value = u64> {
    prop_oneof![0..5_u64, 0..1_000_000_000_u64, any::<u64>(), Just(u64::MAX), Just(u64::MAX - 1)]
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("steady".to_owned()),
        Just("operator".to_owned()),
        Just("run".to_owned()),
        Just("copy".to_owned()),
        Just("context_switch".to_owned()),
        Just(String::new()),
        "\\PC{0,8}",
        any::<String>().prop_map(|text| text.chars().take(40).collect()),
    ]
}

prop_compose! {
    fn any_inference()(numbers in prop::array::uniform8(any_number()), phase in any_text(), session in 0..3_u8, ok: bool, token in prop::option::of(0..3_u64)) -> InferenceRow {
        let [timestamp_ns, planned_ns, sequence, stream, copy_in_ns, run_ns, copy_out_ns, depth] = numbers;
        InferenceRow {
            timestamp_ns, planned_ns, sequence, stream, copy_in_ns, run_ns, copy_out_ns, ok, token,
            session_id: session.to_string().into(), phase: phase.into(), batch_size: Some(depth), queue_depth: Some(depth),
        }
    }
}

prop_compose! {
    fn any_operator()(numbers in prop::array::uniform6(any_number()), texts in prop::array::uniform3(any_text()), run in prop::option::of(0..4_u64), depth in 0..4_u64) -> OperatorRow {
        let [timestamp_ns, duration_ns, thread, output_bytes, flops, _] = numbers;
        let [kind, name, op_type] = texts;
        OperatorRow {
            timestamp_ns, duration_ns, thread, depth, run, session_id: "0".into(), kind: kind.into(), name: name.into(), op_type: op_type.into(),
            output_bytes: Some(output_bytes), flops: Some(flops), ..OperatorRow::default()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn absurd_numbers_and_texts_do_no_harm(
        inferences in prop::collection::vec(any_inference(), 0..60),
        operators in prop::collection::vec(any_operator(), 0..40),
        events in prop::collection::vec((any_number(), any_number(), any_text()), 0..20),
        samples in prop::collection::vec((any_number(), any_number(), any_number(), any::<f64>()), 0..20),
    ) {
        let kernel: Vec<KernelEventRow> = events.iter().map(|(time, duration, kind)| KernelEventRow {
            timestamp_ns: *time, duration_ns: Some(*duration), kind: kind.as_str().into(), pid: Some(1), ..KernelEventRow::default()
        }).collect();
        let processes: Vec<ProcessSampleRow> = samples.iter().map(|(time, cpu, memory, _)| ProcessSampleRow {
            timestamp_ns: *time, cpu_time_ns: *cpu, working_set_bytes: *memory, pid: memory % 3, page_faults: Some(*cpu), ..ProcessSampleRow::default()
        }).collect();
        let system: Vec<SystemSampleRow> = samples.iter().map(|(time, cpu, _, percent)| SystemSampleRow {
            timestamp_ns: *time, context_switches: Some(*cpu), cpu_percent: Some(*percent), ..SystemSampleRow::default()
        }).collect();
        let memory: Vec<MemoryRow> = samples.iter().map(|(time, bytes, _, _)| MemoryRow {
            timestamp_ns: *time, bytes: *bytes as i64, ..MemoryRow::default()
        }).collect();
        let mut one = scenes::session("");
        one.session_id = "0".into();
        one.pid = Some(1);
        let tables = tables(vec![
            batch(&[one]), batch(&inferences), batch(&operators), batch(&kernel), batch(&processes), batch(&system), batch(&memory),
        ]);
        let model = build(&tables, &input());
        let json = model.to_json().expect("JSON");
        prop_assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
        for line in text(&model, &TextOptions { timeline: true, ..TextOptions::default() }).lines() {
            prop_assert!(line.chars().count() <= 100, "{}", line);
        }
        let page = html(&model);
        prop_assert!(!page.contains("NaN") && !page.contains("\"inf\""));
        prop_assert!(super::support::parse_xml(&junit(&model, &[])).is_ok());
        prop_assert!(!markdown(&model).is_empty() && !csv(&model).contains("NaN"));
    }
}
