//! Power of the whole machine from its battery, through one system call (Windows). On Linux each battery has files
//! ([`super::cores`]).

use ortscope_decode::battery_state::BatteryState;

use super::{Found, Missing, Presence, Reader, Reading, Recovered};

/// An unchanged value is repeated after this interval, so that no longer period is left unmeasured.
const REPEAT_NS: u64 = 10_000_000_000;
/// Reason while a battery is charging.
pub(super) const MAINS: &str = "this machine runs on mains power";
/// Reason while a battery discharges at an unknown rate.
pub(super) const NO_RATE: &str = "the battery does not report its discharge rate";
const NO_STATE: &str = "Windows does not report the battery state (CallNtPowerInformation)";

/// Queries the battery; `None` if the system does not answer.
pub type QueryBattery = Box<dyn FnMut() -> Option<BatteryState> + Send>;

/// Reports battery power, or the reason for its absence.
#[derive(Debug, Default)]
pub(super) struct BatteryPower {
    /// A battery updates its rate every few seconds; an unchanged value is not a new reading.
    last: Option<(u64, f64)>,
    feeds: Presence,
    back: Vec<Recovered>,
}

impl BatteryPower {
    /// Emits the power of the whole machine, or records why it is unknown.
    pub fn report(
        &mut self,
        at_ns: u64,
        watts: Result<f64, &str>,
        out: &mut dyn FnMut(Reading<'_>),
        lost: &mut Vec<Missing>,
    ) {
        let value = match watts {
            Ok(value) => value,
            Err(why) => {
                self.last = None;
                self.feeds.lose(at_ns, || missing(why), lost);
                return;
            }
        };
        self.feeds.find(at_ns, &mut self.back);
        let is_repeated = self
            .last
            .is_some_and(|(last_ns, last)| last == value && at_ns.saturating_sub(last_ns) < REPEAT_NS);
        if !is_repeated {
            self.last = Some((at_ns, value));
            out(Reading { at_ns, device: "system", metric: "power_watts", value, source: "battery" });
        }
    }

    pub fn take_recovered(&mut self, back: &mut Vec<Recovered>) {
        back.append(&mut self.back);
    }
}

struct Battery {
    query: QueryBattery,
    power: BatteryPower,
}

pub(super) fn missing(why: &str) -> Missing {
    let hint = "a battery measures the whole machine only while discharging; other meters work without it";
    Missing::new("battery", why, hint)
}

pub fn find(mut query: QueryBattery, found: &mut Found) {
    let why = match query() {
        Some(state) if state.is_present => {
            found.readers.push(Box::new(Battery { query, power: BatteryPower::default() }));
            return;
        }
        Some(_) => "this machine has no battery",
        None => NO_STATE,
    };
    found.missing.push(missing(why));
}

/// Discharge power, or the reason for its absence.
fn discharge_watts(state: Option<BatteryState>) -> Result<f64, &'static str> {
    let state = state.ok_or(NO_STATE)?;
    state.watts_drawn().ok_or(match state {
        BatteryState { is_present: false, .. } => "the battery was removed",
        BatteryState { is_on_mains: true, .. } | BatteryState { is_charging: true, .. } => MAINS,
        _ => NO_RATE,
    })
}

impl Reader for Battery {
    fn describe(&self) -> String {
        "system (battery: active only while discharging)".to_owned()
    }

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), lost: &mut Vec<Missing>) {
        self.power.report(at_ns, discharge_watts((self.query)()), out, lost);
    }

    fn take_recovered(&mut self, back: &mut Vec<Recovered>) {
        self.power.take_recovered(back);
    }

    fn period_ns(&self) -> u64 {
        1_000_000_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(rate: i32) -> BatteryState {
        BatteryState {
            is_present: true,
            is_discharging: true,
            rate_milliwatts: Some(rate),
            ..BatteryState::default()
        }
    }

    fn charged() -> BatteryState {
        BatteryState { is_on_mains: true, is_charging: true, ..fed(20_000) }
    }

    /// Regression: on mains power, or without a battery state, neither a value nor a reason was reported.
    #[test]
    fn missing_power_has_a_reason_and_its_return_is_reported() {
        let gone = BatteryState { is_present: false, ..fed(0) };
        let states = [
            Some(fed(-9_000)),
            Some(charged()),
            Some(charged()),
            Some(fed(-9_000)),
            None,
            Some(fed(-9_000)),
            Some(fed(0)),
            Some(fed(-9_000)),
            Some(gone),
        ];
        let mut answers = [Some(fed(-9_000))].into_iter().chain(states);
        let mut found = Found::default();
        find(Box::new(move || answers.next().flatten()), &mut found);
        let (mut readings, mut lost, mut back) = (0, Vec::new(), Vec::new());
        for at_ns in 1..=9 {
            found.readers[0].read(at_ns, &mut |_| readings += 1, &mut lost);
            found.readers[0].take_recovered(&mut back);
        }
        let whys: Vec<&str> = lost.iter().map(|missing| missing.why.as_str()).collect();
        assert_eq!(whys, [MAINS, NO_STATE, NO_RATE, "the battery was removed"]);
        let ended: Vec<(&str, u64, u64)> =
            back.iter().map(|back| (back.missing.why.as_str(), back.from_ns, back.to_ns)).collect();
        assert_eq!(ended, [(MAINS, 2, 4), (NO_STATE, 5, 6), (NO_RATE, 7, 8)]);
        assert_eq!(readings, 4);
    }

    /// The power curve has no gaps while the value is unchanged.
    #[test]
    fn unchanged_power_is_repeated_every_ten_seconds() {
        let mut found = Found::default();
        find(Box::new(|| Some(fed(-9_000))), &mut found);
        let mut readings = Vec::new();
        for second in 0..35 {
            let mut out = |reading: Reading<'_>| readings.push(reading.at_ns / 1_000_000_000);
            found.readers[0].read(second * 1_000_000_000, &mut out, &mut Vec::new());
        }
        assert_eq!(readings, [0, 10, 20, 30]);
    }

    #[test]
    fn power_is_reported_only_while_discharging_and_when_it_changes() {
        let mut states =
            [fed(-9_000), fed(-9_000), fed(-9_000), charged(), fed(-9_000), fed(-9_500)].into_iter();
        let mut found = Found::default();
        find(Box::new(move || states.next()), &mut found);
        assert_eq!((found.readers.len(), found.missing.len()), (1, 0));
        let mut readings = Vec::new();
        for at_ns in 1..=6 {
            found.readers[0].read(
                at_ns,
                &mut |reading| readings.push((at_ns, reading.value)),
                &mut Vec::new(),
            );
        }
        assert_eq!(readings, [(1, 9.0), (4, 9.0), (5, 9.5)]);
    }

    #[test]
    fn a_missing_battery_has_a_reason() {
        for (state, why) in [(Some(BatteryState::default()), "has no battery"), (None, "does not report")] {
            let mut found = Found::default();
            find(Box::new(move || state), &mut found);
            assert!(found.readers.is_empty() && found.missing[0].why.contains(why), "{found:?}");
            assert_eq!(found.missing[0].what, "battery");
        }
    }
}
