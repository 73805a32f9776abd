//! DCTCP (Alizadeh et al. 2010, RFC 8257) as Linux has it (`tcp_dctcp.c`): the window is cut in proportion to the share
//! of packets that were marked. The receiver's exact echo is in `tcp/receiver/ecn.rs`.

use super::{CaState, Conn, Controller, EcnUse, Event, Params, reno};

/// Shares are whole numbers of 1/1024.
const ONE: u32 = 1024;
/// A new share counts 1/2^4 in the average.
const SHIFT_G: u32 = 4;

pub const PARAMS: &[(&str, &str)] = &[("ect", "0")];

pub fn build(params: &Params) -> Result<Box<dyn Controller>, String> {
    let ect1 = params.number("ect", 0.0, 0.0, 1.0)? == 1.0;
    Ok(Box::new(Dctcp { ect1, ..Dctcp::default() }))
}

#[derive(Clone, Debug)]
pub struct Dctcp {
    /// Packets carry ECT(1), which sends them to the low-delay queue of DualPI2.
    ect1: bool,
    /// Average share of marked packets. Below 16/1024 it is forgotten at once, and the share of a round trip counts in
    /// whole 1/1024 after division by 2^4: fewer than one mark in 64 packets leave nothing.
    alpha: u32,
    /// The round ends when this is acknowledged; delivered and marked when it began.
    round_end: u32,
    delivered: u32,
    delivered_ce: u32,
    /// The window at the last loss.
    loss_cwnd: u32,
}

impl Default for Dctcp {
    fn default() -> Dctcp {
        Dctcp { ect1: false, alpha: ONE, round_end: 0, delivered: 0, delivered_ce: 0, loss_cwnd: 0 }
    }
}

impl Dctcp {
    fn begin_round(&mut self, conn: &Conn) {
        (self.round_end, self.delivered, self.delivered_ce) = (conn.snd_nxt, conn.delivered, conn.delivered_ce);
    }

    fn react_to_loss(&mut self, conn: &mut Conn) {
        self.loss_cwnd = conn.cwnd;
        conn.ssthresh = reno::ssthresh(conn);
    }
}

impl Controller for Dctcp {
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn ecn_use(&self) -> EcnUse {
        EcnUse::Exact { ect1: self.ect1 }
    }

    fn init(&mut self, conn: &mut Conn) {
        self.begin_round(conn);
    }

    fn on_echo(&mut self, conn: &mut Conn, una: u32) {
        if una < self.round_end {
            return;
        }
        let decay = self.alpha >> SHIFT_G;
        self.alpha -= if decay == 0 { self.alpha } else { decay };
        let marked = u64::from(conn.delivered_ce - self.delivered_ce) << (10 - SHIFT_G);
        let delivered = u64::from(conn.delivered - self.delivered).max(1);
        self.alpha = (u64::from(self.alpha) + marked / delivered).min(ONE.into()) as u32;
        self.begin_round(conn);
    }

    fn cong_avoid(&mut self, conn: &mut Conn, acked: u32) {
        reno::cong_avoid(conn, acked);
    }

    fn ssthresh(&mut self, conn: &mut Conn) -> u32 {
        self.loss_cwnd = conn.cwnd;
        let cut = (u64::from(conn.cwnd) * u64::from(self.alpha)) >> 11;
        (conn.cwnd - cut as u32).max(2)
    }

    fn on_state(&mut self, conn: &mut Conn, new: CaState) {
        if new == CaState::Recovery && conn.state != CaState::Recovery {
            self.react_to_loss(conn);
        }
    }

    fn on_event(&mut self, conn: &mut Conn, event: Event) {
        if event == Event::Loss {
            self.react_to_loss(conn);
        }
    }

    fn undo(&mut self, conn: &mut Conn) -> u32 {
        conn.cwnd.max(self.loss_cwnd)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::conn;
    use super::*;

    /// The average after a round trip of `delivered` segments, `marked` of them marked.
    fn after(alpha: u32, delivered: u32, marked: u32) -> u32 {
        let mut dctcp = Dctcp { alpha, ..Dctcp::default() };
        let mut c = conn(delivered, delivered);
        (c.delivered, c.delivered_ce) = (delivered, marked);
        dctcp.on_echo(&mut c, 1);
        dctcp.alpha
    }

    /// Worked out by hand from the integer formulas of `dctcp_update_alpha`.
    #[test]
    fn the_average_is_a_whole_number_with_a_dead_zone() {
        assert_eq!(after(1024, 400, 0), 960);
        assert_eq!(after(1024, 400, 400), 1024, "960 + 64");
        assert_eq!(after(15, 400, 0), 0, "below 16 all of it goes");
        assert_eq!(after(16, 400, 0), 15);
        assert_eq!(after(0, 640, 9), 0, "fewer than one in 64");
        assert_eq!(after(0, 640, 10), 1);
        assert_eq!(after(0, 463, 37), 5, "37 x 64 / 463");
        assert_eq!(after(100, 100, 50), 94 + 32);
    }

    #[test]
    fn the_window_is_cut_by_half_the_share_and_by_half_after_a_loss() {
        let (mut c, mut dctcp) = (conn(463, 463), Dctcp::default());
        for (alpha, left) in [(1024, 232), (512, 348), (4, 463), (5, 462)] {
            dctcp.alpha = alpha;
            assert_eq!(dctcp.ssthresh(&mut c), left, "{alpha}");
        }
        dctcp.on_state(&mut c, CaState::Recovery);
        assert_eq!((c.ssthresh, dctcp.loss_cwnd), (231, 463));
        c.cwnd = 231;
        assert_eq!(dctcp.undo(&mut c), 463);
    }

    #[test]
    fn a_round_lasts_until_what_was_outstanding_is_acknowledged() {
        let (mut c, mut dctcp) = (conn(10, 10), Dctcp::default());
        c.snd_nxt = 10;
        dctcp.init(&mut c);
        (c.delivered, c.snd_nxt) = (8, 18);
        dctcp.on_echo(&mut c, 9);
        assert_eq!(dctcp.alpha, 1024);
        dctcp.on_echo(&mut c, 10);
        assert_eq!((dctcp.alpha, dctcp.round_end), (960, 18));
    }
}
