//! The share of a bottleneck that a flow occupies, estimated from what a change of its window does to its rate, as in Jury
//! (Tian et al., "Achieving Fairness Generalizability for Learning-based Congestion Control with Jury", EuroSys 2025).
//!
//! In a first-in first-out queue the rate of a flow is its share of the packets. A flow with the share p that multiplies
//! its packets by e, beside others that do not change theirs, therefore multiplies its rate by r = e / (1 + (e - 1) p), and
//! p = (e / r - 1) / (e - 1). On an idle link r = e, and p is 0. Alone on a full one r = 1, and p is 1.

use super::memory::span_weight;
use super::stats::IntervalStats;

/// Flights are kept of so many decisions, so many RTTs apart at least.
const KEPT: usize = 8;
const APART_RTTS: f64 = 0.25;
/// e and r are relative to running means over so many minimum RTTs.
const MEAN_RTTS: f64 = 8.0;
/// p is the least-squares solution over so many minimum RTTs, and over this time at least.
const SPAN_RTTS: f64 = 12.0;
const SPAN_S: f64 = 3.0;
/// Largest change that counts.
const MOST: f64 = 0.25;
/// p is in [0, 1], so r lies between 1 and e. Further away than this the capacity has changed, or others have changed their
/// packets, which tells nothing of p.
const TOLERANCE: f64 = 0.05;
/// Without changes of the window, p is a half: this variance of e weighs as much as that assumption.
const NOISE: f64 = 1.5e-4;

/// The estimate of one flow. RTTs are the least of each interval.
#[derive(Clone, Debug)]
pub struct Occupancy {
    flights: Flights,
    /// The minimum RTT since the first interval.
    least_s: f64,
    /// Means of the packets in flight an RTT earlier, and of the delivery rate.
    means: Option<[f64; 2]>,
    product: f64,
    square: f64,
}

impl Default for Occupancy {
    fn default() -> Occupancy {
        let flights = Flights([(f64::NEG_INFINITY, 0.0); KEPT]);
        Occupancy { flights, least_s: f64::INFINITY, means: None, product: 0.0, square: 0.0 }
    }
}

impl Occupancy {
    /// Take in an interval; the estimate of p, in [0, 1].
    pub fn update(&mut self, stats: &IntervalStats) -> f64 {
        let rtt_s = stats.rtt_min_s;
        if rtt_s > 0.0 {
            self.least_s = self.least_s.min(rtt_s);
            let earlier = self.flights.at(stats.time_s - rtt_s);
            self.flights.push(stats.time_s, APART_RTTS * rtt_s, stats.in_flight_packets);
            let seen = [earlier, stats.delivery_rate_bps];
            if seen.iter().all(|x| *x > 0.0) {
                self.learn(stats.interval_s, seen);
            }
        }
        ((self.product + 0.5 * NOISE) / (self.square + NOISE)).clamp(0.0, 1.0)
    }

    /// Take in a flight and the delivery rate an RTT later.
    fn learn(&mut self, interval_s: f64, seen: [f64; 2]) {
        let means = self.means.get_or_insert(seen);
        let w = span_weight(interval_s, MEAN_RTTS * self.least_s);
        for (mean, x) in means.iter_mut().zip(seen) {
            *mean += w * (x - *mean);
        }
        let (e, r) = (seen[0] / means[0], seen[1] / means[1]);
        if r < e.min(1.0) - TOLERANCE || r > e.max(1.0) + TOLERANCE {
            return;
        }
        let (x, y) = ((e - 1.0).clamp(-MOST, MOST), (e / r - 1.0).clamp(-MOST, MOST));
        let w = span_weight(interval_s, (SPAN_RTTS * self.least_s).max(SPAN_S));
        self.product += w * (x * y - self.product);
        self.square += w * (x * x - self.square);
    }
}

/// Moments and packets in flight then, in no order.
#[derive(Clone, Debug)]
struct Flights([(f64, f64); KEPT]);

impl Flights {
    /// The packets in flight at the last moment until then; 0: not known.
    fn at(&self, time_s: f64) -> f64 {
        let past = self.0.iter().filter(|(at, _)| *at <= time_s);
        past.max_by(|a, b| a.0.total_cmp(&b.0)).map_or(0.0, |(_, packets)| *packets)
    }

    /// Keep a flight in place of the oldest, unless another is less than `apart_s` old.
    fn push(&mut self, time_s: f64, apart_s: f64, packets: f64) {
        let newest = self.0.iter().fold(f64::NEG_INFINITY, |newest, (at, _)| newest.max(*at));
        if packets > 0.0 && time_s - newest >= apart_s {
            let oldest = self.0.iter_mut().min_by(|a, b| a.0.total_cmp(&b.0));
            *oldest.expect("some are kept") = (time_s, packets);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The estimate after 60 s of a window that swings by 10 % about 100 packets. `rate`: Mbit/s for such packets.
    fn after(rate: fn(f64) -> f64) -> f64 {
        let mut occupancy = Occupancy::default();
        let mut flights = vec![100.0; 3];
        let mut found = 0.0;
        for k in 0..2_000 {
            let time_s = 0.03 * f64::from(k);
            let in_flight_packets = 100.0 * (1.0 + 0.1 * (4.0 * time_s).sin());
            // With an RTT of 50 ms, the last interval that had ended an RTT ago is the one before the last.
            let delivery_rate_bps = 1e6 * rate(flights[flights.len() - 2]);
            let stats = IntervalStats {
                time_s,
                interval_s: 0.03,
                in_flight_packets,
                delivery_rate_bps,
                rtt_min_s: 0.05,
                min_rtt_s: 0.04,
                ..IntervalStats::default()
            };
            found = occupancy.update(&stats);
            flights.push(in_flight_packets);
        }
        found
    }

    #[test]
    fn the_estimate_is_the_share_of_the_queue() {
        // 100 of 400 packets of a link of 80 Mbit/s: 20 Mbit/s. With 110 packets 80 x 110 / 410 = 21.46, so that e = 1.1,
        // r = 1.073, and (1.1 / 1.073 - 1) / 0.1 = 0.25.
        // About its running mean over 0.4 s the swing at 4 rad/s keeps 2.56 / 3.56 of its variance of 0.005: 0.0036, so that
        // the assumption of a half weighs 4 %.
        let quarter = after(|flight| 80.0 * flight / (flight + 300.0));
        assert!((quarter - 0.26).abs() < 0.003, "{quarter}");
        let most = after(|flight| 80.0 * flight / (flight + 25.0));
        assert!((most - 0.788).abs() < 0.003, "{most}");
        let (idle, alone) = (after(|flight| flight), after(|_| 80.0));
        assert!((idle - 0.02).abs() < 0.003, "on an idle link: {idle}");
        assert!((alone - 0.98).abs() < 0.003, "alone on a full link: {alone}");
    }

    #[test]
    fn the_estimate_outlasts_a_fall_of_the_capacity() {
        // Alone on a full link that falls from 80 to 8 Mbit/s; from then on the window shrinks by 4 % per interval of 30 ms.
        // In the first 0.6 s e is about 0.7 and r 0.1 to 0.4: less than on an idle link, which no share of the queue explains.
        let mut occupancy = Occupancy::default();
        let (mut flight, mut found) = (100.0, 0.0);
        for k in 0..1_020 {
            let time_s = 0.03 * f64::from(k);
            flight = if k < 1_000 { 100.0 * (1.0 + 0.1 * (4.0 * time_s).sin()) } else { 0.96 * flight };
            let stats = IntervalStats {
                time_s,
                interval_s: 0.03,
                in_flight_packets: flight,
                delivery_rate_bps: if k < 1_000 { 80e6 } else { 8e6 },
                rtt_min_s: 0.05,
                min_rtt_s: 0.04,
                ..IntervalStats::default()
            };
            found = occupancy.update(&stats);
        }
        assert!((found - 0.98).abs() < 0.01, "{found}");
    }

    #[test]
    fn without_changes_of_the_window_it_is_a_half() {
        let mut occupancy = Occupancy::default();
        let steady = |k: u32| IntervalStats {
            time_s: 0.03 * f64::from(k),
            interval_s: 0.03,
            in_flight_packets: 100.0,
            delivery_rate_bps: if k.is_multiple_of(2) { 20e6 } else { 0.0 },
            rtt_min_s: if k.is_multiple_of(3) { f64::NAN } else { 0.05 },
            min_rtt_s: 0.04,
            ..IntervalStats::default()
        };
        assert!((0..500).all(|k| occupancy.update(&steady(k)) == 0.5));
    }
}
