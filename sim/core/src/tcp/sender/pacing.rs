//! Pacing as in Linux with `fq`: each segment has a departure, and is handed to its host's queue a little before.

use crate::cc::Conn;
use crate::time::Nanos;

/// The first segments of a connection leave unpaced.
const UNPACED_SEGMENTS: u64 = 10;
/// What waits leaves in this time at most, so that a new rate is soon felt: our choice, Linux lets three segments wait at any
/// rate.
const AHEAD_MAX: Nanos = Nanos::from_millis(1);

/// The clock is the connection's `next_departure`, which controllers may set back.
#[derive(Clone, Debug)]
pub(super) struct Pacer {
    /// Is a segment waiting for its departure?
    pub blocked: bool,
    mss: u64,
    /// Memory a whole segment takes in the host's queue, bytes.
    truesize: u64,
    /// For what the next three were divided, bytes per second.
    rate: u64,
    /// Between two whole segments.
    gap: Nanos,
    /// How long before its departure a segment may be handed over, and how long before it is at the latest.
    most: Nanos,
    least: Nanos,
    /// The latter of the segment that waits.
    held: Nanos,
}

impl Pacer {
    pub fn new(mss: u64, truesize: u64) -> Pacer {
        Pacer {
            blocked: false,
            mss,
            truesize,
            rate: 0,
            gap: Nanos::ZERO,
            most: Nanos::ZERO,
            least: Nanos::ZERO,
            held: Nanos::ZERO,
        }
    }

    /// When a pacer that is blocked hands over what comes next.
    pub fn timer(&self, conn: &Conn) -> Nanos {
        conn.next_departure.saturating_sub(self.held)
    }

    /// Must the next segment wait? A retransmission may be handed over twice as early.
    #[inline(always)]
    pub fn holds(&mut self, conn: &Conn, again: bool) -> bool {
        if conn.pacing_rate != self.rate {
            self.divide(conn.pacing_rate);
        }
        let more = u64::from(again);
        let holds = conn.next_departure > conn.now + Nanos(self.most.0 << more);
        if holds {
            self.wait(Nanos(self.least.0 << more));
        }
        holds
    }

    /// For a departure that is so near.
    pub fn wait(&mut self, least: Nanos) {
        self.blocked = true;
        self.held = least;
    }

    /// What the next segment waits for, if it does.
    pub fn waits_for(&self) -> Option<Nanos> {
        self.blocked.then_some(self.held)
    }

    /// Advance the clock by the payload of the `sent`th segment, as Linux charges it; up to half of the gap may be made up
    /// from lateness.
    #[inline]
    pub fn charge(&mut self, conn: &mut Conn, sent: u64, bytes: u64) {
        let rate = conn.pacing_rate;
        if rate == 0 || sent < UNPACED_SEGMENTS {
            return;
        }
        if rate != self.rate {
            self.divide(rate);
        }
        let gap = if bytes == self.mss { self.gap.0 } else { bytes * 1_000_000_000 / rate };
        let lateness = conn.now.saturating_sub(conn.next_departure).0;
        let start = conn.next_departure.max(conn.now);
        conn.next_departure = start + Nanos(gap - (gap / 2).min(lateness));
    }

    /// Small queues: segments are handed over until more than a millisecond's bytes wait there, or two segments', by the
    /// memory they take (tcp_small_queue_check); then one for each that leaves (tcp_wfree). Ours are as early on average:
    /// a timer hands several over.
    fn divide(&mut self, rate: u64) {
        self.rate = rate;
        if let Some(gap) = (self.mss * 1_000_000_000).checked_div(rate) {
            let limit = (rate >> 10).max(2 * self.truesize);
            let early = (gap * (limit / self.truesize + 1)).min(AHEAD_MAX.0);
            (self.gap, self.most, self.least) = (Nanos(gap), Nanos(early + early / 2), Nanos(early / 2));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::TcpSpec;

    /// Segments of 1448 bytes handed over at once, at `mbps` of payload; and how far the clock is when the next are.
    fn handed_over(mbps: u64, again: bool) -> (u64, u64) {
        let mut conn = Conn::new(&TcpSpec::default());
        conn.pacing_rate = mbps * 125_000;
        let mut pacer = Pacer::new(1448, 1448 + 1280);
        let mut sent = UNPACED_SEGMENTS;
        while !pacer.holds(&conn, again) {
            pacer.charge(&mut conn, sent, 1448);
            sent += 1;
        }
        let gap = 1448 * 8_000 / mbps;
        (sent - UNPACED_SEGMENTS, (conn.next_departure - pacer.timer(&conn)).0 / gap)
    }

    #[test]
    fn as_many_segments_wait_as_in_linux_s_small_queues_on_average() {
        // 11,718 bytes leave in a 1024th of a second: five segments wait, of 2,728 bytes of memory each; ours from seven to two, behind
        // the one that leaves at once.
        assert_eq!(handed_over(96, false), (8, 2));
        assert_eq!(handed_over(96, true), (16, 5));
        // Two segments' memory at least: three wait, but not for more than a millisecond.
        assert_eq!(handed_over(48, false), (5, 1));
        assert_eq!(handed_over(1, false), (1, 0));
        // Unpaced flows have a limit in bytes, paced ones have none.
        assert_eq!(handed_over(40_000, false).0, (1 + (5_000_000_000 >> 10) / 2728) * 3 / 2 + 1);
    }

    #[test]
    fn half_of_a_gap_may_be_made_up_and_the_first_segments_are_not_paced() {
        let mut conn = Conn::new(&TcpSpec::default());
        (conn.pacing_rate, conn.now) = (1_448_000, Nanos::from_millis(100));
        let mut pacer = Pacer::new(1448, 2728);
        pacer.charge(&mut conn, UNPACED_SEGMENTS - 1, 1448);
        assert_eq!(conn.next_departure, Nanos::ZERO);
        pacer.charge(&mut conn, UNPACED_SEGMENTS, 1448);
        assert_eq!(conn.next_departure, Nanos::from_micros(100_500), "late by 100 ms");
        pacer.charge(&mut conn, UNPACED_SEGMENTS, 724);
        assert_eq!(conn.next_departure, Nanos::from_millis(101), "half a segment");
    }
}
