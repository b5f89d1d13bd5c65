//! Lanes: their contents, ids and titles.

use ortscope_core::schema::Text;
use schemars::JsonSchema;
use serde::Serialize;

/// `inferences`: one rectangle per inference of a session and stream. `runs`: profiled runs. `operators`: operators, copies
/// and waits of one provider on one thread. `kernel`: kernel events of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LaneKind {
    Inferences,
    Runs,
    Operators,
    Kernel,
}

/// The content of a lane. The order is the order on the page.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LaneKey {
    Inferences { session: Text, stream: u64 },
    Runs { session: Text },
    Operators { session: Text, provider: Text, thread: u64 },
    Kernel { pid: u64, tid: u64 },
}

impl LaneKey {
    /// As text: parts are separated by `|`, which is escaped as `%7C` inside a part.
    pub fn id(&self) -> String {
        match self {
            Self::Inferences { session, stream } => format!("i|{}|{stream}", escaped(session)),
            Self::Runs { session } => format!("r|{}", escaped(session)),
            Self::Operators { session, provider, thread } => {
                format!("o|{}|{}|{thread}", escaped(session), escaped(provider))
            }
            Self::Kernel { pid, tid } => format!("k|{pid}|{tid}"),
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('|');
        let kind = parts.next()?;
        let mut part = || parts.next();
        let key = match kind {
            "i" => Self::Inferences { session: unescaped(part()?), stream: part()?.parse().ok()? },
            "r" => Self::Runs { session: unescaped(part()?) },
            "o" => Self::Operators {
                session: unescaped(part()?),
                provider: unescaped(part()?),
                thread: part()?.parse().ok()?,
            },
            "k" => Self::Kernel { pid: part()?.parse().ok()?, tid: part()?.parse().ok()? },
            _ => return None,
        };
        part().is_none().then_some(key)
    }

    pub fn kind(&self) -> LaneKind {
        match self {
            Self::Inferences { .. } => LaneKind::Inferences,
            Self::Runs { .. } => LaneKind::Runs,
            Self::Operators { .. } => LaneKind::Operators,
            Self::Kernel { .. } => LaneKind::Kernel,
        }
    }

    pub fn title(&self) -> String {
        match self {
            Self::Inferences { stream, .. } => format!("inferences · stream {stream}"),
            Self::Runs { .. } => "profiled runs".to_owned(),
            Self::Operators { provider, thread, .. } => {
                let name = provider.strip_suffix("ExecutionProvider").unwrap_or(provider);
                format!("{} · thread {thread}", if name.is_empty() { "?" } else { name })
            }
            Self::Kernel { pid, tid } if pid == tid => format!("kernel · process {pid}"),
            Self::Kernel { tid, .. } => format!("kernel · thread {tid}"),
        }
    }

    pub fn session_id(&self) -> Option<&Text> {
        match self {
            Self::Inferences { session, .. } | Self::Runs { session } | Self::Operators { session, .. } => {
                Some(session)
            }
            Self::Kernel { .. } => None,
        }
    }

    pub fn execution_provider(&self) -> Option<&Text> {
        match self {
            Self::Operators { provider, .. } => Some(provider).filter(|name| !name.is_empty()),
            _ => None,
        }
    }

    pub fn pid(&self) -> Option<u64> {
        match self {
            Self::Kernel { pid, .. } => Some(*pid),
            _ => None,
        }
    }

    pub fn thread(&self) -> Option<u64> {
        match self {
            Self::Operators { thread, .. } => Some(*thread),
            Self::Kernel { tid, .. } => Some(*tid),
            _ => None,
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('%', "%25").replace('|', "%7C")
}

fn unescaped(text: &str) -> Text {
    text.replace("%7C", "|").replace("%25", "%").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_round_trip() {
        let keys = [
            LaneKey::Inferences { session: "a|b%".into(), stream: 3 },
            LaneKey::Runs { session: "".into() },
            LaneKey::Operators { session: "s".into(), provider: "CPUExecutionProvider".into(), thread: 7 },
            LaneKey::Kernel { pid: 1, tid: 2 },
        ];
        for key in keys {
            assert_eq!(LaneKey::parse(&key.id()), Some(key));
        }
        for bad in ["", "x|1", "i|a", "i|a|b", "k|1|2|3", "o|a|b|c"] {
            assert_eq!(LaneKey::parse(bad), None, "{bad}");
        }
    }
}
