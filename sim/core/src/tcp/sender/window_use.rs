//! Congestion window validation (RFC 2861, as Linux has it): a window that is not used is not to be believed.

use crate::cc::{CaState, Conn, Event};

use super::Sender;

/// How the window has been used.
#[derive(Clone, Debug, Default)]
pub(super) struct WindowUse {
    /// The round in which use is remembered ends with this segment.
    round_end: u32,
    /// The most segments out since `since`, while the window was not the limit.
    pub used: u32,
    /// In ticks.
    pub since: u64,
}

impl Sender {
    /// RFC 2861 / Linux: the window of an idle connection decays.
    pub(super) fn restart_after_idle(&mut self) {
        if !self.tcp.slow_start_after_idle || self.packets_out() > 0 || self.owns_window {
            return;
        }
        let idle = self.conn.jiffies.saturating_sub(self.timers.tick.count(self.conn.last_send));
        if idle > self.rtt.rto_ticks() {
            self.cc.on_event(&mut self.conn, Event::CwndRestart);
            restart_window(&mut self.conn, idle, self.rtt.rto_ticks());
            self.window_use.since = self.conn.jiffies;
            self.window_use.used = 0;
        }
    }

    /// Congestion window validation (RFC 2861, Linux): remember whether the window was used.
    #[inline(always)]
    pub(super) fn validate_window(&mut self, limited: bool) {
        let out = self.packets_out();
        let more_out = out > self.conn.max_packets_out;
        let stronger =
            if self.profile.latches_window_use { limited || (!self.conn.cwnd_limited && more_out) } else { more_out };
        if stronger || self.conn.snd_una >= self.window_use.round_end {
            self.conn.cwnd_limited = limited;
            self.conn.max_packets_out = out;
            self.window_use.round_end = self.conn.snd_nxt;
        }
        if self.owns_window {
            return;
        }
        if self.conn.is_cwnd_limited() {
            self.window_use.used = 0;
            self.window_use.since = self.conn.jiffies;
            return;
        }
        self.window_use.used = self.window_use.used.max(out);
        if self.tcp.slow_start_after_idle && self.conn.jiffies - self.window_use.since >= self.rtt.rto_ticks() {
            // A writer waiting for the send buffer has more to send.
            if self.conn.state == CaState::Open && !self.buffer.bulk {
                let used = self.window_use.used.max(self.conn.initial_cwnd);
                if used < self.conn.cwnd {
                    self.conn.ssthresh = self.conn.current_ssthresh();
                    self.conn.cwnd = (self.conn.cwnd + used) >> 1;
                }
                self.window_use.used = 0;
            }
            self.window_use.since = self.conn.jiffies;
        }
    }
}

/// Halve the window once per timeout elapsed beyond the first.
fn restart_window(conn: &mut Conn, idle_ticks: u64, rto_ticks: u64) {
    conn.ssthresh = conn.current_ssthresh();
    let floor = conn.initial_cwnd.min(conn.cwnd);
    let mut left = idle_ticks as i64 - rto_ticks as i64;
    while left > 0 && conn.cwnd > floor {
        conn.cwnd >>= 1;
        left -= rto_ticks as i64;
    }
    conn.cwnd = conn.cwnd.max(floor);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::testing::conn;

    #[test]
    fn idle_restart_vectors() {
        let mut c = conn(400, 300);
        restart_window(&mut c, 1000, 300);
        assert_eq!((c.cwnd, c.ssthresh), (50, 300));
        let mut c = conn(64, 300);
        restart_window(&mut c, 10_000, 300);
        assert_eq!(c.cwnd, 10);
    }
}
