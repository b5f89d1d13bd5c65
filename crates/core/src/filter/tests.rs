use super::*;
use crate::schema::{
    DeviceSampleRow, InferenceRow, KernelEventRow, OperatorRow, SessionRow, UnavailabilityRow,
};
use crate::tables::MemoryTables;

const START_NS: u64 = 1_000_000_000;

fn operators() -> Batch {
    let mut batch = Batch::new(TableId::Operators);
    for (at, (op, provider, device, micros)) in [
        ("Conv", "CPUExecutionProvider", "CPU", 1_500),
        ("ConvTranspose", "CPUExecutionProvider", "CPU", 20),
        ("Relu", "DmlExecutionProvider", "GPU", 900),
        ("MatMul", "", "", 2_000),
    ]
    .into_iter()
    .enumerate()
    {
        batch.push(&OperatorRow {
            timestamp_ns: START_NS + at as u64 * 1_000_000_000,
            duration_ns: micros * 1_000,
            session_id: "7f3a-1".into(),
            name: format!("/layer {at}/{op}").into(),
            op_type: op.into(),
            execution_provider: provider.into(),
            device: device.into(),
            thread: 40 + at as u64,
            flops: (at != 3).then_some(u64::MAX - at as u64),
            kind: "operator".into(),
            ..OperatorRow::default()
        });
    }
    batch
}

fn kept(filter: &str, batch: &Batch) -> Vec<usize> {
    let mask = Filter::parse(filter).expect("a good filter").mask(batch, START_NS);
    assert_eq!(mask.len(), batch.len());
    mask.iter().enumerate().filter(|(_, kept)| **kept).map(|(row, _)| row).collect()
}

#[test]
fn operator_terms() {
    let batch = operators();
    for (filter, rows) in [
        ("op:Conv", &[0][..]),
        ("op:conv*", &[0, 1]),
        ("op:Conv,relu", &[0, 2]),
        ("conv", &[0, 1]),
        ("\"layer 2\"", &[2]),
        ("l*er*lu", &[2]),
        ("!Relu", &[0, 1, 3]),
        ("!op:Relu,MatMul", &[0, 1]),
        ("prov:CPU", &[0, 1]),
        ("prov:dml", &[2]),
        ("prov:CPUExecutionProvider dur>1ms", &[0]),
        ("device:\"\"", &[3]),
        ("dur>=1.5ms", &[0, 3]),
        ("dur<900us", &[1]),
        ("dur<=900us", &[1, 2]),
        ("duration_ns:20000", &[1]),
        ("tid:41,43", &[1, 3]),
        ("thread>41", &[2, 3]),
        ("session:7f3a", &[0, 1, 2, 3]),
        ("session:7f3b", &[]),
        ("from:1s to:3s", &[1, 2]),
        ("from:1s to:2.000000001s", &[1, 2]),
        ("from:1s to:2s", &[1]),
        ("from:3000000000ns", &[2, 3]),
        ("table:operators,inferences !table:inferences", &[0, 1, 2, 3]),
        ("flops:18446744073709551615", &[0]),
        ("flops<18446744073709551614", &[2]),
        ("!flops>0", &[3]),
    ] {
        assert_eq!(kept(filter, &batch), rows, "{filter}");
    }
}

#[test]
fn a_table_without_the_column_only_matches_exclusions() {
    let mut batch = Batch::new(TableId::Inferences);
    batch.push(&InferenceRow {
        timestamp_ns: START_NS + 300,
        planned_ns: START_NS,
        copy_in_ns: 1,
        run_ns: 700,
        copy_out_ns: 2,
        phase: "steady".into(),
        ok: true,
        ..InferenceRow::default()
    });
    assert_eq!(kept("op:Conv", &batch), [0usize; 0]);
    assert_eq!(kept("!op:Conv !Relu phase:steady ok:true", &batch), [0]);
    assert_eq!(kept("ok:false", &batch), [0usize; 0]);
    // Counted from the planned start.
    assert_eq!(kept("dur:1003ns", &batch), [0]);
    assert_eq!(Filter::parse("op:Conv").unwrap().tables(), [TableId::Operators]);
    assert!(Filter::parse("phase:steady !table:inferences,operators dur>1ns").is_err());
}

#[test]
fn nulls_nans_and_provider_lists() {
    let mut events = Batch::new(TableId::KernelEvents);
    events.push(&KernelEventRow { duration_ns: None, ..KernelEventRow::default() });
    events.push(&KernelEventRow { duration_ns: Some(0), ..KernelEventRow::default() });
    assert_eq!(kept("dur>=0ns", &events), [1]);
    assert_eq!(kept("!dur>=0ns", &events), [0]);

    let mut samples = Batch::new(TableId::DeviceSamples);
    for value in [f64::NAN, f64::INFINITY, -1.5] {
        samples.push(&DeviceSampleRow { value, ..DeviceSampleRow::default() });
    }
    assert_eq!(kept("value>=0", &samples), [1]);
    assert_eq!(kept("value:-1.5", &samples), [2]);

    let mut sessions = Batch::new(TableId::Sessions);
    let providers = "DmlExecutionProvider, CPUExecutionProvider";
    sessions.push(&SessionRow { execution_providers: providers.into(), ..SessionRow::default() });
    assert_eq!(kept("prov:cpu", &sessions), [0]);
    assert_eq!(kept("prov:cuda", &sessions), [0usize; 0]);

    let mut gaps = Batch::new(TableId::Unavailability);
    gaps.push(&UnavailabilityRow { from_ns: 5, to_ns: Some(1_005), ..UnavailabilityRow::default() });
    gaps.push(&UnavailabilityRow { from_ns: 5, to_ns: None, ..UnavailabilityRow::default() });
    assert_eq!(kept("dur:1us", &gaps), [0]);
}

#[test]
fn scans_and_columns() {
    let filter = Filter::parse("from:2s to:10s to:9s from:1500ms op:Conv").unwrap();
    let scan = filter.scan(100);
    assert_eq!((scan.from_ns, scan.to_ns), (Some(2_000_000_100), Some(9_000_000_100)));
    assert_eq!(filter.columns(TableId::Operators), ["timestamp_ns", "op_type"]);
    let durations = Filter::parse("dur>1ms").unwrap().columns(TableId::Inferences);
    assert_eq!(durations, ["timestamp_ns", "planned_ns", "copy_in_ns", "run_ns", "copy_out_ns"]);
    let late = Filter::parse("from:5s to:4000000000ns").unwrap();
    assert!(late.check_range(0).is_err());
    assert!(Filter::parse("from:5s to:6000000000ns").unwrap().check_range(0).is_ok());
}

#[test]
fn the_start_is_that_of_the_recording_unless_all_rows_are_earlier() {
    let tables = MemoryTables { batches: vec![operators()] };
    assert_eq!(Filter::start_ns(10, &tables), 10);
    assert_eq!(Filter::start_ns(START_NS + 5, &tables), START_NS + 5);
    assert_eq!(Filter::start_ns(u64::MAX, &tables), START_NS);
    assert_eq!(Filter::start_ns(7, &MemoryTables::default()), 7);
}

#[test]
fn invalid_filters_give_one_sentence_and_a_hint() {
    for (filter, sentence, hint) in [
        ("", "the filter is empty", "op, prov, dur"),
        ("  \t", "the filter is empty", "op, prov, dur"),
        ("opp:Conv", "`opp:Conv`", "did you mean op?"),
        ("durration>1ms", "there is no key `durration`", "quote it"),
        ("table:operator", "there is no table `operator`", "did you mean operators?"),
        ("dur>-1ms", "cannot be negative", ""),
        ("dur>5", "needs a unit", ""),
        ("dur>xms", "not a duration", ""),
        ("dur>0.5ns", "whole nanoseconds", ""),
        ("dur>99999999999999h", "not a duration", ""),
        ("from:10s to:10s", "ends before it begins", "from: must be before to:"),
        ("from:9s from:2s to:5s", "ends before it begins", ""),
        ("to:0s", "ends before it begins", ""),
        ("!from:1s", "cannot be excluded", ""),
        ("from>1s", "written with a colon", ""),
        ("op>Conv", "is not a number", ""),
        ("pid:abc", "pid is a number", ""),
        ("pid>1,2", "only one number", ""),
        ("value:NaN", "value is a number", ""),
        ("ok:maybe", "true or false", ""),
        ("output_bytes>big", "is a size", ""),
        ("op:", "no value", ""),
        ("op:Conv,,Relu", "empty", ""),
        ("!", "no text", ""),
        ("\"\"", "no text", ""),
        ("op:\"Conv", "quote is not closed", ""),
        ("op:Conv metric:power", "can match nothing", "op:Conv is about operators"),
        ("table:operators table:inferences", "can match nothing", "commas"),
    ] {
        let error = Filter::parse(filter).expect_err(filter);
        let text = error.to_string();
        assert!(text.contains(sentence), "{filter}: {text}");
        assert!(!text.contains('\n'), "{filter}: {text}");
        assert!(error.hint().unwrap_or_default().contains(hint), "{filter}: {:?}", error.hint());
    }
    let long = "x ".repeat(3_000);
    assert!(Filter::parse(&long).is_err());
    assert!(Filter::parse(&"x ".repeat(65)).is_err());
}

#[test]
fn displayed_filters_parse_to_the_same_filter() {
    for (written, shown) in [
        ("op:Conv  prov:CPU !Relu", "op:Conv prov:CPU !Relu"),
        ("DUR>0.001s", "dur>1ms"),
        ("from:2500.5us to:1500ms", "from:2500.500us to:1500ms"),
        ("from:0s to:5000000000ns", "from:0s to:5000000000ns"),
        ("session=7f*", "session:7f*"),
        ("name:\"a \\\"b\\\" \\\\ c\",d*", "name:\"a \\\"b\\\" \\\\ c\",d*"),
        ("\"op:Conv\"", "\"op:Conv\""),
        ("\"C:\\models\"", "\"C:\\\\models\""),
        ("output_bytes>=2KiB", "output_bytes>=2048"),
        ("value<1e3", "value<1000.0"),
    ] {
        let filter = Filter::parse(written).unwrap_or_else(|error| panic!("{written}: {error}"));
        assert_eq!(filter.to_string(), shown);
        assert_eq!(Filter::parse(shown).expect("its own text"), filter, "{written}");
    }
}
