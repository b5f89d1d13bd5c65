//! The model as sections of texts, facts, tables and charts: what every rendering shows, before it is text, Markdown or
//! HTML. A number is formatted here, once, so that all renderings agree to the digit.

mod latency;
mod machine;
mod operator_section;
mod operators;
mod remarks;
mod slow;

use ortscope_core::units::{bytes, count, counted, digits, duration, milliseconds, percent};
use ortscope_result::{
    FindingReport, Histogram, OverTime, ReportModel, Series, SessionReport, Severity, Timeline,
};

pub(super) use machine::value as series_value;

/// A heading and what stands under it.
#[derive(Debug)]
pub(super) struct Section<'m> {
    /// For links: letters, digits and dashes.
    pub id: String,
    pub title: String,
    /// For a list of sections: short.
    pub short: String,
    /// Shown closed where that is possible: more of the same.
    pub folded: bool,
    pub blocks: Vec<Block<'m>>,
}

impl<'m> Section<'m> {
    fn new(id: impl Into<String>, title: impl Into<String>, blocks: Vec<Block<'m>>) -> Self {
        let title = title.into();
        Self { id: id.into(), short: title.clone(), title, folded: false, blocks }
    }
}

#[derive(Debug)]
pub(super) enum Block<'m> {
    Text(Tone, String),
    /// A smaller heading.
    Heading(String),
    /// Names and values.
    Facts(Vec<(&'static str, String)>),
    /// The few numbers to see first.
    Figures(Vec<Figure>),
    Table(Table),
    Findings(&'m [FindingReport]),
    Histogram {
        histogram: &'m Histogram,
        marks: Vec<(&'static str, f64)>,
        caption: String,
    },
    OverTime {
        over_time: &'m OverTime,
        caption: String,
    },
    /// Series of one unit in one chart.
    Chart {
        series: Vec<(String, &'m Series)>,
        caption: String,
    },
    Timeline {
        timeline: &'m Timeline,
        caption: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Muted,
    Good,
    Warning,
    Bad,
}

/// A headline number.
#[derive(Debug)]
pub(super) struct Figure {
    pub name: &'static str,
    pub value: String,
    pub detail: String,
    pub tone: Tone,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    pub title: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
    /// What the numbers cover.
    pub note: String,
}

#[derive(Debug, Clone)]
pub(super) struct Column {
    pub title: String,
    pub align: Align,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    /// A name: at the left, cut where there is no room.
    Name,
    /// At the right.
    Number,
    /// A sentence: takes the remaining room and wraps.
    Prose,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Cell {
    pub text: String,
    /// To sort by, where it is not the text.
    pub sort: Option<f64>,
    /// A colour for this type of operator.
    pub op_type: Option<String>,
    /// A bar of this length, 0 to 1.
    pub bar: Option<f64>,
}

impl Cell {
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    pub fn number(text: impl Into<String>, value: f64) -> Self {
        Self { text: text.into(), sort: Some(value), ..Self::default() }
    }

    fn count(value: u64) -> Self {
        Self::number(count(value), value as f64)
    }

    /// A number that may be unknown.
    fn known(value: Option<f64>, show: impl Fn(f64) -> String) -> Self {
        value.map_or_else(|| Self::text("n/a"), |value| Self::number(show(value), value))
    }

    /// A share with a bar.
    fn share(value: Option<f64>) -> Self {
        let mut cell = Self::known(value, percent);
        cell.bar = value.map(|share| share.clamp(0.0, 1.0));
        cell
    }
}

impl Table {
    fn new(columns: &[(&str, Align)]) -> Self {
        let columns =
            columns.iter().map(|(title, align)| Column { title: (*title).to_owned(), align: *align });
        Self { columns: columns.collect(), ..Self::default() }
    }

    fn titled(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }
}

/// All sections, the most important first.
pub(super) fn sections(model: &ReportModel) -> Vec<Section<'_>> {
    let mut sections = vec![summary(model)];
    if !model.findings.is_empty() {
        sections.push(Section::new("findings", "Findings", vec![Block::Findings(&model.findings)]));
    }
    let several = model.sessions.len() > 1;
    for (index, session) in model.sessions.iter().enumerate() {
        let mut section = latency::section(model, session, index, several);
        section.folded = index >= 4;
        sections.push(section);
    }
    let several = model.operators.len() > 1;
    for (index, operators) in model.operators.iter().enumerate() {
        let mut section =
            operators::section(operators, model.operator_section(&operators.session_id), index, several);
        section.folded = index >= 2;
        sections.push(section);
    }
    sections.extend(machine::section(model));
    sections.extend(remarks::gaps(model));
    sections.extend(remarks::marks(model));
    sections.push(remarks::recording(model));
    sections
}

/// The session a reader looks for first: the one with most inferences.
fn main_session(model: &ReportModel) -> Option<&SessionReport> {
    let measured = |session: &&SessionReport| session.inference.is_some() || session.generation.is_some();
    // Of equals the first.
    model.sessions.iter().rev().filter(measured).max_by_key(|session| session.counts.total)
}

fn summary(model: &ReportModel) -> Section<'_> {
    let mut blocks = Vec::new();
    for sentence in &model.header.condition {
        blocks.push(Block::Text(Tone::Bad, sentence.clone()));
    }
    match main_session(model) {
        Some(session) => {
            if model.sessions.len() > 1 {
                blocks.push(Block::Heading(format!("Most inferences: {}", session.title)));
            }
            blocks.push(Block::Figures(figures(model, session)));
        }
        None if model.inferences() == 0 => {
            let what = match model.operators.is_empty() {
                true => "Nothing was measured: the recording has no inferences.",
                false => "The recording has operators, but no inferences.",
            };
            blocks.push(Block::Text(Tone::Warning, what.to_owned()));
        }
        None => blocks.push(Block::Text(
            Tone::Warning,
            format!("{} recorded, none in a measured loop.", counted(model.inferences(), "inference")),
        )),
    }
    if model.sessions.len() > 1 || model.other_sessions.sessions > 0 {
        blocks.push(Block::Table(latency::overview(model)));
    }
    Section::new("summary", "Summary", blocks)
}

fn figures(model: &ReportModel, session: &SessionReport) -> Vec<Figure> {
    let mut figures = Vec::new();
    if let Some(latency) = &session.inference {
        let of = format!("of {}", counted(latency.runs, "inference"));
        for (name, wire) in [("median latency", "p50"), ("p99 latency", "p99")] {
            figures.push(match latency.percentile_ms(wire) {
                Some(value) => Figure {
                    name,
                    value: milliseconds(value),
                    detail: match latency::interval(latency, wire, value) {
                        Some(interval) => format!("95 % interval {interval}, {of}"),
                        None => of.clone(),
                    },
                    tone: Tone::Plain,
                },
                None => Figure {
                    name,
                    value: "n/a".into(),
                    detail: format!(
                        "needs {} inferences, there are {}",
                        latency::needed(latency, wire),
                        count(latency.runs)
                    ),
                    tone: Tone::Muted,
                },
            });
        }
    }
    if let Some(throughput) = &session.throughput {
        figures.push(Figure {
            name: "throughput",
            value: format!("{}/s", digits(throughput.requests_per_second)),
            detail: format!("over {}, {:.1} in flight", duration(throughput.seconds), throughput.concurrency),
            tone: Tone::Plain,
        });
    }
    figures.extend(session.server.as_ref().map(latency::server_figure));
    if let Some(generation) = &session.generation {
        figures.push(Figure {
            name: "decoding",
            value: generation
                .decode_tokens_per_second
                .map_or("n/a".into(), |rate| format!("{} tokens/s", digits(rate))),
            detail: format!(
                "first token {}, {} in {}",
                generation.first_token_median_ms.map_or("n/a".into(), milliseconds),
                counted(generation.tokens, "token"),
                counted(generation.sequences, "sequence")
            ),
            tone: Tone::Plain,
        });
    }
    if let Some(latency) = &session.inference {
        let (word, tone) = latency::stability(latency);
        figures.push(Figure {
            name: "stability",
            value: word.to_owned(),
            detail: latency.stability.reason.clone(),
            tone,
        });
    }
    if let Some(slow) = &session.slow {
        figures.push(Figure {
            name: "slow inferences",
            value: count(slow.count),
            detail: match slow.count {
                0 => format!("none of {} above {}", count(slow.of), milliseconds(slow.limit_ms)),
                _ => slow::in_short(slow),
            },
            tone: Tone::Plain,
        });
    }
    let peak =
        session.memory.and_then(|memory| memory.peak_bytes).map(|peak| (peak, "of the worker process"));
    let observed = model
        .processes
        .iter()
        .filter(|process| process.observed)
        .map(|process| process.peak_working_set_bytes);
    if let Some((peak, whose)) = peak.or(observed.max().map(|peak| (peak, "of the observed process"))) {
        figures.push(Figure {
            name: "peak memory",
            value: bytes(peak as f64),
            detail: format!("resident, {whose}"),
            tone: Tone::Plain,
        });
    }
    let errors = model.findings.iter().filter(|finding| finding.severity == Severity::Error).count() as u64;
    let warnings =
        model.findings.iter().filter(|finding| finding.severity == Severity::Warning).count() as u64;
    figures.push(Figure {
        name: "findings",
        value: count(model.findings.len() as u64),
        detail: format!("{}, {}", counted(errors, "error"), counted(warnings, "warning")),
        tone: if errors > 0 {
            Tone::Bad
        } else if warnings > 0 {
            Tone::Warning
        } else {
            Tone::Good
        },
    });
    let lost = model.lost();
    figures.push(Figure {
        name: "lost records",
        value: count(lost),
        detail: if lost == 0 { "nothing was dropped".into() } else { "see “What is missing”".into() },
        tone: if lost == 0 { Tone::Good } else { Tone::Bad },
    });
    figures
}
