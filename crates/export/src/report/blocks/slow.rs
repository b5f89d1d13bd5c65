//! Slow inferences and their explanations.

use super::{Align, Block, Cell, Table, Tone};
use crate::report::units::{count, digits, milliseconds, moment};
use crate::report::{Explained, ReportModel, SlowInference, SlowReport};

/// The most frequent cause, or that there is none.
pub(super) fn in_short(slow: &SlowReport) -> String {
    let above = format!("of {} above {}", count(slow.of), milliseconds(slow.limit_ms));
    match slow.causes.first() {
        Some(cause) => {
            format!(
                "{above}; {} of the {} slowest: {}",
                cause.inferences,
                slow.shown.len(),
                cause.cause.name()
            )
        }
        None => format!("{above}; unexplained"),
    }
}

pub(super) fn blocks<'m>(model: &'m ReportModel, slow: &'m SlowReport) -> Vec<Block<'m>> {
    if slow.count == 0 {
        let text = format!(
            "No slow inferences: none of {} took longer than {} end to end.",
            count(slow.of),
            milliseconds(slow.limit_ms)
        );
        return vec![Block::Heading("Slow inferences".into()), Block::Text(Tone::Good, text)];
    }
    let mut blocks = vec![
        Block::Heading("Slow inferences".into()),
        Block::Text(
            Tone::Plain,
            format!(
                "{} of {} took longer than {} end to end (median {}).{} Explanations compare with {} near the median.",
                count(slow.count),
                count(slow.of),
                milliseconds(slow.limit_ms),
                milliseconds(slow.median_ms),
                if slow.shown.len() as u64 == slow.count {
                    String::new()
                } else {
                    format!(" The {} slowest are shown.", slow.shown.len())
                },
                match slow.usual_inferences {
                    1 => "1 inference".to_owned(),
                    n => format!("{n} inferences"),
                }
            ),
        ),
        Block::Table(table(slow)),
    ];
    for check in model.explanation_sources.iter().filter(|check| check.rows == 0) {
        blocks.push(Block::Text(Tone::Muted, capitalised(&check.sentence)));
    }
    blocks
}

fn capitalised(sentence: &str) -> String {
    let mut characters = sentence.chars();
    let first = characters.next().map(|first| first.to_uppercase().collect::<String>()).unwrap_or_default();
    format!("{first}{}.", characters.as_str())
}

fn table(slow: &SlowReport) -> Table {
    let mut table = Table::new(&[
        ("inference", Align::Number),
        ("at", Align::Number),
        ("end to end", Align::Number),
        ("× median", Align::Number),
        ("explained", Align::Name),
        ("what happened inside", Align::Prose),
    ]);
    let streams = slow.shown.iter().any(|slow| slow.stream != 0);
    for inference in &slow.shown {
        let name = match streams {
            true => format!("{} (stream {})", count(inference.sequence), inference.stream),
            false => count(inference.sequence),
        };
        table.row(vec![
            Cell::number(name, inference.sequence as f64),
            Cell::number(moment(inference.start_seconds), inference.start_seconds),
            Cell::number(milliseconds(inference.latency_ms), inference.latency_ms),
            Cell::number(digits(inference.times_median), inference.times_median),
            Cell::text(match inference.verdict {
                Explained::Yes => "yes",
                Explained::Partly => "partly",
                Explained::No => "no",
                Explained::Unknown => "unknown",
            }),
            Cell::text(story(inference)),
        ]);
    }
    table
}

/// The verdict, and what else stands out.
fn story(inference: &SlowInference) -> String {
    let more: Vec<&str> = inference.causes.iter().skip(1).map(|cause| cause.brief.as_str()).collect();
    match more.is_empty() {
        true => inference.sentence.clone(),
        false => format!("{}. Also: {}", inference.sentence, more.join(", ")),
    }
}
