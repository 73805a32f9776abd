//! Reno: additive increase, halving on loss (RFC 5681, Linux `tcp_cong.c`).

use super::{Conn, Controller, Params};

/// ABE (RFC 8511, section 3.1): the part of the window that is left after a mark, of 1024 (0.8). Not in Linux.
const BETA_ECN: u64 = 819;

pub const PARAMS: &[(&str, &str)] = &[("abe", "\"off\"")];

pub fn build(params: &Params) -> Result<Box<dyn Controller>, String> {
    Ok(Box::new(Reno { abe: params.text("abe", "off", &["off", "on"])? == "on" }))
}

/// Slow start and additive increase.
pub fn cong_avoid(conn: &mut Conn, acked: u32) {
    if !conn.is_cwnd_limited() {
        return;
    }
    let acked = conn.slow_start(acked);
    if acked == 0 {
        return;
    }
    conn.additive_increase(conn.cwnd, acked);
}

/// Half of the window.
pub fn ssthresh(conn: &Conn) -> u32 {
    (conn.cwnd >> 1).max(2)
}

#[derive(Clone, Debug, Default)]
pub struct Reno {
    /// Alternative backoff with ECN.
    pub abe: bool,
}

impl Controller for Reno {
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn cong_avoid(&mut self, conn: &mut Conn, acked: u32) {
        cong_avoid(conn, acked);
    }

    fn ssthresh(&mut self, conn: &mut Conn) -> u32 {
        if self.abe && conn.by_marks {
            return ((u64::from(conn.cwnd) * BETA_ECN / 1024) as u32).max(2);
        }
        ssthresh(conn)
    }
}

#[cfg(test)]
mod tests {
    use super::super::SSTHRESH_INFINITE;
    use super::super::testing::conn;
    use super::*;

    fn grow(cwnd: u32, ssthresh: u32, cnt: u32, acked: u32) -> (u32, u32) {
        let mut c = conn(cwnd, ssthresh);
        c.cwnd_cnt = cnt;
        cong_avoid(&mut c, acked);
        (c.cwnd, c.cwnd_cnt)
    }

    #[test]
    fn growth_vectors() {
        assert_eq!(grow(10, SSTHRESH_INFINITE, 0, 10), (20, 0));
        assert_eq!(grow(60, 64, 0, 10), (64, 6));
        assert_eq!(grow(64, 64, 0, 64), (65, 0));
        assert_eq!(grow(64, 64, 63, 2), (65, 1));
    }

    #[test]
    fn additive_increase_vectors() {
        let mut c = conn(100, 100);
        c.cwnd_cnt = 95;
        c.additive_increase(50, 3);
        assert_eq!((c.cwnd, c.cwnd_cnt), (101, 3));
        let mut c = conn(100, 100);
        c.additive_increase(20, 65);
        assert_eq!((c.cwnd, c.cwnd_cnt), (103, 5));
    }

    #[test]
    fn loss_halves_and_undo_restores() {
        let mut c = conn(101, 200);
        assert_eq!(Reno::default().ssthresh(&mut c), 50);
        c.cwnd = 3;
        assert_eq!(ssthresh(&c), 2);
        c.prior_cwnd = 101;
        assert_eq!(Reno::default().undo(&mut c), 101);
    }

    #[test]
    fn with_abe_a_mark_leaves_four_fifths_and_a_loss_half() {
        let (mut c, mut reno) = (conn(100, 200), Reno { abe: true });
        assert_eq!(reno.ssthresh(&mut c), 50);
        c.by_marks = true;
        assert_eq!((reno.ssthresh(&mut c), Reno::default().ssthresh(&mut c)), (79, 50), "100 x 819 / 1024");
    }
}
