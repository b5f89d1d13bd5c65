//! `/prometheus`: metrics for a scrape. Counters of the live source count from the start of the server, so that late scrapes
//! miss nothing.

use ortscope_export::metrics::exposition;
use ortscope_export::{ExportOptions, Format, export_to};

use super::Answer;
use crate::app::{App, Asked};
use crate::error::ApiError;

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub fn prometheus(app: &App, asked: &Asked) -> Result<Answer, ApiError> {
    let source = app.sources.of(&asked.params)?;
    let text = match source.live() {
        Some(live) => exposition(&live.recent.metrics(|metrics| metrics.families())),
        None => {
            let info = source.manifest().info();
            let mut bytes = Vec::new();
            export_to(source.tables(), &info, &ExportOptions::new(Format::Prometheus), &mut bytes)?;
            String::from_utf8(bytes).map_err(ApiError::internal)?
        }
    };
    Ok(Answer::Text { text, content_type: CONTENT_TYPE })
}
