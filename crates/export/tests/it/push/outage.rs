//! A live push whose far end goes down and comes back: nothing is lost that the queue has room for, the rest is counted, and
//! nobody waits.

use std::time::{Duration, Instant};

use ortscope_core::pipeline::Sink as _;
use ortscope_export::push::{Protocol, PushHandle, PushOptions, PushSink, PushState};

use super::far_end::{FarEnd, Series, series};
use super::{inference_figures, options};
use crate::traces::trace_tables;

/// Gives the sink something to tell until it has told `steps` times more; returns how often it was given the trace.
fn feed(sink: &mut PushSink, steps: u32) -> u32 {
    let (begin, mut times) = (Instant::now(), 0);
    while begin.elapsed() < Duration::from_millis(30) * steps {
        for batch in &trace_tables().batches {
            sink.consume(batch).unwrap();
        }
        times += 1;
        std::thread::sleep(Duration::from_millis(10));
    }
    times
}

fn wait_for(handle: &PushHandle, what: &str, is_so: impl Fn(&PushState) -> bool) -> PushState {
    let begin = Instant::now();
    loop {
        let state = handle.state();
        if is_so(&state) {
            return state;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "not {what}: {state:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn count(arrived: &Series) -> u64 {
    arrived.values().map(|samples| samples.len() as u64).sum()
}

struct Outage {
    /// How often the sink was given the trace.
    fed: u32,
    before: Series,
    after: Series,
    /// While it was down: what was dropped, and the bytes that waited.
    dropped: u64,
    waiting_bytes: u64,
    /// At the end.
    state: PushState,
}

/// A far end that goes down and comes back, for a push with a queue of this size.
fn outage(queue_bytes: u64) -> Outage {
    let directory = tempfile::tempdir().unwrap();
    let far_end = FarEnd::start(Vec::new());
    let (address, step) = (far_end.address(), Duration::from_millis(30));
    let options = options(&far_end.url("/w"), Protocol::RemoteWrite, directory.path());
    let mut sink = PushSink::start(PushOptions { step, queue_bytes, ..options }).unwrap();
    let handle = sink.handle();
    let mut fed = feed(&mut sink, 5);
    wait_for(&handle, "delivered", |state| state.delivered > 0 && state.waiting == 0);
    let before = series(&far_end.stop());
    // It is down, for much longer than one try.
    fed += feed(&mut sink, 20);
    let down = wait_for(&handle, "troubled", |state| state.waiting > 0 && state.trouble.is_some());
    let files = std::fs::read_dir(directory.path()).unwrap().flatten();
    let requests = files.filter(|file| file.path().extension().is_some_and(|ending| ending == "request"));
    let waiting_bytes = requests.map(|file| file.metadata().map_or(0, |data| data.len())).sum();
    let far_end = FarEnd::start_at(&address, Vec::new());
    fed += feed(&mut sink, 2);
    wait_for(&handle, "delivered", |state| state.waiting == 0 && state.trouble.is_none());
    sink.flush(Instant::now() + Duration::from_secs(20)).unwrap();
    let state = wait_for(&handle, "delivered", |state| state.waiting == 0);
    drop(sink);
    Outage { fed, before, after: series(&far_end.stop()), dropped: down.dropped, waiting_bytes, state }
}

#[test]
fn a_live_push_goes_on_by_itself_and_has_lost_nothing() {
    let Outage { fed, before, after, dropped, state, .. } = outage(PushOptions::USUAL_QUEUE_BYTES);
    assert_eq!((state.dropped, state.refused, dropped), (0, 0, 0));
    assert_eq!(count(&before) + count(&after), state.delivered);
    // What was counted while nobody listened is in the last values. There are two: the trace tells of its session behind the first
    // inferences, and those are nobody's.
    let name = "ortscope_inference_duration_seconds_count";
    let of_name =
        after.iter().filter(|(labels, _)| labels.get("__name__").is_some_and(|found| found == name));
    let counted: f64 = of_name.filter_map(|(_, samples)| samples.last()).map(|(_, value)| value).sum();
    assert_eq!(counted, f64::from(fed) * inference_figures(&trace_tables()).0);
}

#[test]
fn what_the_queue_has_no_room_for_is_counted_and_the_rest_arrives() {
    let whole = outage(PushOptions::USUAL_QUEUE_BYTES).waiting_bytes;
    let Outage { before, after, dropped, state, .. } = outage(whole / 3);
    assert!(dropped > 0 && state.dropped >= dropped, "{state:?}");
    assert_eq!(count(&before) + count(&after), state.delivered);
    assert!(count(&after) > 0 && state.refused == 0);
}
