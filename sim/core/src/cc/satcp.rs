//! SaTCP (Cao, Zhang: "SaTCP: Link-Layer Informed TCP Adaptation for Highly Dynamic LEO Satellite Networks", INFOCOM
//! 2023), as its released module: CUBIC that is told of handovers.
//!
//! While a handover is reported (from about half a second before to 1.8 s after it; [`crate::signals`] has the error of
//! the reports), a timeout does not make CUBIC forget its maximum, and the way back to that maximum takes a ninth of
//! the time. Nothing else: TCP below cuts and recovers as ever. The CUBIC is the module's, of Linux 4.15, whatever
//! kernel the hosts run.
//!
//! `mode = freeze` is what the paper's words are usually taken to mean (an interpretation): while a handover is
//! reported the window stands still, through losses and timeouts.

use crate::spec::Kernel;
use crate::time::Nanos;

use super::cubic::Cubic;
use super::{CaState, Conn, Controller, Event, Params, Signal, Subscription};

/// A report is withdrawn this long after the latest.
const REPORT_HOLD: Nanos = Nanos::from_millis(2_300);

pub const PARAMS: &[(&str, &str)] = &[("mode", "\"released\"")];

pub fn build(params: &Params) -> Result<Box<dyn Controller>, String> {
    let freezes = params.text("mode", "released", &["released", "freeze"])? == "freeze";
    Ok(Box::new(SaTcp::new(freezes)))
}

#[derive(Clone, Debug)]
pub struct SaTcp {
    cubic: Cubic,
    freezes: bool,
    /// A handover is reported.
    reported: bool,
}

impl SaTcp {
    fn new(freezes: bool) -> SaTcp {
        SaTcp { cubic: Cubic::linux(Kernel::V4_15), freezes, reported: false }
    }

    fn is_frozen(&self) -> bool {
        self.reported && self.freezes
    }
}

impl Controller for SaTcp {
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn init(&mut self, conn: &mut Conn) {
        self.cubic.init(conn);
    }

    fn on_delivered(&mut self, conn: &mut Conn, delivered: u32, rtt_us: Option<u32>) {
        self.cubic.on_delivered(conn, delivered, rtt_us);
    }

    fn cong_avoid(&mut self, conn: &mut Conn, acked: u32) {
        if !self.is_frozen() {
            self.cubic.cong_avoid(conn, acked);
        }
    }

    fn ssthresh(&mut self, conn: &mut Conn) -> u32 {
        if !self.is_frozen() {
            return self.cubic.ssthresh(conn);
        }
        // Without a window from before, TCP has nothing to reduce in proportion to: it lets the present one stand.
        conn.prior_cwnd = 0;
        conn.cwnd
    }

    fn on_state(&mut self, conn: &mut Conn, new: CaState) {
        // A timeout during a handover is the handover's: the memory of the path's window survives it.
        if !self.reported {
            self.cubic.on_state(conn, new);
        }
    }

    fn on_event(&mut self, conn: &mut Conn, event: Event) {
        self.cubic.on_event(conn, event);
    }

    fn keeps_window_on_rto(&self) -> bool {
        self.is_frozen()
    }

    fn subscription(&self) -> Subscription {
        Subscription::HandoverReports { hold: REPORT_HOLD }
    }

    fn on_signal(&mut self, _conn: &mut Conn, signal: Signal) {
        match signal {
            Signal::HandoverReport => self.reported = true,
            Signal::HandoverExpiry => self.reported = false,
            Signal::Reconfiguration | Signal::Pong { .. } => {}
        }
        self.cubic.returns_quickly = self.reported && !self.freezes;
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::conn;
    use super::*;

    fn reported(freezes: bool) -> (SaTcp, Conn) {
        let mut satcp = SaTcp::new(freezes);
        let mut c = conn(400, u32::MAX);
        (c.jiffies, c.hz) = (10_000, 1000);
        satcp.on_delivered(&mut c, 1, Some(40_000));
        satcp.on_signal(&mut c, Signal::HandoverReport);
        (satcp, c)
    }

    /// Windows of a round driver (RTT 40 ms, one ACK per round) after a reduction at 400.
    fn rounds(satcp: &mut SaTcp, c: &mut Conn, n: usize) -> Vec<u32> {
        c.ssthresh = satcp.ssthresh(c);
        c.cwnd = c.ssthresh;
        (0..n)
            .map(|_| {
                c.jiffies += 40;
                let window = c.cwnd;
                satcp.cong_avoid(c, window);
                window
            })
            .collect()
    }

    #[test]
    fn the_old_maximum_is_back_in_one_round_while_a_handover_is_reported() {
        let (mut satcp, mut c) = reported(false);
        assert_eq!(rounds(&mut satcp, &mut c, 3), [280, 420, 420], "then it holds");
        let (mut satcp, mut c) = reported(false);
        satcp.on_signal(&mut c, Signal::HandoverExpiry);
        assert_eq!(rounds(&mut satcp, &mut c, 3), [280, 283, 285]);
    }

    #[test]
    fn a_timeout_is_forgotten_only_outside_of_handovers() {
        let (mut satcp, mut c) = reported(false);
        satcp.ssthresh(&mut c);
        satcp.on_state(&mut c, CaState::Loss);
        c.cwnd = 280;
        c.ssthresh = 280;
        satcp.cong_avoid(&mut c, 280);
        assert_eq!(c.cwnd, 420, "the maximum of 400 is remembered");
        satcp.on_signal(&mut c, Signal::HandoverExpiry);
        satcp.on_state(&mut c, CaState::Loss);
        (c.cwnd, c.ssthresh) = (280, 280);
        satcp.cong_avoid(&mut c, 280);
        assert!(c.cwnd < 300, "a new epoch without a maximum: {}", c.cwnd);
    }

    #[test]
    fn freezing_keeps_the_window_through_losses_and_timeouts() {
        let (mut satcp, mut c) = reported(true);
        assert_eq!(satcp.ssthresh(&mut c), 400);
        assert!(satcp.keeps_window_on_rto());
        satcp.cong_avoid(&mut c, 100);
        assert_eq!(c.cwnd, 400);
        satcp.on_signal(&mut c, Signal::HandoverExpiry);
        assert!(!satcp.keeps_window_on_rto());
        assert_eq!(satcp.ssthresh(&mut c), 280);
    }
}
