//! What a connection's congestion controller is told, as the simulator's statistics want it; and controllers of ours in the
//! place of quinn's. The crate orbitcc-policy-quinn has the same in real connections.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use orbitcc_core::cc::{self, CaState, Conn, Event, RateSample};
use orbitcc_core::spec::{QuicSpec, SSTHRESH_INFINITE};
use orbitcc_core::tcp::acks::Acks;
use orbitcc_core::tcp::sender::SenderCounters;
use orbitcc_core::tcp::sender::kernel_reading::FlowReading;
use orbitcc_core::time::Nanos;
use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory};

/// Packets that left at one time, and what was delivered by then.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Nanos,
    packets: u32,
    app_limited: bool,
    /// When the first packet of the sample that they end was sent, and the latest delivery before they left.
    first_sent: Nanos,
    delivered_at: Nanos,
    /// Bytes and packets delivered when they left.
    delivered: u64,
    delivered_packets: u32,
}

/// Samples of the delivery rate (draft-cheng-iccrg-delivery-rate-estimation), one per ACK.
#[derive(Clone, Debug, Default)]
struct Rate {
    sent: VecDeque<Sent>,
    first_sent: Nanos,
    delivered_at: Nanos,
    delivered: u64,
    delivered_packets: u32,
    /// The latest of the packets that the ACK in hand acknowledges.
    latest: Option<Sent>,
}

/// Lost packets are forgotten when packets are acknowledged that left so much later.
const LATE: Nanos = Nanos::from_secs(4);
/// Times of sending that are remembered at most: a host that only acknowledges gets no acknowledgements.
const MOST: usize = 1 << 16;

impl Rate {
    fn on_sent(&mut self, now: Nanos, packets: u32, in_flight: u64, app_limited: bool) {
        if self.sent.len() >= MOST {
            self.sent.pop_front();
        }
        if in_flight == 0 {
            (self.first_sent, self.delivered_at) = (now, now);
        }
        match self.sent.back_mut() {
            Some(last) if last.at == now => last.packets += packets,
            _ => self.sent.push_back(Sent {
                at: now,
                packets,
                app_limited,
                first_sent: self.first_sent,
                delivered_at: self.delivered_at,
                delivered: self.delivered,
                delivered_packets: self.delivered_packets,
            }),
        }
    }

    fn on_ack(&mut self, sent: Nanos, bytes: u64) {
        self.delivered += bytes;
        self.delivered_packets += 1;
        let Ok(found) = self.sent.binary_search_by_key(&sent, |packets| packets.at) else { return };
        let packets = &mut self.sent[found];
        packets.packets = packets.packets.saturating_sub(1);
        if self.latest.is_none_or(|latest| latest.at < sent) {
            self.latest = Some(*packets);
        }
        while self.sent.front().is_some_and(|first| first.packets == 0 || first.at + LATE < sent) {
            self.sent.pop_front();
        }
    }

    /// The packets that the sample is about, the bytes delivered since they left, and over what time.
    fn sample(&mut self, now: Nanos) -> Option<(Sent, u64, Nanos)> {
        let sent = self.latest.take()?;
        self.delivered_at = now;
        self.first_sent = sent.at;
        let span = now.saturating_sub(sent.delivered_at).max(sent.at.saturating_sub(sent.first_sent));
        Some((sent, self.delivered - sent.delivered, span))
    }
}

/// A controller of ours, and the connection as it sees it: segments are packets of full size.
#[derive(Clone)]
struct Ours {
    cc: Box<dyn cc::Controller>,
    conn: Conn,
    started: bool,
    /// Losses of packets sent before are of the same episode.
    reduced_at: Option<Nanos>,
}

impl Ours {
    fn set_now(&mut self, now: Nanos) {
        self.conn.now = now;
        self.conn.jiffies = (u128::from(now.0) * u128::from(self.conn.hz) / 1_000_000_000) as u64;
    }

    fn enter(&mut self, state: CaState) {
        self.cc.on_state(&mut self.conn, state);
        self.conn.state = state;
    }

    /// With the first sample of the RTT, or when an agent decides.
    fn start(&mut self) {
        if !std::mem::replace(&mut self.started, true) {
            self.cc.init(&mut self.conn);
        }
    }

    /// As Linux enters a reduction, but at once, as RFC 9002 has it: QUIC does not spread it over a round trip.
    fn reduce(&mut self, now: Nanos, sent: Nanos, persistent: bool, marked: bool) {
        if self.reduced_at.is_some_and(|at| sent <= at) && !persistent {
            return;
        }
        self.reduced_at = Some(now);
        (self.conn.by_marks, self.conn.prior_cwnd) = (marked, self.conn.cwnd);
        self.conn.ssthresh = self.cc.ssthresh(&mut self.conn);
        self.conn.by_marks = false;
        if persistent {
            self.cc.on_event(&mut self.conn, Event::Loss);
            if !self.cc.keeps_window_on_rto() {
                self.conn.cwnd = LEAST_WINDOW;
            }
            self.enter(CaState::Loss);
        } else {
            if !self.cc.owns_window() {
                self.conn.cwnd = self.conn.ssthresh.max(LEAST_WINDOW);
            }
            self.enter(if marked { CaState::Cwr } else { CaState::Recovery });
        }
        self.conn.cwnd_cnt = 0;
    }

    /// A packet that was sent after the reduction is acknowledged: it is over.
    fn leave(&mut self, sent: Nanos) {
        if self.conn.state != CaState::Open && self.reduced_at.is_none_or(|at| sent > at) {
            if self.conn.state != CaState::Loss {
                self.cc.on_event(&mut self.conn, Event::CompleteCwr);
            }
            self.enter(CaState::Open);
        }
    }

    fn on_acks(&mut self, rate: &RateSample) {
        let conn = &mut self.conn;
        let rtt = rate.rtt_us.unwrap_or(0).max(1);
        conn.min_rtt_us = conn.min_rtt_us.min(rtt);
        conn.srtt8_us = if conn.srtt8_us == 0 { 8 * rtt } else { conn.srtt8_us - conn.srtt8_us / 8 + rtt };
        conn.delivered += rate.acked;
        conn.snd_una = conn.delivered;
        conn.snd_nxt = conn.snd_una + conn.in_flight;
        conn.plain_ack = false;
        self.start();
        let conn = &mut self.conn;
        self.cc.on_delivered(conn, rate.acked, rate.rtt_us);
        if !self.cc.owns_window() && conn.state == CaState::Open {
            self.cc.cong_avoid(conn, rate.acked);
        }
        if self.cc.owns_window() {
            self.cc.control(conn, rate);
        } else if self.cc.paces() {
            self.cc.after_ack(conn);
        }
    }
}

/// kMinimumWindow of RFC 9002, section 7.2, packets.
const LEAST_WINDOW: u32 = 2;

/// The figures of one connection's sender.
#[derive(Clone)]
pub struct Ledger {
    zero: Instant,
    /// Bytes of a full packet, and of the application in it.
    mtu: u64,
    payload: u64,
    rate: Rate,
    in_flight: u64,
    app_limited: bool,
    /// Of the ACK in hand: packets, and the latest time at which one of them was sent.
    acked: u32,
    latest_sent: Nanos,
    /// Packets found lost since that before.
    lost: u32,
    /// Bytes of acknowledged packets, of which so many were before packets had their present size, with so many of the
    /// application; and how often congestion was persistent.
    acked_bytes: u64,
    before: (u64, u64),
    persistent: u64,
    /// Packets, about: quinn tells of bytes.
    sent_packets: u64,
    lost_packets: u64,
    /// quinn's smoothed and least RTT as of the ACK before, or the first sample.
    rtts: Option<(Duration, Duration)>,
    /// Since the reading before.
    acks: Acks,
    ours: Option<Ours>,
}

impl Ledger {
    pub fn new(zero: Instant, mtu: u16, payload: u32, ours: Option<(Box<dyn cc::Controller>, Conn)>) -> Ledger {
        Ledger {
            zero,
            mtu: u64::from(mtu),
            payload: u64::from(payload),
            rate: Rate::default(),
            in_flight: 0,
            app_limited: false,
            acked: 0,
            latest_sent: Nanos::ZERO,
            lost: 0,
            acked_bytes: 0,
            before: (0, 0),
            persistent: 0,
            sent_packets: 0,
            lost_packets: 0,
            rtts: None,
            acks: Acks::default(),
            ours: ours.map(|(cc, conn)| Ours { cc, conn, started: false, reduced_at: None }),
        }
    }

    pub fn at(&self, instant: Instant) -> Nanos {
        Nanos(instant.saturating_duration_since(self.zero).as_nanos() as u64)
    }

    /// The application's part of what is acknowledged.
    fn acked_payload(&self) -> u64 {
        let (bytes, payload) = self.before;
        payload + (u128::from(self.acked_bytes - bytes) * u128::from(self.payload) / u128::from(self.mtu)) as u64
    }

    /// From now on full packets have so many bytes.
    pub fn set_mtu(&mut self, mtu: u16) {
        self.before = (self.acked_bytes, self.acked_payload());
        (self.mtu, self.payload) = (u64::from(mtu), u64::from(mtu.saturating_sub(QuicSpec::OVERHEAD)));
        if let Some(ours) = &mut self.ours {
            ours.conn.mss = self.payload as u32;
        }
    }

    /// The window of a controller of ours, bytes.
    pub fn window(&self) -> u64 {
        let packets = self.ours.as_ref().map_or(LEAST_WINDOW, |ours| ours.conn.cwnd.max(1));
        // quinn keeps below its window.
        u64::from(packets) * self.mtu + 1
    }

    /// What simulator and policies know of the sender, by what quinn tells its controller; the rest stays at zero.
    /// Acknowledgements are those since the reading before.
    pub fn read(&mut self) -> FlowReading {
        let us = |duration: Duration| duration.as_micros().min(u128::from(u32::MAX)) as u32;
        let (srtt, min_rtt) = self.rtts.unwrap_or_default();
        let conn = self.ours.as_ref().map(|ours| &ours.conn);
        let acks = Acks { last: self.acks.last, ..Acks::default() };
        FlowReading {
            counters: SenderCounters {
                sent: self.sent_packets,
                lost: self.lost_packets,
                rtos: self.persistent,
                acked_bytes: self.acked_payload(),
                ..SenderCounters::default()
            },
            cwnd: conn.map_or(0, |conn| conn.cwnd),
            ssthresh: conn.map_or(SSTHRESH_INFINITE, |conn| conn.ssthresh),
            srtt_us: us(srtt),
            min_rtt_us: us(min_rtt),
            packets_out: self.in_flight.div_ceil(self.mtu).min(u64::from(u32::MAX)) as u32,
            pacing_rate: self.pacing_rate(),
            app_limited: self.app_limited,
            acks: std::mem::replace(&mut self.acks, acks),
            ..FlowReading::default()
        }
    }

    /// The rate (bytes per second) that packets may not exceed; 0: none.
    pub fn pacing_rate(&self) -> u64 {
        self.ours.as_ref().filter(|ours| ours.cc.paces()).map_or(0, |ours| ours.conn.pacing_rate)
    }

    pub fn set_window(&mut self, now: Nanos, cwnd: u32, pacing: Option<u64>) {
        if let Some(ours) = &mut self.ours {
            ours.set_now(now);
            ours.start();
            ours.cc.set_window(&mut ours.conn, cwnd, pacing);
        }
    }

    pub fn on_sent(&mut self, now: Nanos, bytes: u64) {
        let packets = bytes.div_ceil(self.mtu);
        self.sent_packets += packets;
        self.rate.on_sent(now, packets as u32, self.in_flight, self.app_limited);
        if let Some(ours) = &mut self.ours {
            ours.set_now(now);
            if self.in_flight == 0 {
                ours.cc.on_event(&mut ours.conn, Event::TxStart);
            }
            ours.conn.last_send = now;
        }
        self.in_flight += bytes;
    }

    pub fn on_ack(&mut self, sent: Nanos, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.rate.on_ack(sent, bytes);
        self.rtts = self.rtts.map(|_| (rtt.get(), rtt.min()));
        self.acked += 1;
        self.acked_bytes += bytes;
        self.app_limited = app_limited;
        self.latest_sent = self.latest_sent.max(sent);
    }

    pub fn on_end_acks(&mut self, now: Nanos, in_flight: u64) {
        let prior = std::mem::replace(&mut self.in_flight, in_flight);
        let acked = std::mem::take(&mut self.acked);
        if acked == 0 {
            return;
        }
        let rtt_us = (now.saturating_sub(self.latest_sent).micros()).min(u64::from(u32::MAX)) as u32;
        let sampled = Duration::from_micros(u64::from(rtt_us));
        self.rtts.get_or_insert((sampled, sampled));
        let sample = self.rate.sample(now).filter(|(_, _, span)| *span > Nanos::ZERO);
        let share = self.payload as f64 / self.mtu as f64;
        self.acks.add(now, Some(rtt_us), sample.map(|(_, bytes, span)| share * bytes as f64 / span.secs_f64()));
        let Some(ours) = &mut self.ours else { return };
        ours.set_now(now);
        ours.leave(self.latest_sent);
        let packets = |bytes: u64| bytes.div_ceil(self.mtu).min(u64::from(u32::MAX)) as u32;
        (ours.conn.cwnd_limited, ours.conn.max_packets_out) = (!self.app_limited, packets(prior));
        ours.conn.in_flight = packets(in_flight);
        ours.conn.app_limited = if self.app_limited { (ours.conn.delivered + ours.conn.in_flight).max(1) } else { 0 };
        let rate = RateSample {
            delivered: sample.map_or(0, |(sent, ..)| self.rate.delivered_packets - sent.delivered_packets),
            interval_us: sample.map_or(0, |(_, _, span)| span.micros()),
            prior_delivered: sample.map_or(0, |(sent, ..)| sent.delivered_packets),
            acked,
            lost: std::mem::take(&mut self.lost),
            rtt_us: Some(rtt_us),
            prior_in_flight: packets(prior),
            app_limited: sample.is_some_and(|(sent, ..)| sent.app_limited),
            ..RateSample::default()
        };
        ours.on_acks(&rate);
    }

    pub fn on_congestion(&mut self, now: Nanos, sent: Nanos, persistent: bool, lost_bytes: u64) {
        self.persistent += u64::from(persistent);
        self.in_flight = self.in_flight.saturating_sub(lost_bytes);
        let lost = lost_bytes.div_ceil(self.mtu) as u32;
        self.lost += lost;
        self.lost_packets += u64::from(lost);
        if let Some(ours) = &mut self.ours {
            ours.set_now(now);
            ours.conn.lost += lost;
            ours.reduce(now, sent, persistent, lost_bytes == 0);
        }
    }
}

/// A sender's controller: quinn's own with a ledger beside it, or one of ours.
pub struct Watched {
    theirs: Option<Box<dyn Controller>>,
    ledger: Arc<Mutex<Ledger>>,
}

impl Watched {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("a ledger does not panic")
    }
}

impl Controller for Watched {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        let mut ledger = self.ledger();
        let at = ledger.at(now);
        ledger.on_sent(at, bytes);
        drop(ledger);
        if let Some(theirs) = &mut self.theirs {
            theirs.on_sent(now, bytes, last_packet_number);
        }
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        let mut ledger = self.ledger();
        let at = ledger.at(sent);
        ledger.on_ack(at, bytes, app_limited, rtt);
        drop(ledger);
        if let Some(theirs) = &mut self.theirs {
            theirs.on_ack(now, sent, bytes, app_limited, rtt);
        }
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        let mut ledger = self.ledger();
        let at = ledger.at(now);
        ledger.on_end_acks(at, in_flight);
        drop(ledger);
        if let Some(theirs) = &mut self.theirs {
            theirs.on_end_acks(now, in_flight, app_limited, largest);
        }
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost_bytes: u64) {
        let mut ledger = self.ledger();
        let (at, left) = (ledger.at(now), ledger.at(sent));
        ledger.on_congestion(at, left, persistent, lost_bytes);
        drop(ledger);
        if let Some(theirs) = &mut self.theirs {
            theirs.on_congestion_event(now, sent, persistent, lost_bytes);
        }
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        if let Some(theirs) = &mut self.theirs {
            theirs.on_mtu_update(mtu);
        }
    }

    fn window(&self) -> u64 {
        match &self.theirs {
            Some(theirs) => theirs.window(),
            None => self.ledger().window(),
        }
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Watched { theirs: self.theirs.as_ref().map(|theirs| theirs.clone_box()), ledger: self.ledger.clone() })
    }

    fn initial_window(&self) -> u64 {
        self.theirs.as_ref().map_or_else(|| self.window(), |theirs| theirs.initial_window())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Makes the controller of one connection.
pub struct Watching {
    pub theirs: Option<Arc<dyn ControllerFactory + Send + Sync>>,
    pub ledger: Arc<Mutex<Ledger>>,
}

impl ControllerFactory for Watching {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        let theirs = self.theirs.clone().map(|factory| factory.build(now, mtu));
        Box::new(Watched { theirs, ledger: self.ledger.clone() })
    }
}
