//! In which order the things of a tick came, compared with the tick before.

use std::collections::HashMap;

use ortscope_core::schema::Column;

use crate::columns::same_cell;
use crate::key::{Key, key_of};

/// The tick so far.
#[derive(Debug)]
pub(super) enum Layout {
    /// The same things in the same order as before, up to this many.
    Same(usize),
    /// Something began, ended or moved.
    Other(Other),
}

#[derive(Debug)]
pub(super) struct Other {
    /// The known rows in their new order.
    pub order: Vec<u32>,
    /// By known row: whether this tick has it.
    pub seen: Vec<bool>,
    /// Made when it is first needed.
    numbers: Option<HashMap<Key, u32>>,
    /// After the thing that was met last, the one behind it is the likeliest.
    likely: usize,
}

/// Where a row of the present tick belongs.
pub(super) enum Place {
    /// To this known row.
    Known(usize),
    /// It is new and becomes the next known row.
    New,
    /// Its key was in this tick before.
    Again(usize),
}

impl Other {
    /// The first `same` of `known` rows came as before.
    pub fn new(same: usize, known: usize) -> Self {
        let order = (0..same as u32).collect();
        let seen = (0..known).map(|row| row < same).collect();
        Self { order, seen, numbers: None, likely: same }
    }

    pub fn place(&mut self, state: &[Column], columns: &[Column], keys: &[usize], row: usize) -> Place {
        let is_at = |known: usize| keys.iter().all(|key| same_cell(&columns[*key], row, &state[*key], known));
        let known = if self.likely < self.seen.len() && is_at(self.likely) {
            Some(self.likely)
        } else {
            let rows = self.seen.len();
            let numbers = self
                .numbers
                .get_or_insert_with(|| (0..rows).map(|row| (key_of(state, keys, row), row as u32)).collect());
            let next = numbers.len() as u32;
            let number = *numbers.entry(key_of(columns, keys, row)).or_insert(next);
            (number < next).then_some(number as usize)
        };
        let place = known.unwrap_or(self.seen.len());
        self.likely = place + 1;
        match known {
            None => {
                self.seen.push(true);
                self.order.push(place as u32);
                Place::New
            }
            Some(known) if self.seen[known] => Place::Again(known),
            Some(known) => {
                self.seen[known] = true;
                self.order.push(known as u32);
                Place::Known(known)
            }
        }
    }
}
