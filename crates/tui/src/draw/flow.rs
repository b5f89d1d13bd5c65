//! Places segments on one line while they fit, the most important first; the rest is omitted.

use ratatui::text::{Line, Span};

use super::theme::Segment;
use crate::text::cells;

/// Cells between two segments.
const SPACE: &str = "  ";

/// Cells that a segment takes.
pub fn width(segment: &[Span<'_>]) -> usize {
    segment.iter().map(|span| cells(&span.content)).sum()
}

/// As many of the segments, in their order, as the width allows.
pub fn flow(segments: impl IntoIterator<Item = Segment>, most_cells: usize) -> Line<'static> {
    let mut spans: Segment = Vec::new();
    let mut used = 0;
    for segment in segments {
        let space = if spans.is_empty() { 0 } else { SPACE.len() };
        let needed = space + width(&segment);
        if segment.is_empty() || used + needed > most_cells {
            continue;
        }
        if space > 0 {
            spans.push(Span::raw(SPACE));
        }
        spans.extend(segment);
        used += needed;
    }
    Line::from(spans)
}

/// The same with one segment at the right end, which is never left out.
pub fn flow_right(
    segments: impl IntoIterator<Item = Segment>,
    right: Segment,
    most_cells: usize,
) -> Line<'static> {
    let right_cells = width(&right);
    let mut line = flow(segments, most_cells.saturating_sub(right_cells + SPACE.len()));
    let missing = most_cells.saturating_sub(width(&line.spans) + right_cells);
    line.spans.push(Span::raw(" ".repeat(missing)));
    line.spans.extend(right);
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(text: &'static str) -> Segment {
        vec![Span::raw(text)]
    }

    #[test]
    fn segments_that_do_not_fit_are_omitted() {
        let segments = || [segment("one"), segment("twotwo"), segment("3")];
        assert_eq!(flow(segments(), 14).to_string(), "one  twotwo  3");
        assert_eq!(flow(segments(), 9).to_string(), "one  3");
        assert_eq!(flow(segments(), 0).to_string(), "");
        assert_eq!(flow_right(segments(), segment("end"), 12).to_string(), "one  3   end");
    }
}
