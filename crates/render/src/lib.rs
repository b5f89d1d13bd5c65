//! A result as terminal text, HTML, Markdown, CSV and JUnit.
//!
//! Every rendering is made from the model alone, so that all of them agree: [`blocks`] arranges the model in sections
//! of tables, facts and charts, and text, Markdown and HTML differ only in how they show a section.
//!
//! Texts of a recording (names of nodes, models, programs) are untrusted. The model holds them on one line, without
//! control characters and cut to a length; each rendering escapes them again in its own way.

mod blocks;
pub mod brief;
pub mod comparison;
mod csv;
pub mod flame;
mod html;
mod junit;
mod markdown;
mod palette;
mod style;
mod text;

#[cfg(test)]
mod tests;

pub use csv::csv;
pub use html::{MAX_HTML_BYTES, html};
pub use junit::junit;
pub use markdown::markdown;
pub use style::Paint;
pub use text::{TextOptions, text};
