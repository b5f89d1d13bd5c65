//! The one table of routes: path, method, who may use it, parameters, answer and handler. The router, the checks of roles,
//! the OpenAPI document and the test of all routes with all roles are made of it. A route without a role does not compile.

use crate::answers::{self, Answer};
use crate::app::{App, Asked};
use crate::error::ApiError;
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

/// A query parameter.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    pub name: &'static str,
    pub doc: &'static str,
    pub repeats: bool,
    /// Type of the OpenAPI document.
    pub kind: &'static str,
}

impl Param {
    pub const fn one(name: &'static str, doc: &'static str) -> Self {
        Self { name, doc, repeats: false, kind: "string" }
    }

    pub const fn many(name: &'static str, doc: &'static str) -> Self {
        Self { name, doc, repeats: true, kind: "string" }
    }

    pub const fn number(name: &'static str, doc: &'static str) -> Self {
        Self { name, doc, repeats: false, kind: "number" }
    }

    pub const fn whole(name: &'static str, doc: &'static str) -> Self {
        Self { name, doc, repeats: false, kind: "integer" }
    }

    pub const fn flag(name: &'static str, doc: &'static str) -> Self {
        Self { name, doc, repeats: false, kind: "boolean" }
    }
}

/// What a route answers with when all is well.
#[derive(Debug, Clone, Copy)]
pub enum Answers {
    /// A JSON object of this type of `web/src/api/types.ts`, with at least these fields.
    Json(&'static str, &'static [&'static str]),
    /// Bytes to keep.
    Download,
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
    /// Fields of the JSON body of a POST: name and type.
    pub body: &'static [(&'static str, &'static str)],
    pub answers: Answers,
    pub doc: &'static str,
    pub handler: Handler,
}

const VIEWER: Access = Access::Role(Role::Viewer);
const OPERATOR: Access = Access::Role(Role::Operator);
const ADMIN: Access = Access::Role(Role::Admin);

const SOURCE: Param = Param::one("source", "live, or the id of a recording.");
const FROM: Param = Param::number("from_ms", "Start of the range, milliseconds since the source's origin.");
const TO: Param = Param::number("to_ms", "End of the range, itself outside.");
const SESSION: Param = Param::one("session", "Only this session.");
const FILTER: Param =
    Param::one("filter", "Terms as in `ortscope export --filter`: op:Conv prov:CPU !Relu dur>1ms");
const LIMIT: Param = Param::whole("limit", "At most so many entries.");
const CURSOR: Param = Param::one("cursor", "`next` of the answer before.");
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
    body: &'static [(&'static str, &'static str)],
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

const CONTROL: Answers = Answers::Json("ControlState", &["paused", "asked_hertz", "rate_hertz", "recording"]);

#[rustfmt::skip]
pub static ROUTES: &[Route] = &[
    get("/hello", VIEWER, &[], Answers::Json("Hello", &["ortscope_version", "role", "sources", "default_source"]),
        answers::hello::hello, "Who am I, and what is here."),
    get("/sources", VIEWER, &[], Answers::Json("SourceList", &["sources"]),
        answers::hello::sources, "The live source and the recordings that were named at the start."),
    also_at_root(get("/metrics/current", VIEWER,
        &[SOURCE, Param::number("at_ms", "A moment of a recording; default: its end.")],
        Answers::Json("Current", &["source", "at_ms", "system", "cores", "sessions", "unavailable"]),
        answers::current::current, "The newest of everything.")),
    also_at_root(get("/metrics/history", VIEWER,
        &[SOURCE, FROM, TO, Param::many("track", "Name of a track, e.g. system/cpu_percent."),
          Param::one("metric", "Only tracks of this metric."), Param::whole("pid", "Only tracks of this process."), SESSION,
          Param::one("device", "Only tracks of this device."),
          Param::whole("points", "At most so many points per track, 2 to 5000."),
          Param::number("step_ms", "Points of this width instead."), LIMIT, CURSOR],
        Answers::Json("History", &["source", "from_ms", "to_ms", "series", "next"]),
        answers::history::history, "Values over time.")),
    also_at_root(get("/metrics/catalog", VIEWER, &[SOURCE], Answers::Json("Catalog", &["source", "metrics", "tracks"]),
        answers::catalog::catalog, "Every metric with its unit, meaning and kind of chart.")),
    also_at_root(get("/timeline", VIEWER,
        &[SOURCE, FROM, TO, Param::whole("width", "Pixels to draw, 16 to 8192: the answer has rectangles then."), FILTER,
          Param::one("op", "Only this operator type."), Param::one("provider", "Only CPU, GPU, NPU or an execution provider."),
          Param::number("min_duration_ms", "Only operators that took at least so long."), SESSION, LIMIT, CURSOR],
        Answers::Json("TimelineAnswer", &["source", "from_ms", "to_ms", "kind"]),
        answers::timeline::timeline, "Operators, inferences and kernel events over time.")),
    get("/timeline/event", VIEWER,
        &[SOURCE, Param::one("lane", "Id of its lane."), Param::whole("id", "Id of the rectangle.")],
        Answers::Json("TimelineEvent", &["source", "lane", "operation", "inference", "kernel"]),
        answers::timeline::event, "All about one rectangle."),
    get("/latency", VIEWER, &[SOURCE, FROM, TO, SESSION], Answers::Json("Latency", &["source", "from_ms", "to_ms", "sessions"]),
        answers::report::latency, "Latency of each session: percentiles, histogram, over time, outliers and why."),
    get("/operators", VIEWER, &[SOURCE, FROM, TO, SESSION, FILTER], Answers::Json("Operators", &["source", "from_ms", "to_ms", "sessions"]),
        answers::report::operators, "Where the time of a run goes."),
    get("/batches", VIEWER, RANGE, Answers::Json("Batches", &["source", "rows"]),
        answers::batches::batches, "Latency, throughput and memory against the batch size."),
    get("/memory", VIEWER, RANGE, Answers::Json("Memory", &["source", "rows", "tracks"]),
        answers::memory::memory, "Memory of processes, arenas and devices."),
    get("/energy", VIEWER, RANGE, Answers::Json("Energy", &["source", "power_w", "joules", "unavailable"]),
        answers::energy::energy, "Power, energy, heat and throttling."),
    get("/processes", VIEWER, &[SOURCE, FROM, TO, LIMIT], Answers::Json("Processes", &["source", "processes", "not_listed"]),
        answers::processes::processes, "Processes, the busiest first."),
    get("/findings", VIEWER, RANGE, Answers::Json("Findings", &["source", "findings"]),
        answers::report::findings, "What a user should act on."),
    get("/losses", VIEWER, &[SOURCE], Answers::Json("Losses", &["source", "total", "losses", "own_cost"]),
        answers::losses::losses, "What was lost, what has no value, and what watching costs."),
    get("/system", VIEWER, &[SOURCE], Answers::Json("SystemInfo", &["source", "machine", "ortscope_version"]),
        answers::report::system, "The machine and the software."),
    get("/recordings", VIEWER, &[LIMIT, CURSOR], Answers::Json("RecordingList", &["recordings", "next"]),
        answers::recordings::list, "All recordings of the store, newest first."),
    get("/recordings/{id}", VIEWER, &[], Answers::Json("RecordingDetail", &["recording", "source", "tables"]),
        answers::recordings::show, "One recording."),
    get("/recordings/{id}/report", VIEWER, &[Param::one("format", "json, html, text, md, junit or csv.")], Answers::Download,
        answers::recordings::report, "Its report."),
    get("/recordings/{id}/export", VIEWER,
        &[Param::one("format", "json, jsonl, csv, parquet, sqlite or chrome."), FILTER,
          Param::many("table", "Only this table."), Param::flag("every_tick", "Samples: a row for every tick."),
          Param::flag("records", "jsonl: the records of the API instead of rows."), Param::flag("gzip", "Compress a text format.")],
        Answers::Download, answers::recordings::export, "It, for other tools."),
    Route { method: Method::Delete, path: "/recordings/{id}", at_root: false, access: ADMIN, params: &[], body: &[],
        answers: Answers::Json("RecordingRemoved", &["id", "bytes"]), doc: "Removes a recording for good.",
        handler: Handler::Blocking(answers::recordings::remove) },
    get("/compare", VIEWER, &[Param::one("a", "The first source."), Param::one("b", "The second source.")],
        Answers::Json("Compare", &["a", "b", "kind", "sessions", "operators"]),
        answers::compare::compare, "Differences between two sources; not a verdict."),
    get("/control", VIEWER, &[], CONTROL, answers::control::state, "How the live source is sampled."),
    post("/control/pause", OPERATOR, &[], CONTROL, answers::control::pause, "Stops sampling."),
    post("/control/resume", OPERATOR, &[], CONTROL, answers::control::resume, "Goes on sampling."),
    post("/control/rate", OPERATOR, &[("hertz", "number")], CONTROL, answers::control::rate, "Sets the sampling rate."),
    post("/control/record/start", OPERATOR, &[("name", "string")], CONTROL, answers::control::record_start, "Begins a recording."),
    post("/control/record/stop", OPERATOR, &[], CONTROL, answers::control::record_stop, "Ends the recording."),
    post("/ws/ticket", VIEWER, &[], Answers::Json("WsTicket", &["ticket", "expires_in_seconds"]),
        answers::access::ticket, "A ticket for one WebSocket, for pages without a cookie."),
    Route { method: Method::Get, path: "/ws/metrics", at_root: true, access: VIEWER, params: &[], body: &[],
        answers: Answers::WebSocket, doc: "Frames of live values.", handler: Handler::WebSocket },
    get("/openapi.json", VIEWER, &[], Answers::Json("OpenApi", &["openapi", "info", "paths"]),
        answers::openapi::openapi, "This document."),
    get("/audit", ADMIN, &[LIMIT], Answers::Json("AuditEntries", &["entries"]),
        answers::access::audit, "The newest entries of the audit log."),
    post("/login", Access::Public, &[("token", "string")], Answers::Nothing, answers::access::login, "A cookie for a token."),
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
