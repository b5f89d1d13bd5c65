//! Grams of carbon dioxide per joule: as configured by the user, or from a table of countries.
//!
//! The table has yearly averages of a country's generation, from Our World in Data (Ember), CC BY 4.0. It does not
//! consider the time of day, transmission losses, or green power contracts; the year is shown with every figure.

use serde::{Deserialize, Serialize};

const COUNTRIES: &str = include_str!("countries.csv");
const TABLE: &str = "Our World in Data / Ember, CC BY 4.0: yearly average of generation in the country";
/// No grid is dirtier than burning peat.
const MAX_GRAMS: f64 = 10_000.0;

/// Carbon intensity at the machine's location, and its source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CarbonIntensity {
    pub grams_per_kwh: f64,
    pub source: String,
    /// Of the table's figure.
    pub year: Option<u16>,
    pub country: Option<String>,
}

/// Grams behind energy that was used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Carbon {
    pub intensity: CarbonIntensity,
    pub grams: f64,
    pub grams_per_inference: Option<f64>,
}

impl CarbonIntensity {
    /// By the user's own number.
    pub fn given(grams_per_kwh: f64) -> Option<Self> {
        let is_possible = grams_per_kwh.is_finite() && (0.0..=MAX_GRAMS).contains(&grams_per_kwh);
        is_possible.then(|| Self { grams_per_kwh, source: "as given".to_owned(), year: None, country: None })
    }

    /// By the three letters of a country (ISO 3166), or its English name.
    pub fn of_country(country: &str) -> Option<Self> {
        let line = COUNTRIES.lines().find(|line| {
            let mut parts = line.splitn(4, ',');
            let code = parts.next().unwrap_or_default();
            let name = parts.nth(2).unwrap_or_default();
            code.eq_ignore_ascii_case(country.trim()) || name.eq_ignore_ascii_case(country.trim())
        })?;
        let parts: Vec<&str> = line.splitn(4, ',').collect();
        Some(Self {
            grams_per_kwh: parts.get(1)?.parse().ok()?,
            source: TABLE.to_owned(),
            year: parts.get(2)?.parse().ok(),
            country: Some((*parts.get(3)?).to_owned()),
        })
    }

    pub fn of(&self, joules: f64, joules_per_inference: Option<f64>) -> Carbon {
        let grams = |joules: f64| joules / 3.6e6 * self.grams_per_kwh;
        Carbon {
            intensity: self.clone(),
            grams: grams(joules),
            grams_per_inference: joules_per_inference.map(grams),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_figure_with_its_year() {
        let mut lines = 0;
        for line in COUNTRIES.lines() {
            let code = line.split(',').next().unwrap();
            let intensity = CarbonIntensity::of_country(code).unwrap();
            assert!((0.0..2000.0).contains(&intensity.grams_per_kwh), "{line}");
            assert!(intensity.year.is_some_and(|year| (2000..2030).contains(&year)), "{line}");
            lines += 1;
        }
        assert!(lines > 200, "{lines}");
        let sweden = CarbonIntensity::of_country("sweden").unwrap();
        assert_eq!(Some(sweden), CarbonIntensity::of_country("SWE"));
        assert_eq!(CarbonIntensity::of_country("Atlantis"), None);
        assert_eq!(CarbonIntensity::of_country(""), None);
    }

    #[test]
    fn a_kilowatt_hour_costs_what_it_costs() {
        let given = CarbonIntensity::given(400.0).unwrap();
        let carbon = given.of(3.6e6, Some(3.6));
        let each = carbon.grams_per_inference.unwrap();
        assert!((carbon.grams - 400.0).abs() < 1e-9 && (each - 4e-4).abs() < 1e-12, "{carbon:?}");
        assert_eq!([f64::NAN, -1.0, 1e9].map(CarbonIntensity::given), [None, None, None]);
    }
}
