//! The rules by which CUBIC's slow start may grow, and end before a loss.

use super::Conn;
use super::hystart::HyStart;
use super::hystart_plus_plus::HyStartPlusPlus;
use super::search::Search;

#[derive(Clone, Debug)]
pub enum SlowStart {
    /// Only a loss ends it.
    Standard,
    HyStart(HyStart),
    HyStartPlusPlus(HyStartPlusPlus),
    Search(Box<Search>),
}

impl SlowStart {
    /// A connection begins, or slow start begins anew after a timeout.
    pub fn restart(&mut self, conn: &Conn) {
        match self {
            SlowStart::Standard => {}
            SlowStart::HyStart(rule) => rule.restart(conn),
            SlowStart::HyStartPlusPlus(rule) => rule.restart(conn),
            SlowStart::Search(rule) => rule.restart(),
        }
    }

    /// One ACK with an RTT sample in slow start; `delay_min_us` is the connection's minimum. Leaving sets `ssthresh`.
    pub fn on_ack(&mut self, conn: &mut Conn, rtt_us: u32, delay_min_us: u32) {
        match self {
            SlowStart::Standard => {}
            SlowStart::HyStart(rule) => rule.on_ack(conn, rtt_us, delay_min_us, false),
            SlowStart::HyStartPlusPlus(rule) => rule.on_ack(conn, rtt_us),
            SlowStart::Search(rule) => rule.on_ack(conn, rtt_us),
        }
    }

    /// Grow the window in slow start. Returns what is left of `acked` for congestion avoidance.
    pub fn grow(&mut self, conn: &mut Conn, acked: u32) -> u32 {
        match self {
            SlowStart::HyStart(rule) => rule.before_growth(conn),
            SlowStart::HyStartPlusPlus(rule) => return rule.grow(conn, acked),
            SlowStart::Search(rule) if rule.drains() => return 0,
            SlowStart::Standard | SlowStart::Search(_) => {}
        }
        conn.slow_start(acked)
    }

    /// The connection was idle and its window has been cut.
    pub fn on_idle_restart(&mut self) {
        if let SlowStart::Search(rule) = self {
            rule.restart();
        }
    }
}
