//! The one table of routes: path, method, who may use it, parameters, answer and handler. The router, the checks of roles,
//! the OpenAPI document and the test of all routes with all roles are made of it. A route without a role does not compile.

use ortscope_core::rate_control::{MAX_HERTZ, MIN_HERTZ};

use crate::answers::{self, Answer};
use crate::app::{App, Asked};
use crate::error::ApiError;
use crate::params::MAX_NUMBER;
pub use crate::params::{Field, Kind, Param};
use crate::security::Role;

/// In front of every route.
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

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody, without a token. It must hold no data.
    Public,
    /// This role and those above it.
    Role(Role),
}

/// What a route answers with when all is well.
#[derive(Debug, Clone, Copy)]
pub enum Answers {
    /// A JSON object of this type of `web/src/api/types.ts`.
    Json(&'static str),
    /// Bytes to keep, of one of these content types.
    Download(&'static [&'static str]),
    /// 204.
    Nothing,
    /// 101.
    WebSocket,
}

/// How a route is served.
#[derive(Clone, Copy)]
pub enum Handler {
    /// On a thread that may wait and compute.
    Blocking(fn(&App, &Asked) -> Result<Answer, ApiError>),
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
    /// Below [`BASE`]; `{id}` stands for one part.
    pub path: &'static str,
    /// Also without [`BASE`], because other tools read it there.
    pub at_root: bool,
    pub access: Access,
    pub params: &'static [Param],
    /// Of the JSON body of a POST.
    pub body: &'static [Field],
    pub answers: Answers,
    pub doc: &'static str,
    pub handler: Handler,
}

const VIEWER: Access = Access::Role(Role::Viewer);
const OPERATOR: Access = Access::Role(Role::Operator);
const ADMIN: Access = Access::Role(Role::Admin);

/// What ids of recordings are made of.
pub const ID: Kind = Kind::Shaped("^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$");
/// Numbers in texts have at most 18 digits here: they fit 64 bits.
const CURSOR_KIND: Kind = Kind::Shaped("^[0-9]{1,18}$");
const TIMELINE_CURSOR: Kind = Kind::Shaped("^[0-9]{1,19}[.][0-9]{1,18}$");
const TRACK: Kind =
    Kind::Shaped("^(system|session/[^/%]+|device/[^/%]+|process/[0-9]{1,9}:[0-9]{1,18})/[^/%]+$");
const LANE: Kind = Kind::Shaped(
    "^(i[|][^|%]*[|][0-9]{1,18}|r[|][^|%]*|o[|][^|%]*[|][^|%]*[|][0-9]{1,18}|k[|][0-9]{1,18}[|][0-9]{1,18})$",
);

const SOURCE: Param = Param::new("source", ID, "live, or the id of a recording.");
const FROM: Param = Param::number("from_ms", "Start of the range, milliseconds since the source's origin.");
const TO: Param = Param::number("to_ms", "End of the range, itself outside.");
const SESSION: Param = Param::one("session", "Only this session.");
const FILTER: Param = Param::new(
    "filter",
    Kind::Filter,
    "Terms as in `ortscope export --filter`: op:Conv prov:CPU !Relu dur>1ms",
);
const CURSOR: Param = Param::new("cursor", CURSOR_KIND, "`next` of the answer before.");
const RANGE: &[Param] = &[SOURCE, FROM, TO];

const fn get(
    path: &'static str,
    access: Access,
    params: &'static [Param],
    answers: Answers,
    handler: fn(&App, &Asked) -> Result<Answer, ApiError>,
    doc: &'static str,
) -> Route {
    Route {
        method: Method::Get,
        path,
        at_root: false,
        access,
        params,
        body: &[],
        answers,
        doc,
        handler: Handler::Blocking(handler),
    }
}

const fn post(
    path: &'static str,
    access: Access,
    body: &'static [Field],
    answers: Answers,
    handler: fn(&App, &Asked) -> Result<Answer, ApiError>,
    doc: &'static str,
) -> Route {
    Route {
        method: Method::Post,
        path,
        at_root: false,
        access,
        params: &[],
        body,
        answers,
        doc,
        handler: Handler::Blocking(handler),
    }
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

const CONTROL: Answers = Answers::Json("ControlState");

#[rustfmt::skip]
pub static ROUTES: &[Route] = &[
    get("/hello", VIEWER, &[], Answers::Json("Hello"),
        answers::hello::hello, "Who am I, and what is here."),
    get("/sources", VIEWER, &[], Answers::Json("SourceList"),
        answers::hello::sources, "The live source and the recordings that were named at the start."),
    also_at_root(get("/metrics/current", VIEWER,
        &[SOURCE, Param::number("at_ms", "A moment of a recording; default: its end.")],
        Answers::Json("Current"),
        answers::current::current, "The newest of everything.")),
    also_at_root(get("/metrics/history", VIEWER,
        &[SOURCE, FROM, TO, Param::new("track", TRACK, "Name of a track, e.g. system/cpu_percent.").repeats(),
          Param::one("metric", "Only tracks of this metric."), Param::new("pid", Kind::Whole(0, u32::MAX as i64), "Only tracks of this process."), SESSION,
          Param::one("device", "Only tracks of this device."),
          Param::new("points", Kind::Whole(2, 5000), "At most so many points per track."),
          Param::new("step_ms", Kind::Number(1e-6, MAX_NUMBER), "Points of this width instead."), Param::limit(200), CURSOR],
        Answers::Json("History"),
        answers::history::history, "Values over time.")),
    also_at_root(get("/metrics/catalog", VIEWER, &[SOURCE], Answers::Json("Catalog"),
        answers::catalog::catalog, "Every metric with its unit, meaning and kind of chart.")),
    also_at_root(get("/prometheus", VIEWER, &[SOURCE], Answers::Download(&["text/plain"]),
        answers::prometheus::prometheus, "Metrics as Prometheus scrapes them.")),
    also_at_root(get("/timeline", VIEWER,
        &[SOURCE, FROM, TO, Param::new("width", Kind::Whole(16, 8192), "Pixels to draw: the answer has rectangles then."), FILTER,
          Param::one("op", "Only this operator type."), Param::one("provider", "Only CPU, GPU, NPU or an execution provider."),
          Param::new("min_duration_ms", Kind::Number(0.0, MAX_NUMBER), "Only operators that took at least so long."), SESSION,
          Param::limit(10_000), Param::new("cursor", TIMELINE_CURSOR, "`next` of the answer before.")],
        Answers::Json("TimelineAnswer"),
        answers::timeline::timeline, "Operators, inferences and kernel events over time.")),
    get("/timeline/event", VIEWER,
        &[SOURCE, Param::new("lane", LANE, "Id of its lane.").required(),
          Param::new("id", Kind::Whole(i64::MIN, i64::MAX), "Id of the rectangle.").required()],
        Answers::Json("TimelineEvent"),
        answers::timeline::event, "All about one rectangle."),
    get("/latency", VIEWER, &[SOURCE, FROM, TO, SESSION], Answers::Json("Latency"),
        answers::report::latency, "Latency of each session: percentiles, histogram, over time, outliers and why."),
    get("/operators", VIEWER, &[SOURCE, FROM, TO, SESSION, FILTER], Answers::Json("Operators"),
        answers::report::operators, "Where the time of a run goes."),
    get("/batches", VIEWER, RANGE, Answers::Json("Batches"),
        answers::batches::batches, "Latency, throughput and memory against the batch size."),
    get("/memory", VIEWER, RANGE, Answers::Json("Memory"),
        answers::memory::memory, "Memory of processes, arenas and devices."),
    get("/energy", VIEWER, RANGE, Answers::Json("Energy"),
        answers::energy::energy, "Power, energy, heat and throttling."),
    get("/processes", VIEWER, &[SOURCE, FROM, TO, Param::limit(1000)], Answers::Json("Processes"),
        answers::processes::processes, "Processes, the busiest first."),
    get("/findings", VIEWER, RANGE, Answers::Json("Findings"),
        answers::report::findings, "What a user should act on."),
    get("/losses", VIEWER, &[SOURCE], Answers::Json("Losses"),
        answers::losses::losses, "What was lost, what has no value, and what watching costs."),
    get("/system", VIEWER, &[SOURCE], Answers::Json("SystemInfo"),
        answers::report::system, "The machine and the software."),
    get("/recordings", VIEWER, &[Param::limit(1000), CURSOR], Answers::Json("RecordingList"),
        answers::recordings::list, "All recordings of the store, newest first."),
    get("/recordings/{id}", VIEWER, &[], Answers::Json("RecordingDetail"),
        answers::recordings::show, "One recording."),
    get("/recordings/{id}/report", VIEWER, &[Param::new("format", REPORTS, "Default: json.")], Answers::Download(REPORT_TYPES),
        answers::recordings::report, "Its report."),
    get("/recordings/{id}/export", VIEWER,
        &[Param::new("format", Kind::Format, "csv and parquet need exactly one table.").required(), FILTER,
          Param::new("table", Kind::Table, "Only this table.").repeats(),
          Param::new("every_tick", Kind::Flag, "Samples: a row for every tick."),
          Param::new("records", Kind::Flag, "jsonl: the records of the API instead of rows."),
          Param::new("gzip", Kind::Flag, "Compress a text format.")],
        Answers::Download(EXPORT_TYPES), answers::recordings::export, "It, for other tools."),
    Route { method: Method::Delete, path: "/recordings/{id}", at_root: false, access: ADMIN, params: &[], body: &[],
        answers: Answers::Json("RecordingRemoved"), doc: "Removes a recording for good.",
        handler: Handler::Blocking(answers::recordings::remove) },
    get("/compare", VIEWER, &[Param::new("a", ID, "The first source.").required(), Param::new("b", ID, "The second source.").required()],
        Answers::Json("Compare"),
        answers::compare::compare, "Differences between two sources; not a verdict."),
    get("/control", VIEWER, &[], CONTROL, answers::control::state, "How the live source is sampled."),
    post("/control/pause", OPERATOR, &[], CONTROL, answers::control::pause, "Stops sampling."),
    post("/control/resume", OPERATOR, &[], CONTROL, answers::control::resume, "Goes on sampling."),
    post("/control/rate", OPERATOR, &[Field { name: "hertz", kind: Kind::Number(MIN_HERTZ, MAX_HERTZ), optional: false }],
        CONTROL, answers::control::rate, "Sets the sampling rate."),
    post("/control/record/start", OPERATOR, &[Field { name: "name", kind: Kind::Text, optional: true }],
        CONTROL, answers::control::record_start, "Begins a recording."),
    post("/control/record/stop", OPERATOR, &[], CONTROL, answers::control::record_stop, "Ends the recording."),
    post("/ws/ticket", VIEWER, &[], Answers::Json("WsTicket"),
        answers::access::ticket, "A ticket for one WebSocket, for pages without a cookie."),
    Route { method: Method::Get, path: "/ws/metrics", at_root: true, access: VIEWER, params: &[], body: &[],
        answers: Answers::WebSocket, doc: "Frames of live values.", handler: Handler::WebSocket },
    get("/openapi.json", VIEWER, &[], Answers::Json("OpenApi"),
        answers::openapi::openapi, "This document."),
    get("/audit", ADMIN, &[Param::limit(10_000)], Answers::Json("AuditEntries"),
        answers::access::audit, "The newest entries of the audit log."),
    post("/login", Access::Public, &[Field { name: "token", kind: Kind::Text, optional: false }],
        Answers::Nothing, answers::access::login, "A cookie for a token."),
    post("/logout", VIEWER, &[], Answers::Nothing, answers::access::logout, "Ends the cookie."),
];

#[cfg(test)]
mod tests {
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
}
