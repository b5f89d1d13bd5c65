//! Processor counters (PMC): which exist, and how a session records them with context switches.

use ortscope_decode::etw::{MAX_COUNTERS, ProfileSource, profile_sources};

use super::api::{Answer, EtwApi, InformationClass, SessionHandle};
use super::error::EtwNote;

/// Limit for names in a message.
const MAX_NAMED: usize = 12;

/// The counters of this machine's processors.
pub fn counters(api: &dyn EtwApi) -> Answer<Vec<ProfileSource>> {
    let list = api.query_information(InformationClass::ProfileSources, &[])?;
    // The timer samples but does not count.
    Ok(profile_sources(&list).into_iter().filter(|source| source.id != 0).collect())
}

/// Enables counters at every switch and returns the names of those that are recorded. Unavailable ones are reported, and
/// the session continues.
pub(super) fn switch_on(
    api: &dyn EtwApi,
    session: SessionHandle,
    wanted: &[String],
    events: &[u8],
    notes: &mut Vec<EtwNote>,
) -> Vec<String> {
    let mut note = |text: String| notes.push(EtwNote::Counters(text));
    let known = match counters(api) {
        Ok(known) if known.is_empty() => {
            note("this machine exposes no processor counters; most virtual machines do not".to_owned());
            return Vec::new();
        }
        Ok(known) => known,
        Err(code) => {
            note(format!("Windows refused to list the processor counters ({code})"));
            return Vec::new();
        }
    };
    let (mut chosen, mut unknown): (Vec<&ProfileSource>, Vec<&str>) = (Vec::new(), Vec::new());
    for name in wanted {
        match known.iter().find(|source| source.name.eq_ignore_ascii_case(name)) {
            Some(source) if chosen.iter().any(|one| one.id == source.id) => {}
            Some(source) => chosen.push(source),
            None => unknown.push(name),
        }
    }
    if !unknown.is_empty() {
        let names: Vec<&str> = known.iter().take(MAX_NAMED).map(|source| source.name.as_str()).collect();
        let more = if known.len() > MAX_NAMED { ", …" } else { "" };
        note(format!(
            "this machine has no counter named {}; it has {}{more}",
            unknown.join(", "),
            names.join(", ")
        ));
    }
    let max = api
        .query_information(InformationClass::MaxCounters, &[])
        .ok()
        .and_then(|answer| answer.first_chunk().map(|bytes| u32::from_le_bytes(*bytes) as usize))
        .filter(|max| *max > 0)
        .map_or(MAX_COUNTERS, |max| max.min(MAX_COUNTERS));
    if chosen.len() > max {
        let left: Vec<&str> = chosen.drain(max..).map(|source| source.name.as_str()).collect();
        note(format!("this machine supports {max} concurrent counters; not counted: {}", left.join(", ")));
    }
    if chosen.is_empty() {
        return Vec::new();
    }
    let ids: Vec<u8> = chosen.iter().flat_map(|source| source.id.to_le_bytes()).collect();
    let set = |class, data: &[u8]| api.set_information(Some(session), class, data);
    if let Err(code) =
        set(InformationClass::Counters, &ids).and_then(|()| set(InformationClass::CounterEvents, events))
    {
        note(format!("Windows refused processor counters ({code}); another program may be using them"));
        return Vec::new();
    }
    chosen.into_iter().map(|source| source.name.clone()).collect()
}
