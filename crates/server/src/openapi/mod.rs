//! The OpenAPI document: operations from the table of routes, schemas from the types of the answers.

mod operation;

use std::collections::BTreeMap;

use operation::Operation;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::Value;

use crate::route::{BASE, Route};
use crate::security::login::cookie_name;
use crate::ws::ClientFrame;

/// An OpenAPI 3.1 document.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OpenApi {
    pub openapi: &'static str,
    pub info: Info,
    /// Operations by path and method.
    #[schemars(with = "BTreeMap<String, Value>")]
    pub paths: BTreeMap<String, BTreeMap<String, Operation>>,
    #[schemars(with = "BTreeMap<String, Value>")]
    pub components: Components,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Info {
    pub title: &'static str,
    pub version: &'static str,
    pub description: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Components {
    pub schemas: BTreeMap<String, Value>,
    security_schemes: BTreeMap<&'static str, SecurityScheme>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
enum SecurityScheme {
    Http {
        scheme: &'static str,
    },
    ApiKey {
        #[serde(rename = "in")]
        place: &'static str,
        name: &'static str,
    },
}

fn generator(settings: SchemaSettings) -> SchemaGenerator {
    settings
        .with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        })
        .into_generator()
}

/// The document of a server with or without TLS, which have different cookie names.
pub fn document(routes: &[Route], secure: bool) -> OpenApi {
    let mut answers = generator(SchemaSettings::draft2020_12().for_serialize());
    let mut paths: BTreeMap<String, BTreeMap<String, Operation>> = BTreeMap::new();
    for route in routes {
        let mut at = vec![format!("{BASE}{}", route.path)];
        if route.at_root {
            at.push(route.path.to_owned());
        }
        for (index, path) in at.into_iter().enumerate() {
            let operation = Operation::new(route, index > 0, &mut answers);
            paths.entry(path).or_default().insert(route.method.name().to_ascii_lowercase(), operation);
        }
    }
    let mut requests = generator(SchemaSettings::draft2020_12().for_deserialize());
    requests.subschema_for::<ClientFrame>();
    let mut schemas: BTreeMap<String, Value> = answers.take_definitions(true).into_iter().collect();
    schemas.extend(requests.take_definitions(true));
    let cookie = SecurityScheme::ApiKey { place: "cookie", name: cookie_name(secure) };
    OpenApi {
        openapi: "3.1.0",
        info: Info {
            title: "ortscope",
            version: env!("CARGO_PKG_VERSION"),
            description: "Live data and recordings of `ortscope serve`. docs/API.md explains it.",
        },
        paths,
        components: Components {
            schemas,
            security_schemes: BTreeMap::from([
                ("token", SecurityScheme::Http { scheme: "bearer" }),
                ("cookie", cookie),
            ]),
        },
    }
}
