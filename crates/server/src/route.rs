//! A route: path, method, required role, parameters, answer and handler.

use schemars::{Schema, SchemaGenerator};

use crate::answers::Answer;
use crate::app::{App, Asked};
use crate::error::ApiError;
pub use crate::params::{Field, Kind, Param};
use crate::security::Role;

/// Prefix of every route.
pub const BASE: &str = "/api/v1";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    Get,
    Post,
    Delete,
}

impl Method {
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Delete => "DELETE",
        }
    }
}

/// The permission that a route requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody, without a token. The route must return no data.
    Public,
    /// This role and higher ones.
    Role(Role),
}

/// Registers the schema of an answer and returns a reference to it.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The successful answer of a route.
#[derive(Debug, Clone, Copy)]
pub enum Answers {
    Json(SchemaOf),
    /// Bytes of one of these content types; JSON among them can have a schema.
    Download {
        types: &'static [&'static str],
        json: Option<SchemaOf>,
    },
    /// Status 204.
    Nothing,
    /// Status 101.
    WebSocket,
}

/// How a route is served.
#[derive(Clone, Copy)]
pub enum Handler {
    /// Runs on a thread that may block.
    Blocking(Compute<Answer>),
    WebSocket,
}

impl std::fmt::Debug for Handler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Blocking(_) => "Blocking",
            Self::WebSocket => "WebSocket",
        })
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Route {
    pub method: Method,
    /// Relative to [`BASE`]; `{id}` matches one segment.
    pub path: &'static str,
    /// Also available without [`BASE`], for other tools.
    pub at_root: bool,
    pub access: Access,
    pub params: &'static [Param],
    /// Fields of the JSON body of a POST.
    pub body: &'static [Field],
    pub answers: Answers,
    pub doc: &'static str,
    pub handler: Handler,
}

/// Form of recording ids.
pub const ID: Kind = Kind::Shaped("^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$");

/// A handler.
pub type Compute<T> = fn(&App, &Asked) -> Result<T, ApiError>;
