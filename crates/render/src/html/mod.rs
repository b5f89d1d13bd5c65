//! The report as one self-contained HTML file: no network, no frames, nothing but its own style and script.
//!
//! The page is complete without its script: charts are SVG made here, tables are tables. Texts of the recording are
//! escaped, and the script only ever writes text content. The size is bounded by construction: the model is, and
//! whatever would make the page larger than [`MAX_HTML_BYTES`] is replaced by a sentence.

mod charts;
mod escape;

use base64::Engine;

use self::escape::{coordinate, escape, running};
use crate::blocks::{Align, Block, Cell, Column, Figure, Section, Table, Tone, sections};
use crate::palette::colour;
use ortscope_core::units::{duration, provider};
use ortscope_result::{FindingReport, ReportModel, Severity};

/// No page is larger.
pub const MAX_HTML_BYTES: usize = 5_000_000;
/// Kept free for the sentences that stand for what was left out, and for the end of the page.
const RESERVE_BYTES: usize = 250_000;
/// Tables with more rows get a field to filter them.
const FILTER_FROM: usize = 12;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

pub fn html(model: &ReportModel) -> String {
    let sections = sections(model);
    let mut page = Page { out: head(model, &sections), left_out: 0, charts: 0, points: points(model) };
    for section in &sections {
        page.section(section);
    }
    page.report_data(model);
    if page.left_out > 0 {
        page.out += &format!(
            "<p class=\"muted\">{} parts of this page were left out to keep it below {} MB; the JSON report has them.</p>\n",
            page.left_out,
            MAX_HTML_BYTES / 1_000_000
        );
    }
    page.out += &format!(
        "</main><footer>Made by ortscope {}. This file contains everything it shows and loads nothing.</footer>\n\
         <div id=\"tip\" role=\"status\" hidden></div>\n<script>{SCRIPT}</script>\n</body></html>\n",
        escape(&model.ortscope_version)
    );
    page.out
}

/// Points of each chart of latency over time: many sessions share the room.
fn points(model: &ReportModel) -> usize {
    8000 / model.sessions.len().max(1)
}

fn head(model: &ReportModel, sections: &[Section<'_>]) -> String {
    let header = &model.header;
    let policy = format!(
        "default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action 'none'",
        policy_source(STYLE),
        policy_source(SCRIPT)
    );
    let mut out = String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n");
    out += &format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n");
    out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
    out += "<meta name=\"referrer\" content=\"no-referrer\"><meta name=\"color-scheme\" content=\"light dark\">\n";
    out += &format!("<title>{} – ortscope report</title>\n", escape(&header.subject));
    out += &format!(
        "<style>{STYLE}</style></head>\n<body>\n<a class=\"skip\" href=\"#summary\">Skip to the summary</a>\n"
    );
    out += "<header><div class=\"bar\"><span class=\"brand\">ortscope report</span>\
            <button type=\"button\" id=\"theme\" hidden>Light or dark</button></div>\n";
    out += &format!("<h1>{}</h1>\n<p class=\"about\">", escape(&header.subject));
    let mut about = Vec::new();
    about.extend(header.name.clone());
    about.push(header.started_utc.clone());
    about.push(duration(header.duration_seconds));
    about.extend(header.machine.get("cpu_model").cloned());
    about.extend(header.ort_versions.first().map(|version| format!("ONNX Runtime {version}")));
    let providers: Vec<&str> = header.execution_providers.iter().map(|name| provider(name)).collect();
    if !providers.is_empty() {
        about.push(providers.join(", "));
    }
    out += &about.iter().map(|part| format!("<span>{}</span>", escape(part))).collect::<String>();
    out += &format!("<span>recording <code>{}</code></span>", escape(&header.id));
    out += &format!(
        "<span>ended: {}</span></p></header>\n<nav aria-label=\"Sections\"><ul>",
        escape(&header.ended)
    );
    for section in sections {
        out += &format!("<li><a href=\"#{}\">{}</a></li>", section.id, escape(&section.short));
    }
    out + "</ul></nav>\n<main>\n"
}

struct Page {
    out: String,
    left_out: usize,
    /// For identifiers.
    charts: usize,
    points: usize,
}

impl Page {
    /// Adds a part if there is room for it.
    fn add(&mut self, part: &str) {
        if self.out.len() + part.len() + SCRIPT.len() + RESERVE_BYTES <= MAX_HTML_BYTES {
            self.out += part;
        } else {
            self.left_out += 1;
            // The sentence is short, but there may be many of them.
            if self.left_out <= 500 {
                self.out +=
                    "<p class=\"muted\">Left out to keep this file small; the JSON report has it.</p>\n";
            }
        }
    }

    /// The whole report as data, so that programs read the values that people see. Like any other part, it is left out
    /// of a page that would become too large.
    fn report_data(&mut self, model: &ReportModel) {
        if let Ok(report) = serde_json::to_value(model) {
            let data = escape::data(&report);
            self.add(&format!("<script type=\"application/json\" id=\"report\">{data}</script>\n"));
        }
    }

    fn section(&mut self, section: &Section<'_>) {
        self.out += &format!("<section id=\"{}\"><h2>{}</h2>\n", section.id, escape(&section.title));
        if section.folded {
            self.out += "<details><summary>Show</summary>\n";
        }
        for block in &section.blocks {
            let part = self.block(block);
            self.add(&part);
        }
        if section.folded {
            self.out += "</details>\n";
        }
        self.out += "</section>\n";
    }

    fn block(&mut self, block: &Block<'_>) -> String {
        match block {
            Block::Text(tone, text) => format!("<p class=\"{}\">{}</p>\n", class(*tone), running(text)),
            Block::Heading(text) => format!("<h3>{}</h3>\n", escape(text)),
            Block::Facts(facts) => {
                let fact = |(name, value): &(&str, String)| {
                    format!("<div><dt>{}</dt><dd>{}</dd></div>", escape(name), running(value))
                };
                format!("<dl class=\"facts\">{}</dl>\n", facts.iter().map(fact).collect::<String>())
            }
            Block::Figures(figures) => {
                format!("<div class=\"figures\">{}</div>\n", figures.iter().map(figure).collect::<String>())
            }
            Block::Table(table) => show_table(table),
            Block::Findings(findings) => findings.iter().map(finding).collect(),
            Block::Histogram { histogram, marks, caption } => charts::histogram(histogram, marks, caption),
            Block::OverTime { over_time, caption } => charts::over_time(over_time, caption, self.points),
            Block::Chart { series, caption } => charts::series(series, caption),
            Block::Timeline { timeline, caption } => {
                self.charts += 1;
                charts::lanes(timeline, caption, &format!("timeline-{}", self.charts))
            }
        }
    }
}

fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "plain",
        Tone::Muted => "muted",
        Tone::Good => "good",
        Tone::Warning => "warning",
        Tone::Bad => "bad",
    }
}

fn figure(figure: &Figure) -> String {
    format!(
        "<div class=\"figure {}\"><span class=\"name\">{}</span><span class=\"value\">{}</span><span class=\"detail\">{}</span></div>",
        class(figure.tone),
        escape(figure.name),
        running(&figure.value),
        running(&figure.detail)
    )
}

fn finding(finding: &FindingReport) -> String {
    let tone = match finding.severity {
        Severity::Error => Tone::Bad,
        Severity::Warning => Tone::Warning,
        Severity::Advice => Tone::Good,
    };
    let command = finding
        .command
        .as_ref()
        .map(|command| format!("<p class=\"try\"><span>try</span><code>{}</code></p>", escape(command)));
    format!(
        "<article class=\"finding {}\"><p class=\"what\"><span class=\"badge\">{}</span>{}</p><p>{}</p>{}<p class=\"id\">{}</p></article>\n",
        class(tone),
        finding.severity.name(),
        escape(&finding.evidence),
        escape(&finding.advice),
        command.unwrap_or_default(),
        escape(&finding.id)
    )
}

fn show_table(table: &Table) -> String {
    let mut out = String::new();
    if !table.title.is_empty() {
        out += &format!("<h3>{}</h3>\n", escape(&table.title));
    }
    let filter = if table.rows.len() > FILTER_FROM { " data-filter" } else { "" };
    // A region that scrolls must be reachable by the keyboard.
    out += &format!("<div class=\"scroll\" tabindex=\"0\"{filter}><table><thead><tr>");
    for column in &table.columns {
        out += &format!("<th scope=\"col\"{}>{}</th>", align(column.align), escape(&column.title));
    }
    out += "</tr></thead><tbody>\n";
    // Narrow screens show the rows of such tables without a head: each cell then says what it is.
    let prose = table.columns.iter().any(|column| column.align == Align::Prose);
    for row in &table.rows {
        out += "<tr>";
        for (cell, column) in row.iter().zip(&table.columns) {
            out += &show_cell(cell, column, prose);
        }
        out += "</tr>\n";
    }
    out += "</tbody></table></div>\n";
    if !table.note.is_empty() {
        out += &format!("<p class=\"note\">{}</p>\n", running(&table.note));
    }
    out
}

fn align(align: Align) -> &'static str {
    match align {
        Align::Name => "",
        Align::Number => " class=\"num\"",
        Align::Prose => " class=\"prose\"",
    }
}

fn show_cell(cell: &Cell, column: &Column, named: bool) -> String {
    let name = if named { format!(" data-h=\"{}\"", escape(&column.title)) } else { String::new() };
    let sort = cell.sort.map_or(String::new(), |value| format!(" data-s=\"{value}\""));
    let swatch = cell.op_type.as_ref().map_or(String::new(), |op_type| {
        format!("<svg class=\"swatch\" width=\"10\" height=\"10\" aria-hidden=\"true\"><rect class=\"c{}\" width=\"10\" height=\"10\" rx=\"2\"/></svg>", colour(op_type))
    });
    let bar = cell.bar.map_or(String::new(), |share| {
        format!(
            "<svg class=\"share\" width=\"48\" height=\"8\" aria-hidden=\"true\"><rect class=\"back\" width=\"48\" height=\"8\"/><rect class=\"front\" width=\"{}\" height=\"8\"/></svg>",
            coordinate(share * 48.0)
        )
    });
    format!("<td{}{sort}{name}>{swatch}{bar}{}</td>", align(column.align), running(&cell.text))
}

/// A source expression of the content security policy, which names the page's one script and its one style.
fn policy_source(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    format!("'sha256-{}'", base64::engine::general_purpose::STANDARD.encode(digest))
}
