//! Round-trip time and retransmission timeout as Linux computes them (RFC 6298 with a per-window maximum deviation).

use crate::tick::Tick;
use crate::time::Nanos;

/// Linux's floor of the deviation term: RTO >= srtt + 200 ms.
const RTO_MIN_US: u32 = 200_000;
const RTO_MAX_US: u64 = 120_000_000;
const RTO_INITIAL_US: u64 = 1_000_000;
/// Longer round trips (over four minutes) are taken for this: Linux's own variables overflow at twice that.
pub const LONGEST_RTT_US: u32 = 1 << 28;
/// Length of the filter of the smallest one.
pub const MIN_RTT_WINDOW: Nanos = Nanos::from_secs(300);

/// Whole ticks that cover times which change little: divides once per tick.
#[derive(Clone, Copy, Debug)]
pub struct CoveringTicks {
    tick: Tick,
    ticks: u64,
    /// The largest time, in microseconds, that fewer ticks cover.
    above: u64,
}

impl CoveringTicks {
    pub fn new(tick: Tick) -> CoveringTicks {
        CoveringTicks { tick, ticks: 1, above: 0 }
    }

    /// Whole ticks covering `us` > 0, rounded up.
    #[inline]
    pub fn of(&mut self, us: u64) -> u64 {
        if us <= self.above || us - self.above > self.tick.micros() {
            self.ticks = self.tick.covering(us);
            self.above = (self.ticks - 1) * self.tick.micros();
        }
        self.ticks
    }
}

#[derive(Clone, Debug)]
pub struct RttEstimator {
    /// Smoothed RTT in microseconds, times 8; 0 before the first sample.
    pub srtt8_us: u32,
    /// Mean deviation in microseconds, times 4.
    mdev4_us: u32,
    mdev_max_us: u32,
    rttvar_us: u32,
    window_mark: u32,
    pub backoff: u32,
    tick: Tick,
}

/// Microseconds from `sent` to `now`, both in microseconds. An optimistic receiver may acknowledge what its host still
/// paces: that took no time, as in Linux (`tcp_stamp_us_delta`).
#[inline]
pub fn rtt_us(sent: u64, now: u64) -> u32 {
    now.saturating_sub(sent).min(u64::from(LONGEST_RTT_US)) as u32
}

impl RttEstimator {
    pub fn new(hz: u32) -> RttEstimator {
        RttEstimator {
            srtt8_us: 0,
            mdev4_us: 0,
            mdev_max_us: 0,
            rttvar_us: 0,
            window_mark: 0,
            backoff: 0,
            tick: Tick::new(hz),
        }
    }

    #[inline]
    pub fn sample(&mut self, rtt_us: u32, snd_una: u32, snd_nxt: u32) {
        let m = rtt_us.max(1) as i64;
        if self.srtt8_us == 0 {
            self.srtt8_us = (m << 3) as u32;
            self.mdev4_us = (m << 1) as u32;
            self.rttvar_us = self.mdev4_us.max(RTO_MIN_US);
            self.mdev_max_us = self.rttvar_us;
            self.window_mark = snd_nxt;
            return;
        }
        let mut error = m - i64::from(self.srtt8_us >> 3);
        self.srtt8_us = (i64::from(self.srtt8_us) + error).max(1) as u32;
        if error < 0 {
            error = -error - i64::from(self.mdev4_us >> 2);
            // A falling RTT must not raise the deviation as fast (Eifel).
            if error > 0 {
                error >>= 3;
            }
        } else {
            error -= i64::from(self.mdev4_us >> 2);
        }
        self.mdev4_us = (i64::from(self.mdev4_us) + error).max(0) as u32;
        if self.mdev4_us > self.mdev_max_us {
            self.mdev_max_us = self.mdev4_us;
            self.rttvar_us = self.rttvar_us.max(self.mdev_max_us);
        }
        if snd_una > self.window_mark {
            if self.mdev_max_us < self.rttvar_us {
                self.rttvar_us -= (self.rttvar_us - self.mdev_max_us) >> 2;
            }
            self.window_mark = snd_nxt;
            self.mdev_max_us = RTO_MIN_US;
        }
    }

    /// The timeout without backoff, in microseconds.
    pub fn rto_us(&self) -> u64 {
        if self.srtt8_us == 0 {
            return RTO_INITIAL_US;
        }
        u64::from(self.srtt8_us >> 3) + u64::from(self.rttvar_us)
    }

    /// The timeout in force, in ticks.
    pub fn rto_ticks(&self) -> u64 {
        let ticks = self.tick.covering(self.rto_us());
        if self.backoff == 0 { ticks } else { (ticks << self.backoff.min(16)).min(self.tick.covering(RTO_MAX_US)) }
    }

    pub fn rto_floor_us() -> u64 {
        u64::from(RTO_MIN_US)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One window of data per sample.
    fn feed(samples_us: &[u32], hz: u32) -> Vec<(u32, u32, u64, u64)> {
        let mut rtt = RttEstimator::new(hz);
        let mut snd = 0;
        samples_us
            .iter()
            .map(|&us| {
                rtt.sample(us, snd + 1, snd + 2);
                snd += 2;
                (rtt.srtt8_us, rtt.rttvar_us, rtt.rto_us(), rtt.rto_ticks())
            })
            .collect()
    }

    #[test]
    fn what_is_acknowledged_before_it_has_left_took_no_time() {
        assert_eq!((rtt_us(7, 10), rtt_us(10, 7)), (3, 0));
    }

    #[test]
    fn rto_vectors_of_the_geo_path() {
        let got = feed(&[600_000, 620_000, 580_000, 600_000, 600_000], 250);
        assert_eq!((got[0].0 >> 3, got[0].1, got[0].2), (600_000, 1_200_000, 1_800_000));
        assert_eq!((got[1].0 >> 3, got[1].1, got[1].2), (602_500, 1_200_000, 1_802_500));
        assert_eq!(got[1].3 * 4, 1_804, "HZ 250 rounds up to 1804 ms");
        assert_eq!((got[2].0, got[2].1, got[2].2), (4_797_500, 1_078_125, 1_677_812));
        assert_eq!((got[3].2, got[4].2), (1_541_992, 1_406_782));
    }

    #[test]
    fn rto_vectors_of_a_leo_path() {
        let got = feed(&[40_000, 42_000, 41_000, 160_000, 45_000], 1000);
        assert_eq!(got.iter().map(|g| g.2).collect::<Vec<_>>(), [240_000, 240_250, 240_343, 255_300, 254_013]);
        assert_eq!(feed(&[50_000; 100], 1000).last().unwrap().2, 250_000);
    }

    #[test]
    fn the_deviation_falls_once_per_window_of_data() {
        // tcp_rtt_estimator: a window ends with an ACK above the snd_nxt at which it began (20, 40). The deviation x 4
        // falls by a quarter per sample: 600, 450, 337.5, 253.1 ms, of which the last is the largest of the second window.
        let mut rtt = RttEstimator::new(1000);
        let variances = [(0, 20), (10, 30), (25, 40), (35, 50), (45, 60)].map(|(una, nxt)| {
            rtt.sample(300_000, una, nxt);
            rtt.rttvar_us
        });
        assert_eq!(variances, [600_000, 600_000, 600_000, 600_000, 600_000 - (600_000 - 253_125) / 4]);
    }

    #[test]
    fn backoff_doubles_up_to_two_minutes() {
        let mut rtt = RttEstimator::new(1000);
        rtt.sample(50_000, 0, 1);
        let mut waits = vec![];
        for backoff in 0..12 {
            rtt.backoff = backoff;
            waits.push(rtt.rto_ticks());
        }
        assert_eq!(waits[..4], [250, 500, 1_000, 2_000]);
        assert_eq!(waits[11], 120_000);
    }
}
