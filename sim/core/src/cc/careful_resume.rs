//! Careful Resume (RFC 9959): a connection that remembers window and RTT of an earlier one over the same path jumps to
//! half of that window once its first window has arrived, and retreats if that proves too much.
//!
//! Around any controller: one that owns its window (BBR) is overruled while the jump is unproven, others (CUBIC) go on
//! from where it led. Against the RFC: the retreat of a controller that does not own its window is reached along Linux's
//! proportional rate reduction, not at once; remembered values are not deleted, as nobody else reads them; a path that
//! changes during the jump is not looked for.

use super::{CaState, Conn, Controller, Event, Params, RateSample, Signal, Subscription, Transmission};

/// The remembered window in segments (0: nothing is remembered) and RTT.
pub const PARAMS: [(&str, &str); 2] = [("resume_cwnd", "0"), ("resume_rtt_ms", "0")];

/// The jump is at most this share of what is remembered (section 4.3.2).
const JUMP_DIVISOR: u32 = 2;
/// An RTT of half of what is remembered or less, or of more than ten times that, is another path's (section 4.2.1).
const RTT_LOW_DIVISOR: u32 = 2;
const RTT_HIGH_FACTOR: u32 = 10;
/// The threshold after a retreat is this share of PipeSize (Beta, section 4.5).
const RETREAT_DIVISOR: u32 = 2;

/// What is remembered of an earlier connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Remembered {
    /// Segments.
    pub cwnd: u32,
    rtt_us: u64,
}

impl Remembered {
    /// None: nothing is.
    pub fn of(params: &Params) -> Result<Option<Remembered>, String> {
        let cwnd = params.number("resume_cwnd", 0.0, 0.0, 1e6)? as u32;
        let rtt_ms = params.number("resume_rtt_ms", 0.0, 0.0, 1e6)?;
        match (cwnd > 0, rtt_ms > 0.0) {
            (false, false) => Ok(None),
            (true, true) => Ok(Some(Remembered { cwnd, rtt_us: (rtt_ms * 1e3) as u64 })),
            (true, false) => Err("resume_rtt_ms = 0: must be positive with resume_cwnd".into()),
            (false, true) => Err("resume_cwnd = 0: must be positive with resume_rtt_ms".into()),
        }
    }

    /// Round-trip time, seconds.
    pub fn rtt_s(&self) -> f64 {
        self.rtt_us as f64 / 1e6
    }

    /// Is a path with this RTT the remembered one?
    pub fn is_of_path(&self, rtt_us: u64) -> bool {
        rtt_us * u64::from(RTT_LOW_DIVISOR) > self.rtt_us && rtt_us <= self.rtt_us * u64::from(RTT_HIGH_FACTOR)
    }
}

/// The controller, around which Careful Resume is put if the parameters ask for it.
pub fn around(inner: Box<dyn Controller>, params: &Params) -> Result<Box<dyn Controller>, String> {
    Ok(match Remembered::of(params)? {
        None => inner,
        Some(saved) => Box::new(CarefulResume {
            inner,
            saved,
            jump_cwnd: saved.cwnd / JUMP_DIVISOR,
            pipe: 0,
            phase: Phase::Reconnaissance,
        }),
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The first window shows that the path is there and as remembered.
    Reconnaissance,
    /// Segments from `first` on are the jump's; it began at `since_us`.
    Unvalidated {
        first: u32,
        since_us: u64,
    },
    /// The jump has been sent, `last` is its last segment's successor.
    Validating {
        last: u32,
    },
    /// Until the jump's segments have left the path.
    SafeRetreat {
        last: u32,
    },
    Normal,
}

struct CarefulResume {
    inner: Box<dyn Controller>,
    saved: Remembered,
    jump_cwnd: u32,
    /// PipeSize: what the path is known to hold, segments.
    pipe: u32,
    phase: Phase,
}

impl CarefulResume {
    /// Where an ACK leads; `delivered` segments have newly arrived.
    fn on_ack(&mut self, conn: &mut Conn, delivered: u32) {
        match self.phase {
            Phase::Normal => {}
            Phase::Reconnaissance => self.reconnoitre(conn),
            Phase::Unvalidated { first, since_us } => {
                self.pipe += delivered;
                let rtt_us = u64::from(conn.srtt8_us / 8);
                let a_round = conn.now.micros() - since_us > rtt_us;
                if conn.snd_una > first || a_round || conn.in_flight >= self.jump_cwnd {
                    self.validate(conn);
                }
            }
            Phase::Validating { last } => {
                self.pipe += delivered;
                if conn.snd_una >= last {
                    self.phase = Phase::Normal;
                }
            }
            Phase::SafeRetreat { last } => {
                self.pipe += delivered;
                if conn.snd_una >= last {
                    conn.ssthresh = (self.pipe / RETREAT_DIVISOR).max(2);
                    self.phase = Phase::Normal;
                }
            }
        }
    }

    /// The jump begins when the first window has arrived, nothing is lost, the RTT is as remembered and there is more to
    /// send than the window lets out.
    fn reconnoitre(&mut self, conn: &mut Conn) {
        if conn.snd_una < conn.initial_cwnd {
            return;
        }
        let same_path = self.saved.is_of_path(conn.min_rtt_us.into());
        if !same_path || conn.lost > 0 || self.jump_cwnd <= conn.cwnd {
            self.phase = Phase::Normal;
        } else if conn.is_cwnd_limited() {
            self.pipe = conn.in_flight;
            conn.cwnd = self.jump_cwnd;
            self.phase = Phase::Unvalidated { first: conn.snd_nxt, since_us: conn.now.micros() };
            self.pace(conn);
        }
    }

    /// What was sent of the jump is now the window, until all of it has arrived.
    fn validate(&mut self, conn: &mut Conn) {
        if conn.in_flight <= self.pipe {
            conn.cwnd = self.pipe.max(conn.initial_cwnd);
            self.phase = Phase::Normal;
        } else {
            conn.cwnd = conn.in_flight;
            self.phase = Phase::Validating { last: conn.snd_nxt };
        }
        self.unpace(conn);
    }

    /// A loss: the window is half of what the path has proved to hold.
    fn retreat(&mut self, conn: &mut Conn) {
        let last = match self.phase {
            Phase::Validating { last } => last,
            _ => conn.snd_nxt,
        };
        self.phase = Phase::SafeRetreat { last };
        conn.cwnd = self.retreat_cwnd(conn);
        self.unpace(conn);
    }

    fn retreat_cwnd(&self, conn: &Conn) -> u32 {
        (self.pipe / 2).max(conn.initial_cwnd)
    }

    fn is_unproven(&self) -> bool {
        matches!(self.phase, Phase::Unvalidated { .. } | Phase::Validating { .. })
    }

    /// The jump is spread over a round trip.
    fn pace(&self, conn: &mut Conn) {
        let window = u64::from(self.jump_cwnd) * u64::from(conn.mss);
        conn.pacing_rate = window * 8_000_000 / u64::from(conn.srtt8_us.max(1));
    }

    fn unpace(&self, conn: &mut Conn) {
        if !self.inner.paces() {
            conn.pacing_rate = 0;
        }
    }
}

impl Controller for CarefulResume {
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(CarefulResume { inner: self.inner.clone(), ..*self })
    }

    fn init(&mut self, conn: &mut Conn) {
        self.inner.init(conn);
    }

    fn on_delivered(&mut self, conn: &mut Conn, delivered: u32, rtt_us: Option<u32>) {
        self.inner.on_delivered(conn, delivered, rtt_us);
        if !self.inner.owns_window() {
            self.on_ack(conn, delivered);
        }
    }

    fn cong_avoid(&mut self, conn: &mut Conn, acked: u32) {
        if !matches!(self.phase, Phase::Unvalidated { .. } | Phase::SafeRetreat { .. }) {
            self.inner.cong_avoid(conn, acked);
        }
    }

    fn ssthresh(&mut self, conn: &mut Conn) -> u32 {
        match self.phase {
            Phase::Unvalidated { .. } | Phase::Validating { .. } => {
                conn.cwnd = self.pipe.max(conn.initial_cwnd); // what the controller may remember as its maximum
                self.inner.ssthresh(conn);
                self.retreat(conn);
                conn.cwnd
            }
            Phase::SafeRetreat { .. } => self.retreat_cwnd(conn),
            Phase::Reconnaissance | Phase::Normal => {
                self.phase = Phase::Normal;
                self.inner.ssthresh(conn)
            }
        }
    }

    fn undo(&mut self, conn: &mut Conn) -> u32 {
        self.inner.undo(conn)
    }

    fn on_state(&mut self, conn: &mut Conn, new: CaState) {
        self.inner.on_state(conn, new);
        if new == CaState::Loss {
            self.phase = Phase::Normal; // a timeout ends it (section 3.6)
        }
    }

    fn on_event(&mut self, conn: &mut Conn, event: Event) {
        self.inner.on_event(conn, event);
    }

    fn owns_window(&self) -> bool {
        self.inner.owns_window()
    }

    fn control(&mut self, conn: &mut Conn, rate: &RateSample) {
        let before = conn.cwnd;
        self.inner.control(conn, rate);
        if rate.lost > 0 && self.is_unproven() {
            self.retreat(conn);
        } else if rate.lost > 0 && self.phase == Phase::Reconnaissance {
            self.phase = Phase::Normal;
        } else if self.is_unproven() {
            conn.cwnd = conn.cwnd.max(before); // nobody shrinks what is being proved
        }
        self.on_ack(conn, rate.acked);
        match self.phase {
            Phase::Unvalidated { .. } => self.pace(conn),
            Phase::SafeRetreat { .. } => conn.cwnd = conn.cwnd.min(self.retreat_cwnd(conn)),
            _ => {}
        }
    }

    fn watches_packets(&self) -> bool {
        self.inner.watches_packets()
    }

    fn watches_losses(&self) -> bool {
        self.inner.watches_losses()
    }

    fn on_packet_sent(&mut self, conn: &mut Conn, packet: &Transmission) {
        self.inner.on_packet_sent(conn, packet);
    }

    fn on_packet_delivered(&mut self, conn: &mut Conn, packet: &Transmission) {
        self.inner.on_packet_delivered(conn, packet);
    }

    fn on_packet_lost(&mut self, conn: &mut Conn, packet: &Transmission) {
        self.inner.on_packet_lost(conn, packet);
    }

    fn on_packet_spared(&mut self, conn: &mut Conn, packet: &Transmission) {
        self.inner.on_packet_spared(conn, packet);
    }

    fn subscription(&self) -> Subscription {
        self.inner.subscription()
    }

    fn on_signal(&mut self, conn: &mut Conn, signal: Signal) {
        self.inner.on_signal(conn, signal);
    }

    fn send_buffer_windows(&self) -> u32 {
        self.inner.send_buffer_windows()
    }

    fn keeps_window_on_rto(&self) -> bool {
        self.inner.keeps_window_on_rto()
    }

    fn paces(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::reno::Reno;
    use super::super::testing::conn;
    use super::*;
    use crate::spec::Kernel;
    use crate::time::Nanos;
    use serde_json::json;

    fn reno(saved_cwnd: u32, saved_rtt_ms: f64) -> Box<dyn Controller> {
        let given = json!({"resume_cwnd": saved_cwnd, "resume_rtt_ms": saved_rtt_ms});
        around(Box::new(Reno::default()), &Params { given: given.as_object().unwrap(), kernel: Kernel::V6 }).unwrap()
    }

    /// The first window of ten has arrived, with an RTT of 600 ms, and ten more are on their way.
    fn arrived(rtt_us: u32) -> Conn {
        let mut c = conn(20, super::super::SSTHRESH_INFINITE);
        (c.min_rtt_us, c.srtt8_us) = (rtt_us, 8 * rtt_us);
        (c.snd_una, c.snd_nxt, c.in_flight, c.delivered, c.now) = (10, 30, 20, 10, Nanos::from_millis(1200));
        c
    }

    #[test]
    fn it_jumps_to_half_of_what_it_remembers_and_paces_it_over_a_round() {
        let (mut cc, mut c) = (reno(8_000, 600.0), arrived(600_000));
        cc.on_delivered(&mut c, 10, Some(600_000));
        assert_eq!(c.cwnd, 4_000);
        assert_eq!(c.pacing_rate, 4_000 * u64::from(c.mss) * 10 / 6);
        cc.cong_avoid(&mut c, 10);
        assert_eq!(c.cwnd, 4_000, "no growth while unvalidated");
    }

    #[test]
    fn another_path_a_loss_or_a_small_memory_means_no_jump() {
        for (saved, rtt_ms, rtt_us, jumps) in [
            (8_000, 600.0, 300_000, false),
            (8_000, 600.0, 300_001, true),
            (8_000, 60.0, 600_000, true),
            (8_000, 60.0, 600_001, false),
            (40, 600.0, 600_000, false),
        ] {
            let (mut cc, mut c) = (reno(saved, rtt_ms), arrived(rtt_us));
            cc.on_delivered(&mut c, 10, Some(rtt_us));
            assert_eq!(c.cwnd > 20, jumps, "{saved} at {rtt_ms} ms, measured {rtt_us} us");
        }
        let (mut cc, mut c) = (reno(8_000, 600.0), arrived(600_000));
        c.lost = 1;
        cc.on_delivered(&mut c, 10, Some(600_000));
        assert_eq!(c.cwnd, 20);
    }

    /// 20 in flight at the jump, 20 acknowledged, then the first of the jump: 1,000 of it are on their way.
    fn validating() -> (Box<dyn Controller>, Conn) {
        let (mut cc, mut c) = (reno(8_000, 600.0), arrived(600_000));
        cc.on_delivered(&mut c, 10, Some(600_000));
        (c.snd_una, c.snd_nxt, c.in_flight) = (30, 1_030, 1_000);
        cc.on_delivered(&mut c, 20, Some(600_000));
        assert_eq!(c.cwnd, 4_000, "the first segment of the jump is not acknowledged yet");
        (c.snd_una, c.snd_nxt, c.in_flight) = (31, 1_031, 1_000);
        cc.on_delivered(&mut c, 1, Some(600_000));
        (cc, c)
    }

    #[test]
    fn what_was_sent_is_the_window_while_it_is_validated() {
        let (mut cc, mut c) = validating();
        assert_eq!((c.cwnd, c.pacing_rate), (1_000, 0));
        cc.cong_avoid(&mut c, 1);
        assert_eq!(c.cwnd, 1_001, "slow start goes on");
        (c.snd_una, c.in_flight) = (1_031, 0);
        cc.on_delivered(&mut c, 1_000, Some(600_000));
        assert!(cc.ssthresh(&mut c) == c.cwnd / 2, "normal: the controller's own answer to a loss");
    }

    #[test]
    fn a_loss_means_half_of_what_has_arrived() {
        let (mut cc, mut c) = validating();
        (c.snd_una, c.in_flight) = (131, 900);
        cc.on_delivered(&mut c, 100, Some(600_000));
        // PipeSize: 20 in flight at the jump, and 121 that have arrived since.
        assert_eq!(cc.ssthresh(&mut c), 141 / 2);
        assert_eq!(c.cwnd, 141 / 2);
        cc.cong_avoid(&mut c, 5);
        assert_eq!(c.cwnd, 141 / 2, "no growth in the retreat");
        (c.snd_una, c.in_flight) = (1_031, 0);
        cc.on_delivered(&mut c, 800, Some(600_000));
        assert_eq!(c.ssthresh, 470, "half of what the path has proved to hold");
        cc.cong_avoid(&mut c, 5);
        assert!(c.cwnd > 141 / 2);
    }

    #[test]
    fn little_to_send_means_no_jump_after_all() {
        let (mut cc, mut c) = (reno(8_000, 600.0), arrived(600_000));
        cc.on_delivered(&mut c, 10, Some(600_000));
        (c.snd_una, c.snd_nxt, c.in_flight) = (31, 36, 5);
        cc.on_delivered(&mut c, 21, Some(600_000));
        assert_eq!(c.cwnd, 41, "the pipe's 20 and 21");
    }

    #[test]
    fn window_and_rtt_go_together() {
        let refused = |given: serde_json::Value| {
            around(Box::new(Reno::default()), &Params { given: given.as_object().unwrap(), kernel: Kernel::V6 })
                .err()
                .unwrap()
        };
        assert!(refused(json!({"resume_cwnd": 100})).contains("resume_rtt_ms = 0"));
        assert!(refused(json!({"resume_rtt_ms": 100})).contains("resume_cwnd = 0"));
        assert!(refused(json!({"resume_cwnd": -1})).contains("resume_cwnd = -1"));
    }
}
