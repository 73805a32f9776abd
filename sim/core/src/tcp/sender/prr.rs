//! Reductions of the window: proportional to what is delivered.

use crate::cc::{CaState, Event, SSTHRESH_INFINITE};
use crate::spec::profile::SafeAck;

use super::Sender;

/// Proportional rate reduction (RFC 6937; Linux 6.x has the safe-ACK rule of its revision).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prr {
    pub delivered: u32,
    pub out: u32,
}

impl Prr {
    /// How many segments to send now beyond what is in flight. `conserve` without a safe ACK: what was delivered just
    /// now, not what earlier ACKs left unused.
    pub fn allowance(&mut self, target: (u32, u32), in_flight: u32, acked: u32, safe: bool, conserve: bool) -> u32 {
        let (ssthresh, prior_cwnd) = target;
        self.delivered += acked;
        let gap = i64::from(ssthresh) - i64::from(in_flight);
        let (delivered, out) = (i64::from(self.delivered), i64::from(self.out));
        let allowance = if gap < 0 {
            (i64::from(ssthresh) * delivered + i64::from(prior_cwnd) - 1) / i64::from(prior_cwnd) - out
        } else if conserve && !safe {
            gap.min(i64::from(acked))
        } else {
            gap.min((delivered - out).max(i64::from(acked)) + i64::from(safe))
        };
        // The first retransmission of a recovery is never held back.
        allowance.max(i64::from(self.out == 0)) as u32
    }
}

impl Sender {
    /// `acked` segments were delivered while the window is being reduced.
    pub(super) fn reduce_window(&mut self, acked: u32, safe: bool) {
        if acked == 0 || self.conn.prior_cwnd == 0 {
            return;
        }
        let in_flight = self.in_flight();
        let target = (self.conn.ssthresh, self.conn.prior_cwnd);
        let conserve = self.profile.safe_ack == SafeAck::RetransmissionArrived;
        self.conn.cwnd = in_flight + self.recovery.prr.allowance(target, in_flight, acked, safe, conserve);
    }

    pub(super) fn begin_reduction(&mut self) {
        self.recovery.high_seq = self.conn.snd_nxt;
        self.tail_probe.high_seq = None;
        self.conn.cwnd_cnt = 0;
        self.conn.prior_cwnd = self.conn.cwnd;
        self.recovery.prr = Prr::default();
        self.conn.ssthresh = self.cc.ssthresh(&mut self.conn);
        self.ecn.queue_cwr();
    }

    pub(super) fn end_reduction(&mut self) {
        if self.owns_window {
            return;
        }
        if self.conn.ssthresh < SSTHRESH_INFINITE
            && (self.conn.state == CaState::Cwr || self.recovery.undo_marker.is_some())
        {
            self.conn.cwnd = self.conn.ssthresh;
            self.window_use.since = self.conn.jiffies;
        }
        self.cc.on_event(&mut self.conn, Event::CompleteCwr);
    }
}

#[cfg(test)]
mod tests {
    use super::Prr;

    /// Drive PRR from prior window 100 to ssthresh 70; returns (cwnd, sent) per ACK.
    fn drive(mut in_flight: u32, acked: u32, safe: bool, conserve: bool, steps: usize) -> Vec<(u32, u32)> {
        let mut prr = Prr::default();
        (0..steps)
            .map(|_| {
                let allowance = prr.allowance((70, 100), in_flight, acked, safe, conserve);
                prr.out += allowance;
                let cwnd = in_flight + allowance;
                in_flight = cwnd - acked;
                (cwnd, allowance)
            })
            .collect()
    }

    #[test]
    fn one_sack_per_ack_above_the_threshold() {
        for conserve in [false, true] {
            let got = drive(96, 1, false, conserve, 6);
            assert_eq!(got.iter().map(|g| g.1).collect::<Vec<_>>(), [1, 1, 1, 0, 1, 1]);
            assert_eq!(got.iter().map(|g| g.0).collect::<Vec<_>>(), [97, 97, 97, 96, 96, 96]);
        }
    }

    #[test]
    fn below_the_threshold_conservative_and_safe() {
        for conserve in [false, true] {
            let got = drive(40, 2, false, conserve, 4);
            assert_eq!(got.iter().map(|g| g.0).collect::<Vec<_>>(), [42; 4]);
            let safe = drive(40, 2, true, conserve, 5);
            assert_eq!(safe.iter().map(|g| g.0).collect::<Vec<_>>(), [43, 44, 45, 46, 47]);
            assert!(safe.iter().all(|g| g.1 == 3));
        }
    }

    #[test]
    fn nothing_is_sent_while_as_much_is_in_flight_as_the_threshold() {
        // Of ten delivered segments, seven might have gone out and five have; but Linux takes the smaller bound from a
        // gap of zero on (`delta < 0` in tcp_cwnd_reduction).
        for (in_flight, allowance) in [(71, 2), (70, 0), (69, 1)] {
            let mut prr = Prr { delivered: 9, out: 5 };
            assert_eq!(prr.allowance((70, 100), in_flight, 1, true, false), allowance);
        }
    }

    #[test]
    fn what_earlier_acks_left_unused_is_kept_or_forgotten() {
        for (conserve, second) in [(false, 3), (true, 2)] {
            let mut prr = Prr { delivered: 5, out: 4 };
            assert_eq!(prr.allowance((70, 100), 40, 2, false, conserve), second);
        }
    }
}
