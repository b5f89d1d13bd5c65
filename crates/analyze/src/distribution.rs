//! The normal and Student's t distribution, so that no numerics library is needed.
//!
//! Normal: Wichura, Algorithm AS 241 (Applied Statistics 37, 1988), about 16 digits. Student's t: Hill, Algorithm 396
//! (CACM 13, 1970), refined by Newton steps on the exact tail; 1 and 2 degrees of freedom have closed forms.

use std::f64::consts::{FRAC_PI_2, PI};

/// The value below which a standard normal variable lies with probability `p`. `p` outside (0, 1) gives an infinity.
pub fn normal_quantile(p: f64) -> f64 {
    if p.is_nan() {
        return f64::NAN;
    }
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if p >= 1.0 {
        return f64::INFINITY;
    }
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180625 - q * q;
        return q * polynomial(&CENTRE_NUMERATOR, r) / polynomial(&CENTRE_DENOMINATOR, r);
    }
    let r = (-p.min(1.0 - p).ln()).sqrt();
    let x = if r <= 5.0 {
        polynomial(&FLANK_NUMERATOR, r - 1.6) / polynomial(&FLANK_DENOMINATOR, r - 1.6)
    } else {
        polynomial(&TAIL_NUMERATOR, r - 5.0) / polynomial(&TAIL_DENOMINATOR, r - 5.0)
    };
    if q < 0.0 { -x } else { x }
}

/// The probability that a standard normal variable lies at or below `x`: Marsaglia's series (Journal of Statistical
/// Software 11, 2004) in the middle, where it has 15 digits; beyond 7 deviations the first terms of the tail.
pub fn normal_cumulative(x: f64) -> f64 {
    if x.is_nan() {
        return f64::NAN;
    }
    let density = (-x * x / 2.0).exp() / (2.0 * PI).sqrt();
    if x.abs() > 7.0 {
        let tail = density / x.abs() * (1.0 - 1.0 / (x * x));
        return if x < 0.0 { tail } else { 1.0 - tail };
    }
    let (mut term, mut sum, mut divisor) = (x, x, 1.0);
    while term.abs() > 1e-17 * sum.abs() {
        divisor += 2.0;
        term *= x * x / divisor;
        sum += term;
    }
    (0.5 + density * sum).clamp(0.0, 1.0)
}

/// The value below which Student's t with `degrees` of freedom lies with probability `p`.
pub fn t_quantile(p: f64, degrees: u64) -> f64 {
    if degrees == 0 || p <= 0.0 || p >= 1.0 || p.is_nan() {
        // No degree of freedom means no knowledge of the spread: nothing is excluded.
        return if p < 0.5 { f64::NEG_INFINITY } else { f64::INFINITY };
    }
    let two_sided = 2.0 * p.min(1.0 - p);
    let magnitude = match degrees {
        _ if two_sided >= 1.0 => 0.0,
        1 => 1.0 / (two_sided * FRAC_PI_2).tan(),
        2 => (2.0 / (two_sided * (2.0 - two_sided)) - 2.0).sqrt(),
        _ => hill(two_sided, degrees as f64),
    };
    if p < 0.5 { -magnitude } else { magnitude }
}

/// Hill's Algorithm 396; the names are the paper's.
fn hill(two_sided: f64, n: f64) -> f64 {
    let a = 1.0 / (n - 0.5);
    let b = (48.0 / a) / a;
    let mut c = ((20700.0 * a / b - 98.0) * a - 16.0) * a + 96.36;
    let d = ((94.5 / (b + c) - 3.0) / b + 1.0) * (a * FRAC_PI_2).sqrt() * n;
    let mut x = d * two_sided;
    let mut y = x.powf(2.0 / n);
    if y > 0.05 + a {
        x = normal_quantile(two_sided * 0.5);
        y = x * x;
        if n < 5.0 {
            c += 0.3 * (n - 4.5) * (x + 0.6);
        }
        c += (((0.05 * d * x - 5.0) * x - 7.0) * x - 2.0) * x + b;
        y = (((((0.4 * y + 6.3) * y + 36.0) * y + 94.5) / c - y - 3.0) / b + 1.0) * x;
        y = a * y * y;
        y = y.exp_m1();
    } else {
        y = ((1.0 / (((n + 6.0) / (n * y) - 0.089 * d - 0.822) * (n + 2.0) * 3.0) + 0.5 / (n + 4.0)) * y
            - 1.0)
            * (n + 1.0)
            / (n + 2.0)
            + 1.0 / y;
    }
    let start = (n * y).sqrt();
    if n > 1e6 { start } else { refine(start, two_sided, n) }
}

/// Two Newton steps on the exact tail: they lift Hill's four to six digits at few degrees of freedom to nine.
fn refine(start: f64, two_sided: f64, n: f64) -> f64 {
    let mut t = start;
    for _ in 0..2 {
        let density = t_density(t, n);
        if density > 0.0 {
            t += (t_two_sided_tail(t, n) - two_sided) / (2.0 * density);
        }
    }
    t
}

/// P(|T| > t) for whole degrees of freedom: the finite series of Abramowitz and Stegun 26.7.3 and 26.7.4.
fn t_two_sided_tail(t: f64, n: f64) -> f64 {
    let degrees = n as u64;
    let theta = (t / n.sqrt()).atan();
    let (sine, cosine) = theta.sin_cos();
    let square = cosine * cosine;
    let odd = degrees % 2 == 1;
    let mut term = if odd { cosine } else { 1.0 };
    let mut sum = term;
    let mut k = if odd { 3 } else { 2 };
    // Terms shrink geometrically; beyond 1e-17 of the sum they change nothing.
    while k < degrees && term > sum * 1e-17 {
        term *= square * (k - 1) as f64 / k as f64;
        sum += term;
        k += 2;
    }
    if odd {
        1.0 - (theta + if degrees == 1 { 0.0 } else { sine * sum }) * 2.0 / PI
    } else {
        1.0 - sine * sum
    }
}

fn t_density(t: f64, n: f64) -> f64 {
    // Gamma((n+1)/2) / Gamma(n/2) by its asymptotic series: a derivative needs no more than a few digits.
    let ratio = (n / 2.0).sqrt() * (1.0 - 1.0 / (4.0 * n) + 1.0 / (32.0 * n * n));
    ratio / (n * PI).sqrt() * (1.0 + t * t / n).powf(-(n + 1.0) / 2.0)
}

fn polynomial(coefficients: &[f64; 8], x: f64) -> f64 {
    coefficients.iter().fold(0.0, |sum, coefficient| sum * x + coefficient)
}
const CENTRE_NUMERATOR: [f64; 8] = [
    2509.0809287301227,
    33430.57558358813,
    67265.7709270087,
    45921.95393154987,
    13731.69376550946,
    1971.5909503065513,
    133.14166789178438,
    3.3871328727963665,
];
const CENTRE_DENOMINATOR: [f64; 8] = [
    5226.495278852854,
    28729.085735721943,
    39307.89580009271,
    21213.794301586597,
    5394.196021424751,
    687.1870074920579,
    42.31333070160091,
    1.0,
];
const FLANK_NUMERATOR: [f64; 8] = [
    0.0007745450142783414,
    0.022723844989269184,
    0.2417807251774506,
    1.2704582524523684,
    3.6478483247632045,
    5.769497221460691,
    4.630337846156546,
    1.4234371107496835,
];
const FLANK_DENOMINATOR: [f64; 8] = [
    1.0507500716444169e-09,
    0.0005475938084995345,
    0.015198666563616457,
    0.14810397642748008,
    0.6897673349851,
    1.6763848301838038,
    2.053191626637759,
    1.0,
];
const TAIL_NUMERATOR: [f64; 8] = [
    2.0103343992922881e-07,
    2.7115555687434876e-05,
    0.0012426609473880784,
    0.026532189526576124,
    0.29656057182850487,
    1.7848265399172913,
    5.463784911164114,
    6.657904643501103,
];
const TAIL_DENOMINATOR: [f64; 8] = [
    2.0442631033899397e-15,
    1.421511758316446e-07,
    1.8463183175100548e-05,
    0.0007868691311456133,
    0.014875361290850615,
    0.1369298809227358,
    0.599832206555888,
    1.0,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, expected: f64, tolerance: f64) {
        assert!((got - expected).abs() <= tolerance, "{got} is not {expected}");
    }

    #[test]
    fn normal_matches_tables() {
        for (p, expected) in [
            (0.5, 0.0),
            (0.975, 1.959_963_984_540_054),
            (0.995, 2.575_829_303_548_901),
            (0.025, -1.959_963_984_540_054),
            (1e-9, -5.997_807_015_007_687),
            (1e-20, -9.262_340_089_798_408),
        ] {
            close(normal_quantile(p), expected, 1e-12);
        }
        assert_eq!(normal_quantile(0.0), f64::NEG_INFINITY);
        assert_eq!(normal_quantile(1.0), f64::INFINITY);
    }

    #[test]
    fn the_cumulative_normal_is_the_inverse_of_its_quantile() {
        for p in [1e-9, 0.001, 0.025, 0.3, 0.5, 0.7, 0.975, 0.9999] {
            close(normal_cumulative(normal_quantile(p)), p, 1e-13);
        }
        assert_eq!((normal_cumulative(-40.0), normal_cumulative(40.0)), (0.0, 1.0));
        assert_eq!(normal_cumulative(0.0), 0.5);
    }

    #[test]
    fn t_matches_tables() {
        // NIST/SEMATECH e-Handbook, table 1.3.6.7.2, and R's qt() for the further digits.
        for (p, degrees, expected) in [
            (0.975, 1, 12.706_204_74),
            (0.975, 2, 4.302_652_73),
            (0.975, 3, 3.182_446_31),
            (0.975, 4, 2.776_445_11),
            (0.975, 5, 2.570_581_84),
            (0.975, 10, 2.228_138_85),
            (0.975, 30, 2.042_272_46),
            (0.975, 120, 1.979_930_41),
            (0.95, 7, 1.894_578_61),
            (0.995, 3, 5.840_909_31),
            (0.995, 20, 2.845_339_71),
            (0.999, 4, 7.173_182_22),
        ] {
            close(t_quantile(p, degrees), expected, 2e-8);
            close(t_quantile(1.0 - p, degrees), -expected, 2e-8);
        }
        close(t_quantile(0.975, 10_000_000), 1.959_964, 1e-6);
        assert_eq!(t_quantile(0.5, 9), 0.0);
        assert_eq!(t_quantile(0.975, 0), f64::INFINITY);
    }
}
