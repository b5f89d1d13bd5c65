//! Nothing but dependencies.
//!
//! Cargo chooses the features of a shared crate by what is built together: the program alone, the Python extension alone
//! and all tests together each need others, and so each would build half of the dependencies, and our crates on top of
//! them, again. The parts that are built alone depend on this crate, which asks for the union. To check it:
//! `cargo tree -p ortscope-python -e normal,build -f '{p} [{f}]'` must have no line that the same command with
//! `--workspace -e normal,build,dev` does not have.
