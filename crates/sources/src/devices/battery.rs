//! What the whole machine draws from its battery, by one answer of the system (Windows). On Linux each battery has files
//! ([`super::cores`]).

use ortscope_decode::battery_state::BatteryState;

use super::presence::Presence;
use super::{Back, Found, Missing, Reader, Reading};

/// A number that stays the same is told again after this: later it would be a time that nobody measured.
const SAME_AGAIN_NS: u64 = 10_000_000_000;
/// Why there is no power of a battery that is charged.
pub(super) const MAINS: &str = "the mains feed this machine";
/// Why there is none of one that gives, and does not say how much.
pub(super) const UNTOLD: &str = "the battery does not tell what it gives";
const SILENT: &str = "Windows does not tell the state of the battery (CallNtPowerInformation)";

/// Asks the system; `None` if it does not answer.
pub type AskBattery = Box<dyn FnMut() -> Option<BatteryState> + Send>;

/// What batteries give, and why they do not.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// A battery finds out its power every few seconds: the same number again is no new reading.
    told: Option<(u64, f64)>,
    feeds: Presence,
    back: Vec<Back>,
}

impl Given {
    /// Watts of the whole machine, or why there are none.
    pub fn tell(
        &mut self,
        at_ns: u64,
        watts: Result<f64, &str>,
        out: &mut dyn FnMut(Reading<'_>),
        lost: &mut Vec<Missing>,
    ) {
        let value = match watts {
            Ok(value) => value,
            Err(why) => {
                self.told = None;
                self.feeds.lose(at_ns, || missing(why), lost);
                return;
            }
        };
        self.feeds.find(at_ns, &mut self.back);
        let is_told = self
            .told
            .is_some_and(|(told_ns, told)| told == value && at_ns.saturating_sub(told_ns) < SAME_AGAIN_NS);
        if !is_told {
            self.told = Some((at_ns, value));
            out(Reading { at_ns, device: "system", metric: "power_watts", value, source: "battery" });
        }
    }

    pub fn came_back(&mut self, back: &mut Vec<Back>) {
        back.append(&mut self.back);
    }
}

struct Battery {
    ask: AskBattery,
    given: Given,
}

pub(super) fn missing(why: &str) -> Missing {
    let hint = "a battery measures the whole machine while nothing charges it; other meters need none";
    Missing { what: "battery", why: why.to_owned(), hint: hint.to_owned() }
}

pub fn find(mut ask: AskBattery, found: &mut Found) {
    let why = match ask() {
        Some(state) if state.is_present => {
            found.readers.push(Box::new(Battery { ask, given: Given::default() }));
            return;
        }
        Some(_) => "this machine has no battery",
        None => SILENT,
    };
    found.missing.push(missing(why));
}

/// Why there is no number where there is none.
fn watts_of(state: Option<BatteryState>) -> Result<f64, &'static str> {
    let state = state.ok_or(SILENT)?;
    state.watts_drawn().ok_or(match state {
        BatteryState { is_present: false, .. } => "the battery was taken out",
        BatteryState { is_on_mains: true, .. } | BatteryState { is_charging: true, .. } => MAINS,
        _ => UNTOLD,
    })
}

impl Reader for Battery {
    fn describe(&self) -> String {
        "system (battery: counts only while nothing charges it)".to_owned()
    }

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), lost: &mut Vec<Missing>) {
        self.given.tell(at_ns, watts_of((self.ask)()), out, lost);
    }

    fn came_back(&mut self, back: &mut Vec<Back>) {
        self.given.came_back(back);
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

    /// A machine on the mains, or one whose battery cannot be asked any more, used to tell nothing and no reason.
    #[test]
    fn power_that_ends_has_a_reason_and_is_told_when_it_is_back() {
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
        let mut asked = [Some(fed(-9_000))].into_iter().chain(states);
        let mut found = Found::default();
        find(Box::new(move || asked.next().flatten()), &mut found);
        let (mut told, mut lost, mut back) = (0, Vec::new(), Vec::new());
        for at_ns in 1..=9 {
            found.readers[0].read(at_ns, &mut |_| told += 1, &mut lost);
            found.readers[0].came_back(&mut back);
        }
        let whys: Vec<&str> = lost.iter().map(|missing| missing.why.as_str()).collect();
        assert_eq!(whys, [MAINS, SILENT, UNTOLD, "the battery was taken out"]);
        let ended: Vec<(&str, u64, u64)> =
            back.iter().map(|back| (back.missing.why.as_str(), back.from_ns, back.to_ns)).collect();
        assert_eq!(ended, [(MAINS, 2, 4), (SILENT, 5, 6), (UNTOLD, 7, 8)]);
        assert_eq!(told, 4);
    }

    /// The area under the power has no holes where it stays the same.
    #[test]
    fn a_power_that_stays_the_same_is_told_every_ten_seconds() {
        let mut found = Found::default();
        find(Box::new(|| Some(fed(-9_000))), &mut found);
        let mut told = Vec::new();
        for second in 0..35 {
            let mut out = |reading: Reading<'_>| told.push(reading.at_ns / 1_000_000_000);
            found.readers[0].read(second * 1_000_000_000, &mut out, &mut Vec::new());
        }
        assert_eq!(told, [0, 10, 20, 30]);
    }

    #[test]
    fn power_is_told_while_the_battery_feeds_and_only_when_it_is_new() {
        let mut states =
            [fed(-9_000), fed(-9_000), fed(-9_000), charged(), fed(-9_000), fed(-9_500)].into_iter();
        let mut found = Found::default();
        find(Box::new(move || states.next()), &mut found);
        assert_eq!((found.readers.len(), found.missing.len()), (1, 0));
        let mut told = Vec::new();
        for at_ns in 1..=6 {
            found.readers[0].read(at_ns, &mut |reading| told.push((at_ns, reading.value)), &mut Vec::new());
        }
        assert_eq!(told, [(1, 9.0), (4, 9.0), (5, 9.5)]);
    }

    #[test]
    fn a_machine_without_one_has_a_reason() {
        for (state, why) in [(Some(BatteryState::default()), "has no battery"), (None, "does not tell")] {
            let mut found = Found::default();
            find(Box::new(move || state), &mut found);
            assert!(found.readers.is_empty() && found.missing[0].why.contains(why), "{found:?}");
            assert_eq!(found.missing[0].what, "battery");
        }
    }
}
