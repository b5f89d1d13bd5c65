//! Creating sessions, timed.

use std::collections::BTreeMap;

use ortscope_core::clock::now_ns;
use ortscope_ort::{Environment, Session, ep};

use super::outbox::Outbox;
use super::{SECOND_SESSION_LIMIT, Stopped, failures};
use crate::measure::plan::WorkerPlan;
use ortscope_analyze::facts::{Fact, SessionCreated};

const CPU: &str = "CPUExecutionProvider";

/// The first session, and how long it took.
pub fn create(
    plan: &WorkerPlan,
    environment: &Environment,
    outbox: &mut Outbox,
) -> Result<(Session, u64), Stopped> {
    let begin = now_ns();
    let session = another(plan, environment)?;
    let nanos = now_ns() - begin;
    let mut placement = BTreeMap::<String, u64>::new();
    // Not available before 1.24; the report says so.
    for subgraph in session.placement().unwrap_or_default() {
        *placement.entry(subgraph.provider).or_default() += subgraph.nodes.len() as u64;
    }
    let providers = used_providers(&session);
    outbox.send(Fact::SessionCreated(SessionCreated {
        nanos,
        provider_versions: provider_versions(environment, &providers),
        devices: ep::used_devices(&session),
        providers,
        fallbacks: session.fallbacks().to_vec(),
        placement: placement.into_iter().collect(),
        inputs: session.inputs().to_vec(),
        outputs: session.outputs().to_vec(),
    }));
    Ok((session, nanos))
}

/// Versions that provider libraries report (since 1.23). Built-in providers, such as the CPU's, have ONNX Runtime's version,
/// so they are not queried.
fn provider_versions(environment: &Environment, providers: &[String]) -> BTreeMap<String, String> {
    if providers.iter().all(|name| name == CPU) {
        return BTreeMap::new();
    }
    let devices = environment.devices().unwrap_or_default().into_iter();
    devices
        .filter(|device| providers.contains(&device.ep_name))
        .filter_map(|device| Some((device.ep_name, device.ep_metadata.get("version")?.clone())))
        .collect()
}

/// The CPU provider is always used, even if it was not requested.
fn used_providers(session: &Session) -> Vec<String> {
    let mut providers = session.providers().to_vec();
    if !providers.iter().any(|name| name == CPU) {
        providers.push(CPU.to_owned());
    }
    providers
}

pub fn another(plan: &WorkerPlan, environment: &Environment) -> Result<Session, Stopped> {
    Session::create(environment, &plan.model, &plan.options)
        .map_err(|error| failures::from_ort(&error, plan).into())
}

/// Creates one more session and drops it: what creation costs when everything is warm.
pub fn time_another(plan: &WorkerPlan, environment: &Environment, first_ns: u64) -> Fact {
    if !plan.time_second_session {
        return Fact::SecondSession { nanos: None, reason: Some("not timed in a sweep".into()) };
    }
    if u128::from(first_ns) > SECOND_SESSION_LIMIT.as_nanos() {
        let reason = format!("skipped: the first took more than {} s", SECOND_SESSION_LIMIT.as_secs());
        return Fact::SecondSession { nanos: None, reason: Some(reason) };
    }
    let begin = now_ns();
    match another(plan, environment) {
        Ok(_session) => Fact::SecondSession { nanos: Some(now_ns() - begin), reason: None },
        Err(stopped) => Fact::SecondSession { nanos: None, reason: Some(stopped.failure.message) },
    }
}
