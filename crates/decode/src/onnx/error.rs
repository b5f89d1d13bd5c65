//! Why a file is not a readable model.

use super::wire::{WireError, WireErrorKind};

/// Maximum length of names from a file in messages.
const MAX_SHOWN: usize = 80;

/// A name from a file for a message: short, on one line, and without terminal control characters.
pub fn shown(name: &str) -> String {
    let mut letters = name.chars();
    let mut shown = harmless(&letters.by_ref().take(MAX_SHOWN).collect::<String>());
    if letters.next().is_some() {
        shown.push('…');
    }
    shown
}

/// The same without a length limit, for paths.
pub fn harmless(text: &str) -> String {
    let escaped = |letter: char| match letter {
        '\'' | '"' | '\\' => letter.to_string(),
        _ => letter.escape_debug().to_string(),
    };
    text.chars().map(escaped).collect()
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OnnxError {
    #[error("the file is empty")]
    Empty,
    #[error("not an ONNX model: {reason}")]
    NotOnnx { reason: String },
    #[error("the file is truncated: it ends at byte {at}, {missing} bytes too early")]
    Truncated { at: u64, missing: u64 },
    #[error("the file is damaged at byte {at}: {what}")]
    Malformed { at: u64, what: String },
    #[error(
        "the file has no graph; it is truncated, or a protobuf file of another kind (TensorProto, SavedModel, Core ML)"
    )]
    NoGraph,
    #[error("the model imports no operator set; the file is truncated or was written by a broken exporter")]
    NoOpset,
    #[error("the model has more than {limit} nodes")]
    TooManyNodes { limit: usize },
    #[error("subgraphs or types are nested more than {limit} deep")]
    TooDeep { limit: usize },
    #[error("the graph would need more than {limit} bytes of memory without its weights")]
    TooLarge { limit: u64 },
    #[error("tensor '{}' has an impossible shape {}", shown(tensor), shown(&format!("{dims:?}")))]
    BadDimension { tensor: String, dims: Vec<i64> },
    #[error(
        "tensor '{}' has the unknown element type {code}; the model may be newer than this program",
        shown(tensor)
    )]
    UnknownElementType { tensor: String, code: i64 },
    #[error("tensor '{}' refers to external data in a way that cannot be read: {what}", shown(tensor))]
    BadExternalData { tensor: String, what: String },
}

impl OnnxError {
    /// Whether the bytes themselves are wrong, so that the file may be of another kind.
    pub(super) fn is_about_bytes(&self) -> bool {
        !matches!(
            self,
            Self::Empty | Self::TooManyNodes { .. } | Self::TooDeep { .. } | Self::TooLarge { .. }
        )
    }
}

/// An error inside a message with a correct length: damage instead of truncation.
impl From<WireError> for OnnxError {
    fn from(error: WireError) -> Self {
        let what = match error.kind {
            WireErrorKind::CutNumber => "a number extends beyond its field".to_owned(),
            WireErrorKind::CutField { missing } => {
                format!("a field is {missing} bytes longer than its container")
            }
            WireErrorKind::LongNumber => "a number has more than 64 bits".to_owned(),
            WireErrorKind::LongField { length } => {
                format!("a field claims {length} bytes, more than protobuf allows")
            }
            WireErrorKind::BadTag => "no protobuf field starts here".to_owned(),
            WireErrorKind::BadGroup => "a group is not closed correctly".to_owned(),
        };
        Self::Malformed { at: error.at as u64, what }
    }
}
