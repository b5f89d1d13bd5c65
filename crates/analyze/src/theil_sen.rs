//! A line robust against outliers: the median of all pairwise slopes (Theil 1950, Sen 1968), with the Mann-Kendall
//! test for a trend.

use serde::{Deserialize, Serialize};

use crate::order::median_in_place;

/// Points above which every k-th is used: 500 points are 125 000 slopes.
const MAX_POINTS: usize = 500;

/// y = intercept + slope · x.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Line {
    pub intercept: f64,
    pub slope: f64,
}

/// The Theil-Sen line; `None` without two points of different x. Points that are not finite are left out.
pub fn theil_sen(points: &[(f64, f64)]) -> Option<Line> {
    let points = thinned(points);
    let mut slopes: Vec<f64> = pairs(&points)
        .filter(|((x1, _), (x2, _))| x1 != x2)
        .map(|((x1, y1), (x2, y2))| (y2 - y1) / (x2 - x1))
        .filter(|slope| slope.is_finite())
        .collect();
    let slope = median_in_place(&mut slopes)?;
    let mut intercepts: Vec<f64> = points.iter().map(|(x, y)| y - slope * x).collect();
    let intercept = median_in_place(&mut intercepts)?;
    intercept.is_finite().then_some(Line { intercept, slope })
}

/// The Mann-Kendall statistic as a normal score: above 2.33 a rising trend is 99 % certain. The points must be
/// ordered by x. 0 for fewer than three.
pub fn mann_kendall_z(ys: &[f64]) -> f64 {
    let points: Vec<(f64, f64)> = ys.iter().enumerate().map(|(index, y)| (index as f64, *y)).collect();
    let points = thinned(&points);
    let n = points.len() as f64;
    if n < 3.0 {
        return 0.0;
    }
    let score: f64 = pairs(&points)
        .map(|((_, a), (_, b))| {
            if b > a {
                1.0
            } else if b < a {
                -1.0
            } else {
                0.0
            }
        })
        .sum();
    let variance = n * (n - 1.0) * (2.0 * n + 5.0) / 18.0;
    // Continuity correction towards "no trend".
    (score.abs() - 1.0).max(0.0) * score.signum() / variance.sqrt()
}

fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let step = points.len().div_ceil(MAX_POINTS).max(1);
    points.iter().copied().step_by(step).filter(|(x, y)| x.is_finite() && y.is_finite()).collect()
}

fn pairs(points: &[(f64, f64)]) -> impl Iterator<Item = ((f64, f64), (f64, f64))> {
    points.iter().enumerate().flat_map(|(index, a)| points[index + 1..].iter().map(move |b| (*a, *b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_survives_an_outlier() {
        let mut points: Vec<(f64, f64)> = (0..20).map(|x| (f64::from(x), 3.0 + 2.0 * f64::from(x))).collect();
        points[7].1 = 1e6;
        assert_eq!(theil_sen(&points), Some(Line { intercept: 3.0, slope: 2.0 }));
    }

    #[test]
    fn no_line_through_one_x() {
        assert_eq!(theil_sen(&[]), None);
        assert_eq!(theil_sen(&[(1.0, 2.0)]), None);
        assert_eq!(theil_sen(&[(1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(theil_sen(&[(f64::NAN, 2.0), (1.0, f64::INFINITY)]), None);
    }

    #[test]
    fn mann_kendall_sees_a_trend_and_no_trend() {
        // Ten rising values: S = 45, variance = 10 · 9 · 25 / 18 = 125, z = 44 / √125.
        let rising: Vec<f64> = (0..10).map(f64::from).collect();
        assert!((mann_kendall_z(&rising) - 44.0 / 125.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(mann_kendall_z(&[1.0; 10]), 0.0);
        assert_eq!(mann_kendall_z(&[1.0, 2.0]), 0.0);
    }
}
