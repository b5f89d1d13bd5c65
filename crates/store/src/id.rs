//! Names of recordings: the day, and eight random digits.

/// For example `2026-11-15-7f3a9c2e`. The day is that of UTC.
pub(crate) fn new_id(unix_ns: u64) -> String {
    let (year, month, day) = day_of(unix_ns / 86_400_000_000_000);
    let random = uuid::Uuid::new_v4().simple().to_string();
    format!("{year:04}-{month:02}-{day:02}-{}", &random[..8])
}

/// Year, month and day of a number of days since 1970 (Howard Hinnant's `civil_from_days`).
fn day_of(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        assert_eq!(day_of(0), (1970, 1, 1));
        assert_eq!(day_of(59), (1970, 3, 1));
        assert_eq!(day_of(11_016), (2000, 2, 29));
        assert_eq!(day_of(20_772), (2026, 11, 15));
        let id = new_id(20_772 * 86_400_000_000_000 + 5);
        assert!(id.starts_with("2026-11-15-") && id.len() == 19, "{id}");
    }
}
