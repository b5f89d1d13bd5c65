//! Combined state of all batteries on Windows (`SYSTEM_BATTERY_STATE`, returned by `CallNtPowerInformation`).

/// Length of the structure.
pub const BATTERY_STATE_BYTES: usize = 32;
/// Reported by a battery that does not know its rate.
const UNKNOWN_RATE: i32 = i32::MIN;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BatteryState {
    pub is_on_mains: bool,
    pub is_present: bool,
    pub is_charging: bool,
    pub is_discharging: bool,
    /// Negative while discharging; `None` if unknown.
    pub rate_milliwatts: Option<i32>,
}

impl BatteryState {
    /// `None` if there are too few bytes.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; BATTERY_STATE_BYTES] = bytes.first_chunk()?;
        // Four flags, three reserved bytes and a tag; then capacity, remaining charge, rate, times and alarms.
        let rate = i32::from_le_bytes([bytes[16], bytes[17], bytes[18], bytes[19]]);
        Some(Self {
            is_on_mains: bytes[0] != 0,
            is_present: bytes[1] != 0,
            is_charging: bytes[2] != 0,
            is_discharging: bytes[3] != 0,
            rate_milliwatts: (rate != UNKNOWN_RATE).then_some(rate),
        })
    }

    /// Power drawn by the machine: only while discharging, and only for a nonzero rate, because 0 means not measured
    /// yet. Drivers disagree on which direction is negative.
    pub fn watts_drawn(self) -> Option<f64> {
        let feeds = self.is_present && self.is_discharging && !self.is_on_mains && !self.is_charging;
        let milliwatts = self.rate_milliwatts.filter(|rate| feeds && *rate != 0)?;
        Some(f64::from(milliwatts.unsigned_abs()) / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(flags: [u8; 4], rate: i32) -> [u8; BATTERY_STATE_BYTES] {
        let mut bytes = [0; BATTERY_STATE_BYTES];
        bytes[..4].copy_from_slice(&flags);
        bytes[7] = 3;
        for (at, value) in [(8, 50_000_i32), (12, 31_000), (16, rate), (20, 7_200), (24, 2_500), (28, 3_500)]
        {
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    fn watts(flags: [u8; 4], rate: i32) -> Option<f64> {
        BatteryState::parse(&bytes(flags, rate)).expect("long enough").watts_drawn()
    }

    #[test]
    fn a_discharging_battery_reports_its_power() {
        assert_eq!(watts([0, 1, 0, 1], -12_345), Some(12.345));
        assert_eq!(watts([0, 1, 0, 1], 12_345), Some(12.345));
    }

    #[test]
    fn no_power_is_reported_unless_discharging_at_a_known_rate() {
        // On mains, charging, absent, unknown, not measured yet.
        assert_eq!(watts([1, 1, 0, 1], -12_345), None);
        assert_eq!(watts([1, 1, 1, 0], 20_000), None);
        assert_eq!(watts([0, 0, 0, 0], 0), None);
        assert_eq!(watts([0, 1, 0, 1], i32::MIN), None);
        assert_eq!(watts([0, 1, 0, 1], 0), None);
        assert_eq!(BatteryState::parse(&[0; BATTERY_STATE_BYTES - 1]), None);
    }
}
