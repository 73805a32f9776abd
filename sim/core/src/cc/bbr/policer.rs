//! A token-bucket policer on the path: the rate it lets through ("long-term bandwidth", `tcp_bbr.c`).
//!
//! Suspected after two intervals of some rounds that both lost a fifth of what was delivered, at about the same rate;
//! that rate is then kept for a while, since probing a policer only costs packets.

use super::super::Conn;
use super::{BW_UNIT, UNIT, bytes_per_second};

/// Rounds of an interval at least, and four times as many at most.
const INTERVAL_ROUNDS: u32 = 4;
/// Lost of 256 delivered.
const LOSS: u32 = 50;
/// Rates within an eighth, or within 4 kbit/s, are the same.
const TOLERANCE: u64 = 8;
const TOLERANCE_BYTES_PER_S: u64 = 4000 / 8;
/// Rounds of ProbeBW for which a policer's rate is kept.
const USE_ROUNDS: u32 = 48;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicerState {
    Unchanged,
    Found,
    Over,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Policer {
    sampling: bool,
    in_use: bool,
    bw: u64,
    rounds: u32,
    since_ms: u64,
    since_delivered: u32,
    since_lost: u32,
}

impl Policer {
    /// The rate it lets through, once found.
    pub fn rate(&self) -> Option<u64> {
        self.in_use.then_some(self.bw)
    }

    /// One ACK: did it find something lost, was the sample limited by the application?
    pub fn watch(
        &mut self,
        conn: &Conn,
        lost: bool,
        app_limited: bool,
        round_start: bool,
        cruising: bool,
    ) -> PolicerState {
        if self.in_use {
            if cruising && round_start {
                self.rounds += 1;
                if self.rounds >= USE_ROUNDS {
                    self.forget(conn);
                    return PolicerState::Over;
                }
            }
            return PolicerState::Unchanged;
        }
        if !self.sampling {
            if !lost {
                return PolicerState::Unchanged;
            }
            self.begin_interval(conn);
            self.sampling = true;
        }
        if app_limited {
            self.forget(conn);
            return PolicerState::Unchanged;
        }
        self.rounds += u32::from(round_start);
        if self.rounds < INTERVAL_ROUNDS {
            return PolicerState::Unchanged;
        }
        if self.rounds > 4 * INTERVAL_ROUNDS {
            self.forget(conn);
            return PolicerState::Unchanged;
        }
        let packets_lost = conn.lost - self.since_lost;
        let delivered = conn.delivered - self.since_delivered;
        let span_ms = conn.now.millis() - self.since_ms;
        // An interval ends with a loss.
        let heavy = delivered > 0 && u64::from(packets_lost) << 8 >= u64::from(LOSS) * u64::from(delivered);
        if !lost || !heavy || span_ms == 0 {
            return PolicerState::Unchanged;
        }
        self.end_interval(conn, u64::from(delivered) * BW_UNIT / (span_ms * 1_000))
    }

    fn end_interval(&mut self, conn: &Conn, bw: u64) -> PolicerState {
        if self.bw > 0 {
            let difference = bw.abs_diff(self.bw);
            let bytes = bytes_per_second(difference, u64::from(conn.mss), UNIT, 99);
            if difference * TOLERANCE <= self.bw || bytes <= TOLERANCE_BYTES_PER_S {
                self.bw = (bw + self.bw) / 2;
                self.in_use = true;
                self.rounds = 0;
                return PolicerState::Found;
            }
        }
        self.bw = bw;
        self.begin_interval(conn);
        PolicerState::Unchanged
    }

    fn begin_interval(&mut self, conn: &Conn) {
        self.since_ms = conn.now.millis();
        self.since_delivered = conn.delivered;
        self.since_lost = conn.lost;
        self.rounds = 0;
    }

    pub fn forget(&mut self, conn: &Conn) {
        *self = Policer::default();
        self.begin_interval(conn);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::conn;
    use super::*;
    use crate::time::Nanos;

    #[test]
    fn an_interval_lasts_four_rounds_and_two_alike_are_a_policer_for_48_rounds() {
        let (mut policer, mut c) = (Policer::default(), conn(100, 100));
        let mut round = |lost: u32| {
            c.now += Nanos::from_millis(10);
            (c.delivered, c.lost) = (c.delivered + 80, c.lost + lost);
            policer.watch(&c, lost > 0, false, true, true)
        };
        let states: Vec<PolicerState> = (0..8).map(|_| round(20)).collect();
        assert_eq!(states, [[PolicerState::Unchanged; 7].as_slice(), &[PolicerState::Found]].concat());
        assert!((1..48).all(|_| round(0) == PolicerState::Unchanged));
        assert_eq!(round(0), PolicerState::Over);
    }
}
