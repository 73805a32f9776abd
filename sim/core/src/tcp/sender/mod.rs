//! The sending host: what is outstanding, and what may be sent now.

pub mod kernel_reading;

mod ack;
mod ack_work;
mod ecn;
mod loss;
mod pacing;
mod prr;
mod rate;
mod recovery;
mod routine;
mod scoreboard;
mod send_buffer;
#[cfg(test)]
mod tests;
mod timers;
mod transmit;
mod window_use;

use crate::cc::{Conn, Controller, Signal};
use crate::min_filter::MinFilter;
use crate::pool::Pool;
use crate::spec::TcpSpec;
use crate::spec::profile::Profile;
use crate::time::Nanos;

use super::ecn::Agreed;
use super::rtt::{MIN_RTT_WINDOW, RttEstimator, rtt_us};
use super::timestamp;

use ecn::Sending;
use loss::Rack;
use pacing::Pacer;
use rate::RateSampler;
use recovery::Recovery;
use scoreboard::Scoreboard;
use send_buffer::SendBuffer;
use timers::{TailProbe, Timers};
use window_use::WindowUse;

/// Counters since the start of the flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounters {
    pub sent: u64,
    pub retransmitted: u64,
    /// Marked lost (a segment lost twice counts twice).
    pub lost: u64,
    pub rtos: u64,
    pub tail_probes: u64,
    pub spurious_rtos: u64,
    /// Reported as marked (tcpi_delivered_ce): with classic ECN, all that is acknowledged by ACKs with ECE.
    pub marked: u64,
    /// Bytes cumulatively or selectively acknowledged.
    pub acked_bytes: u64,
}

/// What the receiver has room for.
#[derive(Clone, Debug)]
struct PeerWindow {
    /// Its right edge, in bytes from the start of the stream; it never moves left.
    pub edge: u64,
    /// The window of the latest ACK, bytes.
    pub latest: u32,
}

/// Each part has an owner in a file of its own; what concerns several is done here, in `ack`, `routine` and `transmit`.
#[derive(Clone)]
pub struct Sender {
    tcp: TcpSpec,
    profile: &'static Profile,
    flow: u32,
    /// Where its data starts on the world's routes.
    pub route: u32,
    pub conn: Conn,
    pub cc: Box<dyn Controller>,
    /// What the controller says of itself once and for all.
    owns_window: bool,
    paces: bool,
    watches_packets: bool,
    watches_losses: bool,
    board: Scoreboard,
    buffer: SendBuffer,
    peer: PeerWindow,
    recovery: Recovery,
    ecn: Sending,
    rack: Rack,
    tail_probe: TailProbe,
    timers: Timers,
    pacer: Pacer,
    rate: RateSampler,
    window_use: WindowUse,
    pub rtt: RttEstimator,
    min_rtt: MinFilter,
    /// Latest RTT sample; sums are kept by the observer.
    pub last_rtt_us: Option<u32>,
    /// Timestamp of the latest ACK, echoed in data.
    ts_recent: Nanos,
    /// Timestamp echo of the ACK in hand.
    ack_echo: Nanos,
    pub counters: SenderCounters,
}

impl Sender {
    pub fn new(tcp: &TcpSpec, flow: u32, cc: Box<dyn Controller>, initial_window: u32) -> Sender {
        let watches_losses = cc.watches_losses();
        let ecn = Sending::new(tcp, cc.ecn_use());
        let mut conn = Conn::new(tcp);
        // Whoever follows every echo takes the long way with each ACK.
        conn.exact = matches!(ecn.agreed, Agreed::Exact | Agreed::Accurate);
        Sender {
            tcp: *tcp,
            profile: tcp.profile(),
            flow,
            route: 0,
            conn,
            owns_window: cc.owns_window(),
            paces: cc.paces(),
            watches_packets: cc.watches_packets(),
            watches_losses,
            board: Scoreboard::new(watches_losses),
            buffer: SendBuffer::new(tcp, cc.send_buffer_windows()),
            peer: PeerWindow { edge: u64::from(initial_window), latest: initial_window },
            recovery: Recovery::default(),
            ecn,
            rack: Rack::default(),
            tail_probe: TailProbe::default(),
            timers: Timers::new(tcp),
            pacer: Pacer::new(u64::from(tcp.mss), u64::from(tcp.mss) + tcp.profile().send_buffer_overhead),
            rate: RateSampler::default(),
            window_use: WindowUse::default(),
            rtt: RttEstimator::new(tcp.hz),
            min_rtt: MinFilter::new(MIN_RTT_WINDOW),
            last_rtt_us: None,
            ts_recent: Nanos::ZERO,
            ack_echo: Nanos::ZERO,
            counters: SenderCounters::default(),
            cc,
        }
    }

    /// The handshake is done and took `rtt`: controllers start with one RTT sample.
    pub fn establish(&mut self, now: Nanos, rtt: Nanos) {
        self.set_now(now);
        let us = rtt_us(0, rtt.micros()).max(1);
        self.min_rtt.update(now, us);
        self.rtt.sample(us, 0, 0);
        self.conn.srtt8_us = self.rtt.srtt8_us;
        self.conn.min_rtt_us = self.min_rtt.get();
        self.ts_recent = timestamp(now) - Nanos(rtt.0 / 2).min(Nanos::from_secs(900));
        self.rate.restart(now);
        self.cc.init(&mut self.conn);
    }

    /// Unlimited data, through the send buffer.
    pub fn write_bulk(&mut self) {
        self.buffer.bulk = true;
        self.refill();
    }

    /// A transfer of `bytes` in all.
    pub fn write_object(&mut self, bytes: u64) {
        self.buffer.write_object(bytes);
    }

    /// The same, of which nothing is there to send yet.
    pub fn expect_object(&mut self, bytes: u64) {
        self.buffer.write_object(bytes);
        self.buffer.write_seq = 0;
    }

    /// Payload bytes of a full segment.
    pub fn mss(&self) -> u64 {
        u64::from(self.tcp.mss)
    }

    /// The application writes `segments` more.
    pub fn write(&mut self, now: Nanos, segments: u32) {
        self.set_now(now);
        self.check_app_limited();
        self.restart_after_idle();
        self.buffer.write(segments);
    }

    /// The segment after the last one written.
    pub fn write_seq(&self) -> u32 {
        self.buffer.write_seq
    }

    /// The application stops writing: what was sent is all there is.
    pub fn stop_writing(&mut self) {
        self.buffer.bulk = false;
        self.buffer.write_seq = self.conn.snd_nxt;
    }

    pub fn start_writing(&mut self, now: Nanos) {
        self.set_now(now);
        self.check_app_limited();
        self.restart_after_idle();
        self.write_bulk();
    }

    /// Segments of a transfer of `bytes`.
    pub fn segments_of(&self, bytes: u64) -> u32 {
        bytes.div_ceil(u64::from(self.tcp.mss)).min(u64::from(u32::MAX)) as u32
    }

    pub fn packets_out(&self) -> u32 {
        self.conn.packets_out()
    }

    pub fn retrans_out(&self) -> u32 {
        self.board.retrans_out
    }

    pub fn sacked_and_lost(&self) -> u32 {
        self.board.sacked_out + self.board.lost_out
    }

    /// Recount the scoreboard; an error says which counter is off. For tests.
    pub fn check_counters(&self) -> Result<(), String> {
        self.board.check(self.conn.snd_una, self.conn.snd_nxt)
    }

    pub fn in_flight(&self) -> u32 {
        self.board.in_flight(self.packets_out())
    }

    /// Pacing rate in bytes per second; 0 when packets are not paced.
    pub fn pacing_rate(&self) -> u64 {
        if self.paces { self.conn.pacing_rate } else { 0 }
    }

    pub fn paces(&self) -> bool {
        self.paces
    }

    pub fn is_app_limited(&self) -> bool {
        self.conn.app_limited != 0
    }

    pub fn min_rtt_us(&self) -> u32 {
        self.min_rtt.get()
    }

    /// Receive window left beyond what is acknowledged, segments.
    pub fn receive_window(&self) -> u32 {
        (self.peer.edge / u64::from(self.tcp.mss)).saturating_sub(u64::from(self.conn.snd_una)) as u32
    }

    /// Does the pacer's timer run?
    pub fn is_held_back(&self) -> bool {
        self.pacer.blocked
    }

    /// Delivery-rate sample of the latest ACK, bytes per second.
    #[inline]
    pub fn last_rate(&self) -> Option<f64> {
        self.rate.latest
    }

    pub fn next_timer(&self) -> Nanos {
        if self.pacer.blocked { self.timers.at.min(self.pacer.timer(&self.conn)) } else { self.timers.at }
    }

    /// Payload bytes of segment `seq`.
    #[inline]
    pub fn payload(&self, seq: u32) -> u32 {
        self.buffer.payload(seq)
    }

    /// Set the window from outside; false if the controller decides itself.
    pub fn set_window(&mut self, now: Nanos, cwnd: u32, pacing: Option<u64>, out: &mut Pool) -> bool {
        self.set_now(now);
        let set = self.cc.set_window(&mut self.conn, cwnd, pacing);
        if set {
            self.transmit_new(out);
        }
        set
    }

    /// News of the path for the controller; what it changes shows at the next ACK.
    pub fn on_signal(&mut self, now: Nanos, signal: Signal) {
        self.set_now(now);
        self.conn.in_flight = self.in_flight();
        self.cc.on_signal(&mut self.conn, signal);
    }

    pub fn on_timer(&mut self, now: Nanos, out: &mut Pool) {
        self.set_now(now);
        if self.pacer.blocked && self.pacer.timer(&self.conn) <= now {
            self.pacer.blocked = false;
            self.transmit(out);
        }
        if self.timers.at <= now {
            self.on_retransmission_timer(out);
        }
    }

    /// Every entry point tells the time first.
    #[inline]
    fn set_now(&mut self, now: Nanos) {
        self.conn.now = now;
        self.conn.jiffies = self.timers.tick.count(now);
    }
}
