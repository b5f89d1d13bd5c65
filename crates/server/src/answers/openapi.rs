//! The OpenAPI document, made of the table of routes.

use serde_json::{Map, Value, json};

use super::Answer;
use crate::app::{App, Asked};
use crate::error::ApiError;
use crate::routes::{Access, Answers, BASE, Handler, Method, Param, ROUTES, Route};

pub fn openapi(_: &App, _: &Asked) -> Result<Answer, ApiError> {
    Answer::json(&document())
}

pub fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    let mut schemas: Map<String, Value> = Map::new();
    schemas.insert("Error".into(), error_schema());
    for route in ROUTES {
        if let Answers::Json(name, required) = route.answers {
            let properties: Map<String, Value> =
                required.iter().map(|field| ((*field).to_owned(), json!({}))).collect();
            let schema = json!({
                "type": "object", "required": required, "properties": properties,
                "description": format!("`{name}` of web/src/api/types.ts"),
            });
            schemas.insert(name.into(), schema);
        }
        let mut at = vec![format!("{BASE}{}", route.path)];
        if route.at_root {
            at.push(route.path.to_owned());
        }
        for (index, path) in at.into_iter().enumerate() {
            let entry = paths.entry(path).or_insert_with(|| json!({}));
            entry[route.method.name().to_ascii_lowercase()] = operation(route, index > 0);
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
                "cookie": { "type": "apiKey", "in": "cookie", "name": "ortscope_session" },
            },
        },
    })
}

fn error_schema() -> Value {
    json!({
        "type": "object",
        "required": ["error"],
        "properties": { "error": {
            "type": "object",
            "required": ["code", "message", "hint"],
            "properties": {
                "code": { "type": "string" },
                "message": { "type": "string" },
                "hint": { "type": ["string", "null"] },
            },
        } },
    })
}

fn operation(route: &Route, is_second: bool) -> Value {
    let mut parameters: Vec<Value> = route.params.iter().map(parameter).collect();
    if route.path.contains("{id}") {
        parameters.push(json!({
            "name": "id", "in": "path", "required": true, "schema": { "type": "string" },
            "description": "Id of a recording.",
        }));
    }
    let error = json!({
        "description": "An error, in one sentence.",
        "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } },
    });
    let mut responses: Map<String, Value> = Map::new();
    let (status, good) = match route.answers {
        Answers::Json(name, _) => (
            "200",
            json!({
                "description": route.doc,
                "content": { "application/json": { "schema": { "$ref": format!("#/components/schemas/{name}") } } },
            }),
        ),
        Answers::Download => {
            ("200", json!({ "description": route.doc, "content": { "*/*": { "schema": {} } } }))
        }
        Answers::Nothing => ("204", json!({ "description": route.doc })),
        Answers::WebSocket => ("101", json!({ "description": route.doc })),
    };
    responses.insert(status.into(), good);
    for status in
        ["400", "401", "403", "404", "405", "408", "409", "413", "415", "421", "422", "429", "431", "503"]
    {
        responses.insert(status.into(), error.clone());
    }
    let id = format!(
        "{}{}{}",
        route.method.name().to_ascii_lowercase(),
        route.path.replace(['/', '{', '}', '.'], "_"),
        if is_second { "_at_root" } else { "" }
    );
    let mut operation = json!({
        "operationId": id,
        "summary": route.doc,
        "parameters": parameters,
        "responses": responses,
        "x-role": match route.access {
            Access::Public => "public",
            Access::Role(role) => role.name(),
        },
        "security": match route.access {
            Access::Public => json!([]),
            Access::Role(_) => json!([{ "token": [] }, { "cookie": [] }]),
        },
    });
    if route.method == Method::Post {
        let properties: Map<String, Value> = route
            .body
            .iter()
            .map(|(name, kind)| {
                let schema =
                    if *name == "name" { json!({ "type": [kind, "null"] }) } else { json!({ "type": kind }) };
                ((*name).to_owned(), schema)
            })
            .collect();
        let required: Vec<&str> =
            route.body.iter().map(|(name, _)| *name).filter(|name| *name != "name").collect();
        operation["requestBody"] = json!({
            "required": true,
            "content": { "application/json": { "schema": {
                "type": "object", "properties": properties, "required": required, "additionalProperties": false,
            } } },
        });
    }
    if matches!(route.handler, Handler::WebSocket) {
        operation["x-websocket"] = true.into();
    }
    operation
}

fn parameter(param: &Param) -> Value {
    let schema = match param.repeats {
        true => json!({ "type": "array", "items": { "type": param.kind } }),
        false => json!({ "type": param.kind }),
    };
    json!({ "name": param.name, "in": "query", "required": false, "schema": schema, "description": param.doc })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_in_the_document_with_its_role() {
        let document = document();
        for route in ROUTES {
            let method = route.method.name().to_ascii_lowercase();
            let operation = &document["paths"][format!("{BASE}{}", route.path)][&method];
            assert!(operation.is_object(), "{} {}", method, route.path);
            assert!(operation["x-role"].is_string());
            if route.at_root {
                assert!(document["paths"][route.path][&method].is_object());
            }
        }
        let mut ids = std::collections::BTreeSet::new();
        for methods in document["paths"].as_object().expect("paths").values() {
            for operation in methods.as_object().expect("methods").values() {
                assert!(ids.insert(operation["operationId"].to_string()), "{}", operation["operationId"]);
            }
        }
    }
}
