//! The names of tracks.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::identity::ProcessIdentity;
use crate::schema::Text;

/// The thing a track belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// The whole machine.
    System,
    /// A session of ONNX Runtime, by its identifier.
    Session(Text),
    /// A process, by id and start time.
    Process(ProcessIdentity),
    /// A device, e.g. gpu0.
    Device(Text),
}

/// A series of numbers: one metric of one subject.
///
/// As text: `system/cpu_percent`, `session/<id>/latency_ns`, `process/<pid>:<start>/working_set_bytes`,
/// `device/<device>/power_watts`; a slash or percent sign inside a name is written `%2F` or `%25`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TrackId {
    pub subject: Subject,
    pub metric: Text,
}

impl TrackId {
    pub fn system(metric: &str) -> Self {
        Self { subject: Subject::System, metric: metric.into() }
    }

    pub fn session(session_id: &str, metric: &str) -> Self {
        Self { subject: Subject::Session(session_id.into()), metric: metric.into() }
    }

    pub fn process(process: ProcessIdentity, metric: &str) -> Self {
        Self { subject: Subject::Process(process), metric: metric.into() }
    }

    pub fn device(device: &str, metric: &str) -> Self {
        Self { subject: Subject::Device(device.into()), metric: metric.into() }
    }
}

/// Why a text names no track.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not the name of a track; names look like system/cpu_percent or session/<id>/latency_ns")]
pub struct InvalidTrackName(pub String);

impl fmt::Display for TrackId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subject {
            Subject::System => f.write_str("system")?,
            Subject::Session(id) => write!(f, "session/{}", Escaped(id))?,
            Subject::Process(process) => write!(f, "process/{}:{}", process.pid, process.start)?,
            Subject::Device(device) => write!(f, "device/{}", Escaped(device))?,
        }
        write!(f, "/{}", Escaped(&self.metric))
    }
}

impl FromStr for TrackId {
    type Err = InvalidTrackName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split('/');
        let mut parse = || {
            let kind = parts.next()?;
            let subject = match kind {
                "system" => Subject::System,
                "session" => Subject::Session(unescape(parts.next()?)?.into()),
                "device" => Subject::Device(unescape(parts.next()?)?.into()),
                "process" => {
                    let (pid, start) = parts.next()?.split_once(':')?;
                    Subject::Process(ProcessIdentity { pid: pid.parse().ok()?, start: start.parse().ok()? })
                }
                _ => return None,
            };
            let metric = unescape(parts.next()?)?.into();
            parts.next().is_none().then_some(Self { subject, metric })
        };
        parse().ok_or_else(|| InvalidTrackName(text.chars().take(200).collect()))
    }
}

impl Serialize for TrackId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self.0.split_inclusive(['/', '%']) {
            match part.as_bytes().last() {
                Some(b'/') => write!(f, "{}%2F", &part[..part.len() - 1])?,
                Some(b'%') => write!(f, "{}%25", &part[..part.len() - 1])?,
                _ => f.write_str(part)?,
            }
        }
        Ok(())
    }
}

fn unescape(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut plain = parts.next()?.to_owned();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        plain.push(match code {
            "2F" | "2f" => '/',
            "25" => '%',
            _ => return None,
        });
        plain.push_str(rest);
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        let process = ProcessIdentity { pid: 12, start: 345 };
        let tracks = [
            (TrackId::system("cpu_percent"), "system/cpu_percent"),
            (TrackId::session("a-b", "latency_ns"), "session/a-b/latency_ns"),
            (TrackId::session("", "latency_ns"), "session//latency_ns"),
            (TrackId::process(process, "cpu_percent"), "process/12:345/cpu_percent"),
            (TrackId::device("gpu/0 100%", "x%2F/y"), "device/gpu%2F0 100%25/x%252F%2Fy"),
        ];
        for (track, text) in tracks {
            assert_eq!(track.to_string(), text);
            assert_eq!(text.parse(), Ok(track));
        }
    }

    #[test]
    fn invalid_track_names_are_rejected_with_one_sentence() {
        for text in [
            "",
            "system",
            "cpu",
            "process/1/x",
            "process/1:x/y",
            "session/a",
            "session/a/b/c",
            "device/a%2/b",
            "%",
        ] {
            let error = text.parse::<TrackId>().expect_err(text);
            assert!(error.to_string().contains("is not the name of a track"));
        }
        assert!("x".repeat(1 << 20).parse::<TrackId>().expect_err("no kind").to_string().len() < 400);
    }
}
