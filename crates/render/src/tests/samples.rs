//! Writes every scene in every form into the directory that `ORTSCOPE_SAMPLE_REPORTS` names, for people to look at:
//! `cargo test -p ortscope-export write_sample_reports -- --ignored`.

use super::scenes;
use super::support::build;
use crate::{TextOptions, csv, html, junit, markdown, text};
use ortscope_result::Limit;

#[test]
#[ignore = "writes files for people to look at"]
fn write_sample_reports() {
    let directory =
        std::env::var("ORTSCOPE_SAMPLE_REPORTS").expect("ORTSCOPE_SAMPLE_REPORTS names a directory");
    let scenes = [
        ("healthy", scenes::healthy()),
        ("noisy", scenes::noisy()),
        ("operators", scenes::many_operators()),
        ("empty", scenes::empty()),
        ("cut-off", scenes::cut_off()),
        ("hostile", scenes::hostile()),
        ("sweep", scenes::sweep()),
        ("serving", scenes::serving()),
    ];
    let limits = [
        Limit { metric: "latency.inference.p99".into(), at_most: 2.5 },
        Limit { metric: "throughput.none".into(), at_most: 1.0 },
    ];
    for (name, (tables, input)) in scenes {
        let model = build(&tables, &input);
        let options = TextOptions { timeline: true, ..TextOptions::default() };
        let forms = [
            ("txt", text(&model, &options)),
            ("ascii.txt", text(&model, &TextOptions { ascii: true, ..options })),
            ("ansi.txt", text(&model, &TextOptions { color: true, ..options })),
            ("md", markdown(&model)),
            ("html", html(&model)),
            ("json", model.to_json().expect("JSON")),
            ("xml", junit(&model, &limits)),
            ("csv", csv(&model)),
        ];
        for (ending, content) in forms {
            std::fs::write(format!("{directory}/{name}.{ending}"), content).expect("a writable directory");
        }
    }
}
