//! One module per panel: from a source to the types of `web/src/api/types.ts`.

pub mod access;
pub mod batches;
pub mod catalog;
pub mod compare;
pub mod control;
pub mod current;
pub mod energy;
pub mod hello;
pub mod history;
pub mod losses;
pub mod memory;
pub mod openapi;
pub mod processes;
pub mod prometheus;
pub mod recordings;
pub mod report;
pub mod timeline;

use axum::body::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::mpsc::Receiver;

use crate::data::Source;
use crate::error::ApiError;

/// What a handler gives.
#[derive(Debug)]
pub enum Answer {
    Json(Vec<u8>),
    /// Packed with gzip already.
    Packed {
        bytes: Vec<u8>,
        content_type: &'static str,
    },
    Text {
        text: String,
        content_type: &'static str,
    },
    /// 204, perhaps with a cookie.
    Nothing {
        cookie: Option<String>,
    },
    Download {
        content_type: &'static str,
        name: String,
        chunks: Receiver<Result<Bytes, std::io::Error>>,
    },
}

impl Answer {
    pub fn json(value: &impl Serialize) -> Result<Self, ApiError> {
        serde_json::to_vec(value).map(Self::Json).map_err(ApiError::internal)
    }
}

/// What an answer about a source begins with.
pub fn about(source: &Source, (from_ns, to_ns): (u64, u64)) -> Map<String, Value> {
    let mut about = Map::new();
    about.insert("source".into(), source.id.clone().into());
    about.insert("from_ms".into(), number(source.ms(from_ns)));
    about.insert("to_ms".into(), number(source.ms(to_ns)));
    about
}

/// A number, or `null` for what JSON has no word for.
pub fn number(value: f64) -> Value {
    serde_json::Number::from_f64(value).map_or(Value::Null, Value::Number)
}

pub fn optional(value: Option<f64>) -> Value {
    value.map_or(Value::Null, number)
}

/// The page that starts at a cursor: its entries and the next cursor.
pub fn page<T>(
    mut list: Vec<T>,
    limit: usize,
    cursor: Option<&str>,
) -> Result<(Vec<T>, Option<String>), ApiError> {
    let start: usize = match cursor {
        None => 0,
        Some(text) => {
            text.parse().map_err(|_| ApiError::bad_parameter("cursor", "is not `next` of an answer"))?
        }
    };
    let end = start.saturating_add(limit);
    let next = (end < list.len()).then(|| end.to_string());
    list.truncate(end);
    Ok((list.split_off(start.min(list.len())), next))
}

/// A record with its time for pages beside it.
pub fn with_time(record: &impl Serialize, t_ms: f64) -> Value {
    let mut value = serde_json::to_value(record).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        fields.insert("t_ms".into(), number(t_ms));
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other() {
        let list: Vec<u32> = (0..5).collect();
        let (first, next) = page(list.clone(), 2, None).expect("a page");
        assert_eq!((first, next.as_deref()), (vec![0, 1], Some("2")));
        let (last, next) = page(list.clone(), 9, Some("4")).expect("a page");
        assert_eq!((last, next), (vec![4], None));
        assert_eq!(page(list.clone(), 2, Some("99")).expect("an empty page").0.len(), 0);
        assert!(page(list, 2, Some("x")).is_err());
    }
}
