//! The sending host: what is outstanding, and what may be sent now.

use crate::cc::{Conn, Controller, Signal};
use crate::pool::Pool;
use crate::spec::TcpSpec;
use crate::time::Nanos;

use super::intervals::Intervals;
use super::loss::Rack;
use super::profile::{Profile, TimerMargin};
use super::recovery::Prr;
use super::rtt::{CoveringTicks, MinFilter, RttEstimator, Tick, rtt_us};
use super::scoreboard::{LOST, RETRANS, SACKED, Scoreboard};
use super::timestamp;
use super::transmit::QUEUED_AHEAD;

/// Segments of reordering assumed at first.
pub(super) const REORDERING_DEFAULT: u32 = 3;

/// Room for headers in a segment's buffer (MAX_TCP_HEADER, as distributions configure it), its shared info and its
/// descriptor, bytes.
const HEADER_ROOM: u64 = 320;
const SHARED_INFO: u64 = 320;
const DESCRIPTOR: u64 = 256;
/// Bytes of TCP options in every segment; buffers are budgeted for segments without.
const OPTIONS: u64 = 12;

/// What the retransmission timer stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    Off,
    Rto,
    /// Tail loss probe.
    Tlp,
    /// RACK's reordering window.
    Reorder,
    /// Nothing is outstanding, and the window has no room: it is asked for.
    Persist,
}

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
    /// Bytes cumulatively or selectively acknowledged.
    pub acked_bytes: u64,
}

#[derive(Clone)]
pub struct Sender {
    pub(super) tcp: TcpSpec,
    pub(super) profile: &'static Profile,
    pub(super) flow: u32,
    /// Where its data starts on the world's routes.
    pub route: u32,
    pub conn: Conn,
    pub cc: Box<dyn Controller>,
    /// What the controller says of itself once and for all.
    pub(super) owns_window: bool,
    pub(super) paces: bool,
    pub(super) watches_packets: bool,
    pub(super) watches_losses: bool,
    pub(super) board: Scoreboard,
    pub(super) sacked: Intervals,
    /// Segments the application has written, as a segment number.
    pub(super) write_seq: u32,
    /// Last segment of a finite transfer and its payload, if shorter than a full one.
    pub(super) last_segment: Option<(u32, u32)>,
    pub(super) bulk: bool,
    pub(super) send_buffer_segments: u32,
    pub(super) send_buffer_max: u32,
    /// The window it was last budgeted for.
    pub(super) buffered_window: u32,
    /// Bytes it is given per segment of window, and bytes a segment takes.
    pub(super) buffer_budget: u64,
    pub(super) buffer_use: u64,
    pub(super) sacked_out: u32,
    pub(super) lost_out: u32,
    pub(super) retrans_out: u32,
    /// Receive window: first segment beyond it, and the exact edge in bytes.
    pub(super) window_edge: u64,
    /// Window of the latest ACK, bytes.
    pub(super) last_window: u32,
    // Recovery.
    pub(super) high_seq: u32,
    pub(super) undo_marker: Option<u32>,
    /// Retransmissions not yet proven unnecessary; negative = none made.
    pub(super) undo_retrans: i32,
    pub(super) prior_ssthresh: u32,
    pub(super) prr: Prr,
    pub(super) retrans_stamp: Nanos,
    pub(super) frto: bool,
    pub(super) retransmits: u32,
    pub(super) reordering: u32,
    pub(super) reordering_seen: bool,
    pub(super) rack: Rack,
    /// Duplicates the receiver has reported.
    pub(super) duplicates: u64,
    pub(super) tlp_high_seq: Option<u32>,
    pub(super) tlp_retrans: bool,
    pub(super) retransmit_hint: u32,
    // Timing.
    pub rtt: RttEstimator,
    pub(super) min_rtt: MinFilter,
    pub(super) tick: Tick,
    /// The least wait of the probe and reordering timers.
    pub(super) margin_us: u64,
    pub(super) probe_ticks: CoveringTicks,
    pub(super) timer: Timer,
    pub(super) timer_at: Nanos,
    /// Probes of a window without room since there was some.
    pub(super) window_probes: u32,
    /// Is a packet waiting for its departure?
    pub(super) pacing_blocked: bool,
    /// Gap of a packet of `.1` bytes at rate `.0`: divided once per change.
    pub(super) pace_gap: (u64, u64, u64),
    /// Timestamp of the latest ACK, echoed in data.
    pub(super) ts_recent: Nanos,
    /// Timestamp echo of the ACK in hand.
    pub(super) ack_echo: Nanos,
    // Delivery rate.
    pub(super) delivered_at: Nanos,
    pub(super) first_sent: Nanos,
    // Window use.
    pub(super) cwnd_usage_seq: u32,
    pub(super) cwnd_used: u32,
    pub(super) cwnd_stamp: u64,
    pub counters: SenderCounters,
    /// Latest RTT sample; sums are kept by the observer.
    pub last_rtt_us: Option<u32>,
    /// Delivery-rate sample of the latest ACK, bytes per second.
    pub last_rate: Option<f64>,
}

impl Sender {
    pub fn new(tcp: &TcpSpec, flow: u32, cc: Box<dyn Controller>, initial_window: u32) -> Sender {
        let watches_losses = cc.watches_losses();
        let (profile, tick) = (tcp.profile(), Tick::new(tcp.hz));
        let mss = u64::from(tcp.mss);
        let buffer_use = mss + profile.send_buffer_overhead;
        Sender {
            tcp: *tcp,
            profile,
            flow,
            route: 0,
            conn: Conn::new(tcp),
            owns_window: cc.owns_window(),
            paces: cc.paces(),
            watches_packets: cc.watches_packets(),
            watches_losses,
            buffered_window: 0,
            buffer_budget: u64::from(cc.send_buffer_windows()) * segment_budget(mss + OPTIONS, HEADER_ROOM),
            buffer_use,
            cc,
            board: Scoreboard::new(watches_losses),
            sacked: Intervals::default(),
            write_seq: 0,
            last_segment: None,
            bulk: false,
            send_buffer_segments: (tcp.wmem[1] / buffer_use) as u32,
            send_buffer_max: (tcp.wmem[2] / buffer_use).max(2) as u32,
            sacked_out: 0,
            lost_out: 0,
            retrans_out: 0,
            window_edge: u64::from(initial_window),
            last_window: initial_window,
            high_seq: 0,
            undo_marker: None,
            undo_retrans: -1,
            prior_ssthresh: 0,
            prr: Prr::default(),
            retrans_stamp: Nanos::ZERO,
            frto: false,
            retransmits: 0,
            reordering: REORDERING_DEFAULT,
            reordering_seen: false,
            rack: Rack::default(),
            duplicates: 0,
            tlp_high_seq: None,
            tlp_retrans: false,
            retransmit_hint: 0,
            rtt: RttEstimator::new(tcp.hz),
            min_rtt: MinFilter::min_rtt(),
            tick,
            margin_us: match profile.timer_margin {
                TimerMargin::Micros(us) => us,
                TimerMargin::Ticks(ticks) => ticks * tick.micros(),
            },
            probe_ticks: CoveringTicks::new(tick),
            timer: Timer::Off,
            timer_at: Nanos::MAX,
            window_probes: 0,
            pace_gap: (0, 0, 0),
            pacing_blocked: false,
            ts_recent: Nanos::ZERO,
            ack_echo: Nanos::ZERO,
            delivered_at: Nanos::ZERO,
            first_sent: Nanos::ZERO,
            cwnd_usage_seq: 0,
            cwnd_used: 0,
            cwnd_stamp: 0,
            counters: SenderCounters::default(),
            last_rtt_us: None,
            last_rate: None,
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
        self.delivered_at = now;
        self.first_sent = now;
        self.cc.init(&mut self.conn);
    }

    /// Unlimited data, through the send buffer.
    pub fn write_bulk(&mut self) {
        self.bulk = true;
        self.refill();
    }

    /// A transfer of `bytes` in all.
    pub fn write_object(&mut self, bytes: u64) {
        let mss = u64::from(self.tcp.mss);
        self.write_seq = bytes.div_ceil(mss) as u32;
        let last = (bytes - (u64::from(self.write_seq) - 1) * mss) as u32;
        self.last_segment = Some((self.write_seq - 1, last));
    }

    /// The application writes `segments` more.
    pub fn write(&mut self, now: Nanos, segments: u32) {
        self.set_now(now);
        self.check_app_limited();
        self.restart_after_idle();
        // More than the run can carry has no number, and needs none.
        self.write_seq = self.write_seq.saturating_add(segments).min(u32::MAX - 1);
    }

    /// The segment after the last one written.
    pub fn write_seq(&self) -> u32 {
        self.write_seq
    }

    /// The application stops writing: what was sent is all there is.
    pub fn stop_writing(&mut self) {
        self.bulk = false;
        self.write_seq = self.conn.snd_nxt;
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
        self.retrans_out
    }

    pub fn sacked_and_lost(&self) -> u32 {
        self.sacked_out + self.lost_out
    }

    /// Recount the scoreboard; an error says which counter is off. For tests.
    pub fn check_counters(&self) -> Result<(), String> {
        let count = |flag| (self.conn.snd_una..self.conn.snd_nxt).filter(|s| self.board.get(*s).has(flag)).count();
        let counters = [(SACKED, self.sacked_out), (LOST, self.lost_out), (RETRANS, self.retrans_out)];
        for (flag, counter) in counters {
            if count(flag) != counter as usize {
                return Err(format!("flag {flag}: {} marked, counter {counter}", count(flag)));
            }
        }
        Ok(())
    }

    pub fn in_flight(&self) -> u32 {
        self.packets_out() + self.retrans_out - self.sacked_out - self.lost_out
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
        (self.window_edge / u64::from(self.tcp.mss)).saturating_sub(u64::from(self.conn.snd_una)) as u32
    }

    /// Does the pacer's timer run?
    pub fn is_held_back(&self) -> bool {
        self.pacing_blocked
    }

    pub fn next_timer(&self) -> Nanos {
        if self.pacing_blocked { self.timer_at.min(self.pacing_timer()) } else { self.timer_at }
    }

    fn pacing_timer(&self) -> Nanos {
        self.conn.next_departure.saturating_sub(Nanos(QUEUED_AHEAD.0 / 2))
    }

    pub fn payload(&self, seq: u32) -> u32 {
        match self.last_segment {
            Some((last, bytes)) if seq == last => bytes,
            _ => self.tcp.mss,
        }
    }

    /// Payload bytes of segments `[start, end)`.
    #[inline]
    pub(super) fn payload_of(&self, start: u32, end: u32) -> u64 {
        let full = u64::from(end - start) * u64::from(self.tcp.mss);
        match self.last_segment {
            Some((last, bytes)) if (start..end).contains(&last) => full - u64::from(self.tcp.mss - bytes),
            _ => full,
        }
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
        if self.pacing_blocked && self.pacing_timer() <= now {
            self.pacing_blocked = false;
            self.transmit(out);
        }
        if self.timer_at <= now {
            self.on_retransmission_timer(out);
        }
    }

    /// Every entry point tells the time first.
    #[inline]
    pub(super) fn set_now(&mut self, now: Nanos) {
        self.conn.now = now;
        self.conn.jiffies = self.tick.count(now);
    }
}

/// Bytes of send buffer Linux budgets per segment (`tcp_sndbuf_expand`): memory comes in powers of two. With two windows
/// and more of it there is room to keep sending in recoveries.
fn segment_budget(mss: u64, header_room: u64) -> u64 {
    (mss + header_room + SHARED_INFO).next_power_of_two() + DESCRIPTOR
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn send_buffer_vectors() {
        let buffer = |cwnd: u64, header_room| (2 * cwnd.max(10) * segment_budget(1460, header_room)).min(4_194_304);
        // A kernel without tunnels and wireless LAN has less room for headers: the segment just fits 2 KiB.
        assert_eq!([10, 100, 910, 911].map(|w| buffer(w, 192)), [46_080, 460_800, 4_193_280, 4_194_304]);
        // Distributions' kernels; measured in Linux 6.1.
        assert_eq!([10, 100, 481, 482].map(|w| buffer(w, HEADER_ROOM)), [87_040, 870_400, 4_186_624, 4_194_304]);
        assert_eq!(segment_budget(1460, HEADER_ROOM), 4_352);
        assert_eq!(segment_budget(8960, HEADER_ROOM), 16_640);
    }
}
