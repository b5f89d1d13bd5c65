//! Provider failures as annotations of the recording, each at the time it happened.

use ortscope_core::clock::now_ns;
use ortscope_core::schema::AnnotationRow;
use ortscope_store::RecordingWriter;

use crate::recording::append;
use ortscope_analyze::facts::Fact;
use ortscope_analyze::measurement::{Inference, Measurement};
use ortscope_core::failure::Failure;
use ortscope_core::units;

/// Maximum length of an annotation: the last output of a library can be long.
const MAX_CHARACTERS: usize = 500;

/// Records requested providers that are not used, and the failure of the run.
pub fn record(recording: &RecordingWriter, collected: &Measurement, failure: Option<&Failure>) {
    let row = |timestamp_ns: u64, kind: &str, text: &str| AnnotationRow {
        timestamp_ns,
        kind: kind.into(),
        text: units::clean(text, MAX_CHARACTERS).into(),
    };
    let begin_ns = collected.facts.iter().find_map(|message| match message {
        Fact::Steady { begin: true, timestamp_ns, .. } => Some(*timestamp_ns),
        _ => None,
    });
    let runs = || collected.first.iter().chain(&collected.steady).chain(&collected.generated);
    let first_ns = runs().map(|inference| inference.start_ns).min().or(begin_ns);
    let created = collected.facts.iter().find_map(|message| match message {
        Fact::SessionCreated(created) => Some(created),
        _ => None,
    });
    let fallen = created.into_iter().flat_map(|created| &created.fallbacks).map(|fallback| {
        let text = format!("{} was asked for and is not used: {}", fallback.provider, fallback.reason);
        row(first_ns.unwrap_or_else(now_ns), "provider_fallback", &text)
    });
    // The end of its last inference is the best known time.
    let last_ns = runs().map(Inference::end_ns).max();
    let failed = failure.map(|failure| row(last_ns.unwrap_or_else(now_ns), "failure", &failure.message));
    if let Err(failure) = append(recording, fallen.chain(failed)) {
        tracing::warn!("provider failures are not in the recording: {}", failure.message);
    }
}
