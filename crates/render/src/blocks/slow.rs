//! Slow inferences and their explanations.

use ortscope_result::Around;

use super::{Align, Block, Cell, Table, Tone};
use ortscope_core::units::{count, digits, milliseconds, moment, percent};
use ortscope_result::{Explained, ReportModel, SlowInference, SlowReport};

/// Readings around an inference that are shown.
const MAX_SHOWN: usize = 4;

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
    let mut story = inference.sentence.clone();
    if !more.is_empty() {
        story += &format!(". Also: {}", more.join(", "));
    }
    let around = in_words(&inference.around);
    if !around.is_empty() {
        story += &format!(". Around it: {}", around.join(", "));
    }
    story
}

/// What stands out for a person: what held a clock down first, then how busy devices were and what they used.
fn in_words(found: &[Around]) -> Vec<String> {
    let mut words: Vec<(u8, String)> = found.iter().filter_map(word).collect();
    words.sort_by_key(|(rank, _)| *rank);
    words.into_iter().take(MAX_SHOWN).map(|(_, word)| word).collect()
}

fn word(one: &Around) -> Option<(u8, String)> {
    // Engines of a GPU and single processors are in the JSON.
    let is_part = one.device.contains('/') || one.device.starts_with("cpu");
    let is_throttling = one.metric.starts_with("throttle") && one.value > 0.0;
    if is_part && !is_throttling {
        return None;
    }
    let device = &one.device;
    Some(match one.metric.as_str() {
        // NVML tells so that a GPU idles or has a fixed clock.
        "throttle_reasons" if one.value as u64 & !0b11 == 0 => return None,
        _ if is_throttling => (0, format!("{device} held its clock down")),
        "utilization_ratio" => (1, format!("{device} {} busy", percent(one.value))),
        "power_watts" => (2, format!("{device} {} W", digits(one.value))),
        "cpu_percent" => (3, format!("{device} {} busy", percent(one.value / 100.0))),
        "temperature_celsius" => (4, format!("{device} {} °C", digits(one.value))),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(device: &str, metric: &str, value: f64) -> Around {
        let (device, metric) = (device.to_owned(), metric.to_owned());
        Around { device, metric, value, distance_ms: 0.0, mean_of_ms: None }
    }

    #[test]
    fn throttling_comes_first_and_parts_are_left_out() {
        let found = [
            one("machine", "cpu_percent", 85.0),
            one("gpu0", "power_watts", 45.0),
            one("gpu0", "utilization_ratio", 0.92),
            one("gpu0/3D", "utilization_ratio", 0.9),
            one("cpu3", "busy_ratio", 1.0),
            one("cpu3", "throttle_count", 2.0),
            one("package-0", "throttle_count", 0.0),
            one("gpu0", "throttle_reasons", 1.0),
        ];
        assert_eq!(
            in_words(&found),
            ["cpu3 held its clock down", "gpu0 92 % busy", "gpu0 45.0 W", "machine 85 % busy"]
        );
    }
}
