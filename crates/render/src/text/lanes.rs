//! The operators of one run as bars of letters: one line per lane, one letter per type.

use std::collections::{BTreeMap, HashMap};

use super::layout::{WIDTH, wrap};
use super::{Page, Style};
use crate::palette::colour;
use ortscope_core::units::{cut, milliseconds};
use ortscope_result::{Rectangle, Timeline};

const LABEL: usize = 26;
const BAR: usize = WIDTH - LABEL - 2;
/// Types that get a letter; the rest shares one.
const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const REST: char = '*';
/// 256-colour codes near the colours of the HTML report.
const FILLS: [u8; 24] = [
    74, 209, 79, 217, 149, 117, 222, 142, 146, 168, 180, 109, 67, 166, 72, 132, 106, 73, 178, 100, 140, 131,
    137, 102,
];

pub(super) fn show(page: &mut Page, timeline: &Timeline, caption: &str) {
    page.line("");
    for line in wrap(caption, WIDTH) {
        let line = page.paint(Style::Bold, &line);
        page.line(&line);
    }
    let letters = letters(timeline);
    for (index, lane) in
        timeline.lanes.iter().enumerate().filter(|(_, lane)| lane.kind != "run" && lane.kind != "executor")
    {
        let bar = bar(timeline, index);
        let mut text = format!("{:<LABEL$}|", cut(&lane.label, LABEL - 1));
        for cell in &bar {
            text += &match cell {
                None => "·".to_owned(),
                Some(op_type) => {
                    let letter = letters.get(op_type).copied().unwrap_or(REST);
                    page.paint(
                        Style::Fill(FILLS[colour(op_type) as usize % FILLS.len()]),
                        &letter.to_string(),
                    )
                }
            };
        }
        text.push('|');
        page.line(&text);
    }
    let end = milliseconds(timeline.duration_ms);
    let axis = format!("{:<LABEL$}|0{end:>width$}|", "", width = BAR - 1);
    let axis = page.paint(Style::Dim, &axis);
    page.line(&axis);
    let mut named: Vec<(char, &str)> = letters.iter().map(|(op_type, letter)| (*letter, *op_type)).collect();
    named.sort_unstable();
    let mut legend: Vec<String> = named
        .iter()
        .map(|(letter, op_type)| format!("{letter}\u{a0}{}", cut(op_type, 30).replace(' ', "\u{a0}")))
        .collect();
    legend.push("·\u{a0}nothing\u{a0}active".to_owned());
    for line in wrap(&legend.join(" \u{a0}"), WIDTH) {
        let line = page.paint(Style::Dim, &line.replace('\u{a0}', " "));
        page.line(&line);
    }
}

/// Letters by the time of a type, so that A is the most expensive.
fn letters(timeline: &Timeline) -> HashMap<&str, char> {
    let mut by_type: BTreeMap<&str, f64> = BTreeMap::new();
    for rectangle in timeline.rectangles.iter().filter(|rectangle| is_work(timeline, rectangle)) {
        *by_type.entry(&rectangle.op_type).or_default() += rectangle.busy_ms;
    }
    let mut order: Vec<(&str, f64)> = by_type.into_iter().collect();
    order.sort_by(|left, right| right.1.total_cmp(&left.1));
    order.iter().zip(LETTERS).map(|((op_type, _), letter)| (*op_type, char::from(*letter))).collect()
}

fn is_work(timeline: &Timeline, rectangle: &Rectangle) -> bool {
    timeline.lanes.get(rectangle.lane).is_some_and(|lane| lane.kind != "run" && lane.kind != "executor")
}

/// For each cell of a lane the type that takes most of its time.
fn bar(timeline: &Timeline, lane: usize) -> Vec<Option<&str>> {
    let width = timeline.duration_ms.max(f64::MIN_POSITIVE) / BAR as f64;
    let mut cells: Vec<BTreeMap<&str, f64>> = vec![BTreeMap::new(); BAR];
    for rectangle in timeline.rectangles.iter().filter(|rectangle| rectangle.lane == lane) {
        let end = rectangle.start_ms + rectangle.duration_ms;
        let (first, last) = ((rectangle.start_ms / width) as usize, (end / width) as usize);
        for (cell, content) in
            cells.iter_mut().enumerate().take(last.min(BAR - 1) + 1).skip(first.min(BAR - 1))
        {
            let inside = end.min((cell + 1) as f64 * width) - rectangle.start_ms.max(cell as f64 * width);
            let busy = rectangle.busy_ms / rectangle.duration_ms.max(f64::MIN_POSITIVE);
            *content.entry(&rectangle.op_type).or_default() += inside.max(0.0) * busy;
        }
    }
    cells.into_iter().map(|content| largest(content, width * 0.01)).collect()
}

/// What takes less than `least` of a cell does not fill it.
fn largest(content: BTreeMap<&str, f64>, least: f64) -> Option<&str> {
    let active: f64 = content.values().sum();
    let largest = content.into_iter().max_by(|left, right| left.1.total_cmp(&right.1));
    largest.filter(|_| active >= least).map(|(op_type, _)| op_type)
}
