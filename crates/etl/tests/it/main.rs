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
// Not only for tests by its attributes: it prints, and says that it may.
#[path = "../../../ort/tests/support/skips.rs"]
mod skips;
#[cfg(test)]
mod writing;
