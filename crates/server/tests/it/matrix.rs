//! Every route with every role and every kind of token, made of the table of routes: what the table says, and nothing else.

use ortscope_server::may;
use ortscope_server::routes::{Access, Answers, BASE, Handler, Method, ROUTES, Route};
use ortscope_server::security::Role;

use crate::support::{Request, World};

fn path(route: &Route, world: &World) -> String {
    format!("{BASE}{}", route.path.replace("{id}", &world.recording))
}

fn request(route: &Route, world: &World) -> Request {
    let path = path(route, world);
    match route.method {
        Method::Get => Request::get(&path),
        Method::Post => Request::post(&path, "{}"),
        Method::Delete => Request::new("DELETE", &path),
    }
}

#[test]
fn every_route_keeps_to_its_role() {
    let world = World::new();
    let mut cases = 0;
    for route in ROUTES {
        // The recording must stay until the end.
        if route.method == Method::Delete {
            continue;
        }
        let refused = if route.access == Access::Public { None } else { Some(401) };
        let mut expect = |name: &str, request: Request, wanted: Option<u16>| {
            let answer = world.request(&request);
            let what = format!("{} {} with {name}: {}", route.method.name(), route.path, answer.text());
            match wanted {
                Some(status) => assert_eq!(answer.status, status, "{what}"),
                None => assert!(![401, 403].contains(&answer.status) || route.path == "/login", "{what}"),
            }
            assert!(answer.status < 500, "{what}");
            cases += 1;
        };
        expect("no token", request(route, &world), refused);
        expect("a wrong token", request(route, &world).token("ortscope_wrong"), refused);
        expect("an empty token", request(route, &world).token(""), refused);
        expect("an expired token", request(route, &world).token(&world.expired), refused);
        expect("a wrong cookie", request(route, &world).header("Cookie", "ortscope_session=00"), refused);
        for role in Role::ALL {
            let wanted = if may(route.access, Some(role)) { None } else { Some(403) };
            expect(role.name(), request(route, &world).token(world.token(role)), wanted);
        }
    }
    assert!(cases > 200, "{cases}");
}

#[test]
fn a_delete_needs_an_administrator() {
    let world = World::new();
    let path = format!("{BASE}/recordings/{}", world.recording);
    for role in [Role::Viewer, Role::Operator] {
        assert_eq!(world.request(&Request::new("DELETE", &path).token(world.token(role))).status, 403);
    }
    let removed = world.request(&Request::new("DELETE", &path).token(world.token(Role::Admin)));
    assert_eq!((removed.status, removed.json()["id"].as_str()), (200, Some(world.recording.as_str())));
    assert_eq!(world.get(Role::Viewer, &path).status, 404);
}

#[test]
fn answers_have_the_fields_that_the_document_names() {
    let mut world = World::new();
    world.feed();
    let document = world.json("/api/v1/openapi.json");
    for route in ROUTES {
        let (Answers::Json(name, required), Method::Get, Handler::Blocking(_)) =
            (route.answers, route.method, route.handler)
        else {
            continue;
        };
        let listed = &document["components"]["schemas"][name]["required"];
        assert_eq!(listed.as_array().map(Vec::len), Some(required.len()), "{name}");
        for source in ["live", world.recording.as_str()] {
            let query = match route.path {
                "/metrics/history" => format!("?source={source}&track=system/cpu_percent"),
                "/timeline/event" => continue,
                "/compare" => format!("?a={source}&b={}", world.recording),
                _ if route.params.iter().any(|param| param.name == "source") => format!("?source={source}"),
                _ => String::new(),
            };
            let answer = world.get(Role::Admin, &format!("{}{query}", path(route, &world)));
            assert_eq!(answer.status, 200, "{} {query}: {}", route.path, answer.text());
            assert_eq!(answer.header("content-type"), Some("application/json; charset=utf-8"));
            let answer = answer.json();
            for field in required {
                assert!(answer.get(field).is_some(), "{}: no {field} in {answer}", route.path);
            }
        }
    }
}
