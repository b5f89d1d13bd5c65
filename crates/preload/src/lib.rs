//! A library that `ortscope record` has loaded before a native program's own (`LD_PRELOAD`), so that the inferences of
//! an unmodified Rust, C or C++ program are recorded.
//!
//! ```text
//! program ── OrtGetApiBase, or dlsym(…, "OrtGetApiBase") ──► symbols: the wrapped base
//!         ── GetApi(version) ──────────────────────────────► table: a copy of the table with our functions in it
//!         ── Run, RunWithBinding, RunAsync, CreateSession… ─► calls ──► ONNX Runtime's own function
//!                                                               └─────► sessions, output: records into the channel
//! ```
//! Without `ORTSCOPE_CHANNEL` in the environment nothing is wrapped. Whatever goes wrong here, the program goes on as if
//! this library were not there: no panic leaves it, no lock is waited for that a fork could have left taken.
//!
//! The C API's table only ever grows at its end. A program that asks for a version uses the slots of that version and no
//! others, so the copy has as many slots as the library's version; a program that asks for a version newer than is known
//! here gets the library's own table.
//!
//! Windows has no loader that would put a library in front of a program's own, and this crate is empty there.

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
