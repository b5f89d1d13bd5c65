//! The report for terminals: at most 100 columns, with or without colours, with or without more than ASCII.

mod charts;
mod lanes;
mod layout;

use self::layout::{WIDTH, show_table, wrap};
use crate::blocks::{Block, Figure, Section, Tone, sections};
use crate::style::Style;
use ortscope_core::units::{cut, duration};
use ortscope_result::{FindingReport, ReportModel, Severity};

/// How the text is to look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TextOptions {
    /// ANSI colours.
    pub color: bool,
    /// Nothing but ASCII, for consoles that cannot show more.
    pub ascii: bool,
    /// Draw the operators of the median run, too.
    pub timeline: bool,
}

pub fn text(model: &ReportModel, options: &TextOptions) -> String {
    let mut page = Page { options: *options, out: String::new() };
    page.head(model);
    for section in sections(model) {
        page.section(&section);
    }
    match options.ascii {
        true => to_ascii(&page.out),
        false => page.out,
    }
}

struct Page {
    options: TextOptions,
    out: String,
}

impl Page {
    fn line(&mut self, text: &str) {
        self.out += text.trim_end();
        self.out.push('\n');
    }

    fn paint(&self, style: Style, text: &str) -> String {
        style.paint(text, self.options.color)
    }

    fn toned(&self, tone: Tone, text: &str) -> String {
        match tone {
            Tone::Plain => text.to_owned(),
            Tone::Muted => self.paint(Style::Dim, text),
            Tone::Good => self.paint(Style::Good, text),
            Tone::Warning => self.paint(Style::Warning, text),
            Tone::Bad => self.paint(Style::Bad, text),
        }
    }

    fn head(&mut self, model: &ReportModel) {
        let header = &model.header;
        let title = self.paint(Style::Bold, &cut(&header.subject, WIDTH));
        self.line(&title);
        let about = format!(
            "recording {}  {}  {}  ended: {}",
            header.id,
            header.started_utc,
            duration(header.duration_seconds),
            header.ended
        );
        for line in wrap(&about, WIDTH) {
            let line = self.paint(Style::Dim, &line);
            self.line(&line);
        }
    }

    fn section(&mut self, section: &Section<'_>) {
        self.line("");
        let title = cut(&section.title.to_uppercase(), WIDTH);
        let title = self.paint(Style::Bold, &title);
        self.line(&title);
        for block in &section.blocks {
            self.block(block);
        }
    }

    fn block(&mut self, block: &Block<'_>) {
        match block {
            Block::Text(tone, text) => {
                for line in wrap(text, WIDTH) {
                    let line = self.toned(*tone, &line);
                    self.line(&line);
                }
            }
            Block::Heading(text) => {
                self.line("");
                let text = self.paint(Style::Bold, &cut(text, WIDTH));
                self.line(&text);
            }
            Block::Facts(facts) => facts.iter().for_each(|(name, value)| self.fact(name, value)),
            Block::Figures(figures) => figures.iter().for_each(|figure| self.figure(figure)),
            Block::Table(table) => {
                self.line("");
                show_table(self, table);
            }
            Block::Findings(findings) => findings.iter().for_each(|finding| self.finding(finding)),
            Block::Histogram { histogram, marks, caption } => {
                charts::histogram(self, histogram, marks, caption);
            }
            Block::OverTime { over_time, caption } => charts::over_time(self, over_time, caption),
            Block::Chart { series, caption } => charts::series(self, series, caption),
            Block::Timeline { timeline, caption } => {
                if self.options.timeline {
                    lanes::show(self, timeline, caption);
                }
            }
        }
    }

    fn fact(&mut self, name: &str, value: &str) {
        const NAME: usize = 14;
        for (index, line) in wrap(value, WIDTH - NAME).into_iter().enumerate() {
            let name = if index == 0 { name } else { "" };
            let name = self.paint(Style::Dim, &format!("{name:<NAME$}"));
            self.line(&format!("{name}{line}"));
        }
    }

    fn figure(&mut self, figure: &Figure) {
        let (name, value) = (format!("{:<18}", figure.name), format!("{:<17}", cut(&figure.value, 17)));
        for (index, line) in wrap(&figure.detail, WIDTH - 36).into_iter().enumerate() {
            let start = match index {
                0 => format!("{}{}", self.paint(Style::Dim, &name), self.toned(figure.tone, &value)),
                _ => " ".repeat(35),
            };
            let line = self.paint(Style::Dim, &line);
            self.line(&format!("{start} {line}"));
        }
    }

    fn finding(&mut self, finding: &FindingReport) {
        let style = match finding.severity {
            Severity::Error => Style::Bad,
            Severity::Warning => Style::Warning,
            Severity::Advice => Style::Good,
        };
        const NAME: usize = 10;
        let texts = [
            format!("{} ({})", finding.evidence, finding.id),
            finding.advice.clone(),
            finding.command.as_ref().map(|command| format!("try: {command}")).unwrap_or_default(),
        ];
        let lines = texts.iter().filter(|text| !text.is_empty()).flat_map(|text| wrap(text, WIDTH - NAME));
        for (index, line) in lines.enumerate() {
            let name = format!("{:<NAME$}", if index == 0 { finding.severity.name() } else { "" });
            let name = self.paint(style, &name);
            self.line(&format!("{name}{line}"));
        }
    }
}

/// The same without characters that a plain console cannot show.
fn to_ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            'µ' | 'μ' => out.push('u'),
            '×' => out.push('x'),
            '≥' => out += ">=",
            '…' => out.push('~'),
            '“' | '”' => out.push('"'),
            '°' => {}
            '↳' => out.push('>'),
            '█' | '▓' => out.push('#'),
            '─' => out.push('-'),
            '·' => out.push('.'),
            character if character.is_ascii() => out.push(character),
            _ => out.push('?'),
        }
    }
    out
}
