//! The sample times of a sampled table, and the ends of sampled things.

use std::collections::VecDeque;

use ortscope_core::schema::{SampleEndRow, TableDef, TableId, Text, TickRow};
use ortscope_core::tables::{ReadError, Scan};

use super::unit::Unit;
use crate::key::{Key, key_from_json};

/// The ticks of a table in a unit, in order.
pub(super) fn ticks_of(unit: &Unit, table: TableId, errors: &mut VecDeque<ReadError>) -> Vec<u64> {
    let mut ticks = Vec::new();
    for batch in unit.scan(TableId::Ticks, &Scan::all()) {
        match batch {
            Ok(batch) => {
                let of_table = batch.rows::<TickRow>().filter(|tick| is_name(&tick.table, table.def()));
                ticks.extend(of_table.map(|tick| tick.timestamp_ns));
            }
            Err(error) => errors.push_back(error),
        }
    }
    ticks.sort_unstable();
    ticks.dedup();
    ticks
}

/// The ends in the ticks of a unit, in order.
pub(super) fn ends_of(
    unit: &Unit,
    table: TableId,
    keys: &[usize],
    errors: &mut VecDeque<ReadError>,
) -> Vec<(u64, Key)> {
    let mut ends = Vec::new();
    for batch in unit.scan(TableId::SampleEnds, &Scan::all()) {
        match batch {
            Ok(batch) => {
                let of_table = batch.rows::<SampleEndRow>().filter(|end| is_name(&end.table, table.def()));
                ends.extend(
                    of_table.filter_map(|end| {
                        Some((end.timestamp_ns, key_from_json(&end.key, table.def(), keys)?))
                    }),
                );
            }
            Err(error) => errors.push_back(error),
        }
    }
    ends.sort_by_key(|(time, _)| *time);
    ends
}

fn is_name(name: &Text, def: &TableDef) -> bool {
    &**name == def.name
}

/// The unit where reconstruction must begin to know the state at `from_ns`: the one before the unit with the tick.
/// The first tick that begins in a unit is stored completely, so two units with ticks of the table are enough.
pub(super) fn first_unit_needed(units: &[Unit], table: TableId, from_ns: u64) -> usize {
    let mut with_ticks = 0;
    for (index, unit) in units.iter().enumerate().rev() {
        let begins = unit.tables.get(&TableId::Ticks).is_some_and(|extent| extent.from_ns <= from_ns);
        // An error here occurs again, and is reported, when the unit is read.
        if begins && ticks_of(unit, table, &mut VecDeque::new()).first().is_some_and(|tick| *tick <= from_ns)
        {
            with_ticks += 1;
            if with_ticks == 2 {
                return index;
            }
        }
    }
    0
}
