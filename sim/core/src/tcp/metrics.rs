//! What a host remembers of a destination between connections (Linux's `tcp_metrics`; RFC 9040): the slow-start
//! threshold. Linux also keeps window, RTT and reordering; of these only the first timeout and the first reordering
//! degree would be touched.

use crate::cc::{CaState, Conn, SSTHRESH_INFINITE};
use crate::time::Nanos;

/// Older memories are forgotten.
const LIFETIME: Nanos = Nanos::from_secs(3_600);

/// One destination.
#[derive(Clone, Copy, Debug, Default)]
pub struct Destination {
    ssthresh: Option<u32>,
    at: Nanos,
}

impl Destination {
    /// The threshold a connection opened now starts with.
    pub fn ssthresh(&self, now: Nanos) -> Option<u32> {
        self.ssthresh.filter(|_| now <= self.at + LIFETIME)
    }

    /// A connection closes. `backoff`: while its retransmission timer is backed off nothing is learnt.
    pub fn remember(&mut self, now: Nanos, conn: &Conn, backoff: u32) {
        if backoff > 0 || conn.srtt8_us == 0 {
            return;
        }
        let known = self.ssthresh(now);
        self.ssthresh = if conn.ssthresh >= SSTHRESH_INFINITE {
            // Still in the first slow start: the path has room for what was used.
            known.map(|old| old.max(conn.cwnd >> 1))
        } else if !conn.in_slow_start() && conn.state == CaState::Open {
            Some(conn.ssthresh.max(conn.cwnd >> 1))
        } else {
            known.map(|old| old.max(conn.ssthresh))
        };
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::testing::conn;

    fn after(destination: &mut Destination, cwnd: u32, ssthresh: u32, state: CaState) -> Option<u32> {
        let now = Nanos::from_secs(100);
        destination.remember(now, &Conn { state, srtt8_us: 8, ..conn(cwnd, ssthresh) }, 0);
        destination.ssthresh(now)
    }

    #[test]
    fn congestion_avoidance_sets_the_threshold_and_slow_start_only_raises_it() {
        let mut d = Destination::default();
        let infinite = SSTHRESH_INFINITE;
        assert_eq!(after(&mut d, 400, infinite, CaState::Open), None, "nothing to raise");
        assert_eq!(after(&mut d, 100, 70, CaState::Recovery), None);
        assert_eq!(after(&mut d, 100, 70, CaState::Open), Some(70));
        assert_eq!(after(&mut d, 100, infinite, CaState::Open), Some(70));
        assert_eq!(after(&mut d, 200, infinite, CaState::Open), Some(100));
        assert_eq!(after(&mut d, 20, 90, CaState::Open), Some(100), "slow start after a loss");
        assert_eq!(after(&mut d, 200, 120, CaState::Recovery), Some(120));
        assert_eq!(after(&mut d, 90, 40, CaState::Open), Some(45), "congestion avoidance lowers it, too");
    }

    #[test]
    fn an_hour_later_nothing_is_known() {
        let mut d = Destination::default();
        after(&mut d, 100, 70, CaState::Open);
        assert_eq!(d.ssthresh(Nanos::from_secs(3_700)), Some(70));
        assert_eq!(d.ssthresh(Nanos::from_secs(3_701)), None);
        let mut d = Destination::default();
        d.remember(Nanos::ZERO, &Conn { srtt8_us: 8, ..conn(100, 70) }, 1);
        assert_eq!(d.ssthresh(Nanos::ZERO), None, "a connection that waits for its timeout knows nothing");
    }
}
