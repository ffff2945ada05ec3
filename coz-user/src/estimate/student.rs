//! Student's t, as far as intervals and tests need it.

/// 97.5 % quantile of the normal distribution.
const Z: f64 = 1.959_963_985;

/// The z-score with (nearly) the same two-sided probability as `t` with `df` degrees of freedom.
///
/// Wallace, "Bounds on normal approximations to Student's and the chi-square distributions", Annals of
/// Mathematical Statistics 30 (1959): within a few thousandths from 3 degrees of freedom on.
#[must_use]
pub fn z_of_t(t: f64, df: f64) -> f64 {
    (df * (t * t / df).ln_1p()).sqrt() * (8.0 * df + 1.0) / (8.0 * df + 3.0)
}

/// The factor by which a 95 % interval is wider than the normal one when its variance was estimated with `df`
/// degrees of freedom (the inverse of [`z_of_t`]); `df` is taken as at least 1.
#[must_use]
pub fn widening(df: f64) -> f64 {
    let df = df.max(1.0);
    let z = Z * (8.0 * df + 3.0) / (8.0 * df + 1.0);
    (df * (z * z / df).exp_m1()).sqrt() / Z
}

/// Half the width of a 95 % interval around a value with this standard error and these degrees of freedom.
#[must_use]
pub fn half_width(error: f64, df: f64) -> f64 {
    Z * widening(df) * error
}

/// Two-sided probability of such a value if the truth were zero, from its standard error; 1 where there is none.
#[must_use]
pub fn chance(value: f64, error: f64, df: f64) -> f64 {
    if error > 0.0 { p_value(value / error, df) } else { 1.0 }
}

/// A number from the standard normal distribution (Box and Muller, Annals of Mathematical Statistics 29, 1958).
pub fn normal(rng: &mut impl rand::Rng) -> f64 {
    use rand::RngExt;
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}

/// Two-sided probability of a value at least this far from zero, by chance.
#[must_use]
pub fn p_value(t: f64, df: f64) -> f64 {
    2.0 * normal_tail(z_of_t(t.abs(), df.max(1.0)))
}

/// Probability that a normal variable exceeds `z >= 0`: Abramowitz and Stegun 26.2.17, within 7.5e-8.
fn normal_tail(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let poly = t
        * (0.319_381_530
            + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * poly
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (df, t) in [(3.0, 3.182), (5.0, 2.571), (10.0, 2.228), (30.0, 2.042), (1e6, 1.960)] {
            let ours = widening(df) * Z;
            assert!((ours - t).abs() < 0.04, "t(0.975, {df}) = {t}, not {ours}");
            assert!((p_value(t, df) - 0.05).abs() < 0.002, "p({t}, {df}) = {}", p_value(t, df));
        }
    }
}
