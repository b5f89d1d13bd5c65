//! One model of a recording, and its text, HTML, Markdown, JSON, JUnit and CSV.
