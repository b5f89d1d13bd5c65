//! Empty: only the tests matter.
