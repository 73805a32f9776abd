//! The receiving host: what arrives, in order or not. Acknowledgements (`acking`) and its window have files of their own.

mod acking;
mod ecn;
mod misbehaving;
mod reassembly;
mod window;

use crate::packet::{Marks, SegRange, truesize};
use crate::pool::Pool;
use crate::spec::TcpSpec;
use crate::spec::profile::{Autotuning, Profile};
use crate::time::Nanos;

use super::intervals::Intervals;
use super::rtt::{LONGEST_RTT_US, RttEstimator};
use crate::tick::Tick;

use ecn::Echo;
use misbehaving::Optimist;
use window::{Share, WINDOW_FIELD_MAX, initial_segments, memory_per_segment, window_scale};

/// Bytes of the timestamp option in every segment.
const TIMESTAMP_OPTION: u64 = 12;
const MAX_QUICK_ACKS: u32 = 16;
/// Least delay of an ACK, as share of a second (TCP_ATO_MIN).
const ATO_MIN_HZ: u32 = 25;
/// Socket buffer maximum of other protocols (net.core.rmem_max), which the window scale allows for.
const CORE_RMEM_MAX: u64 = 212_992;
/// Least time between answers to segments that bring nothing (net.ipv4.tcp_invalid_ratelimit).
const ANSWERS_APART: Nanos = Nanos::from_millis(500);

/// Time from a first arrival to the poll of the driver that collects what has come since: the pause a network card
/// keeps between interrupts at 20,000 per second (e1000e's and igb's low-latency rate).
const POLL: Nanos = Nanos::from_micros(50);

/// A data segment as its receiver sees it.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub flow: u32,
    pub seq: u32,
    pub ts: Nanos,
    pub ts_echo: Nanos,
    pub marks: Marks,
    /// Bytes.
    pub payload: u64,
}

#[derive(Clone, Debug)]
pub struct Receiver {
    mss: u64,
    /// Buffer memory one full segment occupies when each arrives in a buffer of its own, and what autotuning budgets.
    truesize: u64,
    memory_per_segment: u64,
    tick: Tick,
    ack_bytes: u16,
    profile: &'static Profile,
    moderate: bool,
    rmem_max: u64,
    /// Where its ACKs start on the world's routes.
    pub route: u32,
    pub rcv_nxt: u32,
    out_of_order: Intervals,
    out_of_order_segments: u32,
    /// Starts of the most recently changed out-of-order ranges, latest first.
    recent: [u32; 4],
    recent_len: usize,
    duplicate: Option<SegRange>,
    /// Generic receive offload: most segments in order that go up the stack as one and cause one ACK (Linux: 64 KB),
    /// and those of the present poll.
    merges: u32,
    merged: u32,
    /// Time from a first arrival to the poll.
    poll: Nanos,
    /// Number of acknowledgements in place of one, and the state of an optimistic receiver (`misbehaving.rs`).
    ack_parts: u32,
    optimist: Option<Box<Optimist>>,
    echo: Echo,
    /// It is optimistic, uses ECN, or its application does not read everything at once.
    is_special: bool,
    /// What ACKs carry of ECN.
    ack_marks: Marks,
    // Acknowledgement policy.
    quick: u32,
    /// Expected gap between arrivals, in ticks as all of this; 0 = none yet.
    ato: u64,
    ato_min: u64,
    /// Half of the least, as time: gaps below it need no counting of ticks.
    short_gap: Nanos,
    /// No ACK waits longer than the handshake's RTT, within 40 ms and the kernel's maximum. A pure receiver measures no
    /// other.
    delay_bound: u64,
    /// Its timeout, of the same origin: a longer gap starts quick ACKs again.
    rto: u64,
    handshake_us: u64,
    last_arrival: Nanos,
    ack_now: bool,
    delayed_at: Nanos,
    compressed: u32,
    /// When the compressed ACK goes out, or the present poll ends.
    compressed_at: Nanos,
    dupacks: u32,
    dupacks_at: u32,
    last_acked: u32,
    ts_recent: Nanos,
    /// When a probe of the window may be answered again.
    next_answer: Nanos,
    // Window.
    rcvbuf: u64,
    share: Share,
    /// What it will be once data have come.
    measured_share: Share,
    rcv_ssthresh: u64,
    window_clamp: u64,
    /// Where that threshold ends while one segment at least is unread.
    growth_limit: u64,
    /// Right edge in bytes from the start of the stream; never moves left.
    right_edge: u64,
    /// Unit of the window field, bytes, a power of two (RFC 7323 window scaling).
    unit: u64,
    /// Segments that the packet in hand put in order: the application reads them after the ACK has gone.
    unread: u64,
    /// The application reads no further than this segment for now.
    reads_to: u32,
    rtt8_us: u64,
    rtt_echo: Nanos,
    measure_space: u64,
    measure_start: u32,
    measure_since: Nanos,
    /// Payload bytes received in order.
    pub received_bytes: u64,
}

impl Receiver {
    pub fn new(tcp: &TcpSpec) -> Receiver {
        let mss = u64::from(tcp.mss);
        let (profile, tick) = (tcp.profile(), Tick::new(tcp.hz));
        let truesize = truesize(tcp.mss + tcp.header_bytes);
        let mut rcvbuf = tcp.rmem_default();
        // The SYN offers whole segments, unscaled; that timestamps will take a part of each is not known yet.
        let syn_mss = mss + TIMESTAMP_OPTION;
        let (share, measured_share) = Share::of(profile.window_share, mss, truesize);
        let mut initial = share.window_of(rcvbuf);
        if initial > syn_mss {
            initial -= initial % syn_mss;
        }
        if profile.initial_window_fits_field {
            initial = initial.min(WINDOW_FIELD_MAX);
        }
        let scale = window_scale(share.window_of(rcvbuf).max(tcp.rmem[2]).max(CORE_RMEM_MAX));
        if let Some(segments) = profile.initial_window_segments {
            let segments = initial_segments(segments, syn_mss);
            initial = initial.min(segments * syn_mss);
            let room = 2 * truesize * segments * if tcp.moderate_rcvbuf { 4 } else { 1 };
            rcvbuf = rcvbuf.max(room.min(tcp.rmem[2]));
        }
        // One segment is kept back (tcp_app_win).
        let window = share.window_of(rcvbuf);
        let window_clamp = window.saturating_sub(mss).max(2 * mss).min(window);
        let rcv_ssthresh = initial.min(window_clamp);
        let measure_space = match profile.autotuning {
            Autotuning::Steps => initial,
            Autotuning::Proportional => rcv_ssthresh.min(10 * mss),
        };
        let mut receiver = Receiver {
            mss,
            truesize,
            memory_per_segment: memory_per_segment(mss, truesize),
            profile,
            tick,
            ack_bytes: tcp.ack_bytes as u16,
            moderate: tcp.moderate_rcvbuf,
            rmem_max: tcp.rmem[2],
            route: 0,
            rcv_nxt: 0,
            out_of_order: Intervals::default(),
            out_of_order_segments: 0,
            recent: [0; 4],
            recent_len: 0,
            duplicate: None,
            merges: tcp.gro_segments,
            merged: 0,
            poll: POLL,
            ack_parts: 1,
            optimist: None,
            echo: Echo::default(),
            is_special: false,
            ack_marks: Marks::NONE,
            quick: 0,
            ato: 0,
            ato_min: u64::from(tcp.hz / ATO_MIN_HZ),
            short_gap: Nanos::from_micros(u64::from(tcp.hz / ATO_MIN_HZ) / 2 * tick.micros()),
            delay_bound: profile.delayed_ack_max_us / tick.micros(),
            rto: 0,
            handshake_us: 0,
            last_arrival: Nanos::ZERO,
            ack_now: false,
            delayed_at: Nanos::MAX,
            compressed: 0,
            compressed_at: Nanos::MAX,
            dupacks: 0,
            dupacks_at: 0,
            last_acked: 0,
            ts_recent: Nanos::ZERO,
            next_answer: Nanos::ZERO,
            rcvbuf,
            share,
            measured_share,
            rcv_ssthresh,
            window_clamp,
            growth_limit: 0,
            right_edge: initial.min(WINDOW_FIELD_MAX),
            unit: 1 << scale,
            unread: 0,
            reads_to: u32::MAX,
            rtt8_us: 0,
            rtt_echo: Nanos::MAX,
            measure_space,
            measure_start: 0,
            measure_since: Nanos::ZERO,
            received_bytes: 0,
        };
        receiver.limit_growth();
        receiver
    }

    /// The connection is established; the handshake took `rtt`.
    pub fn establish(&mut self, now: Nanos, rtt: Nanos) {
        self.measure_since = now;
        self.handshake_us = rtt.micros().min(LONGEST_RTT_US.into());
        self.delay_bound = self.tick.covering(self.handshake_us).clamp(self.ato_min, self.delay_bound);
        let mut estimator = RttEstimator::new(1_000_000 / self.tick.micros() as u32);
        estimator.sample((self.handshake_us as u32).max(1), 0, 0);
        self.rto = estimator.rto_ticks();
    }

    /// Window the peer may use before the first ACK, bytes.
    pub fn initial_window(&self) -> u32 {
        self.right_edge as u32
    }

    /// Its window field counts in units of 2 to the power of this.
    pub fn window_scale(&self) -> u32 {
        self.unit.ilog2()
    }

    pub fn next_timer(&self) -> Nanos {
        self.delayed_at.min(self.compressed_at)
    }

    /// Segments waiting for a hole to be filled.
    pub fn out_of_order(&self) -> u32 {
        self.out_of_order_segments
    }

    /// A data segment arrives; one ACK goes out at most, two when a waiting one cannot wait longer.
    #[inline(always)]
    pub fn on_data(&mut self, now: Nanos, segment: Arrival, out: &mut Pool) {
        if self.is_special {
            return self.take_specially(now, segment, out);
        }
        self.take::<false>(now, segment, out);
    }

    /// With what few receivers do.
    #[inline(never)]
    fn take_specially(&mut self, now: Nanos, segment: Arrival, out: &mut Pool) {
        if self.optimist.is_some() {
            return self.be_optimistic(now, segment, out);
        }
        self.take::<true>(now, segment, out);
    }

    #[inline(always)]
    fn take<const SPECIAL: bool>(&mut self, now: Nanos, segment: Arrival, out: &mut Pool) {
        let seq = segment.seq;
        let echoed = if seq <= self.last_acked { segment.ts } else { Nanos::ZERO };
        self.ts_recent = self.ts_recent.max(echoed);
        let in_order = seq == self.rcv_nxt;
        if SPECIAL {
            self.note_marks(now, &segment, out);
        }
        if !in_order && (seq < self.rcv_nxt || self.out_of_order.containing(seq).is_some()) {
            self.duplicate = Some(SegRange { start: seq, end: seq + 1 });
            self.enter_quick_ack(MAX_QUICK_ACKS);
            return self.acknowledge(now, segment.flow, out);
        }
        self.measure_rtt(now, segment.ts_echo);
        if in_order {
            self.note_arrival(now);
            if SPECIAL {
                self.echo_marks(now, &segment, seq + 1, out);
            }
            self.advance(now, segment.payload);
        } else {
            if SPECIAL {
                self.echo_marks(now, &segment, self.rcv_nxt, out);
            }
            self.keep_for_later(now, &segment, out);
        }
        self.grow_window();
        if self.merges > 1 && in_order && self.merge(now) {
            return;
        }
        self.decide(now, segment.flow, out);
        self.read::<SPECIAL>(now, segment.flow, out);
    }

    /// The application reads what is in order. It says so if that doubles a window that had shrunk to less than half
    /// (tcp_cleanup_rbuf).
    #[inline(always)]
    fn read<const SPECIAL: bool>(&mut self, now: Nanos, flow: u32, out: &mut Pool) {
        if SPECIAL {
            self.read_what_may_be();
        } else {
            self.unread = 0;
        }
        let offered = self.right_edge - self.stream_bytes();
        if 2 * offered <= self.window_clamp {
            self.tell_of_room(now, offered, flow, out);
        }
    }

    #[inline(always)]
    fn read_what_may_be(&mut self) {
        self.unread = u64::from(self.rcv_nxt.saturating_sub(self.reads_to));
    }

    /// Segments that the application has read.
    pub(crate) fn read_so_far(&self) -> u32 {
        self.rcv_nxt.min(self.reads_to)
    }

    /// The application does not read beyond this segment.
    pub(crate) fn limit_reading(&mut self, reads_to: u32) {
        (self.reads_to, self.is_special) = (reads_to, true);
    }

    /// The application may read up to this segment; says whether it reads anything now.
    pub(crate) fn read_up_to(&mut self, now: Nanos, reads_to: u32, flow: u32, out: &mut Pool) -> bool {
        let waited = self.rcv_nxt > self.reads_to;
        self.limit_reading(reads_to);
        if waited {
            self.read::<true>(now, flow, out);
        }
        waited
    }

    #[cold]
    #[inline(never)]
    fn tell_of_room(&mut self, now: Nanos, offered: u64, flow: u32, out: &mut Pool) {
        let free = self.free_window();
        if free > 0 && free >= 2 * offered {
            self.offer_window(now, free, flow, out);
        }
    }

    /// Somebody without room to send asks for the window; answered twice a second at most (tcp_invalid_ratelimit).
    pub fn on_window_probe(&mut self, now: Nanos, flow: u32, out: &mut Pool) {
        if now >= self.next_answer {
            self.next_answer = now + ANSWERS_APART;
            self.enter_quick_ack(MAX_QUICK_ACKS);
            self.acknowledge(now, flow, out);
        }
    }

    pub fn on_timer(&mut self, now: Nanos, flow: u32, out: &mut Pool) {
        if self.next_timer() > now {
            return;
        }
        if self.merged > 0 && self.compressed_at <= now {
            return self.end_poll(now, flow, out);
        }
        if self.delayed_at <= now {
            // A delayed ACK that had to wait: expect longer gaps.
            self.ato = (self.ato * 2).min(self.rto);
        }
        self.acknowledge(now, flow, out);
    }

    /// Does a segment in order that arrives now wait for more to come in the same poll?
    #[cold]
    fn merge(&mut self, now: Nanos) -> bool {
        self.merged += 1;
        if self.merged >= self.merges {
            self.merged = 0;
            if self.compressed == 0 {
                self.compressed_at = Nanos::MAX;
            }
            return false;
        }
        self.compressed_at = self.compressed_at.min(now + self.poll);
        true
    }

    /// Do segments wait for the end of the present poll?
    fn is_polling(&self) -> bool {
        self.merged > 0
    }

    /// What the driver has collected goes up to TCP.
    #[cold]
    fn end_poll(&mut self, now: Nanos, flow: u32, out: &mut Pool) {
        self.merged = 0;
        self.compressed_at = Nanos::MAX;
        if self.compressed > 0 {
            self.acknowledge(now, flow, out);
        } else {
            self.decide(now, flow, out);
        }
        self.read::<true>(now, flow, out);
    }

    #[inline(always)]
    fn advance(&mut self, now: Nanos, payload: u64) {
        self.rcv_nxt += 1;
        self.unread += 1;
        self.received_bytes += payload;
        if !self.out_of_order.is_empty() {
            self.fill_hole();
        }
        self.autotune(now);
    }
}

#[cfg(test)]
pub(crate) mod tests;
