//! Pacing as in Linux with `fq`: each segment has a departure, and is handed to its host's queue a little before.

use crate::cc::Conn;
use crate::time::Nanos;

/// How long before its departure a segment may wait in its host's queue, as Linux's small queues (1 ms of data) and `fq`
/// have it; the queue is filled again when half is left. Fewer timers, and the next departure seldom waits for one.
const QUEUED_AHEAD: Nanos = Nanos::from_millis(1);
/// The first segments of a connection leave unpaced.
const UNPACED_SEGMENTS: u64 = 10;

/// The clock is the connection's `next_departure`, which controllers may set back.
#[derive(Clone, Debug, Default)]
pub(super) struct Pacer {
    /// Is a segment waiting for its departure?
    pub blocked: bool,
    /// Gap of a packet of `.1` bytes at rate `.0`: divided once per change.
    gap: (u64, u64, u64),
}

/// When a pacer that is blocked hands over what comes next.
pub(super) fn timer(conn: &Conn) -> Nanos {
    conn.next_departure.saturating_sub(Nanos(QUEUED_AHEAD.0 / 2))
}

impl Pacer {
    /// Must the next segment wait?
    #[inline(always)]
    pub fn holds(&mut self, conn: &Conn) -> bool {
        let holds = conn.next_departure > conn.now + QUEUED_AHEAD;
        if holds {
            self.blocked = true;
        }
        holds
    }

    /// Advance the clock by the payload of the `sent`th segment, as Linux charges it; up to half of the gap may be made up
    /// from lateness.
    #[inline]
    pub fn charge(&mut self, conn: &mut Conn, sent: u64, bytes: u64) {
        let rate = conn.pacing_rate;
        if rate == 0 || sent < UNPACED_SEGMENTS {
            return;
        }
        if (self.gap.0, self.gap.1) != (rate, bytes) {
            self.gap = (rate, bytes, bytes * 1_000_000_000 / rate);
        }
        let gap = self.gap.2;
        let lateness = conn.now.saturating_sub(conn.next_departure).0;
        let start = conn.next_departure.max(conn.now);
        conn.next_departure = start + Nanos(gap - (gap / 2).min(lateness));
    }
}
