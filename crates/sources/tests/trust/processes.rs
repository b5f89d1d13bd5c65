//! A number that is used again and again belongs to somebody else each time.

use std::collections::BTreeMap;

use ortscope_core::schema::{ProcessRow, ProcessSampleRow};
use ortscope_sources::SamplerOptions;

use crate::world::{BEGIN, Event, FakeProcess, MS, World, watch};

const REUSES: u64 = 1000;
const LIVES_FOR: u64 = 250 * MS;

#[test]
fn a_thousand_processes_with_one_number_are_never_mixed_up() {
    for tells_ends in [true, false] {
        let mut script = Vec::new();
        for number in 1..=REUSES {
            let at = number * LIVES_FOR;
            script.push((at, Event::End(7)));
            // Its start is its number in the row.
            let name = format!("process-{number}");
            script.push((at, Event::Start(7, FakeProcess::named(&name, number))));
        }
        let world = World {
            processes: [(7, FakeProcess::named("process-0", 0))].into(),
            ends_after: (REUSES + 1) * LIVES_FOR - 20 * MS,
            tells_ends,
            script,
            ..World::default()
        };
        let seen = watch(SamplerOptions::default(), world);
        let samples = seen.rows::<ProcessSampleRow>();
        let wrong = samples.iter().find(|row| (row.timestamp_ns - BEGIN) / LIVES_FOR != row.process_start);
        assert_eq!(wrong, None, "a sample of somebody else");
        let mut told: BTreeMap<u64, Vec<(String, String)>> = BTreeMap::new();
        for row in seen.rows::<ProcessRow>() {
            told.entry(row.process_start).or_default().push((row.event.to_string(), row.name.to_string()));
        }
        // Each lived for longer than the time between two looks at the list.
        assert_eq!(told.len() as u64, REUSES + 1);
        for (number, events) in &told {
            assert!(events.iter().all(|(_, name)| *name == format!("process-{number}")), "{events:?}");
            let seen = events.iter().filter(|(event, _)| event == "seen").count();
            let exited = events.iter().filter(|(event, _)| event == "exited").count();
            assert_eq!((seen, exited), (1, usize::from(*number < REUSES)), "{number}: {events:?}");
        }
    }
}
