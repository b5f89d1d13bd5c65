//! What every rendering promises, over all scenes.

use super::scenes;
use super::support::{Element, batch, build, input, parse_xml, tables};
use crate::{MAX_HTML_BYTES, TextOptions, csv, html, junit, markdown, text};
use ortscope_result::{Limit, Outcome, ReportModel, SCHEMA, checks};

fn models() -> Vec<(&'static str, ReportModel)> {
    let scenes = [
        ("healthy", scenes::healthy()),
        ("noisy", scenes::noisy()),
        ("operators", scenes::many_operators()),
        ("empty", scenes::empty()),
        ("cut off", scenes::cut_off()),
        ("hostile", scenes::hostile()),
        ("sweep", scenes::sweep()),
        ("serving", scenes::serving()),
    ];
    scenes.into_iter().map(|(name, (tables, input))| (name, build(&tables, &input))).collect()
}

#[test]
fn text_fits_a_hundred_columns_with_and_without_colours() {
    for (name, model) in models() {
        let options = TextOptions { timeline: true, ..TextOptions::default() };
        let plain = text(&model, &options);
        for line in plain.lines() {
            assert!(line.chars().count() <= 100, "{name}: {} columns: {line}", line.chars().count());
            assert!(!line.ends_with(' '), "{name}: '{line}'");
        }
        let ascii = text(&model, &TextOptions { ascii: true, ..options });
        assert!(ascii.is_ascii(), "{name}");
        assert!(ascii.lines().all(|line| line.len() <= 101), "{name}");
        let coloured = text(&model, &TextOptions { color: true, ..options });
        assert!(coloured.contains("\u{1b}[1m"), "{name}");
        let mut stripped = String::new();
        for part in coloured.split('\u{1b}') {
            stripped +=
                part.strip_prefix('[').and_then(|part| part.split_once('m')).map_or(part, |(_, rest)| rest);
        }
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeezed(&stripped), squeezed(&plain), "{name}: colours change the words");
    }
}

#[test]
fn all_forms_show_the_same_numbers() {
    let (tables, input) = scenes::noisy();
    let model = build(&tables, &input);
    let p99 =
        model.sessions[0].inference.as_ref().and_then(|latency| latency.percentile_ms("p99")).expect("a p99");
    let shown = format!("{p99:.3}");
    let options = TextOptions::default();
    for (form, page) in
        [("text", text(&model, &options)), ("markdown", markdown(&model)), ("html", html(&model))]
    {
        assert!(page.contains(&shown), "{form} lacks {shown}");
        for word in
            ["backup-agent", "provider-fallback", "kernel ring", "ortscope doctor", "administrator rights"]
        {
            assert!(page.contains(word), "{form} lacks {word}");
        }
    }
    let csv = csv(&model);
    assert!(csv.contains(&format!("sessions.0.latency.inference.p99,{p99},ms,")), "{csv}");
    let json: serde_json::Value = serde_json::from_str(&model.to_json().expect("JSON")).expect("JSON");
    assert_eq!(json["schema"], SCHEMA);
    assert_eq!(json["sessions"][0]["inference"]["percentiles"]["p99"], p99);
    assert_eq!(json["sessions"][0]["slow"]["shown"][1]["verdict"], "yes");
}

#[test]
fn text_draws_the_lanes_only_when_asked() {
    let (tables, input) = scenes::healthy();
    let model = build(&tables, &input);
    let with = text(&model, &TextOptions { timeline: true, ..TextOptions::default() });
    let without = text(&model, &TextOptions::default());
    assert!(with.contains("Dml thread 7") && with.contains("A Conv"));
    assert!(!without.contains("Dml thread 7"));
}

/// Tags outside of scripts and styles, with everything closed in order.
fn check_tags(page: &str) -> Vec<String> {
    const VOID: [&str; 3] = ["meta", "input", "!doctype"];
    let mut open: Vec<String> = Vec::new();
    let mut seen = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = rest.find('>').expect("a tag ends");
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "closed in the wrong order");
            continue;
        }
        assert!(!tag.contains('<'), "an unescaped < in {tag:.80}");
        assert_eq!(tag.matches('"').count() % 2, 0, "an open quote in {tag:.80}");
        let name = tag.split([' ', '/']).next().unwrap_or_default().to_owned();
        if !tag.ends_with('/') && !VOID.contains(&name.as_str()) {
            open.push(name.clone());
        }
        if name == "script" || name == "style" {
            let close = format!("</{name}>");
            rest = &rest[rest.find(&close).expect("it is closed")..];
        }
        seen.push(tag.to_owned());
    }
    assert!(open.is_empty(), "not closed: {open:?}");
    seen
}

#[test]
fn html_is_well_formed_small_and_loads_nothing() {
    for (name, model) in models() {
        let page = html(&model);
        assert!(page.len() < MAX_HTML_BYTES, "{name}: {} bytes", page.len());
        let tags = check_tags(&page);
        for tag in &tags {
            let has = |attribute: &str| tag.contains(&format!(" {attribute}="));
            assert!(!has("src") && !has("style") && !has("onclick") && !has("onload"), "{name}: {tag}");
            assert!(
                !tag.starts_with("link") && !tag.starts_with("iframe") && !tag.starts_with("base"),
                "{name}: {tag}"
            );
            if let Some((_, target)) = tag.split_once(" href=\"") {
                assert!(target.starts_with('#'), "{name}: {tag}");
            }
        }
        let ids: Vec<&str> =
            tags.iter().filter_map(|tag| tag.split_once(" id=\"")?.1.split('"').next()).collect();
        let unique: std::collections::BTreeSet<&str> = ids.iter().copied().collect();
        assert_eq!(ids.len(), unique.len(), "{name}: an id twice");
        assert!(page.contains("Content-Security-Policy") && page.contains("default-src 'none'"));
        let style =
            page.split("<style>").nth(1).and_then(|rest| rest.split("</style>").next()).expect("a style");
        assert!(!style.contains("url(") && !style.contains("@import"));
        // Scripts that run: one, and it makes no requests.
        let script = page.rsplit("<script>").next().expect("a script");
        for word in ["fetch(", "XMLHttpRequest", "WebSocket", "import(", "innerHTML", "eval(", "sendBeacon"] {
            assert!(!script.contains(word), "{name}: {word}");
        }
    }
}

#[test]
fn html_stays_small_with_very_much_of_everything() {
    let (mut tables, input) = scenes::sweep();
    // 32 sessions with operators of 3000 nodes each, long names included.
    for index in 0..32 {
        let mut rows = scenes::profile(3000, 2, &mut super::support::Random(index), super::support::START);
        for row in &mut rows {
            row.session_id = format!("session-{index}").into();
            row.name = format!("{}{}", "<&>".repeat(80), row.name).into();
        }
        tables.batches.push(batch(&rows));
    }
    let model = build(&tables, &input);
    let page = html(&model);
    assert!(page.len() < MAX_HTML_BYTES, "{} bytes", page.len());
    check_tags(&page);
}

#[test]
fn junit_is_strict_xml_and_counts_right() {
    let limits = [
        Limit { metric: "latency.inference.p50".into(), at_most: 1e9 },
        Limit { metric: "latency.inference.p50".into(), at_most: 1e-9 },
        Limit { metric: "latency.inference.p99_9".into(), at_most: 1e9 },
        Limit { metric: "no.such.metric".into(), at_most: 1.0 },
    ];
    for (name, model) in models() {
        let document = junit(&model, &limits);
        let root = parse_xml(&document).unwrap_or_else(|error| panic!("{name}: {error}\n{document}"));
        let all = |name: &str| {
            let mut found = Vec::new();
            root.all(name, &mut found);
            found
        };
        let suites: Vec<&Element> = all("testsuite");
        assert_eq!((root.name.as_str(), suites.len()), ("testsuites", 1), "{name}");
        for (attribute, element) in [("tests", "testcase"), ("failures", "failure"), ("errors", "error")] {
            assert_eq!(
                suites[0].attributes[attribute],
                all(element).len().to_string(),
                "{name}: {attribute}"
            );
        }
        let checked = checks(&model, &limits);
        assert_eq!(checked.len(), all("testcase").len());
        assert!(
            checked.iter().any(|check| matches!(check.outcome, Outcome::Unknown(_))),
            "{name}: the unknown metric"
        );
    }
    let (tables, input) = scenes::noisy();
    let failed: Vec<String> = checks(&build(&tables, &input), &limits)
        .into_iter()
        .filter(|check| matches!(check.outcome, Outcome::Failed(_)))
        .map(|check| check.name)
        .collect();
    assert_eq!(
        failed,
        [
            "kernel_events at kernel ring",
            "provider-fallback",
            "sessions.0.latency.inference.p50 at most 1e-9 ms"
        ]
    );
    let (tables, input) = scenes::healthy();
    assert!(checks(&build(&tables, &input), &[]).iter().all(|check| check.outcome.is_passed()));
}

#[test]
fn csv_has_seven_fields_in_every_row() {
    for (name, model) in models() {
        let mut rows = 0;
        for line in csv(&model).split_terminator("\r\n") {
            let mut fields = 1;
            let mut quoted = false;
            for character in line.chars() {
                match character {
                    '"' => quoted = !quoted,
                    ',' if !quoted => fields += 1,
                    _ => {}
                }
            }
            assert!(!quoted && fields == 7, "{name}: {line}");
            rows += 1;
        }
        assert_eq!(rows, ortscope_result::metrics(&model).len() + 1, "{name}");
    }
}

#[test]
fn markdown_tables_have_as_many_cells_as_columns() {
    for (name, model) in models() {
        let page = markdown(&model);
        let mut columns = None;
        for line in page.lines() {
            let cells = line.replace("\\|", "").matches('|').count();
            if line.starts_with('|') {
                assert_eq!(*columns.get_or_insert(cells), cells, "{name}: {line}");
            } else {
                columns = None;
            }
        }
    }
}

#[test]
fn an_empty_recording_says_so() {
    let model = build(&tables(Vec::new()), &input());
    for page in [text(&model, &TextOptions::default()), markdown(&model), html(&model)] {
        assert!(page.contains("Nothing was measured"), "{page}");
    }
    assert!(model.sessions.is_empty() && model.header.complete);
}
