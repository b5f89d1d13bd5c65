//! The table of routes: path, method, required role, parameters, answer and handler. The router, the role checks, the OpenAPI
//! document and the test of all routes with all roles use it. A route without a role does not compile, and neither does a
//! JSON answer without a schema.

use ortscope_core::rate_control::{MAX_HERTZ, MIN_HERTZ};
use ortscope_result::ReportModel;
use schemars::{JsonSchema, SchemaGenerator};

use crate::answers::{self, Answer};
use crate::app::{App, Asked};
use crate::error::ApiError;
use crate::openapi::{self, OpenApi};
use crate::params::MAX_NUMBER;
pub use crate::route::*;
use crate::security::Role;

const VIEWER: Access = Access::Role(Role::Viewer);
const OPERATOR: Access = Access::Role(Role::Operator);
const ADMIN: Access = Access::Role(Role::Admin);

/// Numbers in texts have at most 18 digits, so that they fit 64 bits.
const CURSOR_KIND: Kind = Kind::Shaped("^[0-9]{1,18}$");
const TIMELINE_CURSOR: Kind = Kind::Shaped("^[0-9]{1,19}[.][0-9]{1,18}$");
const TRACK: Kind =
    Kind::Shaped("^(system|session/[^/%]+|device/[^/%]+|process/[0-9]{1,9}:[0-9]{1,18})/[^/%]+$");
const LANE: Kind = Kind::Shaped(
    "^(i[|][^|%]*[|][0-9]{1,18}|r[|][^|%]*|o[|][^|%]*[|][^|%]*[|][0-9]{1,18}|k[|][0-9]{1,18}[|][0-9]{1,18})$",
);

const SOURCE: Param = Param::new("source", ID, "live, or the id of a recording.");
const FROM: Param = Param::number("from_ms", "Start of the range, milliseconds since the source's origin.");
const TO: Param = Param::number("to_ms", "End of the range (exclusive).");
const SESSION: Param = Param::one("session", "Only this session.");
const FILTER: Param = Param::new(
    "filter",
    Kind::Filter,
    "Terms as in `ortscope export --filter`: op:Conv prov:CPU !Relu dur>1ms",
);
const CURSOR: Param = Param::new("cursor", CURSOR_KIND, "`next` of the previous answer.");
const RANGE: &[Param] = &[SOURCE, FROM, TO];

/// The schema of the answer that a handler returns.
const fn schema_of<T: JsonSchema>(_: Compute<T>) -> SchemaOf {
    SchemaGenerator::subschema_for::<T>
}

/// A handler with a typed answer: its schema, and the handler that serializes the answer.
macro_rules! typed {
    ($handler:path) => {
        (
            Answers::Json(schema_of($handler)),
            Handler::Blocking(|app, asked| Answer::json(&$handler(app, asked)?)),
        )
    };
}

const fn get(
    path: &'static str,
    access: Access,
    params: &'static [Param],
    (answers, handler): (Answers, Handler),
    doc: &'static str,
) -> Route {
    Route { method: Method::Get, path, at_root: false, access, params, body: &[], answers, doc, handler }
}

const fn post(
    path: &'static str,
    access: Access,
    body: &'static [Field],
    (answers, handler): (Answers, Handler),
    doc: &'static str,
) -> Route {
    Route { method: Method::Post, path, at_root: false, access, params: &[], body, answers, doc, handler }
}

const fn download(
    types: &'static [&'static str],
    json: Option<SchemaOf>,
    handler: Compute<Answer>,
) -> (Answers, Handler) {
    (Answers::Download { types, json }, Handler::Blocking(handler))
}

const fn also_at_root(route: Route) -> Route {
    Route { at_root: true, ..route }
}

const REPORTS: Kind = Kind::Words(&["json", "html", "text", "md", "junit", "csv"]);
const REPORT_TYPES: &[&str] =
    &["application/json", "text/html", "text/plain", "text/markdown", "application/xml", "text/csv"];
const EXPORT_TYPES: &[&str] = &[
    "text/plain",
    "application/json",
    "application/x-ndjson",
    "text/csv",
    "application/octet-stream",
    "application/vnd.sqlite3",
    "application/gzip",
];

#[rustfmt::skip]
pub static ROUTES: &[Route] = &[
    get("/hello", VIEWER, &[], typed!(answers::hello::hello), "The client's role and the data sources."),
    get("/sources", VIEWER, &[], typed!(answers::hello::sources), "The live source and the recordings named at the start."),
    also_at_root(get("/metrics/current", VIEWER,
        &[SOURCE, Param::number("at_ms", "A point in time of a recording; default: its end.")],
        typed!(answers::current::current), "The newest values.")),
    also_at_root(get("/metrics/history", VIEWER,
        &[SOURCE, FROM, TO, Param::new("track", TRACK, "Name of a track, e.g. system/cpu_percent.").repeats(),
          Param::one("metric", "Only tracks of this metric."), Param::new("pid", Kind::Whole(0, u32::MAX as i64), "Only tracks of this process."), SESSION,
          Param::one("device", "Only tracks of this device."),
          Param::new("points", Kind::Whole(2, 5000), "Maximum number of points per track."),
          Param::new("step_ms", Kind::Number(1e-6, MAX_NUMBER), "Width of the points, instead of their number."), Param::limit(200), CURSOR],
        typed!(answers::history::history), "Values over time.")),
    also_at_root(get("/metrics/catalog", VIEWER, &[SOURCE], typed!(answers::catalog::catalog), "Every metric with its unit, meaning and chart type.")),
    also_at_root(get("/prometheus", VIEWER, &[SOURCE], download(&["text/plain"], None, answers::prometheus::prometheus), "Metrics for Prometheus.")),
    also_at_root(get("/timeline", VIEWER,
        &[SOURCE, FROM, TO, Param::new("width", Kind::Whole(16, 8192), "Width in pixels; the answer then has rectangles."), FILTER,
          Param::one("op", "Only this operator type."), Param::one("provider", "Only CPU, GPU, NPU or an execution provider."),
          Param::new("min_duration_ms", Kind::Number(0.0, MAX_NUMBER), "Only operators of at least this duration."), SESSION,
          Param::limit(10_000), Param::new("cursor", TIMELINE_CURSOR, "`next` of the previous answer.")],
        typed!(answers::timeline::timeline), "Operators, inferences and kernel events over time.")),
    get("/timeline/event", VIEWER,
        &[SOURCE, Param::new("lane", LANE, "Id of its lane.").required(),
          Param::new("id", Kind::Whole(i64::MIN, i64::MAX), "Id of the rectangle.").required()],
        typed!(answers::timeline::event), "All about one rectangle."),
    get("/latency", VIEWER, &[SOURCE, FROM, TO, SESSION], typed!(answers::report::latency), "Latency of each session: percentiles, histogram, over time, outliers and their causes."),
    get("/operators", VIEWER, &[SOURCE, FROM, TO, SESSION, FILTER], typed!(answers::report::operators), "Time by operator."),
    get("/batches", VIEWER, RANGE, typed!(answers::batches::batches), "Latency, throughput and memory by batch size."),
    get("/memory", VIEWER, RANGE, typed!(answers::memory::memory), "Memory of processes, arenas and devices."),
    get("/energy", VIEWER, RANGE, typed!(answers::energy::energy), "Power, energy, temperature and throttling."),
    get("/processes", VIEWER, &[SOURCE, FROM, TO, Param::limit(1000)], typed!(answers::processes::processes), "Processes, the busiest first."),
    get("/findings", VIEWER, RANGE, typed!(answers::report::findings), "Findings with advice."),
    get("/losses", VIEWER, &[SOURCE], typed!(answers::losses::losses), "Losses, missing values, and the cost of observing."),
    get("/system", VIEWER, &[SOURCE], typed!(answers::report::system), "The machine and the software."),
    get("/recordings", VIEWER, &[Param::limit(1000), CURSOR], typed!(answers::recordings::list), "All recordings of the store, newest first."),
    get("/recordings/{id}", VIEWER, &[], typed!(answers::recordings::show), "One recording."),
    get("/recordings/{id}/report", VIEWER, &[Param::new("format", REPORTS, "Default: json.")], 
        download(REPORT_TYPES, Some(SchemaGenerator::subschema_for::<ReportModel>), answers::recordings::report), "The report of a recording."),
    get("/recordings/{id}/export", VIEWER,
        &[Param::new("format", Kind::Format, "csv and parquet require exactly one table.").required(), FILTER,
          Param::new("table", Kind::Table, "Only this table.").repeats(),
          Param::new("every_tick", Kind::Flag, "One row per tick for samples."),
          Param::new("records", Kind::Flag, "jsonl: wire records instead of rows."),
          Param::new("gzip", Kind::Flag, "Compress a text format.")],
        download(EXPORT_TYPES, None, answers::recordings::export), "The recording in a format for other tools."),
    Route { method: Method::Delete, ..get("/recordings/{id}", ADMIN, &[], typed!(answers::recordings::remove), "Removes a recording permanently.") },
    get("/compare", VIEWER, &[Param::new("a", ID, "The first source.").required(), Param::new("b", ID, "The second source.").required()],
        typed!(answers::compare::compare), "Differences between two sources; not a verdict."),
    get("/control", VIEWER, &[], typed!(answers::control::state), "Sampling and recording state of the live source."),
    post("/control/pause", OPERATOR, &[], typed!(answers::control::pause), "Stops sampling."),
    post("/control/resume", OPERATOR, &[], typed!(answers::control::resume), "Resumes sampling."),
    post("/control/rate", OPERATOR, &[Field { name: "hertz", kind: Kind::Number(MIN_HERTZ, MAX_HERTZ), optional: false }],
        typed!(answers::control::rate), "Sets the sampling rate."),
    post("/control/record/start", OPERATOR, &[Field { name: "name", kind: Kind::Text, optional: true }],
        typed!(answers::control::record_start), "Starts a recording."),
    post("/control/record/stop", OPERATOR, &[], typed!(answers::control::record_stop), "Stops the recording."),
    post("/ws/ticket", VIEWER, &[], typed!(answers::access::ticket), "A ticket for one WebSocket, for pages without a cookie."),
    also_at_root(get("/ws/metrics", VIEWER, &[], (Answers::WebSocket, Handler::WebSocket), "Frames of live values.")),
    get("/openapi.json", VIEWER, &[], typed!(openapi), "This document."),
    get("/audit", ADMIN, &[Param::limit(10_000)], typed!(answers::access::audit), "The newest entries of the audit log."),
    post("/login", Access::Public, &[Field { name: "token", kind: Kind::Text, optional: false }],
        (Answers::Nothing, Handler::Blocking(answers::access::login)), "Exchanges a token for a cookie."),
    post("/logout", VIEWER, &[], (Answers::Nothing, Handler::Blocking(answers::access::logout)), "Invalidates the cookie."),
];

/// The OpenAPI document of a server with or without TLS.
pub fn openapi_document(secure: bool) -> OpenApi {
    openapi::document(ROUTES, secure)
}

fn openapi(app: &App, _: &Asked) -> Result<OpenApi, ApiError> {
    Ok(openapi_document(app.secure))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn routes_are_unique_and_documented() {
        let mut seen = std::collections::BTreeSet::new();
        for route in ROUTES {
            assert!(seen.insert((route.path, route.method)), "{} twice", route.path);
            assert!(route.path.starts_with('/') && route.doc.ends_with('.'), "{}", route.path);
        }
    }

    #[test]
    fn nothing_but_the_login_is_public_and_changes_need_more_than_a_viewer() {
        for route in ROUTES {
            match route.access {
                Access::Public => assert_eq!(route.path, "/login"),
                Access::Role(Role::Viewer) if route.method != Method::Get => {
                    assert!(["/ws/ticket", "/logout"].contains(&route.path), "{}", route.path);
                }
                Access::Role(_) => {}
            }
        }
    }

    fn as_json(secure: bool) -> Value {
        serde_json::to_value(openapi_document(secure)).expect("the document is JSON")
    }

    #[test]
    fn the_document_has_every_route_with_its_role() {
        let document = as_json(false);
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
    fn every_reference_resolves() {
        let document = as_json(true);
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 100, "{}", found.len());
        for path in found {
            assert!(document.pointer(path.trim_start_matches('#')).is_some(), "{path}");
        }
    }
}
