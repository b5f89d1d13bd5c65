//! The contents of events of real traces.

mod baseline;
mod coverage;
mod hostile;
mod stacks;
mod vectors;

use std::ops::ControlFlow;

use ortscope_etl::payload::{Nest, Value, Visitor};
use ortscope_etl::{EtlBytes, EventRecord};

/// Keeps every field as text, with the group's name before those of members.
#[derive(Debug, Default)]
pub struct Fields {
    pub list: Vec<(String, String)>,
    groups: Vec<String>,
}

impl Fields {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.list.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }
}

impl Visitor for Fields {
    fn field(&mut self, name: &str, value: Value<'_>) {
        let mut path: String =
            self.groups.iter().filter(|group| !group.is_empty()).flat_map(|group| [group, "."]).collect();
        path.push_str(name);
        self.list.push((path, value.to_string()));
    }

    fn open(&mut self, name: &str, _nest: Nest) {
        self.groups.push(name.to_owned());
    }

    fn close(&mut self) {
        self.groups.pop().expect("a group was opened");
    }
}

/// Every record in chronological order.
pub fn each_record(bytes: &[u8], mut each: impl FnMut(&EventRecord<'_>)) -> u64 {
    let walk = EtlBytes::new(bytes).expect("a trace").ordered(|record| {
        each(record);
        ControlFlow::Continue(())
    });
    walk.expect("reads from memory").records
}
