//! One operation of the document: parameters, body, answers and who may use it.

use ortscope_core::schema::TableId;
use ortscope_export::Format;
use serde_json::{Map, Value, json};

use crate::params::{MAX_REPEATS, MAX_TEXT};
use crate::routes::{Access, Answers, Field, Handler, ID, Kind, Method, Param, Route};

pub fn operation(route: &Route, is_second: bool) -> Value {
    let mut operation = json!({
        "operationId": operation_id(route.method, route.path, is_second),
        "summary": route.doc,
        "parameters": parameters(route),
        "responses": responses(route),
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
        operation["requestBody"] = body(route.body);
    }
    if matches!(route.handler, Handler::WebSocket) {
        let frame = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
        operation["x-websocket"] = json!({ "sends": frame("ServerFrame"), "takes": frame("ClientFrame") });
    }
    operation
}

fn operation_id(method: Method, path: &str, is_second: bool) -> String {
    let path = path.replace(['/', '.'], "_").replace(['{', '}'], "");
    let end = if is_second { "_at_root" } else { "" };
    format!("{}{path}{end}", method.name().to_ascii_lowercase())
}

fn parameters(route: &Route) -> Vec<Value> {
    let mut list: Vec<Value> = route.params.iter().map(parameter).collect();
    if route.path.contains("{id}") {
        list.push(json!({
            "name": "id", "in": "path", "required": true, "schema": schema(ID), "description": "Id of a recording.",
        }));
    }
    list
}

fn parameter(param: &Param) -> Value {
    let one = schema(param.kind);
    let schema =
        if param.repeats { json!({ "type": "array", "items": one, "maxItems": MAX_REPEATS }) } else { one };
    json!({
        "name": param.name, "in": "query", "required": param.required, "schema": schema, "description": param.doc,
    })
}

fn schema(kind: Kind) -> Value {
    match kind {
        Kind::Text => json!({ "type": "string", "maxLength": MAX_TEXT }),
        Kind::Shaped(pattern) => json!({ "type": "string", "pattern": pattern, "maxLength": MAX_TEXT }),
        Kind::Filter => json!({ "type": "string", "format": "ortscope-filter", "maxLength": MAX_TEXT }),
        Kind::Words(words) => json!({ "type": "string", "enum": words }),
        Kind::Table => {
            let names: Vec<&str> = TableId::ALL.iter().map(|table| table.def().name).collect();
            json!({ "type": "string", "enum": names })
        }
        Kind::Format => {
            let names: Vec<&str> = Format::downloads().map(Format::name).collect();
            json!({ "type": "string", "enum": names })
        }
        Kind::Number(least, most) => json!({ "type": "number", "minimum": least, "maximum": most }),
        Kind::Whole(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Kind::Flag => json!({ "type": "boolean" }),
    }
}

fn body(fields: &[Field]) -> Value {
    let property = |field: &Field| {
        let mut schema = schema(field.kind);
        if field.optional {
            schema["type"] = json!([schema["type"], "null"]);
        }
        (field.name.to_owned(), schema)
    };
    let properties: Map<String, Value> = fields.iter().map(property).collect();
    let required: Vec<&str> = fields.iter().filter(|field| !field.optional).map(|field| field.name).collect();
    json!({
        "required": true,
        "content": { "application/json": { "schema": {
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        } } },
    })
}

/// The answer when all is well, and every status that this route can have instead.
fn responses(route: &Route) -> Map<String, Value> {
    let json_of = |name: &str| {
        let schema = json!({ "$ref": format!("#/components/schemas/{name}") });
        json!({ "description": route.doc, "content": { "application/json": { "schema": schema } } })
    };
    let (status, mut good) = match route.answers {
        Answers::Json(name) => ("200", json_of(name)),
        Answers::Download(types) => {
            let content: Map<String, Value> =
                types.iter().map(|content_type| ((*content_type).to_owned(), json!({}))).collect();
            ("200", json!({ "description": route.doc, "content": content }))
        }
        Answers::Nothing => ("204", json!({ "description": route.doc })),
        Answers::WebSocket => ("101", json!({ "description": route.doc })),
    };
    let links = links(route);
    if !links.is_empty() {
        good["links"] = links.into();
    }
    let mut responses: Map<String, Value> = Map::new();
    responses.insert(status.into(), good);
    let mut add = |status: &str, why: &str| {
        let content =
            json!({ "application/json": { "schema": { "$ref": "#/components/schemas/ApiError" } } });
        responses.insert(status.into(), json!({ "description": why, "content": content }));
    };
    let is_post = route.method == Method::Post;
    let has_recording =
        route.path.contains("{id}") || route.params.iter().any(|param| matches!(param.name, "source" | "a"));
    add("400", "A parameter or a body that cannot be understood; the sentence names it.");
    add("401", "No token, or one that is wrong, expired or revoked.");
    add("403", "The role is too low, or the Origin is not allowed.");
    add("421", "A Host that is not this server's.");
    add("500", "Something of ours went wrong; the log of the server says what.");
    add("503", "Too many requests at once; Retry-After says when.");
    if has_recording {
        add("404", "No such recording, live source or event.");
        add(
            "422",
            "Parameters that do not fit together, or a recording that is damaged or of a later version.",
        );
    }
    if is_post {
        add("408", "The body did not arrive in time.");
        add("413", "The body is larger than 1 MiB.");
        add("415", "The body is not application/json.");
    }
    if route.path.starts_with("/control") || route.method == Method::Delete {
        add("409", "It does not fit the state of the live source or of the recording.");
    }
    if matches!(route.answers, Answers::WebSocket) {
        add("426", "This address is a WebSocket.");
    }
    if matches!(route.answers, Answers::WebSocket) || route.access == Access::Public {
        add("429", "Too many attempts or WebSockets; Retry-After says when.");
    }
    // The connection's own answers have no body.
    responses.insert("414".into(), json!({ "description": "An address above 64 KiB." }));
    responses.insert("431".into(), json!({ "description": "Headers above 64 KiB." }));
    responses
}

/// What the answer of a route is good for in others.
fn links(route: &Route) -> Map<String, Value> {
    let to = |path: &str, parameters: Value| json!({ "operationId": operation_id(Method::Get, path, false), "parameters": parameters });
    let first_recording = "$response.body#/recordings/0/id";
    let list = match (route.method, route.path) {
        (Method::Get, "/recordings") => vec![
            ("show", to("/recordings/{id}", json!({ "id": first_recording }))),
            ("report", to("/recordings/{id}/report", json!({ "id": first_recording }))),
            ("export", to("/recordings/{id}/export", json!({ "id": first_recording }))),
            ("latency", to("/latency", json!({ "source": first_recording }))),
            ("operators", to("/operators", json!({ "source": first_recording }))),
            ("timeline", to("/timeline", json!({ "source": first_recording }))),
        ],
        (Method::Get, "/metrics/catalog") => vec![(
            "history",
            to(
                "/metrics/history",
                json!({ "source": "$response.body#/source", "track": "$response.body#/tracks/0/track" }),
            ),
        )],
        _ => Vec::new(),
    };
    list.into_iter().map(|(name, link)| (name.to_owned(), link)).collect()
}
