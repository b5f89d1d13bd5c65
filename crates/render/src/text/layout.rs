//! Lines and tables that fit the width.

use super::{Page, Style};
use crate::blocks::{Align, Cell, Table};
use ortscope_core::units::cut;

/// Columns of the page.
pub(super) const WIDTH: usize = 100;
/// Rows of a table that are shown.
const MAX_ROWS: usize = 25;
/// Names are cut to this before a column is left out ...
const LONG_NAME: usize = 26;
/// ... and never below this.
const MIN_NAME: usize = 12;
/// Columns a sentence needs.
const MIN_PROSE: usize = 28;
const GAP: usize = 2;

/// Breaks a text into lines; words that are too long are cut.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let mut rest: Vec<char> = word.chars().collect();
        loop {
            let space = usize::from(used > 0);
            if used + space + rest.len() <= width {
                break;
            }
            if used > 0 && rest.len() <= width {
                lines.push(String::new());
                used = 0;
                continue;
            }
            // Longer than a line: fill this one and go on.
            let room = width.saturating_sub(used + space).max(1);
            let piece: String = rest.drain(..room.min(rest.len())).collect();
            append(&mut lines, &piece, space);
            lines.push(String::new());
            used = 0;
        }
        let space = usize::from(used > 0);
        used += space + rest.len();
        let piece: String = rest.into_iter().collect();
        append(&mut lines, &piece, space);
    }
    lines.retain(|line| !line.is_empty());
    if lines.is_empty() {
        lines.push(String::new());
    }
    lines
}

fn append(lines: &mut [String], piece: &str, space: usize) {
    if let Some(line) = lines.last_mut() {
        if space > 0 {
            line.push(' ');
        }
        line.push_str(piece);
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Which columns fit, and how wide they are.
fn widths(table: &Table) -> Vec<(usize, usize)> {
    let natural = |index: usize| {
        let cells =
            table.rows.iter().take(MAX_ROWS).filter_map(|row| row.get(index)).map(|cell| length(&cell.text));
        cells.max().unwrap_or(0).max(length(&table.columns[index].title))
    };
    let mut widths: Vec<(usize, usize)> =
        (0..table.columns.len()).map(|index| (index, natural(index))).collect();
    let total = |widths: &[(usize, usize)]| {
        widths.iter().map(|(_, width)| width).sum::<usize>() + GAP * widths.len().saturating_sub(1)
    };
    // First sentences give way, then long names, then columns at the right, and at last the names again.
    let shrink = |widths: &mut Vec<(usize, usize)>, align: Align, least: usize| {
        while total(widths) > WIDTH {
            let excess = total(widths) - WIDTH;
            let longest = widths
                .iter_mut()
                .filter(|(index, width)| table.columns[*index].align == align && *width > least)
                .max_by_key(|(_, width)| *width);
            let Some((_, width)) = longest else { break };
            *width = width.saturating_sub(excess.min(4)).max(least);
        }
    };
    shrink(&mut widths, Align::Prose, MIN_PROSE);
    shrink(&mut widths, Align::Name, LONG_NAME);
    let is_prose = |widths: &[(usize, usize)]| {
        widths.last().is_some_and(|(index, _)| table.columns[*index].align == Align::Prose)
    };
    while total(&widths) > WIDTH && widths.len() > 4 && !is_prose(&widths) {
        widths.pop();
    }
    shrink(&mut widths, Align::Name, MIN_NAME);
    while total(&widths) > WIDTH && widths.len() > 1 {
        widths.pop();
    }
    widths
}

pub(super) fn show_table(page: &mut Page, table: &Table) {
    if !table.title.is_empty() {
        let title = page.paint(Style::Bold, &cut(&table.title, WIDTH));
        page.line(&title);
    }
    let widths = widths(table);
    let head: Vec<Cell> = table.columns.iter().map(|column| Cell::text(&column.title)).collect();
    show_row(page, table, &widths, &head, true);
    for row in table.rows.iter().take(MAX_ROWS) {
        show_row(page, table, &widths, row, false);
    }
    let mut notes = Vec::new();
    let hidden = table.rows.len().saturating_sub(MAX_ROWS);
    if hidden > 0 {
        notes.push(format!("{hidden} more rows are in the HTML and JSON reports"));
    }
    let left_out: Vec<&str> =
        table.columns.iter().skip(widths.len()).map(|column| column.title.as_str()).collect();
    if !left_out.is_empty() {
        notes.push(format!("no room for: {}", left_out.join(", ")));
    }
    if !table.note.is_empty() {
        notes.push(table.note.clone());
    }
    for line in notes.iter().flat_map(|note| wrap(note, WIDTH)) {
        let line = page.paint(Style::Dim, &line);
        page.line(&line);
    }
}

fn show_row(page: &mut Page, table: &Table, widths: &[(usize, usize)], row: &[Cell], head: bool) {
    let cells: Vec<Vec<String>> = widths
        .iter()
        .map(|(index, width)| {
            let text = row.get(*index).map_or("", |cell| cell.text.as_str());
            match table.columns[*index].align {
                Align::Prose => wrap(text, *width),
                _ => vec![cut(text, *width)],
            }
        })
        .collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    for line in 0..height {
        let parts: Vec<String> = widths
            .iter()
            .zip(&cells)
            .map(|((index, width), lines)| {
                let text = lines.get(line).map_or("", String::as_str);
                match table.columns[*index].align {
                    Align::Number => format!("{text:>width$}"),
                    _ => format!("{text:<width$}"),
                }
            })
            .collect();
        let text = parts.join(&" ".repeat(GAP));
        let text = if head { page.paint(Style::Dim, text.trim_end()) } else { text };
        page.line(&text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_never_exceed_the_width() {
        let text = format!("some words and {} one that is too long, then more", "x".repeat(250));
        for width in [10, 28, 100] {
            let lines = wrap(&text, width);
            assert!(lines.iter().all(|line| length(line) <= width), "{lines:?}");
            assert_eq!(lines.concat().replace(' ', ""), text.replace(' ', ""));
        }
        assert_eq!(wrap("", 10), [""]);
    }
}
