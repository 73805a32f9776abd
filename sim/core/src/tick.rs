//! The kernel's clock of timers: HZ ticks per second, and the wheel on which its timers turn (kernel/time/timer.c).

use crate::time::Nanos;

/// The kernel's timer tick.
#[derive(Clone, Copy, Debug)]
pub struct Tick {
    us: u64,
    /// The same in nanoseconds, and its reciprocal: 2^(64 + `shift`) / `ns`, rounded up.
    ns: u64,
    reciprocal: u64,
    shift: u32,
}

impl Tick {
    pub fn new(hz: u32) -> Tick {
        let us = 1_000_000 / u64::from(hz);
        let ns = us * 1_000;
        // Not a power of two, hence less than 2^64.
        let shift = ns.ilog2();
        let reciprocal = ((1u128 << (64 + shift)) / u128::from(ns) + 1) as u64;
        Tick { us, ns, reciprocal, shift }
    }

    pub fn micros(self) -> u64 {
        self.us
    }

    /// Whole ticks covering `us`, rounded up.
    pub fn covering(self, us: u64) -> u64 {
        // Narrow divisions cost half of wide ones.
        match u32::try_from(us) {
            Ok(us) => u64::from(us.div_ceil(self.us as u32)),
            Err(_) => us.div_ceil(self.us),
        }
    }

    /// Ticks passed by `now`. Asked for at every turn, hence multiplied by a reciprocal, which is exact below 2^63 ns.
    #[inline]
    pub fn count(self, now: Nanos) -> u64 {
        (((u128::from(now.0) * u128::from(self.reciprocal)) >> 64) as u64) >> self.shift
    }

    /// When a timer set in tick `count` for `ticks` more fires. The kernel's timer wheel never fires early: it rounds
    /// up to the next slot, and slots widen eightfold per level (`calc_index` in kernel/time/timer.c).
    pub fn deadline(self, count: u64, ticks: u64) -> Nanos {
        let shift = slot_shift(ticks);
        let expires = (((count + ticks) >> shift) + 1) << shift;
        Nanos(expires * self.ns)
    }

    /// How often a timer fires that its own callback sets for `interval` again. Then the wheel stands one tick ahead,
    /// and the last deadline was the start of a slot.
    pub fn period(self, interval: Nanos) -> Nanos {
        let ticks = self.covering(interval.0.div_ceil(1_000));
        let shift = slot_shift(ticks.saturating_sub(1));
        Nanos((((ticks >> shift) + 1) << shift) * self.ns)
    }
}

/// Binary logarithm of the ticks of a slot of the wheel for timers so far ahead.
fn slot_shift(ticks: u64) -> u32 {
    match ticks {
        0..63 => 0,
        63..504 => 3,
        504..4_032 => 6,
        4_032..32_256 => 9,
        _ => 12,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_round_up_to_the_wheel_s_slots() {
        let tick = Tick::new(1000);
        assert_eq!(tick.deadline(100, 40), Nanos::from_millis(141));
        assert_eq!(tick.deadline(100, 250), Nanos::from_millis(352));
        assert_eq!(tick.deadline(100, 1_800), Nanos::from_millis(1_920));
        assert_eq!(Tick::new(100).deadline(3, 25), Nanos::from_millis(290));
    }

    #[test]
    fn ticks_are_counted_exactly() {
        for hz in [1, 100, 250, 300, 1_000, 1_000_000] {
            let tick = Tick::new(hz);
            for k in [0, 1, 7, 1_000, 123_456_789, (1 << 56) / tick.ns] {
                let start = k * tick.ns;
                let counts = [start.saturating_sub(1), start, start + tick.ns - 1].map(|ns| tick.count(Nanos(ns)));
                assert_eq!(counts, [k.saturating_sub(1), k, k], "{hz} Hz");
            }
        }
    }

    #[test]
    fn a_timer_that_sets_itself_again_fires_a_tick_late() {
        // As measured on Linux 6.1: PIE's 20 ms are 30 ms at 100 Hz, its 15 ms 16 ms at 1,000 Hz.
        let periods = [
            (100, 15_000, 30_000),
            (100, 20_000, 30_000),
            (250, 15_000, 20_000),
            (1_000, 15_000, 16_000),
            // HZ / 2 of RED: 50, 125, 150 and 500 ticks in slots of 1, 8, 8 and 8.
            (100, 500_000, 510_000),
            (250, 500_000, 512_000),
            (1_000, 500_000, 504_000),
            (1_000, 63_000, 64_000),
            (1_000, 64_000, 72_000),
            (1_000, 1, 2_000),
        ];
        for (hz, interval_us, period_us) in periods {
            assert_eq!(Tick::new(hz).period(Nanos::from_micros(interval_us)), Nanos::from_micros(period_us), "{hz} Hz");
        }
    }
}
