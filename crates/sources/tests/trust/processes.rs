//! A reused pid belongs to a different process each time.

use std::collections::BTreeMap;

use ortscope_core::schema::{ProcessRow, ProcessSampleRow};
use ortscope_sources::SamplerOptions;

use crate::world::{BEGIN, Event, FakeProcess, MS, World, watch};

const REUSES: u64 = 1000;
const LIFETIME: u64 = 250 * MS;

#[test]
fn a_thousand_processes_with_one_pid_are_never_mixed_up() {
    for reports_exits in [true, false] {
        let mut script = Vec::new();
        for number in 1..=REUSES {
            let at = number * LIFETIME;
            script.push((at, Event::End(7)));
            // Its start equals its number in the row.
            let name = format!("process-{number}");
            script.push((at, Event::Start(7, FakeProcess::named(&name, number))));
        }
        let world = World {
            processes: [(7, FakeProcess::named("process-0", 0))].into(),
            ends_after: (REUSES + 1) * LIFETIME - 20 * MS,
            reports_exits,
            script,
            ..World::default()
        };
        let seen = watch(SamplerOptions::default(), world);
        let samples = seen.rows::<ProcessSampleRow>();
        let wrong = samples.iter().find(|row| (row.timestamp_ns - BEGIN) / LIFETIME != row.process_start);
        assert_eq!(wrong, None, "a sample of another process");
        let mut events_by_process: BTreeMap<u64, Vec<(String, String)>> = BTreeMap::new();
        for row in seen.rows::<ProcessRow>() {
            events_by_process
                .entry(row.process_start)
                .or_default()
                .push((row.event.to_string(), row.name.to_string()));
        }
        // Each existed for longer than the discovery interval.
        assert_eq!(events_by_process.len() as u64, REUSES + 1);
        for (number, events) in &events_by_process {
            assert!(events.iter().all(|(_, name)| *name == format!("process-{number}")), "{events:?}");
            let seen = events.iter().filter(|(event, _)| event == "seen").count();
            let exited = events.iter().filter(|(event, _)| event == "exited").count();
            assert_eq!((seen, exited), (1, usize::from(*number < REUSES)), "{number}: {events:?}");
        }
    }
}
