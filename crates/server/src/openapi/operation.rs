//! One operation of the document: parameters, body, answers and required role.

use std::collections::BTreeMap;

use ortscope_core::schema::TableId;
use ortscope_export::Format;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use crate::error::ErrorBody;
use crate::params::{MAX_REPEATS, MAX_TEXT};
use crate::route::{Access, Answers, Field, Handler, ID, Kind, Method, Param, Route};
use crate::ws::ServerFrame;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    operation_id: String,
    summary: &'static str,
    parameters: Vec<Parameter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_body: Option<RequestBody>,
    responses: BTreeMap<&'static str, Response>,
    /// Each entry is one way to authenticate.
    security: Vec<BTreeMap<&'static str, [String; 0]>>,
    #[serde(rename = "x-role")]
    role: &'static str,
    #[serde(rename = "x-websocket", skip_serializing_if = "Option::is_none")]
    websocket: Option<WebSocketFrames>,
}

#[derive(Debug, Serialize)]
struct Parameter {
    name: &'static str,
    #[serde(rename = "in")]
    place: &'static str,
    required: bool,
    schema: Schema,
    description: &'static str,
}

#[derive(Debug, Serialize)]
struct RequestBody {
    required: bool,
    content: Content,
}

type Content = BTreeMap<&'static str, MediaType>;

#[derive(Debug, Default, Serialize)]
struct MediaType {
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<Schema>,
}

#[derive(Debug, Default, Serialize)]
struct Response {
    description: &'static str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    content: Content,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    links: BTreeMap<&'static str, Link>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Link {
    operation_id: String,
    parameters: BTreeMap<&'static str, &'static str>,
}

#[derive(Debug, Serialize)]
struct WebSocketFrames {
    sends: Schema,
    takes: Schema,
}

impl Operation {
    pub fn new(route: &Route, is_second: bool, generator: &mut SchemaGenerator) -> Self {
        let is_websocket = matches!(route.handler, Handler::WebSocket);
        Self {
            operation_id: operation_id(route.method, route.path, is_second),
            summary: route.doc,
            parameters: parameters(route),
            request_body: (route.method == Method::Post).then(|| body(route.body)),
            responses: responses(route, generator),
            security: match route.access {
                Access::Public => Vec::new(),
                Access::Role(_) => ["token", "cookie"].map(|scheme| BTreeMap::from([(scheme, [])])).into(),
            },
            role: match route.access {
                Access::Public => "public",
                Access::Role(role) => role.name(),
            },
            websocket: is_websocket.then(|| WebSocketFrames {
                sends: generator.subschema_for::<ServerFrame>(),
                // Requests have a generator of their own: optional fields differ from those of answers.
                takes: Schema::new_ref("#/components/schemas/ClientFrame".to_owned()),
            }),
        }
    }
}

fn operation_id(method: Method, path: &str, is_second: bool) -> String {
    let path = path.replace(['/', '.'], "_").replace(['{', '}'], "");
    let end = if is_second { "_at_root" } else { "" };
    format!("{}{path}{end}", method.name().to_ascii_lowercase())
}

fn parameters(route: &Route) -> Vec<Parameter> {
    let query = |param: &Param| Parameter {
        name: param.name,
        place: "query",
        required: param.required,
        schema: match param.repeats {
            true => json_schema!({ "type": "array", "items": schema(param.kind), "maxItems": MAX_REPEATS }),
            false => schema(param.kind),
        },
        description: param.doc,
    };
    let mut list: Vec<Parameter> = route.params.iter().map(query).collect();
    if route.path.contains("{id}") {
        let description = "Id of a recording.";
        list.push(Parameter { name: "id", place: "path", required: true, schema: schema(ID), description });
    }
    list
}

fn schema(kind: Kind) -> Schema {
    match kind {
        Kind::Text => json_schema!({ "type": "string", "maxLength": MAX_TEXT }),
        Kind::Shaped(pattern) => {
            json_schema!({ "type": "string", "pattern": pattern, "maxLength": MAX_TEXT })
        }
        Kind::Filter => {
            json_schema!({ "type": "string", "format": "ortscope-filter", "maxLength": MAX_TEXT })
        }
        Kind::Words(words) => json_schema!({ "type": "string", "enum": words }),
        Kind::Table => {
            let names: Vec<&str> = TableId::ALL.iter().map(|table| table.def().name).collect();
            json_schema!({ "type": "string", "enum": names })
        }
        Kind::Format => {
            let names: Vec<&str> = Format::downloads().map(Format::name).collect();
            json_schema!({ "type": "string", "enum": names })
        }
        Kind::Number(least, most) => json_schema!({ "type": "number", "minimum": least, "maximum": most }),
        Kind::Whole(least, most) => json_schema!({ "type": "integer", "minimum": least, "maximum": most }),
        Kind::Flag => json_schema!({ "type": "boolean" }),
    }
}

fn json_content(schema: Schema) -> Content {
    BTreeMap::from([("application/json", MediaType { schema: Some(schema) })])
}

fn body(fields: &[Field]) -> RequestBody {
    let property = |field: &Field| {
        let mut schema = schema(field.kind);
        if field.optional
            && let Some(kind) = schema.remove("type")
        {
            schema.insert("type".into(), [kind, "null".into()].into_iter().collect());
        }
        (field.name, schema)
    };
    let properties: BTreeMap<&str, Schema> = fields.iter().map(property).collect();
    let required: Vec<&str> = fields.iter().filter(|field| !field.optional).map(|field| field.name).collect();
    RequestBody {
        required: true,
        content: json_content(json_schema!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        })),
    }
}

/// The successful answer, and every other status that this route can have.
fn responses(route: &Route, generator: &mut SchemaGenerator) -> BTreeMap<&'static str, Response> {
    let (status, content) = match route.answers {
        Answers::Json(schema) => ("200", json_content(schema(generator))),
        Answers::Download { types, json } => {
            let mut media = |content_type: &&'static str| {
                let schema = json.filter(|_| *content_type == "application/json");
                (*content_type, MediaType { schema: schema.map(|schema| schema(generator)) })
            };
            ("200", types.iter().map(&mut media).collect())
        }
        Answers::Nothing => ("204", Content::new()),
        Answers::WebSocket => ("101", Content::new()),
    };
    let good = Response { description: route.doc, content, links: links(route) };
    let mut responses = BTreeMap::from([(status, good)]);
    let mut add = |status: &'static str, description: &'static str| {
        let content = json_content(generator.subschema_for::<ErrorBody<'_>>());
        responses.insert(status, Response { description, content, ..Response::default() });
    };
    let has_recording =
        route.path.contains("{id}") || route.params.iter().any(|param| matches!(param.name, "source" | "a"));
    add("400", "A parameter or a body is invalid; the message names it.");
    add("401", "There is no token, or it is wrong, expired or revoked.");
    add("403", "The role is too low, or the Origin is not allowed.");
    add("421", "The Host is not this server's.");
    add("500", "Internal error; see the server's log.");
    add("503", "There are too many requests at once; see Retry-After.");
    if has_recording {
        add("404", "There is no such recording, live source or event.");
        add("422", "Parameters contradict each other, or the recording is damaged or of a later version.");
    }
    if route.method == Method::Post {
        add("408", "The body did not arrive in time.");
        add("413", "The body is larger than 1 MiB.");
        add("415", "The body is not application/json.");
    }
    if route.path.starts_with("/control") || route.method == Method::Delete {
        add("409", "The state of the live source or of the recording does not allow it.");
    }
    if matches!(route.answers, Answers::WebSocket) {
        add("426", "This address is a WebSocket.");
    }
    if matches!(route.answers, Answers::WebSocket) || route.access == Access::Public {
        add("429", "There are too many attempts or WebSockets; see Retry-After.");
    }
    // The HTTP library answers these without a body.
    for (status, description) in
        [("414", "The address is longer than 64 KiB."), ("431", "The headers are longer than 64 KiB.")]
    {
        responses.insert(status, Response { description, ..Response::default() });
    }
    responses
}

/// Values of an answer that are parameters of other routes.
fn links(route: &Route) -> BTreeMap<&'static str, Link> {
    let to = |path: &str, parameters: &[(&'static str, &'static str)]| Link {
        operation_id: operation_id(Method::Get, path, false),
        parameters: parameters.iter().copied().collect(),
    };
    let (id, source) =
        (("id", "$response.body#/recordings/0/id"), ("source", "$response.body#/recordings/0/id"));
    match (route.method, route.path) {
        (Method::Get, "/recordings") => BTreeMap::from([
            ("show", to("/recordings/{id}", &[id])),
            ("report", to("/recordings/{id}/report", &[id])),
            ("export", to("/recordings/{id}/export", &[id])),
            ("latency", to("/latency", &[source])),
            ("operators", to("/operators", &[source])),
            ("timeline", to("/timeline", &[source])),
        ]),
        (Method::Get, "/metrics/catalog") => {
            let track = ("track", "$response.body#/tracks/0/track");
            let source = ("source", "$response.body#/source");
            BTreeMap::from([("history", to("/metrics/history", &[source, track]))])
        }
        _ => BTreeMap::new(),
    }
}
