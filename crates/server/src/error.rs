//! Errors of the API: a status, a stable word, one sentence, and a hint.

use axum::http::StatusCode;
use ortscope_core::failure::{Failure, FailureKind};
use ortscope_core::filter::FilterError;
use ortscope_core::tables::ReadError;
use ortscope_export::ExportError;
use ortscope_result::ReportError;
use ortscope_store::{StoreError, StoreErrorKind};
use schemars::JsonSchema;
use serde::Serialize;

/// Why the server could not start or continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    #[error("{address}: {source}")]
    Listen { address: String, source: std::io::Error },
    #[error("{0}")]
    Unsafe(String),
    #[error("{0}")]
    Tls(String),
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("the file {path} is invalid: {problem}")]
    State { path: String, problem: String },
}

/// The body of every answer with status 4xx or 5xx.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ApiError")]
pub struct ErrorBody<'a> {
    pub error: &'a ApiError,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "ErrorDetail")]
pub struct ApiError {
    #[serde(skip)]
    pub status: StatusCode,
    /// Stable word, e.g. "unauthorized", "forbidden", "not_found", "bad_parameter".
    pub code: &'static str,
    /// One sentence.
    pub message: String,
    /// How to fix it, if known.
    pub hint: Option<String>,
    /// Seconds after which the client may try again.
    #[serde(skip)]
    pub retry_after: Option<u64>,
    /// The route's methods, for 405.
    #[serde(skip)]
    pub allow: Option<String>,
}

impl ApiError {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), hint: None, retry_after: None, allow: None }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    pub fn bad_parameter(name: &str, problem: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_parameter", format!("the parameter '{name}' {problem}"))
    }

    /// The parameters are valid, but contradict each other or the source.
    pub fn contradiction(name: &str, problem: impl std::fmt::Display) -> Self {
        let message = format!("the parameter '{name}' {problem}");
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "contradiction", message)
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }

    /// An internal error. Details go to the log, not to the client.
    pub fn internal(error: impl std::fmt::Display) -> Self {
        tracing::error!("{error}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "internal error; see the server's log")
    }
}

impl From<FilterError> for ApiError {
    fn from(error: FilterError) -> Self {
        let answer = Self::new(StatusCode::BAD_REQUEST, "bad_filter", error.to_string());
        match error.hint() {
            Some(hint) => answer.hint(hint),
            None => answer,
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let (status, code) = match error.kind() {
            StoreErrorKind::Usage => (StatusCode::NOT_FOUND, "not_found"),
            StoreErrorKind::InUse => (StatusCode::CONFLICT, "conflict"),
            StoreErrorKind::Damaged | StoreErrorKind::NewerFormat => {
                (StatusCode::UNPROCESSABLE_ENTITY, "unreadable")
            }
            StoreErrorKind::Permission => (StatusCode::CONFLICT, "permission"),
            StoreErrorKind::NoSpace | StoreErrorKind::Internal => return Self::internal(error),
        };
        let answer = Self::new(status, code, error.to_string());
        match error.hint() {
            Some(hint) => answer.hint(hint),
            None => answer,
        }
    }
}

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> Self {
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "unreadable",
            format!("the recording cannot be read: {error}"),
        )
        .hint("`ortscope runs repair` keeps the readable part")
    }
}

impl From<ReportError> for ApiError {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::Read(error) => error.into(),
            other => Self::internal(other),
        }
    }
}

impl From<ExportError> for ApiError {
    fn from(error: ExportError) -> Self {
        let code = match &error {
            // Formats and tables are already validated; the rest are contradictions.
            ExportError::Usage { .. } => "contradiction",
            ExportError::Read(_) => "unreadable",
            _ => return Self::internal(error),
        };
        let answer = Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, error.to_string());
        match error.hint() {
            Some(hint) => answer.hint(hint.to_owned()),
            None => answer,
        }
    }
}

impl From<ServerError> for Failure {
    fn from(error: ServerError) -> Self {
        match error {
            ServerError::Store(error) => error.into(),
            ServerError::Unsafe(_) | ServerError::Tls(_) => Self::usage(error.to_string()),
            ServerError::Listen { ref source, .. } => {
                let kind = match source.kind() {
                    std::io::ErrorKind::PermissionDenied => FailureKind::Permission,
                    _ => FailureKind::Usage,
                };
                Self::new(kind, format!("cannot listen on {error}"))
                    .with_hint("--listen 127.0.0.1:0 uses any free port")
            }
            ServerError::State { .. } => Self::new(FailureKind::DataLost, error.to_string()),
            ServerError::Io(_) => Self::internal(error),
        }
    }
}
