//! Elasticity of the cross traffic, by the estimator of Nimbus (Goyal et al., "Elasticity detection: a building block for
//! Internet congestion control", SIGCOMM 2022, sections 3.1 to 3.3).
//!
//! While a link of capacity C is busy, a flow that sends S and receives R shares it with traffic of the rate
//! z = C S / R - S, where S and R are of the same packets. When the flow's rate pulses with the frequency f
//! ([`crate::observe::pulse`]), traffic that reacts to acknowledgements follows, and the spectrum of z has a peak at f: the
//! elasticity is that peak over the highest one between f and 2 f. Above 2 the traffic is elastic. As in the authors'
//! program, both peaks are looked for in bands (0.9 to 1.1 f and 1.3 to 1.9 f), cross traffic of less than a tenth of the
//! capacity is not elastic, and a peak of less than a quarter of that of R counts in proportion: with an estimate of the
//! capacity that is a little too low, some of the flow's own pulses are in z.
//!
//! The spectrum is computed at each decision, for some 20 frequencies with Goertzel's algorithm: about 4,000
//! multiplications with intervals of 30 ms.

use std::f64::consts::PI;

use crate::observe::stats::IntervalStats;

use super::filled_queue::EMPTY_S;

/// Most samples of z; shorter intervals are put together.
const SAMPLES: usize = 512;
/// Intervals for which it is known what had been sent, so that they reach back by one RTT.
const KEPT: usize = 256;
/// Bands of the two peaks in multiples of the frequency of the pulses.
const PEAK: (f64, f64) = (0.9, 1.1);
const OTHER: (f64, f64) = (1.3, 1.9);
/// Less cross traffic than this share of the capacity is not elastic.
const LEAST: f64 = 0.1;
/// A response of less than this share of the pulses received lowers the elasticity, which then is this at most.
const RESPONSE: f64 = 0.25;
const DOUBTFUL: f64 = 3.0;
/// Samples are within this multiple of the capacity.
const MOST: f64 = 2.0;
/// Headers of a packet, bytes: the capacity of a link counts them.
const HEADERS: f64 = 52.0;
/// A sample whose length differs from that of the others by more than this share begins a new series.
const UNEVEN: f64 = 0.1;
/// Frequencies that are computed together.
const LANES: usize = 8;

/// A moment: how much had been acknowledged, how much had left the network, and when that was sent.
#[derive(Clone, Copy)]
struct Mark {
    acked: f64,
    left: f64,
    sent_at_s: f64,
}

#[derive(Clone)]
pub struct Elasticity {
    hz: f64,
    span_s: f64,
    /// What had been sent at the end of each interval: time and bytes.
    sent: [(f64, f64); KEPT],
    intervals: usize,
    acked: f64,
    left: f64,
    last: Option<Mark>,
    /// Length of the sample that is being collected, whether there was a queue, and the length of a sample of the series.
    open_s: f64,
    queued: bool,
    sample_s: f64,
    /// Samples of z and of R; the newest is at `count - 1`.
    samples: [(f64, f64); SAMPLES],
    count: usize,
    capacity: f64,
}

impl Elasticity {
    pub fn new(hz: f64, span_s: f64) -> Elasticity {
        Elasticity {
            hz,
            span_s,
            sent: [(0.0, 0.0); KEPT],
            intervals: 0,
            acked: 0.0,
            left: 0.0,
            last: None,
            open_s: 0.0,
            queued: true,
            sample_s: 0.0,
            samples: [(0.0, 0.0); SAMPLES],
            count: 0,
            capacity: 0.0,
        }
    }

    /// The path has changed.
    pub fn forget(&mut self) {
        (self.last, self.open_s, self.count) = (None, 0.0, 0);
    }

    /// The capacity of the bottleneck for payload, which only the simulator knows, bit/s.
    pub fn true_capacity(stats: &IntervalStats) -> f64 {
        stats.capacity_bps * stats.mss_bytes / (stats.mss_bytes + HEADERS)
    }

    /// Add an interval. `capacity`: of the bottleneck, bit/s of payload. `floor_s`: the minimum RTT, if it is known.
    pub fn update(&mut self, stats: &IntervalStats, capacity: f64, floor_s: Option<f64>) {
        let before = if self.intervals > 0 { self.sent[(self.intervals - 1) % KEPT].1 } else { 0.0 };
        let acked = stats.acked_rate_bps * stats.interval_s / 8.0;
        self.acked += acked;
        self.left += acked + stats.lost_bytes;
        let sent = (self.left + stats.in_flight_packets * stats.mss_bytes).max(before);
        self.sent[self.intervals % KEPT] = (stats.time_s, sent);
        self.intervals += 1;
        self.capacity = capacity;
        self.open_s += stats.interval_s;
        self.queued &= floor_s.is_none_or(|floor| stats.rtt_mean_s > floor + EMPTY_S);
        if self.open_s * SAMPLES as f64 >= self.span_s {
            self.sample();
        }
    }

    /// Close a sample of z.
    fn sample(&mut self) {
        let (length_s, queued) = (self.open_s, self.queued);
        (self.open_s, self.queued) = (0.0, true);
        let now = self.sent_at(self.left).map(|sent_at_s| Mark { acked: self.acked, left: self.left, sent_at_s });
        let (Some(from), Some(to)) = (self.last, now) else {
            self.last = now;
            return;
        };
        if (length_s - self.sample_s).abs() > UNEVEN * self.sample_s {
            (self.sample_s, self.count) = (length_s, 0);
        }
        let received = to.acked - from.acked;
        if received > 0.0 {
            self.last = now;
        }
        // Without a queue the formula does not hold: z is taken to be as before.
        let z = if received > 0.0 && queued {
            let send_s = (to.sent_at_s - from.sent_at_s).max(length_s / LANES as f64);
            let s = (to.left - from.left) * 8.0 / send_s;
            let r = received * 8.0 / length_s;
            (self.capacity * s / r - s).clamp(0.0, MOST * self.capacity)
        } else {
            self.samples[(self.count + SAMPLES - 1) % SAMPLES].0
        };
        self.samples[self.count % SAMPLES] = (z, received * 8.0 / length_s);
        self.count += 1;
    }

    /// When so many bytes had been sent; none if that is too long ago.
    fn sent_at(&self, bytes: f64) -> Option<f64> {
        let first = self.intervals.saturating_sub(KEPT);
        let mut later = self.sent[(self.intervals - 1) % KEPT];
        for k in (first..self.intervals - 1).rev() {
            let earlier = self.sent[k % KEPT];
            if earlier.1 <= bytes {
                let share = if later.1 > earlier.1 { (bytes - earlier.1) / (later.1 - earlier.1) } else { 1.0 };
                return Some(earlier.0 + share.min(1.0) * (later.0 - earlier.0));
            }
            later = earlier;
        }
        None
    }

    /// ln(1 + elasticity); 0 until the series is long enough.
    pub fn value(&self) -> f64 {
        if self.sample_s <= 0.0 {
            return 0.0;
        }
        let n = (libm::round(self.span_s / self.sample_s) as usize).min(SAMPLES);
        if n == 0 || self.count < n {
            return 0.0;
        }
        let series = || (self.count - n..self.count).map(|k| self.samples[k % SAMPLES]);
        let (z, r) = series().fold((0.0, 0.0), |sum, sample| (sum.0 + sample.0, sum.1 + sample.1));
        let (mean, mean_r) = (z / n as f64, r / n as f64);
        if mean < LEAST * self.capacity {
            return 0.0;
        }
        let (mut peak, mut other, mut own) = (0.0f64, 0.0f64, 0.0f64);
        // Frequencies are as many apart as the series can tell, from that of the pulses on.
        let bin = |hz: f64| libm::floor((hz / self.hz - 1.0) * self.hz * self.span_s + 0.5);
        let (first, last) = (bin(PEAK.0 * self.hz) as i64, bin(OTHER.1 * self.hz) as i64);
        for group in (first..=last).step_by(LANES) {
            let frequencies: [f64; LANES] = std::array::from_fn(|k| self.hz + (group + k as i64) as f64 / self.span_s);
            let twice = frequencies.map(|hz| 2.0 * libm::cos(2.0 * PI * hz * self.sample_s));
            let z = powers(&twice, series().map(|sample| sample.0 - mean));
            // Of R, the band of the pulses alone is needed.
            let top = PEAK.1 * self.hz + 1e-9;
            if frequencies[0] < top {
                let r = powers(&twice, series().map(|sample| sample.1 - mean_r));
                own = (0..LANES).filter(|k| frequencies[*k] < top).map(|k| r[k]).fold(own, f64::max);
            }
            for (k, power) in z.into_iter().enumerate() {
                let within = |band: (f64, f64)| {
                    let at = frequencies[k] / self.hz;
                    at > band.0 - 1e-9 && at < band.1 + 1e-9
                };
                if within(PEAK) {
                    peak = peak.max(power);
                } else if within(OTHER) {
                    other = other.max(power);
                }
            }
        }
        if other <= 0.0 {
            return 0.0;
        }
        let (elasticity, response) = (libm::sqrt(peak / other), RESPONSE * libm::sqrt(own));
        let peak = libm::sqrt(peak);
        let trusted = if peak < response { elasticity.min(DOUBTFUL) * peak / response } else { elasticity };
        libm::log(1.0 + trusted)
    }
}

/// The power of a series at frequencies given by twice the cosine of a step (Goertzel).
fn powers(twice: &[f64; LANES], series: impl Iterator<Item = f64>) -> [f64; LANES] {
    let (mut s1, mut s2) = ([0.0; LANES], [0.0; LANES]);
    for x in series {
        for k in 0..LANES {
            let s = x + twice[k] * s1[k] - s2[k];
            (s2[k], s1[k]) = (s1[k], s);
        }
    }
    std::array::from_fn(|k| s1[k] * s1[k] + s2[k] * s2[k] - twice[k] * s1[k] * s2[k])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The elasticity of a series of samples, in Mbit/s of a link of 100, every 20 ms; the flow receives pulses of `own`.
    fn of_series(z: impl Fn(f64) -> f64, own: f64) -> f64 {
        of_both(z, |t| 50.0 + own * wave(5.0, t))
    }

    fn of_both(z: impl Fn(f64) -> f64, received: impl Fn(f64) -> f64) -> f64 {
        let mut elasticity = Elasticity::new(5.0, 5.0);
        (elasticity.sample_s, elasticity.capacity, elasticity.count) = (0.02, 100.0, 300);
        for k in 0..300 {
            let t = 0.02 * k as f64;
            elasticity.samples[k] = (z(t), received(t));
        }
        elasticity.value().exp() - 1.0
    }

    fn wave(hz: f64, t: f64) -> f64 {
        (2.0 * PI * hz * t).sin()
    }

    #[test]
    fn the_elasticity_is_the_peak_at_the_pulses_over_the_highest_other_one() {
        // Whole numbers of periods in five seconds: the amplitudes are those of the waves, 10 and 4.
        let found = of_series(|t| 50.0 + 10.0 * wave(5.0, t) + 4.0 * wave(8.0, t), 20.0);
        assert!((found - 2.5).abs() < 1e-6, "{found}");
        let below = of_series(|t| 50.0 + 10.0 * wave(5.0, t) + 40.0 * wave(2.0, t) + 5.0 * wave(7.0, t), 20.0);
        assert!((below - 2.0).abs() < 1e-6, "slower changes do not count: {below}");
        let little = of_series(|t| 9.0 + 9.0 * wave(5.0, t) + wave(8.0, t), 20.0);
        assert_eq!(little, 0.0, "cross traffic below a tenth of the capacity");
        // A response of 2 to pulses of 20 is two fifths of a quarter: of an elasticity of 8, which counts as 3, 1.2.
        let weak = of_series(|t| 50.0 + 2.0 * wave(5.0, t) + 0.25 * wave(8.0, t), 20.0);
        assert!((weak - 1.2).abs() < 1e-6, "{weak}");
        // Nor do slower changes of what is received: the peak of 10 is more than a quarter of the pulses of 20.
        let received = |t| 50.0 + 20.0 * wave(5.0, t) + 200.0 * wave(1.0, t);
        let slow = of_both(|t| 50.0 + 10.0 * wave(5.0, t) + 4.0 * wave(8.0, t), received);
        assert!((slow - 2.5).abs() < 1e-6, "{slow}");
    }

    /// The elasticity beside cross traffic of this rate, Mbit/s at a time, given the flow's rate 50 ms before. A link of
    /// 100 Mbit/s is shared first in, first out, in steps of 1 ms; the flow sends 50 Mbit/s with pulses of 25 Mbit/s and
    /// decides every 20 ms.
    fn beside(cross: fn(f64, f64) -> f64) -> f64 {
        let mut elasticity = Elasticity::new(5.0, 5.0);
        let mut rates = vec![50.0; 50];
        // Megabits of the flow that each millisecond brings, those of all, and what was received of which millisecond.
        let (mut arrived, mut served, mut delivered): (Vec<(f64, f64)>, f64, f64) = (Vec::new(), 0.0, 0.0);
        let (mut next, mut sent, mut acked_before) = (0, 0.0, 0.0);
        for ms in 0..30_000 {
            let t = 1e-3 * f64::from(ms);
            let phase = (5.0 * t).fract();
            let up =
                if phase < 0.25 { (4.0 * PI * phase).sin() } else { -(4.0 * PI * (phase - 0.25) / 3.0).sin() / 3.0 };
            let rate = 50.0 + 25.0 * up;
            rates.push(rate);
            arrived.push((1e-3 * rate, 1e-3 * (rate + cross(t, rates[rates.len() - 51]))));
            sent += 1e-3 * rate;
            let mut room: f64 = if ms < 30 { 0.0 } else { 0.1 }; // a queue of 30 ms
            while next < arrived.len() && room > 0.0 {
                let (own, all) = arrived[next];
                let part = room.min(all - served);
                delivered += own * part / all;
                (room, served) = (room - part, served + part);
                if served >= all - 1e-12 {
                    (next, served) = (next + 1, 0.0);
                }
            }
            if ms % 20 == 19 {
                let stats = IntervalStats {
                    time_s: t + 1e-3,
                    interval_s: 0.02,
                    acked_rate_bps: (delivered - acked_before) / 0.02 * 1e6,
                    in_flight_packets: (sent - delivered) * 1e6 / 8.0 / 1460.0,
                    mss_bytes: 1460.0,
                    ..IntervalStats::default()
                };
                acked_before = delivered;
                elasticity.update(&stats, 100e6, None);
            }
        }
        elasticity.value().exp() - 1.0
    }

    #[test]
    fn traffic_that_follows_the_pulses_is_told_apart_from_traffic_that_does_not() {
        // 50 Mbit/s that vary on their own, and the same that yield by half of what the flow sends more.
        let inelastic = beside(|t, _| 50.0 + 2.0 * wave(7.0, t) + 5.0 * wave(0.7, t));
        let elastic = beside(|t, rate| 50.0 + 2.0 * wave(7.0, t) + 5.0 * wave(0.7, t) - 0.5 * (rate - 50.0));
        assert!(inelastic < 1.0, "{inelastic}");
        assert!(elastic > 2.5, "{elastic}");
    }

    #[test]
    fn it_is_zero_until_a_series_is_complete_and_after_a_change_of_the_path() {
        let mut elasticity = Elasticity::new(5.0, 5.0);
        let stats = |k: u32| IntervalStats {
            time_s: 0.03 * f64::from(k),
            interval_s: 0.03,
            acked_rate_bps: if k % 7 == 3 { 30e6 } else { 50e6 },
            in_flight_packets: 200.0,
            mss_bytes: 1460.0,
            ..IntervalStats::default()
        };
        for k in 0..160 {
            elasticity.update(&stats(k), 100e6, None);
            assert_eq!(elasticity.value(), 0.0);
        }
        (160..200).for_each(|k| elasticity.update(&stats(k), 100e6, None));
        assert!(elasticity.value() > 0.0);
        elasticity.forget();
        assert_eq!(elasticity.value(), 0.0);
    }

    #[test]
    fn on_an_idle_link_the_flows_own_pulses_are_not_cross_traffic() {
        // 25 to 35 Mbit/s on a link of 100, which are received as they are sent: 50 ms without a queue.
        let after = |floor_s| {
            let mut elasticity = Elasticity::new(5.0, 5.0);
            for k in 0..500 {
                let rate = |k: i32| 30e6 + 5e6 * wave(5.0, 0.02 * f64::from(k));
                let stats = IntervalStats {
                    time_s: 0.02 * f64::from(k),
                    interval_s: 0.02,
                    acked_rate_bps: rate(k - 2),
                    in_flight_packets: 0.02 * (rate(k) + rate(k - 1)) / 8.0 / 1460.0,
                    rtt_mean_s: 0.05,
                    mss_bytes: 1460.0,
                    ..IntervalStats::default()
                };
                elasticity.update(&stats, 100e6, floor_s);
            }
            elasticity.value().exp() - 1.0
        };
        assert_eq!(after(Some(0.05)), 0.0);
        assert!(after(Some(0.03)) > 2.0, "with a queue they would be");
    }
}
