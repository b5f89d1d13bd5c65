//! What is missing, what was marked, and where it all comes from.

use super::{Align, Block, Cell, Section, Table, Tone};
use ortscope_core::units::{count, duration, moment, provider};
use ortscope_result::ReportModel;

pub(super) fn gaps(model: &ReportModel) -> Option<Section<'_>> {
    let mut blocks = Vec::new();
    if !model.losses.is_empty() {
        let mut table =
            Table::new(&[("lost at", Align::Name), ("records of", Align::Name), ("count", Align::Number)])
                .titled("Lost records");
        for loss in &model.losses {
            table.row(vec![Cell::text(&loss.place), Cell::text(&loss.kind), Cell::count(loss.count)]);
        }
        blocks.push(Block::Table(table));
    }
    if !model.unavailable.is_empty() {
        let mut table = Table::new(&[
            ("no value for", Align::Name),
            ("how long", Align::Number),
            ("why, and what to do", Align::Prose),
        ])
        .titled("Not available");
        for gap in &model.unavailable {
            let hint = gap.hint.as_ref().map_or(String::new(), |hint| format!(". To enable it: {hint}"));
            table.row(vec![
                Cell::text(&gap.metric),
                gap.seconds
                    .map_or_else(|| Cell::text("always"), |seconds| Cell::number(duration(seconds), seconds)),
                Cell::text(format!("{}{hint}", gap.reason)),
            ]);
        }
        blocks.push(Block::Table(table));
    }
    if !model.left_out.is_empty() {
        blocks.push(Block::Text(
            Tone::Muted,
            format!("Left out of this report by its limits: {}.", model.left_out.join("; ")),
        ));
    }
    (!blocks.is_empty()).then(|| Section::new("missing", "What is missing", blocks))
}

pub(super) fn marks(model: &ReportModel) -> Option<Section<'_>> {
    let mut table = Table::new(&[("at", Align::Number), ("kind", Align::Name), ("what", Align::Prose)]);
    for mark in &model.annotations {
        table.row(vec![
            Cell::number(moment(mark.offset_seconds), mark.offset_seconds),
            Cell::text(&mark.kind),
            Cell::text(&mark.text),
        ]);
    }
    (!table.rows.is_empty()).then(|| Section::new("marks", "Marks", vec![Block::Table(table)]))
}

pub(super) fn recording(model: &ReportModel) -> Section<'_> {
    let header = &model.header;
    let mut facts = vec![("recording", header.id.clone())];
    facts.extend(header.name.clone().map(|name| ("name", name)));
    if !header.tags.is_empty() {
        facts.push(("tags", header.tags.join(", ")));
    }
    facts.push(("subject", header.subject.clone()));
    facts.push(("made by", format!("ortscope {} {}", header.ortscope_version, header.origin)));
    facts.extend(header.command.clone().map(|command| ("command", command)));
    facts.push(("started", header.started_utc.clone()));
    facts.push(("duration", duration(header.duration_seconds)));
    facts.push(("ended", header.ended.clone()));
    if !header.ort_versions.is_empty() {
        facts.push(("ONNX Runtime", header.ort_versions.join(", ")));
    }
    if !header.execution_providers.is_empty() {
        let names: Vec<&str> = header.execution_providers.iter().map(|name| provider(name)).collect();
        facts.push(("providers", names.join(", ")));
    }
    let machine: Vec<String> =
        header.machine.iter().map(|(name, value)| format!("{}: {value}", name.replace('_', " "))).collect();
    if !machine.is_empty() {
        facts.push(("machine", machine.join("; ")));
    }
    let rows: Vec<String> = header
        .rows
        .iter()
        .map(|(table, rows)| format!("{} {}", count(*rows), table.replace('_', " ")))
        .collect();
    if !rows.is_empty() {
        facts.push(("rows", rows.join(", ")));
    }
    let mut blocks = vec![Block::Facts(facts)];
    if !model.provenance.is_empty() {
        let mut table = Table::new(&[
            ("numbers", Align::Name),
            ("from", Align::Name),
            ("rows", Align::Number),
            ("how", Align::Prose),
        ])
        .titled("Where the numbers come from");
        for family in &model.provenance {
            table.row(vec![
                Cell::text(family.numbers.clone()),
                Cell::text(&family.source),
                Cell::count(family.n),
                Cell::text(&family.method),
            ]);
        }
        blocks.push(Block::Table(table));
    }
    Section::new("recording", "The recording", blocks)
}
