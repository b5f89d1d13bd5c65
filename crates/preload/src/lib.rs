//! A library that `ortscope record` loads before a native program's own libraries (`LD_PRELOAD`), to record the
//! inferences of an unmodified Rust, C or C++ program.
//!
//! ```text
//! program ── OrtGetApiBase, or dlsym(…, "OrtGetApiBase") ──► symbols: the wrapped base
//!         ── GetApi(version) ──────────────────────────────► table: a copy of the table with our functions in it
//!         ── Run, RunWithBinding, RunAsync, CreateSession… ─► calls ──► ONNX Runtime's own function
//!                                                               └─────► sessions, output: records into the channel
//! ```
//! Without `ORTSCOPE_CHANNEL` in the environment nothing is wrapped. Whatever fails here, the program continues as if
//! this library were absent: no panic leaves it, and it never waits for a lock that a fork could have left taken.
//!
//! The C API's table only grows at its end. A program that requests a version uses only the slots of that version, so
//! the copy has as many slots as the library's version; a program that requests a version newer than known here gets
//! the library's own table.
//!
//! Windows has no way to load a library before a program's own, so this crate is empty there.

std::cfg_select! {
    target_os = "linux" => {
        mod calls;
        mod output;
        mod sessions;
        mod symbols;
        mod table;
    }
    _ => {}
}
