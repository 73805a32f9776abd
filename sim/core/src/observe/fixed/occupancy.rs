//! The occupancy of a bottleneck ([`crate::observe::occupancy`]) in fixed point.

use super::Statistics;
use super::arithmetic::{ONE20, ONE24, ratio, within};
use super::measures::{MOST_RATE, MOST_RTT, SECOND, least, weight};

/// Flights are kept of so many decisions, a quarter of an RTT apart at least.
pub const FLIGHTS: usize = 8;
/// Running means are over so many minimum RTTs, Q16; estimates over so many, and over three seconds at least.
const MEAN_RTTS: u32 = 8 << 16;
const SPAN_RTTS: u64 = 12;
const SPAN_NS: u64 = 3 * SECOND;
/// Largest change that counts, and largest ratio, Q24.
const MOST: i64 = ONE24 / 4;
const MOST_RATIO: i64 = 16 << 24;
/// 1.5e-4 in Q32.
const NOISE: i64 = 644_245;
const MOST_FLIGHT: u64 = 1 << 20;

/// The estimate of one flow; zeros at first.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Occupancy {
    /// Moments in units of 2^12 ns, modulo 2^32, and packets in flight then; 0 packets: none yet.
    pub times: [u32; FLIGHTS],
    pub flights: [u32; FLIGHTS],
    /// Means of the delivery rate (bytes per second in Q4) and of the packets in flight an RTT earlier (Q8); 0: none yet.
    pub rate: u64,
    pub flight: u32,
    /// The minimum RTT in units of 2^12 ns, rounded up; 0: none yet.
    pub least: u32,
    /// Q32.
    pub product: i32,
    pub square: i32,
}

impl Occupancy {
    /// Take in an interval.
    pub fn update(&mut self, stats: &Statistics) {
        let rtt_ns = least(stats.rtt_least_ns, MOST_RTT);
        if rtt_ns > 0 {
            let rtt = (rtt_ns >> 12) as u32;
            if self.least == 0 || rtt < self.least {
                self.least = rtt + 1;
            }
            let earlier = u64::from(self.earlier(stats, rtt));
            let rate = least(stats.delivery_rate, MOST_RATE);
            if earlier > 0 && rate > 0 {
                self.learn(stats.interval_ns, least(earlier, MOST_FLIGHT) << 8, rate << 4);
            }
        }
    }

    /// The estimate, Q24.
    pub fn share(&self) -> i64 {
        let (product, square) = (i64::from(self.product) + NOISE / 2, i64::from(self.square) + NOISE);
        if product > 0 { ratio(product as u64, square as u64, ONE24) } else { 0 }
    }

    /// The packets in flight an RTT earlier, 0 if that is not known; those of now are kept.
    fn earlier(&mut self, stats: &Statistics, rtt: u32) -> u32 {
        let now = (stats.time_ns >> 12) as u32;
        let (mut found, mut found_age, mut newest, mut oldest, mut place) = (0, u32::MAX, u32::MAX, 0, 0);
        for k in 0..FLIGHTS {
            let age = if self.flights[k] > 0 { now.wrapping_sub(self.times[k]) } else { u32::MAX };
            if age >= rtt && age < found_age {
                found_age = age;
                found = self.flights[k];
            }
            if age < newest {
                newest = age;
            }
            if age > oldest {
                oldest = age;
                place = k;
            }
        }
        if stats.in_flight > 0 && newest >= rtt >> 2 {
            self.times[place] = now;
            self.flights[place] = stats.in_flight;
        }
        found
    }

    /// Take in a flight (Q8) and the rate (Q4) an RTT later.
    fn learn(&mut self, interval_ns: u64, flight: u64, rate: u64) {
        let rtt_ns = u64::from(self.least) << 12;
        if self.flight == 0 {
            self.flight = flight as u32;
            self.rate = rate;
        }
        let w = weight(interval_ns, rtt_ns, MEAN_RTTS);
        self.flight = nearer(u64::from(self.flight), flight, w) as u32;
        self.rate = nearer(self.rate, rate, w);
        let (e, r) = (ratio(flight, u64::from(self.flight), MOST_RATIO), ratio(rate, self.rate, MOST_RATIO));
        let x = within(e - ONE24, -MOST, MOST);
        let y = within(ratio(e as u64, r as u64, MOST_RATIO) - ONE24, -MOST, MOST);
        let span_ns = if SPAN_RTTS * rtt_ns > SPAN_NS { SPAN_RTTS * rtt_ns } else { SPAN_NS };
        let w = weight(interval_ns, span_ns, 1 << 16);
        self.product += ((w * (((x * y) >> 16) - i64::from(self.product))) >> 24) as i32;
        self.square += ((w * (((x * x) >> 16) - i64::from(self.square))) >> 24) as i32;
    }
}

/// The action in Q20 after the policy's, in a range (Q20) about it, by the share of the bottleneck.
pub fn picked(action: i32, range: i32, share: i64) -> i32 {
    within(i64::from(action) + ((i64::from(range) * (ONE24 - 2 * share)) >> 24), -ONE20, ONE20) as i32
}

/// A mean after a value with this weight (Q24).
fn nearer(mean: u64, value: u64, weight: i64) -> u64 {
    mean.wrapping_add(((weight * (value as i64 - mean as i64)) >> 24) as u64)
}
