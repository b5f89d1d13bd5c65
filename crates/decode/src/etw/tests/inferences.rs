//! ONNX Runtime events, written like its provider does.

use ortscope_etl::EventDescriptor;
use ortscope_etl::payload::builtin::ort::{OrtEvent, WINML};
use ortscope_etl::writer::{Field, Provider, TraceLoggingEvent, Value};

use super::*;

fn event(trace: &mut Trace, place: &Place, name: &str, opcode: u8, fields: &[Field<'_>]) {
    let provider = Provider { name: "Microsoft.ML.ONNXRuntime".into(), id: ONNX_RUNTIME, group: None };
    let descriptor = EventDescriptor { opcode, level: 5, ..EventDescriptor::default() };
    trace.trace_logging(place, &TraceLoggingEvent { provider: &provider, name, descriptor, fields }).unwrap();
}

fn session(id: u32) -> [Field<'static>; 1] {
    [Field::new("sessionId", Value::U32(id))]
}

#[test]
fn runs_are_paired_by_process_thread_and_session() {
    let mut trace = trace();
    let at = |processor, ticks, tid| Place::at(processor, ticks).in_thread(7, tid);
    event(&mut trace, &at(0, 1_100, 70), "SessionCreationStart", 0, &[]);
    let creation = [
        Field::new("sessionId", Value::U32(1)),
        Field::new("modelProducerName", Value::Str("pytorch")),
        Field::new("executionProviderIds", Value::Str("QNNExecutionProvider")),
    ];
    event(&mut trace, &at(0, 1_400, 70), "SessionCreation", 0, &creation);
    event(&mut trace, &at(0, 2_000, 70), "EvaluationStart", 0, &session(1));
    event(&mut trace, &at(1, 2_500, 71), "EvaluationStart", 0, &session(1));
    // Another session runs inside, in the same thread.
    event(&mut trace, &at(0, 2_600, 70), "EvaluationStart", 0, &session(2));
    event(&mut trace, &at(0, 2_800, 70), "EvaluationStop", 0, &session(2));
    event(&mut trace, &at(0, 3_000, 70), "EvaluationStop", 0, &session(1));
    event(&mut trace, &at(1, 4_500, 71), "EvaluationStop", 0, &session(1));
    // A failed run without a stop, then the next run; then a stop without a start, then a run that never ends.
    event(&mut trace, &at(0, 5_000, 70), "EvaluationStart", 0, &session(1));
    event(&mut trace, &at(0, 6_000, 70), "EvaluationStart", 0, &session(1));
    event(&mut trace, &at(0, 6_100, 70), "EvaluationStop", 0, &session(1));
    event(&mut trace, &at(0, 6_200, 70), "EvaluationStop", 0, &session(1));
    event(&mut trace, &at(0, 7_000, 70), "EvaluationStart", 0, &session(1));
    let file = bytes(trace);
    let mut kept = Kept::default();
    let (decoder, _) = decode(&Etl::new(file.as_slice()).unwrap(), 1, &mut kept);
    let runs: Vec<_> = kept
        .inferences
        .iter()
        .map(|run| (run.pid, run.tid, run.session_id, run.start_ns / TICK_NS, run.end_ns / TICK_NS))
        .collect();
    assert_eq!(
        runs,
        [
            (7, 70, 2, 2_600, 2_800),
            (7, 70, 1, 2_000, 3_000),
            (7, 71, 1, 2_500, 4_500),
            (7, 70, 1, 6_000, 6_100)
        ]
    );
    let counts = decoder.counts().ort;
    assert_eq!((counts.inferences, counts.unmatched_starts, counts.unmatched_stops), (4, 2, 1));
    let [made] = kept.sessions.as_slice() else { panic!("{:?}", kept.sessions) };
    assert_eq!((made.session_id, made.creation_ns), (1, Some(300 * TICK_NS)));
    assert_eq!(made.fields.text("executionProviderIds"), Some("QNNExecutionProvider"));
    assert_eq!(kept.ort.len(), 13);
}

#[test]
fn operators_activities_and_qnn_profiles_are_decoded() {
    let mut trace = trace();
    let activity = Guid::new(0x1111_2222_3333_4444_5555_6666_7777_8888);
    let at = |ticks| Place::at(0, ticks).in_thread(7, 70).in_activity(activity);
    event(&mut trace, &at(2_000), "OrtRun", 1, &[]);
    let op = [Field::new("op_name", Value::Str("MatMul_3")), Field::new("time", Value::I64(12))];
    event(&mut trace, &at(2_300), "OpEnd", 0, &op);
    event(&mut trace, &at(2_400), "OrtRun", 2, &[]);
    let profile = [
        Field::new("Message", Value::Str("Accelerator (execute) time")),
        Field::new("Value", Value::Str("4711")),
        Field::new("Unit of Measurement", Value::Str("US")),
    ];
    event(&mut trace, &at(2_500), "QNNProfilingEvent", 0, &profile);
    event(&mut trace, &at(2_600), "SomethingNew", 0, &[]);
    let other = Provider { name: "WinML".into(), id: WINML, group: None };
    let descriptor = EventDescriptor::default();
    let foreign = TraceLoggingEvent { provider: &other, name: "EvaluationStart", descriptor, fields: &[] };
    trace.trace_logging(&at(2_700), &foreign).unwrap();
    let file = bytes(trace);
    let mut kept = Kept::default();
    let (decoder, _) = decode(&Etl::new(file.as_slice()).unwrap(), 1, &mut kept);
    assert_eq!(kept.activities.len(), 1);
    assert_eq!(kept.activities[0].end_ns - kept.activities[0].start_ns, 400 * TICK_NS);
    assert_eq!((kept.operators[0].operator.as_str(), kept.operators[0].duration_ns), ("MatMul_3", 12_000));
    assert_eq!(kept.operators[0].activity, Some(activity));
    let row = kept.ort.iter().find(|row| row.event == OrtEvent::QnnProfiling).unwrap();
    assert_eq!(row.fields.text("Unit of Measurement"), Some("US"));
    let unused = decoder.coverage().unused();
    let of = |wanted| {
        unused
            .iter()
            .filter(|(kind, ..)| matches!(kind, EventKind::Event { provider, .. } if *provider == wanted))
            .count()
    };
    assert_eq!((of(ONNX_RUNTIME), of(WINML)), (1, 1));
}
