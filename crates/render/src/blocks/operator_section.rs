//! What the profiling pass found out: work and limits, the graph's optimisation, memory, the device's own profile.

use super::{Align, Block, Cell, Table, Tone};
use ortscope_core::units::{bytes, count, counted, digits, milliseconds, percent, prefixed, provider};
use ortscope_result::{DeviceWork, OperatorSection, PathMethod, ProviderTime, RunMemory};

pub(super) fn facts(section: &OperatorSection) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    facts.extend(work(section).map(|text| ("work", text)));
    if let Some(line) = &section.roofline {
        facts.push((
            "limits",
            format!(
                "{} of the time bound by computing, {} by memory, {} by the cost of calls; {} not known (computing and \
                 moving are even at {} FLOP per byte)",
                percent(line.compute_bound),
                percent(line.memory_bound),
                percent(line.overhead_bound),
                percent(line.without_numbers),
                digits(line.ridge)
            ),
        ));
    }
    let path = &section.critical_path;
    if path.nodes > 0 {
        let text = match &path.method {
            PathMethod::Dependencies => format!(
                "{} of {} per run wait for each other ({}): {} threads could be busy at best",
                milliseconds(path.length_ms),
                milliseconds(path.work_ms),
                counted(path.nodes, "node"),
                digits(path.possible_parallelism)
            ),
            PathMethod::SequentialOrder { why } => format!(
                "not known: {why}; the order of execution is one chain of {}",
                milliseconds(path.length_ms)
            ),
        };
        facts.push(("critical path", text));
    }
    let intra = section.parallelism.intra_op.as_ref();
    if let Some(intra) = intra.filter(|intra| intra.operators_ns > 0) {
        facts.push((
            "inner threads",
            format!(
                "{} of {} were shared out; the calling thread waited {} of their time for the others",
                count(intra.shared_calls),
                counted(intra.calls, "operator call"),
                percent(intra.wait_ns as f64 / intra.operators_ns as f64)
            ),
        ));
    }
    facts.extend(changes(section).map(|text| ("providers", text)));
    if let Some(fusion) = &section.fusion {
        facts.push((
            "optimised",
            format!(
                "{} nodes to {}: {} fused, {} replaced, {} folded, {} removed, {} added",
                count(fusion.before),
                count(fusion.after),
                count(fusion.fused),
                count(fusion.replaced),
                count(fusion.folded),
                count(fusion.removed),
                count(fusion.added)
            ),
        ));
    }
    facts.extend(memory(section).map(|text| ("memory", text)));
    facts
}

fn work(section: &OperatorSection) -> Option<String> {
    let work = &section.flops;
    if work.counted == 0 {
        return None;
    }
    let mut text = format!(
        "{} per run ({} of multiply-adds, each two), {} moved",
        prefixed(work.flops_per_run as f64, "FLOP"),
        prefixed(work.macs_per_run as f64 * 2.0, "FLOP"),
        bytes(work.bytes_moved_per_run as f64)
    );
    if let Some(rate) = work.flops_per_second {
        text += &format!("; {} at the measured latency", prefixed(rate, "FLOP/s"));
    }
    if let (Some(share), Some(peak)) = (work.share_of_peak, &section.peak) {
        text += &format!(
            ", {} of the {} that {} ({}) reached here",
            percent(share),
            prefixed(peak.flops_per_second, "FLOP/s"),
            counted(peak.threads as u64, "thread"),
            peak.instructions
        );
    }
    Some(text)
}

fn changes(section: &OperatorSection) -> Option<String> {
    let changes = &section.transitions;
    if changes.per_run == 0 && changes.copies.nodes == 0 {
        return None;
    }
    let pairs: Vec<String> = changes
        .pairs
        .iter()
        .map(|pair| {
            let carried = match (pair.bytes, pair.unknown_bytes) {
                (0, 1..) => "unknown size".to_owned(),
                (carried, _) => bytes(carried as f64),
            };
            format!(
                "{} to {} {} times ({carried})",
                provider(&pair.from),
                provider(&pair.to),
                count(pair.count)
            )
        })
        .collect();
    let mut text = format!("{} per run: {}", counted(changes.per_run, "change"), pairs.join(", "));
    if changes.copies.nodes > 0 {
        text += &format!(
            "; {} take {} of the time",
            counted(changes.copies.nodes, "copy node"),
            percent(changes.copies.share)
        );
    }
    if !changes.by_dependencies {
        text += "; by the order of execution, since the graph's edges are not known";
    }
    text += &format!("; {} after the last operator", milliseconds(changes.after_last_ms_per_run));
    Some(text)
}

fn memory(section: &OperatorSection) -> Option<String> {
    let memory = section.memory.as_ref()?;
    let run = |name: &str, run: &RunMemory| {
        let unused = run.unused_share.map_or(String::new(), |share| format!(", {} unused", percent(share)));
        format!(
            "{name} {} in {}, at most {} in use, arena {}{unused}",
            bytes(run.allocated_bytes as f64),
            counted(run.allocating_nodes, "node"),
            bytes(run.peak_in_use_bytes as f64),
            run.arena_bytes.map_or("n/a".into(), |held| bytes(held as f64))
        )
    };
    let mut text = run("first run allocates", memory.first_run.as_ref()?);
    if let Some(last) = &memory.last_run {
        text += &format!("; {}", run("later ones", last));
    }
    Some(text)
}

/// Tables, most useful first.
pub(super) fn blocks(section: &OperatorSection) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    for reason in &section.placement.reasons {
        blocks.push(Block::Text(Tone::Warning, format!("ONNX Runtime says: {reason}")));
    }
    let tables = [fallback(section), limits(section), levels(section), fusion(section), missed(section)];
    blocks.extend(tables.into_iter().flatten().map(Block::Table));
    blocks.extend(allocations(section).map(Block::Table));
    for time in &section.device_time {
        blocks.extend(device_time(time));
    }
    blocks.extend(device_work(section).map(Block::Table));
    blocks.extend(not_counted(section).map(Block::Table));
    blocks.extend(section.notes.iter().map(|note| Block::Text(Tone::Muted, note.clone())));
    blocks
}

fn fallback(section: &OperatorSection) -> Option<Table> {
    let types = &section.placement.fallback_types;
    let mut table =
        Table::new(&[("type", Align::Name), ("nodes", Align::Number), ("share of time", Align::Number)])
            .titled("On the CPU although another provider was asked for");
    for of in types {
        table.row(vec![Cell::text(&*of.op_type), Cell::count(of.nodes), Cell::share(Some(of.share))]);
    }
    (!types.is_empty()).then_some(table)
}

fn limits(section: &OperatorSection) -> Option<Table> {
    let columns = [
        ("node", Align::Name),
        ("type", Align::Name),
        ("share", Align::Number),
        ("FLOP", Align::Number),
        ("FLOP/byte", Align::Number),
        ("speed", Align::Number),
        ("of its roof", Align::Number),
        ("bound by", Align::Name),
        ("cycles (estimated)", Align::Number),
    ];
    let mut table = Table::new(&columns).titled("What limits the costliest nodes");
    let known = section.by_node.iter().filter(|node| node.bound.is_some());
    for node in known.take(15) {
        let mut of_type = Cell::text(&*node.op_type);
        of_type.op_type = Some(node.op_type.to_string());
        table.row(vec![
            Cell::text(&*node.name),
            of_type,
            Cell::share(Some(node.share)),
            Cell::known(node.flops.map(|flops| flops as f64), |flops| prefixed(flops, "")),
            Cell::known(node.intensity, digits),
            Cell::known(node.flops_per_second, |rate| prefixed(rate, "FLOP/s")),
            Cell::known(node.roof_fraction, percent),
            Cell::text(node.bound.map_or("", |bound| bound.name())),
            Cell::known(node.estimated_cycles.map(|cycles| cycles as f64), |cycles| prefixed(cycles, "")),
        ]);
    }
    table.note = "roof: the longer of computing at the peak and moving its bytes at the bandwidth measured here; above \
                  100 % its data stayed in a cache; cycles: median time × the processor's clock"
        .to_owned();
    (!table.rows.is_empty()).then_some(table)
}

fn levels(section: &OperatorSection) -> Option<Table> {
    let columns = [
        ("level", Align::Name),
        ("nodes", Align::Number),
        ("session", Align::Number),
        ("median", Align::Number),
        ("against none", Align::Number),
        ("new fusions", Align::Prose),
    ];
    let mut table = Table::new(&columns).titled("Levels of graph optimisation");
    for level in &section.levels {
        let fusions = match (&level.failure, level.new_patterns.len()) {
            (Some(why), _) => why.clone(),
            (None, 0) => "–".to_owned(),
            (None, shown @ 1..=4) => level.new_patterns[..shown].join("; "),
            (None, all) => format!("{}; {} more", level.new_patterns[..4].join("; "), all - 4),
        };
        table.row(vec![
            Cell::text(&level.level),
            Cell::known(level.nodes.map(|nodes| nodes as f64), |nodes| count(nodes as u64)),
            Cell::known(level.session_ms, milliseconds),
            Cell::known(level.median_ms, milliseconds),
            Cell::known(level.ratio_to_none, |ratio| format!("{ratio:.2}×")),
            Cell::text(fusions),
        ]);
    }
    let runs = section.levels.iter().map(|level| level.runs).max().unwrap_or(0);
    table.note =
        format!("sessions of all levels side by side, one run of each in turn, {} rounds", count(runs));
    (!section.levels.is_empty()).then_some(table)
}

fn fusion(section: &OperatorSection) -> Option<Table> {
    let fusion = section.fusion.as_ref()?;
    let mut patterns: Vec<(&String, &usize)> = fusion.patterns.iter().collect();
    patterns.sort_by_key(|(_, often)| std::cmp::Reverse(**often));
    let mut table = Table::new(&[("what became what", Align::Prose), ("times", Align::Number)])
        .titled("What the optimiser fused");
    for (what, often) in patterns.into_iter().take(20) {
        table.row(vec![Cell::text(what), Cell::count(*often as u64)]);
    }
    (!table.rows.is_empty()).then_some(table)
}

fn missed(section: &OperatorSection) -> Option<Table> {
    let fusion = section.fusion.as_ref()?;
    let mut table =
        Table::new(&[("pattern", Align::Name), ("nodes", Align::Prose)]).titled("Fusions that were missed");
    for missed in fusion.missed.iter().take(20) {
        table.row(vec![Cell::text(missed.pattern.name()), Cell::text(missed.nodes.join(", "))]);
    }
    let more = fusion.missed.len().saturating_sub(20) as u64 + fusion.missed_not_listed;
    if more > 0 {
        table.note = format!("{} more are not shown", count(more));
    }
    (!table.rows.is_empty()).then_some(table)
}

fn allocations(section: &OperatorSection) -> Option<Table> {
    let first = section.memory.as_ref()?.first_run.as_ref()?;
    let mut table = Table::new(&[("node", Align::Name), ("allocated", Align::Number)])
        .titled("Largest allocations of the first run");
    for (name, size) in &first.largest {
        table.row(vec![Cell::text(name), Cell::number(bytes(*size as f64), *size as f64)]);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Device time of a provider beside the CPU's own, whose operators are the tables above.
fn device_time(time: &ProviderTime) -> Option<Block<'static>> {
    const SHOWN: usize = 20;
    let name = provider(&time.provider);
    if name == "CPU" {
        return None;
    }
    let place = match (&time.device, &time.device_name) {
        (Some(device), Some(called)) => format!("{name} ({device}, {called})"),
        (Some(device), None) => format!("{name} ({device})"),
        _ => name.to_owned(),
    };
    let Some(device_ns) = time.device_ns else {
        let why = time.unknown.clone().unwrap_or_default();
        return Some(Block::Text(Tone::Muted, format!("Device time of {place} is not known: {why}")));
    };
    let has_cycles = time.operators.iter().any(|of| of.cycles.is_some());
    let mut columns = vec![
        ("operator", Align::Name),
        ("type", Align::Name),
        ("per run", Align::Number),
        ("share", Align::Number),
        ("known by", Align::Name),
    ];
    if has_cycles {
        columns.push(("cycles per run", Align::Number));
    }
    let runs = time.runs.max(1);
    let per_run = |ns: u64| {
        let ms = ns as f64 / runs as f64 / 1e6;
        Cell::number(milliseconds(ms), ms)
    };
    let share = |ns: u64| Cell::share(Some(ns as f64 / device_ns.max(1) as f64));
    let mut table = Table::new(&columns).titled(format!("Device time by operator: {place}"));
    for of in time.operators.iter().take(SHOWN) {
        let mut of_type = Cell::text(&of.op_type);
        of_type.op_type = Some(of.op_type.clone());
        let mut row = vec![
            Cell::text(&of.name),
            of_type,
            of.attribution.ns().map_or_else(|| Cell::text("not known"), per_run),
            of.attribution.ns().map_or_else(|| Cell::text(""), share),
            Cell::text(of.attribution.method()),
        ];
        if has_cycles {
            let cycles = of.cycles.map(|cycles| (cycles / runs) as f64);
            row.push(Cell::known(cycles, |cycles| count(cycles as u64)));
        }
        table.row(row);
    }
    let mut rest = |name: String, ns: u64| {
        let mut row = vec![Cell::text(name), Cell::text(""), per_run(ns), share(ns), Cell::text("")];
        if has_cycles {
            row.push(Cell::text(""));
        }
        table.row(row);
    };
    let more = time.operators.len().saturating_sub(SHOWN) as u64 + time.operators_not_listed;
    if more > 0 {
        let hidden = time.operators.iter().skip(SHOWN).filter_map(|of| of.attribution.ns());
        rest(format!("{} more", count(more)), hidden.fold(time.not_listed_ns, u64::saturating_add));
    }
    rest("unattributed".to_owned(), time.unattributed_ns.unwrap_or(0));
    rest("all".to_owned(), device_ns);
    let runs = counted(time.runs, "run");
    table.note = match (&time.divided_by, &time.unknown) {
        (Some(by), _) => format!("a measured time, divided by {}; {runs}", by.name()),
        (None, Some(why)) => format!("over {runs}; {why}"),
        (None, None) => format!("over {runs}"),
    };
    Some(Block::Table(table))
}

fn device_work(section: &OperatorSection) -> Option<Table> {
    let columns = [
        ("work", Align::Name),
        ("provider", Align::Name),
        ("times", Align::Number),
        ("total", Align::Number),
        ("cycles", Align::Number),
    ];
    let mut table = Table::new(&columns).titled("The device's own profile");
    // What is divided above need not be repeated.
    let is_divided = |work: &&DeviceWork| {
        let divided = section.device_time.iter().find(|time| time.provider == work.provider);
        divided.is_some_and(|time| time.device_ns.is_some())
    };
    for work in section.device_work.iter().filter(|work| !is_divided(work)).take(30) {
        let name = if work.op_type.is_empty() {
            work.name.clone()
        } else {
            format!("{} ({})", work.name, work.op_type)
        };
        table.row(vec![
            Cell::text(name),
            Cell::text(provider(&work.provider)),
            Cell::count(work.count),
            Cell::number(milliseconds(work.total_ms), work.total_ms),
            Cell::known(work.cycles.map(|cycles| cycles as f64), |cycles| count(cycles as u64)),
        ]);
    }
    table.note = "as the provider reports it; of QNN the time is its share of the device's cycles".to_owned();
    (!table.rows.is_empty()).then_some(table)
}

fn not_counted(section: &OperatorSection) -> Option<Table> {
    let rows = &section.flops.not_counted;
    let mut table = Table::new(&[("type", Align::Name), ("operators", Align::Number), ("why", Align::Prose)])
        .titled("Operators without a count of FLOPs");
    for of in rows {
        table.row(vec![Cell::text(&of.op_type), Cell::count(of.operators), Cell::text(&of.why)]);
    }
    (!rows.is_empty()).then_some(table)
}
