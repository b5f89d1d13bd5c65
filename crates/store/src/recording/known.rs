//! The current things of a sampled table, with the last row of each.

use std::collections::BTreeMap;

use ortscope_core::schema::{Column, TableId};

use crate::columns::{append_stretch, empty_columns, remove_cell, set_cell};
use crate::key::{Key, key_of};

#[derive(Debug)]
pub(super) struct Known {
    table: TableId,
    pub columns: Vec<Column>,
    numbers: BTreeMap<Key, usize>,
}

impl Known {
    pub fn new(table: TableId) -> Self {
        Self { table, columns: empty_columns(table), numbers: BTreeMap::new() }
    }

    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    pub fn clear(&mut self) {
        *self = Self::new(self.table);
    }

    /// Takes a row: of a new thing, or in place of the last one.
    pub fn take(&mut self, columns: &[Column], keys: &[usize], row: usize) {
        let next = self.numbers.len();
        let number = *self.numbers.entry(key_of(columns, keys, row)).or_insert(next);
        for (known, column) in self.columns.iter_mut().zip(columns) {
            if number == next {
                append_stretch(known, column, row..row + 1);
            } else {
                set_cell(known, number, column, row);
            }
        }
    }

    /// A thing has ended.
    pub fn end(&mut self, key: &Key) {
        let Some(gone) = self.numbers.remove(key) else {
            return;
        };
        for column in &mut self.columns {
            remove_cell(column, gone);
        }
        for number in self.numbers.values_mut() {
            *number -= usize::from(*number > gone);
        }
    }
}
