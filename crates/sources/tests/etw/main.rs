//! Live event tracing sessions on every system: the Windows functions are replaced by a table with their documented
//! behavior, which delivers the records of real traces.
#![expect(
    unsafe_code,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests; one replaces Windows, which passes pointers"
)]

mod errors;
mod replay;
mod source;
mod table;
mod written;
