//! Congestion controllers: the contract, the registry, and nothing of the simulator.
//!
//! A controller sees a connection ([`Conn`]) and changes `cwnd`, `ssthresh` and, if it paces, `pacing_rate`. Loss
//! detection, recovery, timers and round-trip times belong to the TCP machinery and are the same for all. The
//! callbacks follow Linux's `tcp_congestion_ops`, so that an algorithm can be read beside its kernel source.

pub mod agent;
pub mod bbr;
pub mod c4;
pub mod careful_resume;
pub mod copa;
pub mod cubic;
pub mod dctcp;
pub mod hybla;
pub mod hystart;
pub mod hystart_plus_plus;
pub mod illinois;
pub mod leocc;
mod params;
pub mod prague;
pub mod registry;
pub mod reno;
pub mod satcp;
pub mod search;
pub mod slow_start;
pub mod vegas;
pub mod vivace;
pub mod westwood;

use crate::rng::{Purpose, Stream};
use crate::spec::TcpSpec;
use crate::time::Nanos;

pub use crate::spec::SSTHRESH_INFINITE;
pub use params::Params;
pub use registry::{COMMON_PARAMS, QUINN, REGISTRY, build, check, fits_quic, tcp_of};

/// The recovery state machine's state, in the order of severity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CaState {
    #[default]
    Open,
    /// Duplicate or selective ACKs, no loss found yet.
    Disorder,
    /// Reducing the window without retransmissions.
    Cwr,
    /// Fast recovery.
    Recovery,
    /// After a retransmission timeout.
    Loss,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// First transmission with nothing in flight.
    TxStart,
    /// The window is cut after an idle period.
    CwndRestart,
    /// A window reduction has ended.
    CompleteCwr,
    /// A retransmission timeout reduces the threshold.
    Loss,
}

/// What a controller asks of ECN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnUse {
    /// What the host is set to.
    #[default]
    Host,
    /// DCTCP (TCP_CONG_NEEDS_ECN): ECT(0) or ECT(1) on all packets, and a receiver that echoes mark for mark.
    Exact { ect1: bool },
    /// Prague: ECT(1) on all packets, and accurate ECN (TCP_CONG_NEEDS_ACCECN).
    Accurate,
}

/// A delivery-rate sample (draft-cheng-iccrg-delivery-rate-estimation), one per ACK.
#[derive(Clone, Copy, Debug, Default)]
pub struct RateSample {
    /// Segments delivered over `interval_us`.
    pub delivered: u32,
    /// Zero when there is no valid sample.
    pub interval_us: u64,
    pub prior_delivered: u32,
    /// Segments newly ACKed or SACKed by this ACK, and newly found lost.
    pub acked: u32,
    pub lost: u32,
    pub rtt_us: Option<u32>,
    pub prior_in_flight: u32,
    pub app_limited: bool,
    /// Segments found lost since the newest delivered segment was sent, and segments in flight then, itself included.
    /// Only for controllers that watch losses.
    pub lost_since: u32,
    pub flight_then: u32,
}

/// One transmission of a segment, told to controllers that watch packets or losses.
#[derive(Clone, Copy, Debug)]
pub struct Transmission {
    pub seq: u32,
    pub sent: Nanos,
    /// Segments in flight when it was sent, itself included, and segments lost until then.
    pub in_flight: u32,
    pub lost: u32,
    /// Sent while the application was the limit.
    pub app_limited: bool,
    /// Delivered after all, though it had been found lost.
    pub was_lost: bool,
}

/// News of the path that does not come from the connection's own packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A handover is reported to be near, and the report's expiry.
    HandoverReport,
    HandoverExpiry,
    /// The path was reconfigured: the first packet sent after the outage could be back by now.
    Reconfiguration,
    /// A reply to one of the flow's own probes.
    Pong {
        rtt_us: u32,
    },
}

/// What news a controller asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Subscription {
    #[default]
    Nothing,
    /// [`Signal::HandoverReport`] for every handover of a link on the flow's path, off its true time by the error
    /// of [`crate::signals`], withdrawn `hold` after the latest.
    HandoverReports { hold: Nanos },
    /// [`Signal::Reconfiguration`] after every handover; `shared`: of any such flow of the world, as with a trigger
    /// that is global to a host.
    Reconfigurations { shared: bool },
    /// Probes through the same queues, one per `interval`, and their replies.
    Probes { interval: Nanos },
}

/// What a controller may read and change of its connection. Windows are in segments.
#[derive(Clone, Debug)]
pub struct Conn {
    pub now: Nanos,
    /// Timer ticks since the start of the world, the coarse clock some algorithms use, and ticks per second.
    pub jiffies: u64,
    pub hz: u32,
    pub mss: u32,
    pub initial_cwnd: u32,
    pub cwnd: u32,
    pub ssthresh: u32,
    /// Fractional growth counter of additive increase.
    pub cwnd_cnt: u32,
    pub cwnd_clamp: u32,
    /// Window before the current reduction.
    pub prior_cwnd: u32,
    /// Smoothed RTT in microseconds, times 8.
    pub srtt8_us: u32,
    pub min_rtt_us: u32,
    pub state: CaState,
    pub snd_una: u32,
    pub snd_nxt: u32,
    pub in_flight: u32,
    /// Segments delivered (ACKed or SACKed) and lost so far.
    pub delivered: u32,
    pub lost: u32,
    /// Segments reported as marked so far (tcpi_delivered_ce).
    pub delivered_ce: u32,
    /// The ACK in hand reports a mark; only on a connection with ECN.
    pub ece: bool,
    /// The threshold is asked for because of marks, not of a loss.
    pub by_marks: bool,
    /// Was the window the limit in this round? See [`Conn::is_cwnd_limited`].
    pub cwnd_limited: bool,
    /// Does slow start ask that, too?
    pub latches_window_use: bool,
    pub max_packets_out: u32,
    /// Of controllers that pace, bytes per second.
    pub pacing_rate: u64,
    /// When the pacer lets the next packet go.
    pub next_departure: Nanos,
    /// Last transmission of new data.
    pub last_send: Nanos,
    /// Segment count at which the present application limit ends; 0 = not limited. A controller that holds back on
    /// purpose sets it with [`Conn::mark_app_limited`].
    pub app_limited: u32,
    /// The flow's own random numbers.
    pub random: Stream,
    /// The ACK in hand is plain progress: it advances, reports nothing out of order and leaves the window as it was.
    pub plain_ack: bool,
    /// No shortcut is taken for what changes little. For tests and doubt, and where every echo of marks counts.
    pub exact: bool,
}

impl Conn {
    /// Before the handshake.
    pub fn new(tcp: &TcpSpec) -> Conn {
        Conn {
            now: Nanos::ZERO,
            jiffies: 0,
            hz: tcp.hz,
            mss: tcp.mss,
            initial_cwnd: tcp.initial_cwnd,
            cwnd: tcp.initial_cwnd,
            ssthresh: SSTHRESH_INFINITE,
            cwnd_cnt: 0,
            cwnd_clamp: u32::MAX,
            prior_cwnd: 0,
            srtt8_us: 0,
            min_rtt_us: u32::MAX,
            state: CaState::Open,
            snd_una: 0,
            snd_nxt: 0,
            in_flight: 0,
            delivered: 0,
            lost: 0,
            delivered_ce: 0,
            ece: false,
            by_marks: false,
            cwnd_limited: false,
            latches_window_use: tcp.profile().latches_window_use,
            max_packets_out: 0,
            pacing_rate: 0,
            next_departure: Nanos::ZERO,
            last_send: Nanos::ZERO,
            app_limited: 0,
            random: Stream::new(0, Purpose::Controller, 0),
            plain_ack: false,
            exact: false,
        }
    }

    /// What is in flight says nothing about the path's capacity.
    pub fn mark_app_limited(&mut self) {
        self.app_limited = (self.delivered + self.in_flight).max(1);
    }

    pub fn packets_out(&self) -> u32 {
        self.snd_nxt - self.snd_una
    }

    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// May the window grow? In slow start also (in Linux 4.15: only) while it is less than twice what was used.
    pub fn is_cwnd_limited(&self) -> bool {
        if self.in_slow_start() {
            (self.latches_window_use && self.cwnd_limited) || self.cwnd < 2 * self.max_packets_out
        } else {
            self.cwnd_limited
        }
    }

    /// The threshold worth remembering: at least three quarters of the window, unless it is being reduced.
    pub fn current_ssthresh(&self) -> u32 {
        if matches!(self.state, CaState::Cwr | CaState::Recovery) {
            self.ssthresh
        } else {
            self.ssthresh.max((self.cwnd >> 1) + (self.cwnd >> 2))
        }
    }

    /// The rate at which Linux assumes an unpaced connection sends: 2.0 windows per smoothed RTT early in slow start,
    /// 1.2 later. Bytes per second; 0 before the first RTT sample.
    pub fn window_rate(&self) -> u64 {
        if self.srtt8_us == 0 {
            return 0;
        }
        let percent = if self.cwnd < self.ssthresh / 2 { 200 } else { 120 };
        let window = u64::from(self.cwnd.max(self.packets_out()));
        u64::from(self.mss) * window * 80_000 * percent / u64::from(self.srtt8_us)
    }

    /// Slow start (RFC 5681 with byte counting), if the window is below the threshold. Returns what is left of `acked`
    /// for congestion avoidance.
    pub fn slow_start(&mut self, acked: u32) -> u32 {
        if !self.in_slow_start() {
            return acked;
        }
        let cwnd = (self.cwnd + acked).min(self.ssthresh);
        let left = acked - (cwnd - self.cwnd);
        self.cwnd = cwnd.min(self.cwnd_clamp);
        left
    }

    /// Additive increase: one segment per `w` segments acknowledged.
    pub fn additive_increase(&mut self, w: u32, acked: u32) {
        if self.cwnd_cnt >= w {
            self.cwnd_cnt = 0;
            self.cwnd += 1;
        }
        self.cwnd_cnt += acked;
        if self.cwnd_cnt >= w {
            let steps = self.cwnd_cnt / w;
            self.cwnd_cnt -= steps * w;
            self.cwnd += steps;
        }
        self.cwnd = self.cwnd.min(self.cwnd_clamp);
    }
}

/// A congestion controller.
pub trait Controller: Send + Sync {
    fn clone_box(&self) -> Box<dyn Controller>;

    /// The connection is established, `cwnd` holds the initial window and one RTT sample exists.
    fn init(&mut self, _conn: &mut Conn) {}

    /// `delivered` segments were newly ACKed or SACKed. Fires before loss detection and before any growth.
    fn on_delivered(&mut self, _conn: &mut Conn, _delivered: u32, _rtt_us: Option<u32>) {}

    /// Grow the window: data was acknowledged outside of recovery.
    fn cong_avoid(&mut self, conn: &mut Conn, acked: u32);

    /// The threshold after a loss found now.
    fn ssthresh(&mut self, conn: &mut Conn) -> u32;

    /// The window after a reduction that proved spurious.
    fn undo(&mut self, conn: &mut Conn) -> u32 {
        conn.cwnd.max(conn.prior_cwnd)
    }

    /// What the controller asks of ECN.
    fn ecn_use(&self) -> EcnUse {
        EcnUse::Host
    }

    /// An ACK of everything below `una` has come on a connection with ECN; `conn.delivered_ce` counts what it reports.
    /// With accurate ECN, `conn.delivered` does, too; otherwise both count what is SACKed only (`tcp_in_ack_event`).
    fn on_echo(&mut self, _conn: &mut Conn, _una: u32) {}

    fn on_state(&mut self, _conn: &mut Conn, _new: CaState) {}

    fn on_event(&mut self, _conn: &mut Conn, _event: Event) {}

    /// Algorithms that set the window in every state return true and do so in [`Controller::control`].
    fn owns_window(&self) -> bool {
        false
    }

    /// Fires once per ACK, last, if [`Controller::owns_window`].
    fn control(&mut self, _conn: &mut Conn, _rate: &RateSample) {}

    /// Controllers that follow single packets return true; the two callbacks below fire only then.
    fn watches_packets(&self) -> bool {
        false
    }

    /// Controllers that follow single losses return true, or all that watch packets; [`Controller::on_packet_lost`]
    /// and [`Controller::on_packet_spared`] fire only then.
    fn watches_losses(&self) -> bool {
        self.watches_packets()
    }

    /// A segment was sent or sent again.
    fn on_packet_sent(&mut self, _conn: &mut Conn, _packet: &Transmission) {}

    /// The latest transmission of a segment was ACKed or SACKed; fires before [`Controller::on_delivered`].
    fn on_packet_delivered(&mut self, _conn: &mut Conn, _packet: &Transmission) {}

    /// The latest transmission of a segment was found lost; `conn.lost` counts it already.
    fn on_packet_lost(&mut self, _conn: &mut Conn, _packet: &Transmission) {}

    /// The latest transmission of a segment had been found lost by a timeout or recovery that proved spurious: it is in
    /// flight again, to be delivered or found lost once more. `conn.lost` still counts it.
    fn on_packet_spared(&mut self, _conn: &mut Conn, _packet: &Transmission) {}

    /// What news of the path the controller wants.
    fn subscription(&self) -> Subscription {
        Subscription::Nothing
    }

    fn on_signal(&mut self, _conn: &mut Conn, _signal: Signal) {}

    /// Windows of send buffer Linux provides (`sndbuf_expand`).
    fn send_buffer_windows(&self) -> u32 {
        2
    }

    /// True if a retransmission timeout leaves the window as it is.
    fn keeps_window_on_rto(&self) -> bool {
        false
    }

    /// Does the sender space its packets at `conn.pacing_rate`?
    fn paces(&self) -> bool {
        false
    }

    /// Fires once per ACK, last, for controllers that pace and whose window TCP reduces: sets the pacing rate.
    fn after_ack(&mut self, _conn: &mut Conn) {}

    /// Set the window (segments) and, if given, the pacing rate (bytes per second) from outside. Returns false for
    /// controllers that decide themselves.
    fn set_window(&mut self, _conn: &mut Conn, _cwnd: u32, _pacing: Option<u64>) -> bool {
        false
    }
}

impl Clone for Box<dyn Controller> {
    fn clone(&self) -> Self {
        self.clone_box()
    }
}

#[cfg(test)]
mod tests {
    use super::testing::conn;

    #[test]
    fn window_rate_vectors() {
        let mut c = conn(6_900, 3_000);
        c.srtt8_us = 600_000 * 8;
        assert_eq!(c.window_rate(), 19_982_400);
        let mut c = conn(64, 64);
        c.srtt8_us = 600_000 * 8;
        assert_eq!(c.window_rate() * 8 / 1_000, 1_482, "1.483 Mbit/s");
    }

    #[test]
    fn the_window_may_grow_when_used_or_early_in_slow_start() {
        let mut c = conn(20, 10);
        (c.cwnd_limited, c.max_packets_out) = (false, 15);
        assert!(!c.is_cwnd_limited(), "congestion avoidance wants a full window");
        c.ssthresh = 100;
        assert!(c.is_cwnd_limited(), "slow start grows to twice what was used");
        c.max_packets_out = 10;
        assert!(!c.is_cwnd_limited());
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// A connection whose window is in full use.
    pub fn conn(cwnd: u32, ssthresh: u32) -> Conn {
        Conn { cwnd, ssthresh, cwnd_limited: true, ..Conn::new(&TcpSpec::default()) }
    }
}

/// The example of the guide compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/adding-a-controller.md")]
mod guide {}
