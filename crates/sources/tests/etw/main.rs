//! Live sessions of Windows' event tracing, on every system: the functions of Windows are replaced by a table that answers
//! as the real ones are documented to, and that hands out the records of real traces.
#![expect(
    unsafe_code,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests; one stands in for Windows, which hands out pointers"
)]

mod errors;
mod replay;
mod source;
mod table;
mod written;
