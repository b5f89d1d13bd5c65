//! Every route of the table with every role and every kind of token, and every answer against its schema.

use ortscope_server::may;
use ortscope_server::routes::{Access, Answers, BASE, Handler, Method, ROUTES, Route};
use ortscope_server::security::Role;

use crate::schema::problems;
use crate::support::{Request, World};

/// All addresses of a route.
fn paths(route: &Route, id: &str) -> Vec<String> {
    let path = route.path.replace("{id}", id);
    let root = route.at_root.then(|| path.clone());
    std::iter::once(format!("{BASE}{path}")).chain(root).collect()
}

fn request(route: &Route, path: &str) -> Request {
    let request = match route.method {
        Method::Get => Request::get(path),
        Method::Post => Request::post(path, "{}"),
        Method::Delete => Request::new("DELETE", path),
    };
    match route.handler {
        Handler::Blocking(_) => request,
        // Without an upgrade it would be refused for its form.
        Handler::WebSocket => request.upgrade(),
    }
}

#[test]
fn every_route_requires_its_role() {
    let world = World::new();
    let mut cases = 0;
    for route in ROUTES {
        // The recording must stay until the end.
        let id = if route.method == Method::Delete { "nobody" } else { world.recording.as_str() };
        for path in paths(route, id) {
            let mut expect = |name: &str, request: Request, wanted: Option<u16>| {
                let answer = world.request(&request);
                let what = format!("{} {path} with {name}: {}", route.method.name(), answer.text());
                match wanted {
                    Some(status) => assert_eq!(answer.status, status, "{what}"),
                    None => assert!(![401, 403].contains(&answer.status) || route.path == "/login", "{what}"),
                }
                assert!(answer.status < 500, "{what}");
                cases += 1;
            };
            let new = || request(route, &path);
            let refused = if route.access == Access::Public { None } else { Some(401) };
            // A WebSocket without any token may still show a ticket in its first frame.
            let nothing = if matches!(route.handler, Handler::WebSocket) { Some(101) } else { refused };
            expect("no token", new(), nothing);
            expect("a wrong token", new().token("ortscope_wrong"), refused);
            expect("an empty token", new().token(""), refused);
            expect("another scheme", new().header("Authorization", "Basic dTpw"), refused);
            expect("a wrong cookie", new().cookie("00"), refused);
            expect("a revoked token", new().token(&world.revoked), refused);
            for role in Role::ALL {
                let wanted = if may(route.access, Some(role)) { None } else { Some(403) };
                let name = role.name();
                expect(&format!("an expired token of {name}"), new().token(world.expired(role)), refused);
                expect(&format!("the token of {name}"), new().token(world.token(role)), wanted);
                if route.path != "/logout" {
                    let by_cookie = new().cookie(&world.cookie(role)).header("X-Requested-With", "ortscope");
                    expect(&format!("the cookie of {name}"), by_cookie, wanted);
                }
            }
        }
    }
    // Six kinds of bad credentials, and for each role an expired token, a valid one and (except for /logout) a cookie.
    let of_route = |route: &Route| paths(route, "").len() * if route.path == "/logout" { 12 } else { 15 };
    assert_eq!(cases, ROUTES.iter().map(of_route).sum::<usize>());
}

#[test]
fn deleting_requires_the_admin_role() {
    let world = World::new();
    let path = format!("{BASE}/recordings/{}", world.recording);
    for role in [Role::Viewer, Role::Operator] {
        assert_eq!(world.request(&Request::new("DELETE", &path).token(world.token(role))).status, 403);
    }
    let removed = world.request(&Request::new("DELETE", &path).token(world.token(Role::Admin)));
    assert_eq!((removed.status, removed.json()["id"].as_str()), (200, Some(world.recording.as_str())));
    assert_eq!(world.get(Role::Viewer, &path).status, 404);
}

/// Queries with which a route answers, about this source.
fn queries(route: &Route, source: &str, world: &World) -> Vec<String> {
    match route.path {
        "/metrics/history" => {
            ["track=system/cpu_percent", "metric=working_set_bytes", "step_ms=100&device=cpu0"]
                .map(|query| format!("?source={source}&{query}"))
                .to_vec()
        }
        "/timeline" => ["", "&width=500"].map(|query| format!("?source={source}{query}")).to_vec(),
        "/timeline/event" => {
            let tiles = world.json(&format!("{BASE}/timeline?source={source}&width=8192"));
            let mut queries = Vec::new();
            for lane in tiles["lanes"].as_array().expect("lanes") {
                let ids = lane["rects"]["id"].as_array().expect("ids");
                let id = ids.iter().filter_map(|id| id.as_i64()).find(|id| *id != -1).expect("a rectangle");
                let name = lane["id"].as_str().expect("an id").replace('|', "%7C");
                queries.push(format!("?source={source}&lane={name}&id={id}"));
            }
            queries
        }
        "/compare" => vec![format!("?a={source}&b={}", world.recording)],
        _ if route.params.iter().any(|param| param.name == "source") => vec![format!("?source={source}")],
        _ => vec![String::new()],
    }
}

#[test]
fn answers_match_the_openapi_document() {
    let mut world = World::new();
    world.feed();
    let document = world.json("/api/v1/openapi.json");
    let mut answers = 0;
    for route in ROUTES {
        let (Answers::Json(_), Handler::Blocking(_)) = (route.answers, route.handler) else { continue };
        if route.method == Method::Delete {
            continue;
        }
        let operation = &document["paths"][&paths(route, "{id}")[0]][route.method.name().to_lowercase()];
        let schema = &operation["responses"]["200"]["content"]["application/json"]["schema"];
        assert!(schema["$ref"].is_string(), "{} has no schema", route.path);
        for source in ["live", world.recording.as_str()] {
            for query in queries(route, source, &world) {
                let mut request = request(route, &format!("{}{query}", paths(route, &world.recording)[0]));
                if route.path == "/control/rate" {
                    request.body = br#"{"hertz": 5}"#.to_vec();
                }
                let answer = world.request(&request.token(world.token(Role::Admin)));
                let what = format!("{} {query}", route.path);
                if route.path.starts_with("/control/record") {
                    assert_eq!(answer.status, 409, "{what}: {}", answer.text());
                    let error = &document["components"]["schemas"]["ApiError"];
                    assert_eq!(problems(&document, error, &answer.json()), Vec::<String>::new(), "{what}");
                    continue;
                }
                assert_eq!(answer.status, 200, "{what}: {}", answer.text());
                assert_eq!(answer.header("content-type"), Some("application/json; charset=utf-8"));
                let found = problems(&document, schema, &answer.json());
                assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
                answers += 1;
            }
        }
    }
    assert!(answers > 50, "{answers}");
}
