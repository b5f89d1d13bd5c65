//! The report as Markdown (GitHub's flavour): sections, tables, and the charts' figures in words.

use crate::blocks::{Align, Block, Cell, Section, Table, Tone, sections, series_value};
use ortscope_core::units::{duration, milliseconds};
use ortscope_result::{FindingReport, ReportModel};

/// Rows of a table that are shown; the rest is in the other forms.
const MAX_ROWS: usize = 60;

pub fn markdown(model: &ReportModel) -> String {
    let header = &model.header;
    let mut out = format!("# {}\n\n", escape(&header.subject));
    out += &format!(
        "Recording `{}`, {}, {}, ended: {}\n",
        code(&header.id),
        escape(&header.started_utc),
        duration(header.duration_seconds),
        escape(&header.ended)
    );
    for section in sections(model) {
        out += &show(&section);
    }
    out
}

fn show(section: &Section<'_>) -> String {
    let mut out = format!("\n## {}\n", escape(&section.title));
    for block in &section.blocks {
        out.push('\n');
        out += &match block {
            Block::Text(tone, text) => match tone {
                Tone::Bad | Tone::Warning => format!("> **{}** {}\n", word(*tone), escape(text)),
                _ => format!("{}\n", escape(text)),
            },
            Block::Heading(text) => format!("### {}\n", escape(text)),
            Block::Facts(facts) => {
                facts.iter().map(|(name, value)| format!("- **{name}**: {}\n", escape(value))).collect()
            }
            Block::Figures(figures) => figures
                .iter()
                .map(|figure| {
                    format!("- **{}**: {} ({})\n", figure.name, escape(&figure.value), escape(&figure.detail))
                })
                .collect(),
            Block::Table(table) => show_table(table),
            Block::Findings(findings) => findings.iter().map(finding).collect(),
            Block::Histogram { marks, caption, .. } => {
                let marks: Vec<String> =
                    marks.iter().map(|(name, value)| format!("{name} {}", milliseconds(*value))).collect();
                format!("*{}*: {}\n", escape(caption), marks.join(", "))
            }
            Block::OverTime { over_time, caption } => {
                let largest = over_time.points.iter().map(|point| point.max_ms).fold(0.0, f64::max);
                format!("*{}*: at most {}\n", escape(caption), milliseconds(largest))
            }
            Block::Chart { series, caption } => {
                let mut text = format!("*{}*\n\n", escape(caption));
                for (name, series) in series {
                    text += &format!(
                        "- {}: {} to {}, mean {}\n",
                        escape(name),
                        series_value(series.unit, series.min),
                        series_value(series.unit, series.max),
                        series_value(series.unit, series.mean)
                    );
                }
                text
            }
            Block::Timeline { caption, .. } => format!("*{}* (drawn in the HTML report)\n", escape(caption)),
        };
    }
    out
}

fn word(tone: Tone) -> &'static str {
    if tone == Tone::Bad { "Problem:" } else { "Note:" }
}

fn finding(finding: &FindingReport) -> String {
    let command =
        finding.command.as_ref().map(|command| format!("\n  `{}`", code(command))).unwrap_or_default();
    format!(
        "- **{}** {} ({})\n  {}{command}\n",
        finding.severity.name(),
        escape(&finding.evidence),
        escape(&finding.id),
        escape(&finding.advice)
    )
}

fn show_table(table: &Table) -> String {
    let mut out = String::new();
    if !table.title.is_empty() {
        out += &format!("**{}**\n\n", escape(&table.title));
    }
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    out += &line(table.columns.iter().map(|column| escape(&column.title)).collect());
    out += &line(
        table
            .columns
            .iter()
            .map(|column| if column.align == Align::Number { "---:" } else { "---" }.to_owned())
            .collect(),
    );
    for row in table.rows.iter().take(MAX_ROWS) {
        out += &line(row.iter().map(|Cell { text, .. }| escape(text)).collect());
    }
    let hidden = table.rows.len().saturating_sub(MAX_ROWS);
    if hidden > 0 {
        out += &format!("\n{hidden} more rows are in the HTML and JSON reports.\n");
    }
    if !table.note.is_empty() {
        out += &format!("\n{}\n", escape(&table.note));
    }
    out
}

/// Text that must not become markup.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' | '$' => {
                out.push('\\');
                out.push(character);
            }
            other => out.push(other),
        }
    }
    // A link needs no brackets to be one.
    out.replace("://", ":\u{200b}//").replace("www.", "www\\.")
}

/// Text between backticks.
fn code(text: &str) -> String {
    text.replace('`', "'")
}
