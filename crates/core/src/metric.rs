//! A value or a reason: every metric is a number with its method, or a reason why it is missing and how to enable it.

use serde::{Deserialize, Serialize};

pub use crate::schema::Method;

/// A metric's value, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "state")]
pub enum Reading<T> {
    Value { value: T, method: Method, source: String },
    Unavailable { why: String, hint: Option<String> },
}

impl<T> Reading<T> {
    pub fn measured(value: T, source: impl Into<String>) -> Self {
        Self::Value { value, method: Method::Measured, source: source.into() }
    }

    pub fn unavailable(why: impl Into<String>) -> Self {
        Self::Unavailable { why: why.into(), hint: None }
    }

    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        match self {
            Self::Unavailable { why, .. } => Self::Unavailable { why, hint: Some(hint.into()) },
            value @ Self::Value { .. } => value,
        }
    }

    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Value { value, .. } => Some(value),
            Self::Unavailable { .. } => None,
        }
    }
}

/// Whether a source can work here, and what to do if not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "state")]
pub enum Availability {
    Ready,
    Degraded { why: String, hint: String },
    Unavailable { why: String, hint: String },
}
