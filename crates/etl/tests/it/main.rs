//! Tests that need real traces or other programs.

#[cfg(test)]
mod compression;
#[cfg(test)]
mod corpus;
#[cfg(test)]
mod cutting;
#[cfg(test)]
mod damaged;
#[cfg(test)]
mod payload;
#[cfg(test)]
mod peer;
#[cfg(test)]
mod real_files;
// Its attributes permit printing, so it is not declared as a test-only module.
#[path = "../../../ort/tests/support/skips.rs"]
mod skips;
#[cfg(test)]
mod writing;
