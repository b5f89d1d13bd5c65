//! The OpenAPI document: operations of the table of routes, answers of the contract with the dashboard.

mod contract;
mod operation;

use serde_json::{Map, Value, json};

use super::Answer;
use crate::app::{App, Asked};
use crate::error::ApiError;
use crate::http::who::cookie_name;
use crate::routes::{BASE, ROUTES};

pub fn openapi(app: &App, _: &Asked) -> Result<Answer, ApiError> {
    Answer::json(&document(app.secure))
}

/// The document of a server with or without TLS: the name of its cookie differs.
pub fn document(secure: bool) -> Value {
    let mut schemas = contract::schemas().expect("the tests read the same contract");
    schemas.extend(ours());
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let mut at = vec![format!("{BASE}{}", route.path)];
        if route.at_root {
            at.push(route.path.to_owned());
        }
        for (index, path) in at.into_iter().enumerate() {
            let entry = paths.entry(path).or_insert_with(|| json!({}));
            entry[route.method.name().to_ascii_lowercase()] = operation::operation(route, index > 0);
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "ortscope",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "What `ortscope serve` knows of the machine and of recordings. docs/API.md explains it.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer" },
                "cookie": { "type": "apiKey", "in": "cookie", "name": cookie_name(secure) },
            },
        },
    })
}

/// What the dashboard does not read, and the contract therefore does not have.
fn ours() -> Map<String, Value> {
    let whole = json!({ "type": "integer", "minimum": 0 });
    let text = json!({ "type": "string" });
    let entry = json!({
        "type": "object",
        "description": "A line of the audit log.",
        "required": ["number", "unix_ms", "who", "role", "ip", "what", "status", "detail", "previous_sha256"],
        "properties": {
            "number": whole, "unix_ms": whole, "who": text, "role": { "type": ["string", "null"] }, "ip": text,
            "what": text, "status": whole, "detail": text,
            "previous_sha256": { "type": "string", "pattern": "^[0-9a-f]{64}$" },
        },
    });
    let types = json!({
        "AuditEntries": {
            "type": "object", "required": ["entries"],
            "properties": { "entries": { "type": "array", "items": { "$ref": "#/components/schemas/AuditEntry" } } },
        },
        "AuditEntry": entry,
        "OpenApi": {
            "type": "object", "required": ["openapi", "info", "paths", "components"],
            "properties": {
                "openapi": { "type": "string", "enum": ["3.1.0"] }, "info": { "type": "object" },
                "paths": { "type": "object" }, "components": { "type": "object" },
            },
            "description": "This document.",
        },
    });
    match types {
        Value::Object(types) => types,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::Answers;

    #[test]
    fn every_route_is_in_the_document_with_its_role() {
        let document = document(false);
        for route in ROUTES {
            let method = route.method.name().to_ascii_lowercase();
            let operation = &document["paths"][format!("{BASE}{}", route.path)][&method];
            assert!(operation.is_object(), "{} {}", method, route.path);
            assert!(operation["x-role"].is_string());
            if route.at_root {
                assert!(document["paths"][route.path][&method].is_object());
            }
            if let Answers::Json(name) = route.answers {
                assert!(document["components"]["schemas"][name].is_object(), "{name} is in no contract");
            }
        }
        let mut ids = std::collections::BTreeSet::new();
        for methods in document["paths"].as_object().expect("paths").values() {
            for operation in methods.as_object().expect("methods").values() {
                assert!(ids.insert(operation["operationId"].to_string()), "{}", operation["operationId"]);
            }
        }
    }

    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(name, value)| match value.as_str() {
                Some(path) if name == "$ref" => found.push(path.to_owned()),
                _ => references(value, found),
            }),
            Value::Array(list) => list.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = document(true);
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 100, "{}", found.len());
        for path in found {
            assert!(document.pointer(path.trim_start_matches('#')).is_some(), "{path}");
        }
    }
}
