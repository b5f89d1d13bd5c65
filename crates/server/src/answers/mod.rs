//! One module per panel. Each answer is a struct; its JSON, its schema in the OpenAPI document and its TypeScript type in
//! `web/src/api/types.ts` all come from that struct.

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
pub mod processes;
pub mod prometheus;
pub mod recordings;
pub mod report;
pub mod timeline;

use axum::body::Bytes;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::mpsc::Receiver;

use crate::data::Source;
use crate::error::ApiError;

/// The result of a handler.
#[derive(Debug)]
pub enum Answer {
    Json(Vec<u8>),
    /// Already compressed with gzip.
    Packed {
        bytes: Vec<u8>,
        content_type: &'static str,
    },
    Text {
        text: String,
        content_type: &'static str,
    },
    /// Status 204, optionally with a cookie.
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

/// The source of an answer and the time range that its numbers cover.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct About {
    pub source: String,
    /// Start of the covered range, clipped to the available data.
    pub from_ms: f64,
    /// End of the covered range.
    pub to_ms: f64,
}

impl About {
    pub fn new(source: &Source, (from_ns, to_ns): (u64, u64)) -> Self {
        Self { source: source.id.clone(), from_ms: source.ms(from_ns), to_ms: source.ms(to_ns) }
    }
}

/// A wire record with its time relative to the source's origin.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "{T}")]
pub struct Timed<T> {
    #[serde(flatten)]
    pub record: T,
    pub t_ms: f64,
}

/// The page that starts at a cursor: its entries and the next cursor.
pub fn page<T>(
    mut list: Vec<T>,
    limit: usize,
    cursor: Option<&str>,
) -> Result<(Vec<T>, Option<String>), ApiError> {
    let start: usize = match cursor {
        None => 0,
        Some(text) => text
            .parse()
            .map_err(|_| ApiError::bad_parameter("cursor", "is not `next` of a previous answer"))?,
    };
    let end = start.saturating_add(limit);
    let next = (end < list.len()).then(|| end.to_string());
    list.truncate(end);
    Ok((list.split_off(start.min(list.len())), next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_consecutive() {
        let list: Vec<u32> = (0..5).collect();
        let (first, next) = page(list.clone(), 2, None).expect("a page");
        assert_eq!((first, next.as_deref()), (vec![0, 1], Some("2")));
        let (last, next) = page(list.clone(), 9, Some("4")).expect("a page");
        assert_eq!((last, next), (vec![4], None));
        assert_eq!(page(list.clone(), 2, Some("99")).expect("an empty page").0.len(), 0);
        assert!(page(list, 2, Some("x")).is_err());
    }
}
