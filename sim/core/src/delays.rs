//! How long datagrams were on their way: counts in bins a hundredth of the delay wide, so that a run of any length takes
//! the same memory.

use crate::time::Nanos;

/// Bins per doubling of the delay: neighbours differ by 1.1 %.
const PER_OCTAVE: u64 = 64;
/// Above this a voice call is called unsatisfactory (ITU-T G.114: one way, 150 ms).
const LATE: Nanos = Nanos::from_millis(150);

#[derive(Clone, Debug, Default)]
pub struct Delays {
    bins: Vec<u64>,
    pub count: u64,
    late: u64,
}

impl Delays {
    pub fn push(&mut self, delay: Nanos) {
        let bin = bin_of(delay.micros());
        if bin >= self.bins.len() {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += 1;
        self.count += 1;
        self.late += u64::from(delay > LATE);
    }

    /// The delay that a share of the datagrams did not exceed, ms (to 1.1 %); NaN without any.
    pub fn percentile_ms(&self, share: f64) -> f64 {
        let wanted = ((self.count as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let reaches = |n: &u64| {
            seen += n;
            seen >= wanted
        };
        self.bins.iter().position(reaches).map_or(f64::NAN, |bin| middle_us(bin) / 1e3)
    }

    /// Share of the datagrams that took longer than 150 ms; NaN without any.
    pub fn late_share(&self) -> f64 {
        self.late as f64 / self.count as f64
    }
}

/// Below `PER_OCTAVE` microseconds one each, then `PER_OCTAVE` in every doubling.
fn bin_of(us: u64) -> usize {
    let octave = us.max(PER_OCTAVE).ilog2() - PER_OCTAVE.ilog2();
    (u64::from(octave) * PER_OCTAVE + (us >> octave)) as usize
}

fn middle_us(bin: usize) -> f64 {
    let bin = bin as u64;
    if bin < 2 * PER_OCTAVE {
        return bin as f64;
    }
    let octave = bin / PER_OCTAVE - 1;
    ((bin % PER_OCTAVE + PER_OCTAVE) << octave) as f64 + ((1u64 << octave) - 1) as f64 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_delays_to_a_hundredth() {
        let mut delays = Delays::default();
        (1..=200_000u64).for_each(|us| delays.push(Nanos::from_micros(us)));
        for (share, ms) in [(0.001, 0.2), (0.5, 100.0), (0.95, 190.0), (0.99, 198.0), (1.0, 200.0)] {
            let got = delays.percentile_ms(share);
            assert!((got / ms - 1.0).abs() < 0.011, "{share}: {got} ms");
        }
        assert!((delays.late_share() - 0.25).abs() < 1e-9);
    }

    #[test]
    fn every_delay_falls_into_the_bin_whose_middle_is_near_it() {
        for us in (0..1_000).chain((1..3_000).map(|k| k * 7_919)) {
            let middle = middle_us(bin_of(us));
            assert!((middle - us as f64).abs() <= us as f64 * 0.011, "{us}: {middle}");
        }
        assert!(Delays::default().percentile_ms(0.5).is_nan());
    }
}
