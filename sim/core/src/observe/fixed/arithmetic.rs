//! Fixed-point arithmetic: logarithm, exponential and what is derived from them.
//!
//! A number in Q24 is an integer in units of 2^-24, in Q20 of 2^-20. Shifts round down; divisions are of unsigned
//! numbers, since BPF has no signed division before its version 4.

use super::tables::{EXP2, LOG2};

/// 1 in Q20 and Q24.
pub const ONE20: i64 = 1 << 20;
pub const ONE24: i64 = 1 << 24;

/// ln 2 and 1 / ln 2 in Q24.
const LN_2: i64 = 11_629_080;
const LOG2_E: i64 = 24_204_406;

/// The value of a table at a position in [0, 1), in Q24: the parabola through the three entries from it on (Newton's
/// forward differences). Result in Q30.
fn interpolate(table: &[u32; 66], position: u64) -> u64 {
    let i = (position >> 18) as usize & 63;
    let t = (position & 0x3_ffff) as i64; // Q18
    let (a, b, c) = (i64::from(table[i]), i64::from(table[i + 1]), i64::from(table[i + 2]));
    let bend = c - 2 * b + a;
    (a + (((b - a) * t) >> 18) + ((bend * t * (t - (1 << 18))) >> 37)) as u64
}

/// log2(x) in Q24, within 1e-6; -2^30, which is less than that of any ratio, for 0.
pub fn log2(x: u64) -> i64 {
    if x == 0 {
        return -(1 << 30);
    }
    let exponent = 63 - x.leading_zeros();
    let mantissa = if exponent > 24 { x >> (exponent - 24) } else { x << (24 - exponent) };
    let fraction = interpolate(&LOG2, mantissa & 0xff_ffff);
    (i64::from(exponent) << 24) + ((fraction + 32) >> 6) as i64
}

/// 2^x in Q24 for x in Q24, with a relative error below 3e-7 and an absolute one below 2^-24; at most 2^30.
pub fn exp2(x: i64) -> u64 {
    let whole = x >> 24;
    if whole >= 30 {
        return 1 << 54;
    }
    if whole < -25 {
        return 0;
    }
    let value = interpolate(&EXP2, (x & 0xff_ffff) as u64); // Q30
    if whole >= 6 { value << (whole - 6) } else { (value + ((1 << (6 - whole)) >> 1)) >> (6 - whole) }
}

/// The natural logarithm in Q24 from the binary one.
pub fn natural(log2: i64) -> i64 {
    (log2 * LN_2) >> 24
}

/// e^x in Q24, for x in Q24 of at most 2^38.
pub fn exp(x: i64) -> u64 {
    exp2((x * LOG2_E) >> 24)
}

/// The square root in Q24 of a number in Q32.
pub fn root(x: i64) -> i64 {
    if x <= 0 { 0 } else { exp2((log2(x as u64) - (32 << 24)) >> 1) as i64 }
}

/// tanh(x) in Q20 for x in Q20.
pub fn tanh(x: i64) -> i64 {
    let decay = exp(-(x.abs() << 5)) as i64; // e^(-2 |x|)
    let t = ((((ONE24 - decay) as u64) << 20) / (ONE24 + decay) as u64) as i64;
    if x < 0 { -t } else { t }
}

/// a / b in Q24, at most `most` (Q24); `most` for b = 0. `a` is below 2^40.
pub fn ratio(a: u64, b: u64, most: i64) -> i64 {
    if b == 0 {
        return most;
    }
    let ratio = (a << 24) / b;
    if ratio > most as u64 { most } else { ratio as i64 }
}

/// `x` within bounds.
pub fn within(x: i64, low: i64, high: i64) -> i64 {
    if x < low {
        low
    } else if x > high {
        high
    } else {
        x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values in units of 2^-24, computed with mpmath at 40 digits.
    const LOGARITHMS: [(u64, f64); 5] = [
        (3, 26_591_258.226499),
        (10, 55_732_705.184394),
        (1_500, 177_012_157.779680),
        (1_000_000_000, 501_594_346.659544),
        ((1 << 63) + 12_345, 1_056_964_608.0),
    ];
    const POWERS: [(f64, f64); 5] = [
        (-0.5, 11_863_283.203031),
        (-1.25, 7_053_950.396169),
        (0.3, 20_655_175.749881),
        (2.75, 112_863_206.338698),
        (-20.1, 14.928528),
    ];

    #[test]
    fn logarithms_and_exponentials_are_those_of_mpmath() {
        for (x, expected) in LOGARITHMS {
            assert!((log2(x) as f64 - expected).abs() < 16.8, "{x}: {} {expected}", log2(x));
        }
        for (x, expected) in POWERS {
            let found = exp2((x * ONE24 as f64).round() as i64) as f64;
            assert!((found - expected).abs() <= 3e-7 * expected + 1.0, "{x}: {found} {expected}");
        }
        assert_eq!([0, ONE24, -ONE24, 30 << 24, -26 << 24].map(exp2), [1 << 24, 1 << 25, 1 << 23, 1 << 54, 0]);
        assert_eq!([1, 2, 1 << 40].map(log2), [0, ONE24, 40 << 24]);
    }

    #[test]
    fn errors_stay_below_those_stated_over_all_positions() {
        for position in (0..1 << 24).step_by(7) {
            let x = f64::from(position) / ONE24 as f64;
            let logarithm = log2((1 << 24) + position as u64) as f64 / ONE24 as f64;
            assert!((logarithm - (1.0 + x).log2() - 24.0).abs() < 1e-6, "{position}");
            let power = exp2(i64::from(position)) as f64 / ONE24 as f64;
            assert!((power / x.exp2() - 1.0).abs() < 3e-7, "{position}");
        }
    }

    #[test]
    fn roots_and_hyperbolic_tangents_are_close_to_the_exact_ones() {
        for k in 0..=4_000 {
            let share = f64::from(k) / 4_000.0;
            let found = root((share * (1_u64 << 32) as f64) as i64) as f64 / ONE24 as f64;
            assert!((found - share.sqrt()).abs() < 1e-6, "{share}: {found}");
            let x = 12.0 * (share - 0.5);
            let found = tanh((x * ONE20 as f64).round() as i64) as f64 / ONE20 as f64;
            assert!((found - x.tanh()).abs() < 2e-6, "{x}: {found}");
        }
        assert_eq!((root(-1), root(1 << 32), tanh(0), tanh(1 << 31), tanh(-(1 << 31))), (0, ONE24, 0, ONE20, -ONE20));
    }

    #[test]
    fn ratios_saturate() {
        assert_eq!((ratio(3, 4, ONE24), ratio(7, 4, ONE24), ratio(7, 0, 5)), (3 << 22, ONE24, 5));
        assert_eq!(ratio((1 << 40) - 1, 1, 60 << 24), 60 << 24);
    }
}
