//! Illinois: Reno whose increase and decrease follow the queueing delay (Liu, Başar, Srikant 2008; Linux
//! `tcp_illinois.c`). Loss decides when, delay decides how much.

use super::{CaState, Conn, Controller};

/// Segments per round trip, times 128: 0.3 to 10.
const ALPHA_SHIFT: u32 = 7;
const ALPHA_BASE: u32 = 1 << ALPHA_SHIFT;
const ALPHA_MIN: u32 = 3 * ALPHA_BASE / 10;
const ALPHA_MAX: u32 = 10 * ALPHA_BASE;
/// Share of the window given up, of 64: 1/8 to 1/2.
const BETA_SHIFT: u32 = 6;
const BETA_MIN: u32 = (1 << BETA_SHIFT) / 8;
const BETA_MAX: u32 = (1 << BETA_SHIFT) / 2;
/// Below this window it is Reno.
const WIN_THRESH: u32 = 15;
/// Rounds of low delay before alpha returns to its maximum.
const THETA: u32 = 5;
/// Larger samples would overflow Linux's 32 bits, microseconds.
const RTT_MAX_US: u32 = u32::MAX / ALPHA_MAX;

#[derive(Clone, Debug)]
pub struct Illinois {
    alpha: u32,
    beta: u32,
    /// Smallest and largest RTT ever, microseconds.
    base_us: u32,
    max_us: u32,
    /// RTT samples of the round, which ends when data beyond `round_end` is acknowledged.
    sum_us: u64,
    samples: u32,
    round_end: u32,
    /// Segments the latest ACK moved the window by, and where that was.
    acked: u32,
    snd_una: u32,
    /// Has the delay been above its lowest hundredth, and in how many rounds since has it been back?
    above: bool,
    low_rounds: u32,
}

impl Illinois {
    pub(super) fn new() -> Illinois {
        Illinois {
            alpha: ALPHA_MAX,
            beta: BETA_MAX,
            base_us: 0x7fff_ffff,
            max_us: 0,
            sum_us: 0,
            samples: 0,
            round_end: 0,
            acked: 0,
            snd_una: 0,
            above: false,
            low_rounds: 0,
        }
    }

    fn start_round(&mut self, conn: &Conn) {
        self.round_end = conn.snd_nxt;
        self.samples = 0;
        self.sum_us = 0;
    }

    /// Once per round trip.
    fn update(&mut self, conn: &Conn) {
        if conn.cwnd < WIN_THRESH {
            self.alpha = ALPHA_BASE;
            self.beta = BETA_MAX;
        } else if self.samples > 0 {
            let max_delay = self.max_us - self.base_us;
            let delay = (self.sum_us / u64::from(self.samples)) as u32 - self.base_us;
            self.alpha = self.increase(delay, max_delay);
            self.beta = decrease(delay, max_delay);
        }
        self.start_round(conn);
    }

    fn increase(&mut self, delay: u32, max_delay: u32) -> u32 {
        let low = max_delay / 100;
        if delay <= low {
            if !self.above {
                return ALPHA_MAX;
            }
            // One good round must not cause a leap.
            self.low_rounds += 1;
            if self.low_rounds < THETA {
                return self.alpha;
            }
            self.low_rounds = 0;
            self.above = false;
            return ALPHA_MAX;
        }
        self.above = true;
        let (delay, max_delay) = (delay - low, max_delay - low);
        max_delay * ALPHA_MAX / (max_delay + delay * (ALPHA_MAX - ALPHA_MIN) / ALPHA_MIN)
    }
}

/// Linear in the delay between a tenth and eight tenths of the largest.
fn decrease(delay: u32, max_delay: u32) -> u32 {
    let low = max_delay / 10;
    let high = 8 * max_delay / 10;
    if delay <= low {
        BETA_MIN
    } else if delay >= high || high <= low {
        BETA_MAX
    } else {
        (BETA_MIN * high + (BETA_MAX - BETA_MIN) * delay - BETA_MAX * low) / (high - low)
    }
}

impl Controller for Illinois {
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn init(&mut self, conn: &mut Conn) {
        *self = Illinois { snd_una: conn.snd_una, ..Illinois::new() };
        self.start_round(conn);
    }

    fn on_delivered(&mut self, conn: &mut Conn, _delivered: u32, rtt_us: Option<u32>) {
        // What the cumulative ACK moved by, segments SACKed before included: after a recovery more than was delivered.
        self.acked = conn.snd_una - self.snd_una;
        self.snd_una = conn.snd_una;
        let Some(rtt_us) = rtt_us else { return };
        let rtt_us = rtt_us.min(RTT_MAX_US);
        self.base_us = self.base_us.min(rtt_us);
        self.max_us = self.max_us.max(rtt_us);
        self.samples += 1;
        self.sum_us += u64::from(rtt_us);
    }

    fn cong_avoid(&mut self, conn: &mut Conn, acked: u32) {
        if conn.snd_una > self.round_end {
            self.update(conn);
        }
        if !conn.is_cwnd_limited() {
            return;
        }
        if conn.in_slow_start() {
            conn.slow_start(acked);
            return;
        }
        conn.cwnd_cnt += self.acked;
        self.acked = 1;
        let growth = conn.cwnd_cnt.wrapping_mul(self.alpha) >> ALPHA_SHIFT;
        if growth >= conn.cwnd {
            conn.cwnd = (conn.cwnd + growth / conn.cwnd).min(conn.cwnd_clamp);
            conn.cwnd_cnt = 0;
        }
    }

    fn ssthresh(&mut self, conn: &mut Conn) -> u32 {
        let cut = (u64::from(conn.cwnd) * u64::from(self.beta)) >> BETA_SHIFT;
        (conn.cwnd - cut as u32).max(2)
    }

    fn on_state(&mut self, conn: &mut Conn, new: CaState) {
        if new == CaState::Loss {
            self.alpha = ALPHA_BASE;
            self.beta = BETA_MAX;
            self.low_rounds = 0;
            self.above = false;
            self.start_round(conn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::SSTHRESH_INFINITE;
    use super::super::testing::conn;
    use super::*;

    /// A round whose mean RTT is `delay_us` above a base of 50 ms, on a path that has seen 150 ms.
    fn round(i: &mut Illinois, c: &mut Conn, delay_us: u32) {
        (i.base_us, i.max_us) = (50_000, 150_000);
        i.on_delivered(c, 1, Some(50_000 + delay_us));
        i.update(c);
    }

    #[test]
    fn increase_and_decrease_vectors() {
        for (delay_us, alpha, beta, ssthresh) in [
            (500, 1_280, 8, 88),
            (5_000, 551, 8, 88),
            (20_000, 176, 11, 83),
            (50_000, 74, 21, 68),
            (100_000, 38, 32, 50),
        ] {
            let mut i = Illinois::new();
            let mut c = conn(100, 50);
            round(&mut i, &mut c, delay_us);
            assert_eq!((i.alpha, i.beta, i.ssthresh(&mut c)), (alpha, beta, ssthresh), "{delay_us} us");
        }
    }

    #[test]
    fn alpha_returns_to_its_maximum_after_five_good_rounds() {
        let mut i = Illinois::new();
        let mut c = conn(100, 50);
        round(&mut i, &mut c, 50_000);
        for _ in 0..4 {
            round(&mut i, &mut c, 500);
            assert_eq!(i.alpha, 74);
        }
        round(&mut i, &mut c, 500);
        assert_eq!(i.alpha, ALPHA_MAX);
    }

    #[test]
    fn small_windows_and_timeouts_are_reno_s() {
        let mut i = Illinois::new();
        let mut c = conn(14, 7);
        round(&mut i, &mut c, 500);
        assert_eq!((i.alpha, i.beta), (ALPHA_BASE, BETA_MAX));
        let mut i = Illinois::new();
        i.on_state(&mut c, CaState::Loss);
        assert_eq!((i.alpha, i.beta, i.ssthresh(&mut c)), (ALPHA_BASE, BETA_MAX, 7));
        assert_eq!(i.ssthresh(&mut conn(3, 7)), 2);
    }

    #[test]
    fn growth_follows_alpha_and_what_the_window_moved_by() {
        let mut i = Illinois::new();
        let mut c = conn(100, 50);
        i.init(&mut c);
        c.snd_nxt = 1_000;
        i.round_end = 1_000;
        c.snd_una = 9;
        i.on_delivered(&mut c, 2, None);
        i.cong_avoid(&mut c, 2);
        assert_eq!((c.cwnd, c.cwnd_cnt), (100, 9), "alpha = 10: after ten segments");
        c.snd_una = 10;
        i.on_delivered(&mut c, 1, None);
        i.cong_avoid(&mut c, 1);
        assert_eq!((c.cwnd, c.cwnd_cnt), (101, 0));
        c.snd_una = 60;
        i.on_delivered(&mut c, 1, None);
        i.cong_avoid(&mut c, 1);
        assert_eq!((c.cwnd, c.cwnd_cnt), (105, 0), "500 of 101");
    }

    #[test]
    fn slow_start_is_reno_s() {
        let mut i = Illinois::new();
        let mut c = conn(10, SSTHRESH_INFINITE);
        i.init(&mut c);
        i.cong_avoid(&mut c, 10);
        assert_eq!(c.cwnd, 20);
    }
}
