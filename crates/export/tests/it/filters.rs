//! Filters never panic, show as they can be read again, and mean what their terms mean one by one.

use ortscope_core::batch::Batch;
use ortscope_core::filter::Filter;
use ortscope_core::schema::{OperatorKind, OperatorRow, TableId};
use ortscope_core::tables::MemoryTables;
use ortscope_export::{ExportError, ExportOptions, Format, export_to};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::{TEXTS, info, nasty_batch, nasty_tables};
use crate::traces::operators;

fn term() -> impl Strategy<Value = String> {
    let keys = prop_oneof![
        Just("op"),
        Just("prov"),
        Just("dur"),
        Just("pid"),
        Just("session"),
        Just("phase"),
        Just("table"),
        Just("kind"),
        Just("from"),
        Just("to"),
        Just("value"),
        Just("ok"),
        Just("output_bytes"),
        Just("duration_ns"),
        Just("nokey"),
        Just("")
    ];
    let compare = prop_oneof![Just(":"), Just("="), Just(">"), Just(">="), Just("<"), Just("<=")];
    let values = prop_oneof![
        Just("1ms".to_owned()),
        Just("2.5us".to_owned()),
        Just("17ns".to_owned()),
        Just("3s".to_owned()),
        Just("operators,inferences".to_owned()),
        Just("true".to_owned()),
        Just("12".to_owned()),
        Just("-1.5".to_owned()),
        Just("4MiB".to_owned()),
        Just("Conv*,\"a b\"".to_owned()),
        "[a-zA-Z*,\"\\\\ ü]{0,8}",
        any::<u64>().prop_map(|n| n.to_string())
    ];
    let keyed = (keys, compare, values).prop_map(|(key, compare, value)| format!("{key}{compare}{value}"));
    (any::<bool>(), prop_oneof![3 => keyed, 1 => "\\PC{0,12}"])
        .prop_map(|(not, term)| format!("{}{term}", if not { "!" } else { "" }))
}

proptest! {
    // A failing case is printed; it becomes a test by name, not a file of seeds.
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC*") {
        check(&text)?;
    }

    #[test]
    fn terms_are_read_or_refused(terms in vec(term(), 0..4)) {
        check(&terms.join(" "))?;
    }
}

fn check(text: &str) -> Result<(), TestCaseError> {
    let filter = match Filter::parse(text) {
        Ok(filter) => filter,
        Err(error) => {
            let sentence = error.to_string();
            prop_assert!(
                !sentence.is_empty() && !sentence.contains('\n') && sentence.len() < 400,
                "{}",
                sentence
            );
            return Ok(());
        }
    };
    let shown = filter.to_string();
    let again = Filter::parse(&shown);
    prop_assert!(again.as_ref() == Ok(&filter), "{:?} shows as {:?}, which is {:?}", text, shown, again);
    // Only tables that can match have rows that do, and their scan leaves none of them out.
    let scan = filter.scan(1 << 40);
    for table in TableId::ALL {
        let batch = nasty_batch(*table, 20, *table as u64);
        let mask = filter.mask(&batch, 1 << 40);
        prop_assert_eq!(mask.len(), batch.len());
        prop_assert!(
            filter.tables().contains(table) || !mask.contains(&true),
            "{} matches {}",
            shown,
            table.def().name
        );
        for (time, kept) in batch.times_ns().iter().zip(&mask) {
            prop_assert!(!kept || scan.wants_time(*time));
        }
    }
    Ok(())
}

/// A row passes if it passes each term.
#[test]
fn terms_are_anded_and_exclusions_are_opposites() {
    let terms =
        ["op:Conv", "prov:CPU", "dur>20us", "!dur>=30us", "comma", "!name:*quotes*", "tid:70,71", "run<900"];
    let batches = operators(3_000);
    for batch in &batches {
        let each: Vec<Vec<bool>> =
            terms.iter().map(|term| Filter::parse(term).unwrap().mask(batch, 0)).collect();
        let all = Filter::parse(&terms.join(" ")).unwrap().mask(batch, 0);
        for row in 0..batch.len() {
            assert_eq!(all[row], each.iter().all(|mask| mask[row]), "row {row}");
        }
        for (term, mask) in terms.iter().zip(&each) {
            let opposite = term.strip_prefix('!').map_or_else(|| format!("!{term}"), str::to_owned);
            let other = Filter::parse(&opposite).unwrap().mask(batch, 0);
            assert!(mask.iter().zip(&other).all(|(a, b)| a != b), "{term} against {opposite}");
        }
    }
    let long = |row: &OperatorRow| row.duration_ns > 20_000 && row.execution_provider.starts_with("CPU");
    let by_hand = batches.iter().flat_map(Batch::rows::<OperatorRow>).filter(long).count();
    let filter = Filter::parse("prov:cpu dur>20us").unwrap();
    let kept: usize =
        batches.iter().map(|batch| filter.mask(batch, 0).iter().filter(|kept| **kept).count()).sum();
    assert_eq!(kept, by_hand);
    assert!(kept > 500);
}

#[test]
fn exports_keep_what_the_filter_keeps() {
    let tables = MemoryTables { batches: operators(2_000) };
    let lines = |filter: &str| {
        let mut options = ExportOptions::new(Format::JsonLines);
        options.filter = Some(Filter::parse(filter).unwrap());
        let mut out = Vec::new();
        let report = export_to(&tables, &info(), &options, &mut out)?;
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count() as u64, report.rows + 1);
        assert!(text.lines().next().unwrap().contains(&format!("\"filter\":\"{filter}\"")));
        Ok::<_, ExportError>(report.rows)
    };
    let batches = &tables.batches;
    let rows =
        |wanted: fn(&OperatorRow) -> bool| batches.iter().flat_map(Batch::rows).filter(wanted).count() as u64;
    assert_eq!(lines("kind:run").unwrap(), rows(|row| row.kind == OperatorKind::Run));
    // The recording starts at 1 µs.
    assert_eq!(lines("to:5001us").unwrap(), rows(|row| row.timestamp_ns < 5_002_000));
    assert_eq!(
        lines("from:5002000ns kind:operator").unwrap(),
        rows(|row| row.timestamp_ns >= 5_002_000 && row.kind == OperatorKind::Operator)
    );
    let mixed = lines("from:1s to:900ns").unwrap_err();
    assert!(mixed.to_string().contains("ends before it begins"), "{mixed}");
}

#[test]
fn tables_and_filters_that_exclude_each_other_are_an_error() {
    let mut options = ExportOptions::new(Format::Json);
    options.filter = Some(Filter::parse("op:Conv").unwrap());
    options.tables = Some(vec![TableId::Inferences]);
    let error = export_to(&nasty_tables(1), &info(), &options, &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("nothing in common") && error.hint().is_some());
    assert!(TEXTS.len() > 10);
}
