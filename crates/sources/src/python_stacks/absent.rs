//! Placeholder for builds without the reader.

use super::{PythonFrame, Refusal};

#[derive(Debug)]
pub enum Spy {}

impl Spy {
    pub fn open(_pid: u32) -> Result<Self, Refusal> {
        Err(Refusal {
            why: "this build cannot read Python stacks".to_owned(),
            hint: "the Python package can; from source: cargo build -p ortscope-cli --features python-stacks",
            is_final: true,
        })
    }

    pub fn running_threads(&mut self, _each: &mut dyn FnMut(&[PythonFrame])) -> Result<(), Refusal> {
        match *self {}
    }
}
