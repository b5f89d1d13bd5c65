//! What a frame says.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use ortscope_core::clock::now_ns;
use ortscope_core::schema::{InferenceRow, TableId};
use ortscope_core::tables::Scan;
use ortscope_export::wire::end_to_end_ns;
use serde_json::{Map, Value, json};

use super::groups::Key;
use crate::answers::control::state_json;
use crate::answers::current::SessionFigures;
use crate::answers::losses::own_cost;
use crate::answers::processes::live_processes;
use crate::answers::{current, number};
use crate::app::App;
use crate::data::{Newest, Source};
use crate::error::ApiError;

const NAMES: [&str; 6] = ["system", "sessions", "devices", "processes", "events", "losses"];
/// Inferences of a frame.
const MAX_EVENTS: usize = 500;
const MAX_PROCESSES: usize = 50;
/// Percentiles over ten seconds need not be made anew more often.
const SESSIONS_EVERY: Duration = Duration::from_millis(80);

/// A set of topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Topics(u8);

impl Topics {
    pub fn of(names: &[String]) -> Result<Self, String> {
        let mut set = 0;
        for name in names {
            let index = NAMES.iter().position(|known| known == name).ok_or_else(|| {
                format!("'{}' is not a topic; topics are {}", crate::params::shown(name), NAMES.join(", "))
            })?;
            set |= 1 << index;
        }
        if set == 0 {
            Err(format!("topics is empty; topics are {}", NAMES.join(", ")))
        } else {
            Ok(Self(set))
        }
    }

    pub fn names(self) -> Vec<&'static str> {
        (0..NAMES.len()).filter(|index| self.0 & (1 << index) != 0).map(|index| NAMES[index]).collect()
    }

    fn has(self, name: &str) -> bool {
        self.names().contains(&name)
    }
}

/// Makes the frames of one group, one after the other.
#[derive(Debug)]
pub struct Encoder {
    key: Key,
    /// Inferences up to this time were sent.
    events_to_ns: Option<u64>,
    sessions: Option<(Instant, SessionFigures)>,
    sent_recording: bool,
}

impl Encoder {
    pub fn new(key: Key) -> Self {
        Self { key, events_to_ns: None, sessions: None, sent_recording: false }
    }

    /// The next frame; `None` when there is nothing new and never will be.
    pub fn encode(&mut self, app: &App, sequence: u64) -> Result<Option<String>, ApiError> {
        if self.sent_recording {
            return Ok(None);
        }
        let source = app.sources.get(&self.key.source)?;
        let mut fields: Vec<(&str, String)> = Vec::new();
        let (at_ns, newest_ns) = match source.live() {
            Some(live) => {
                self.gather_sessions(&source)?;
                let now = now_ns();
                let newest_ns = live.recent.newest(|newest| {
                    if let Some((_, figures)) =
                        self.sessions.as_ref().filter(|_| self.key.topics.has("sessions"))
                    {
                        fields.push(("sessions", text(&figures.shown(&source, newest).into())));
                    }
                    self.parts(app, &source, newest, now, &mut fields);
                    newest.newest_ns
                });
                if self.key.topics.has("processes") {
                    let (list, _) = live_processes(live, now, MAX_PROCESSES);
                    fields.push(("processes", text(&Value::from(list))));
                }
                self.events(&source, now, &mut fields)?;
                (now, newest_ns)
            }
            None => {
                self.sent_recording = !source.growing();
                let newest = Newest::at(source.tables(), source.last_ns)?;
                if self.key.topics.has("sessions") {
                    let window = (source.first_ns, source.last_ns.saturating_add(1));
                    let figures = SessionFigures::gather(source.tables(), window)?;
                    fields.push(("sessions", text(&figures.shown(&source, &newest).into())));
                }
                self.parts(app, &source, &newest, source.last_ns, &mut fields);
                (source.last_ns, source.last_ns)
            }
        };
        let head = json!({
            "type": "metrics",
            "source": source.id,
            "sequence": sequence,
            "at_ms": number(source.ms(at_ns)),
            "newest_ms": number(source.ms(newest_ns)),
        });
        let mut frame = text(&head);
        frame.pop();
        for (name, value) in fields {
            // Writing to a string cannot fail.
            write!(frame, ",\"{name}\":{value}").ok();
        }
        frame.push('}');
        Ok(Some(frame))
    }

    fn parts(
        &self,
        app: &App,
        source: &Source,
        newest: &Newest,
        now_ns: u64,
        fields: &mut Vec<(&str, String)>,
    ) {
        let topics = self.key.topics;
        if topics.has("system") {
            let control = source.live().map(|live| state_json(&live.control.state()));
            let system = json!({
                "system": current::system(source, newest),
                "cores": current::cores(newest),
                "memory": current::memory(newest, now_ns),
                "control": control,
            });
            fields.push(("system", text(&system)));
        }
        if topics.has("devices") {
            let devices = json!({
                "devices": current::device_values(source, newest, now_ns),
                "energy": current::energy(newest, &[], now_ns),
            });
            fields.push(("devices", text(&devices)));
        }
        if topics.has("losses") {
            fields.push((
                "losses",
                text(&json!({ "lost": newest.lost_total(), "own_cost": own_cost(app, source) })),
            ));
        }
    }

    fn gather_sessions(&mut self, source: &Source) -> Result<(), ApiError> {
        let is_fresh = self.sessions.as_ref().is_some_and(|(made, _)| made.elapsed() < SESSIONS_EVERY);
        if self.key.topics.has("sessions") && !is_fresh {
            let window =
                (source.last_ns.saturating_sub(current::WINDOW_NS), source.last_ns.saturating_add(1));
            self.sessions = Some((Instant::now(), SessionFigures::gather(source.tables(), window)?));
        }
        Ok(())
    }

    /// Inferences since the frame before.
    fn events(
        &mut self,
        source: &Source,
        now_ns: u64,
        fields: &mut Vec<(&str, String)>,
    ) -> Result<(), ApiError> {
        if !self.key.topics.has("events") {
            return Ok(());
        }
        let from_ns = self.events_to_ns.unwrap_or(now_ns.saturating_sub(1_000_000_000));
        let scan = Scan { from_ns: Some(from_ns), to_ns: Some(now_ns), ..Scan::all() };
        let mut rows: Vec<InferenceRow> = Vec::new();
        for batch in source.tables().scan(TableId::Inferences, &scan) {
            rows.extend(batch?.rows::<InferenceRow>());
        }
        rows.sort_by_key(|row| row.timestamp_ns);
        // An inference is told when it has ended: its start may lie before what was sent. It is not sent twice.
        self.events_to_ns = Some(rows.last().map_or(from_ns, |row| row.timestamp_ns + 1));
        let not_sent = rows.len().saturating_sub(MAX_EVENTS);
        let rows = &rows[not_sent..];
        let mut columns = Map::new();
        let ms = |nanos: u64| number(nanos as f64 / 1e6);
        columns.insert("session_id".into(), rows.iter().map(|row| json!(row.session_id)).collect());
        columns.insert("t_ms".into(), rows.iter().map(|row| number(source.ms(row.timestamp_ns))).collect());
        columns.insert("run_ms".into(), rows.iter().map(|row| ms(row.run_ns)).collect());
        columns.insert("end_to_end_ms".into(), rows.iter().map(|row| ms(end_to_end_ns(row))).collect());
        columns.insert("ok".into(), rows.iter().map(|row| Value::from(row.ok)).collect());
        columns.insert("not_sent".into(), not_sent.into());
        fields.push(("events", text(&columns.into())));
        Ok(())
    }
}

fn text(value: &Value) -> String {
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_known_words() {
        let set =
            |names: &[&str]| Topics::of(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(set(&["losses", "system", "system"]).expect("known").names(), ["system", "losses"]);
        assert!(set(&[]).is_err() && set(&["cpu"]).is_err());
    }
}
