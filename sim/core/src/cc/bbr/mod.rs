//! The BBR family: what its members share.
//!
//! Rates are segments per microsecond times 2^24, gains are of 256, as in Linux's `tcp_bbr.c`, so that its rounding is
//! kept (1/2.885 becomes 88/256).

mod policer;
#[cfg(test)]
mod testing;
pub mod v1;
pub mod v3;

use super::{Conn, RateSample};

/// Of rates.
pub const BW_SCALE: u32 = 24;
pub const BW_UNIT: u64 = 1 << BW_SCALE;
/// Gain 1.
pub const UNIT: u32 = 256;
/// Rounds in which an aggregation maximum counts, per slot.
const EXTRA_ACKED_ROUNDS: u32 = 5;
/// Aggregation beyond this much time of data is not believed.
const EXTRA_ACKED_MAX_US: u64 = 100_000;
/// An aggregation epoch of more segments starts anew.
const ACK_EPOCH_MAX: u32 = 1 << 20;

/// TCP and IP headers with timestamps: what makes a segment an MTU.
const HEADERS: u64 = 52;
/// Ethernet's header: what makes it a frame.
const ETHERNET: u64 = 14;

/// Bytes per second of `gain` times rate `bw`, `percent` of it.
pub fn bytes_per_second(bw: u64, bytes_per_segment: u64, gain: u32, percent: u64) -> u64 {
    let rate = ((bw * bytes_per_segment * u64::from(gain)) >> 8) * (1_000_000 / 100 * percent);
    rate >> BW_SCALE
}

/// Segments of `gain` times bandwidth-delay product, rounded up.
pub fn bdp(bw: u64, min_rtt_us: u32, gain: u32) -> u32 {
    // A rate of before the path became longer may be too much for 64 bits.
    let product = bw.saturating_mul(u64::from(min_rtt_us)).saturating_mul(u64::from(gain));
    ((product >> 8).div_ceil(BW_UNIT)) as u32
}

/// The most segments of one burst.
pub const BURST_MAX: u32 = 127;

/// Segments Linux would hand to the network in one piece: a millisecond's worth and `extra_bytes`. Packets leave one by
/// one here, but the windows leave room for such bursts all the same.
pub fn burst_segments(conn: &Conn, extra_bytes: u64) -> u32 {
    const GSO_MAX_BYTES: u64 = 65_536 - 1 - 320;
    let at_least = if conn.pacing_rate < 1_200_000 / 8 { 1 } else { 2 };
    let bytes = ((conn.pacing_rate >> 10) + extra_bytes).min(GSO_MAX_BYTES);
    // Narrow divisions cost half of wide ones.
    (bytes as u32 / conn.mss).clamp(at_least, BURST_MAX)
}

/// What of `in_flight` will be left when the pacer lets the next packet go.
pub fn in_flight_at_departure(conn: &Conn, in_flight: u32, bw: u64) -> u32 {
    let wait_us = conn.next_departure.saturating_sub(conn.now).micros();
    in_flight.saturating_sub(((bw * wait_us) >> BW_SCALE) as u32)
}

/// The rate of a sample, if it is valid.
pub fn sample_rate(rate: &RateSample) -> Option<u64> {
    (rate.interval_us > 0).then(|| u64::from(rate.delivered) * BW_UNIT / rate.interval_us)
}

/// Packet-timed rounds: one ends when a segment sent after its start is delivered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rounds {
    pub next_delivered: u32,
    pub count: u32,
    pub start: bool,
}

impl Rounds {
    /// Begin a round with the next transmission.
    pub fn begin(&mut self, conn: &Conn) {
        self.next_delivered = conn.delivered;
    }

    /// A valid sample: does it start a round?
    pub fn update(&mut self, conn: &Conn, rate: &RateSample) {
        self.start = rate.prior_delivered >= self.next_delivered;
        if self.start {
            self.next_delivered = conn.delivered;
            self.count += 1;
        }
    }
}

/// Windowed maximum with three samples (Kathleen Nichols' filter, `lib/win_minmax.c`); time in rounds.
#[derive(Clone, Copy, Debug, Default)]
pub struct MaxFilter {
    best: [(u32, u64); 3],
}

impl MaxFilter {
    pub fn get(&self) -> u64 {
        self.best[0].1
    }

    pub fn reset(&mut self, time: u32, value: u64) {
        self.best = [(time, value); 3];
    }

    pub fn update(&mut self, window: u32, time: u32, value: u64) {
        let sample = (time, value);
        if value >= self.best[0].1 || time - self.best[2].0 > window {
            return self.reset(time, value);
        }
        if value >= self.best[1].1 {
            self.best[1] = sample;
            self.best[2] = sample;
        } else if value >= self.best[2].1 {
            self.best[2] = sample;
        }
        let age = time - self.best[0].0;
        if age > window {
            self.best = [self.best[1], self.best[2], sample];
            if time - self.best[0].0 > window {
                self.best = [self.best[1], self.best[2], sample];
            }
        } else if self.best[1].0 == self.best[0].0 && age > window / 4 {
            self.best[1] = sample;
            self.best[2] = sample;
        } else if self.best[2].0 == self.best[1].0 && age > window / 2 {
            self.best[2] = sample;
        }
    }
}

/// How many more segments than expected the path acknowledges at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Aggregation {
    epoch_start_us: u64,
    epoch_acked: u32,
    slots: [u32; 2],
    slot: usize,
    slot_rounds: u32,
}

impl Aggregation {
    pub fn begin_epoch(&mut self, now_us: u64) {
        self.epoch_start_us = now_us;
        self.epoch_acked = 0;
    }

    /// One ACK; `bw` is the estimate in force. Maxima are kept for `slot_rounds` to twice as many rounds.
    #[inline(always)]
    pub fn update(&mut self, conn: &Conn, rate: &RateSample, round_start: bool, bw: u64, slot_rounds: u32) {
        if rate.acked == 0 || rate.interval_us == 0 {
            return;
        }
        if round_start {
            self.slot_rounds += 1;
            if self.slot_rounds >= slot_rounds {
                self.slot_rounds = 0;
                self.slot ^= 1;
                self.slots[self.slot] = 0;
            }
        }
        let now = conn.now.micros();
        let mut expected = (bw * (now - self.epoch_start_us)) >> BW_SCALE;
        if u64::from(self.epoch_acked) <= expected || self.epoch_acked + rate.acked >= ACK_EPOCH_MAX {
            self.begin_epoch(now);
            expected = 0;
        }
        self.epoch_acked = (self.epoch_acked + rate.acked).min(ACK_EPOCH_MAX - 1);
        let extra = (self.epoch_acked - expected as u32).min(conn.cwnd);
        self.slots[self.slot] = self.slots[self.slot].max(extra);
    }

    /// Segments of window to allow for it.
    pub fn allowance(&self, bw: u64) -> u32 {
        let most = ((bw * EXTRA_ACKED_MAX_US) >> BW_SCALE) as u32;
        self.slots[0].max(self.slots[1]).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::conn;
    use super::*;

    #[test]
    fn rates_and_products() {
        // 100 Mbit/s of 1500-byte packets: one per 120 us.
        let bw = BW_UNIT / 120;
        assert_eq!(bdp(bw, 50_000, UNIT), 417);
        assert_eq!(bdp(bw, 50_000, 2 * UNIT), 834);
        let rate = bytes_per_second(bw, 1448, UNIT, 99);
        assert!((rate as f64 / (1448.0 / 120e-6 * 0.99) - 1.0).abs() < 1e-4, "{rate}");
        let mut c = conn(10, 10);
        c.pacing_rate = 12_500_000;
        assert_eq!(burst_segments(&c, 0), 8, "100 Mbit/s for a millisecond");
        c.pacing_rate = 100_000;
        assert_eq!(burst_segments(&c, 0), 1);
    }

    #[test]
    fn the_maximum_is_forgotten_after_its_window() {
        let mut max = MaxFilter::default();
        for (time, value) in [(0, 50), (1, 100), (5, 80), (8, 70)] {
            max.update(10, time, value);
        }
        assert_eq!(max.get(), 100);
        max.update(10, 12, 60);
        assert_eq!(max.get(), 80);
        max.update(10, 30, 10);
        assert_eq!(max.get(), 10, "everything was too old");
        // After more than half of the window without a third best, the present sample is one.
        let mut max = MaxFilter::default();
        for (time, value) in [(0, 100), (3, 50), (6, 40), (11, 10)] {
            max.update(10, time, value);
        }
        assert_eq!(max.get(), 50);
        max.update(10, 14, 5);
        assert_eq!(max.get(), 40);
    }

    #[test]
    fn aggregation_is_what_comes_beyond_the_expected() {
        let bw = BW_UNIT / 1_000 + 1;
        let mut aggregation = Aggregation::default();
        let mut c = conn(100, 10);
        let rate = RateSample { acked: 20, interval_us: 1, ..RateSample::default() };
        for k in 1..=3 {
            // Twenty segments every 20 ms, all at once.
            c.now = crate::time::Nanos::from_millis(20 * k);
            aggregation.update(&c, &rate, false, bw, EXTRA_ACKED_ROUNDS);
        }
        assert_eq!(aggregation.allowance(bw), 20);
        assert_eq!(aggregation.allowance(BW_UNIT / 10_000 + 1), 10, "at most 100 ms of data");
    }
}
