//! The panel of inference sessions: latency now, throughput, the last minute.

use ortscope_core::live::LatencyPercentiles;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::flow::flow;
use super::theme::Segment;
use super::{Screen, rule};
use crate::model::{LATENCY_SECONDS, Session};
use crate::text::{cells, fit_left, fit_right};
use ortscope_core::units::{self, or_nothing};

/// A session without an inference for this long is called idle.
const IDLE_NS: u64 = 3_000_000_000;
const NUMBER_CELLS: usize = 9;
const RATE_CELLS: usize = 7;
const MIN_NAME_CELLS: usize = 10;

pub fn draw(screen: &Screen<'_>, area: Rect, buffer: &mut Buffer) {
    let sessions = &screen.snapshot.sessions;
    let widths = Widths::of(area.width.into());
    let hidden = sessions.len().saturating_sub(usize::from(area.height.saturating_sub(1)));
    buffer.set_line(area.x, area.y, &heading(screen, hidden, &widths), area.width);
    for (y, session) in (area.y + 1..area.bottom()).zip(sessions) {
        buffer.set_line(area.x, y, &row(screen, session, &widths), area.width);
    }
}

/// The title of the panel and the names of the columns, above their numbers.
fn heading(screen: &Screen<'_>, hidden: usize, widths: &Widths) -> Line<'static> {
    let more = if hidden > 0 { format!(", {hidden} more") } else { String::new() };
    let long = format!("inference sessions, last {LATENCY_SECONDS} s{more}");
    let fits = cells(&long) + 4 <= widths.name;
    let title = if fits { long } else { format!("sessions, {LATENCY_SECONDS} s{more}") };
    let mut line = rule(screen, &title, widths.name);
    for (name, cells) in widths.titles() {
        line.spans.push(Span::styled(format!(" {}", fit_right(name, cells, ' ')), screen.theme.strong()));
    }
    line.spans.push(Span::styled(" p50, 60 s", screen.theme.strong()));
    line
}

#[derive(Debug)]
struct Widths {
    name: usize,
    numbers: usize,
    spark: usize,
    notes: usize,
}

impl Widths {
    /// On narrow screens p99 and then p90 are dropped; the sparkline and the notes get the rest.
    fn of(width: usize) -> Self {
        let numbers = if width >= 72 { 3 } else { 2 };
        let fixed = numbers * (NUMBER_CELLS + 1) + RATE_CELLS + 1;
        let left = width.saturating_sub(fixed);
        let spark = if left >= 60 { 20 } else { 10.min(left.saturating_sub(MIN_NAME_CELLS + 1)) };
        let notes = if left >= 60 {
            20
        } else if left >= 38 {
            12
        } else {
            0
        };
        let name = left.saturating_sub(spark + 1 + notes).max(MIN_NAME_CELLS);
        Self { name, numbers, spark, notes }
    }

    fn titles(&self) -> Vec<(&'static str, usize)> {
        let mut titles: Vec<(&str, usize)> =
            ["p50", "p90", "p99"].into_iter().take(self.numbers).map(|name| (name, NUMBER_CELLS)).collect();
        titles.push(("inf/s", RATE_CELLS));
        titles
    }
}

fn row(screen: &Screen<'_>, session: &Session, widths: &Widths) -> Line<'static> {
    let more = screen.glyphs.more();
    let latency = &session.latency_ns;
    let needed = |q: f64| {
        LatencyPercentiles::RUNS_NEEDED.iter().find(|(known, _)| *known == q).map_or(0, |(_, runs)| *runs)
    };
    // Too few runs bound no percentile: show how many are needed.
    let number =
        |value: Option<f64>, q: f64| value.map_or_else(|| format!("n<{}", needed(q)), units::nanoseconds);
    let numbers = [(latency.p50, 0.5), (latency.p90, 0.9), (latency.p99, 0.99)];
    let mut spans = vec![Span::raw(fit_left(&session.name, widths.name, more))];
    for (value, q) in numbers.into_iter().take(widths.numbers) {
        spans.push(Span::raw(format!(" {}", fit_right(&number(value, q), NUMBER_CELLS, more))));
    }
    let rate = or_nothing(session.inferences_per_second, units::narrow_count);
    spans.push(Span::raw(format!(" {} ", fit_right(&rate, RATE_CELLS, more))));
    let past = &session.latency_past_ns;
    let most = past.iter().flatten().copied().fold(0.0, f64::max);
    spans.push(Span::styled(screen.glyphs.sparkline(past, widths.spark, most), screen.theme.picture()));
    let idle_ns = screen.snapshot.at_ns.saturating_sub(session.newest_ns);
    let mut notes: Vec<Segment> = Vec::new();
    if idle_ns > IDLE_NS {
        notes.push(vec![Span::styled(format!("idle {}", units::age(idle_ns)), screen.theme.faint())]);
    } else if let Some(depth) = session.queue_depth.filter(|depth| *depth > 0.0) {
        notes.push(vec![Span::raw(format!("queue {}", units::narrow_count(depth)))]);
    }
    if session.failures > 0 {
        let text = format!("{} failed", units::narrow_count(session.failures as f64));
        notes.push(vec![Span::styled(text, screen.theme.alarm())]);
    }
    spans.push(Span::raw(" "));
    spans.extend(flow(notes, widths.notes.saturating_sub(1)).spans);
    Line::from(spans)
}
