//! Filters that reports, exports and queries share.
