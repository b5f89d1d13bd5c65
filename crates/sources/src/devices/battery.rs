//! What the whole machine draws from its battery, by one answer of the system (Windows). On Linux each battery has files
//! ([`super::cores`]).

use ortscope_decode::battery_state::BatteryState;

use super::{Found, Missing, Reader, Reading};

/// Asks the system; `None` if it does not answer.
pub type AskBattery = Box<dyn FnMut() -> Option<BatteryState> + Send>;

struct Battery {
    ask: AskBattery,
    /// A battery finds out its power every few seconds: the same number again is no new reading.
    last: Option<f64>,
}

pub fn find(mut ask: AskBattery, found: &mut Found) {
    let hint = "a battery measures the whole machine while nothing charges it; other meters need none";
    let why = match ask() {
        Some(state) if state.is_present => {
            found.readers.push(Box::new(Battery { ask, last: None }));
            return;
        }
        Some(_) => "this machine has no battery",
        None => "Windows does not tell the state of the battery (CallNtPowerInformation)",
    };
    found.missing.push(Missing { what: "battery", why: why.to_owned(), hint: hint.to_owned() });
}

impl Reader for Battery {
    fn describe(&self) -> String {
        "system (battery: counts only while nothing charges it)".to_owned()
    }

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), _lost: &mut Vec<Missing>) {
        let watts = (self.ask)().and_then(BatteryState::watts_drawn);
        if watts != self.last
            && let Some(value) = watts
        {
            out(Reading { at_ns, device: "system", metric: "power_watts", value, source: "battery" });
        }
        self.last = watts;
    }

    fn period_nanos(&self) -> u64 {
        1_000_000_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_is_told_while_the_battery_feeds_and_only_when_it_is_new() {
        let fed = |rate| BatteryState {
            is_present: true,
            is_discharging: true,
            rate_milliwatts: Some(rate),
            ..BatteryState::default()
        };
        let charged = BatteryState { is_on_mains: true, is_charging: true, ..fed(20_000) };
        let mut states =
            [fed(-9_000), fed(-9_000), fed(-9_000), charged, fed(-9_000), fed(-9_500)].into_iter();
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
