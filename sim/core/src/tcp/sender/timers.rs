//! The timer of what is outstanding: retransmission timeout, tail loss probe (RFC 8985, section 7), RACK's reordering window,
//! and the probe of a window without room. It stands for one of them at a time, and rounds up as the kernel's does.

use crate::cc::CaState;
use crate::packet::{Kind, Packet};
use crate::pool::Pool;
use crate::spec::TcpSpec;
use crate::spec::profile::TimerMargin;
use crate::time::Nanos;

use super::super::rtt::{CoveringTicks, RttEstimator};
use super::super::timestamp;
use super::Sender;
use super::ack_work::AckWork;
use crate::tick::Tick;

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

#[derive(Clone, Debug)]
pub(super) struct Timers {
    pub pending: Timer,
    /// When it fires; a timer that has been taken off may fire in vain.
    pub at: Nanos,
    pub tick: Tick,
    /// The least wait of the probe and reordering timers.
    margin_us: u64,
    probe_ticks: CoveringTicks,
    /// Probes of a window without room since there was some.
    window_probes: u32,
}

/// The episode of a tail loss probe (RFC 8985, section 7.4).
#[derive(Clone, Debug, Default)]
pub(super) struct TailProbe {
    /// The segment after the last one sent when the probe left; None when no episode is under way.
    pub high_seq: Option<u32>,
    /// Did the probe repeat a segment?
    pub retransmission: bool,
}

impl Timers {
    pub fn new(tcp: &TcpSpec) -> Timers {
        let tick = Tick::new(tcp.hz);
        Timers {
            pending: Timer::Off,
            at: Nanos::MAX,
            tick,
            margin_us: match tcp.profile().timer_margin {
                TimerMargin::Micros(us) => us,
                TimerMargin::Ticks(ticks) => ticks * tick.micros(),
            },
            probe_ticks: CoveringTicks::new(tick),
            window_probes: 0,
        }
    }

    /// `timer` fires `ticks` after tick `jiffies`.
    #[inline]
    pub fn arm(&mut self, timer: Timer, jiffies: u64, ticks: u64) {
        self.pending = timer;
        self.at = self.tick.deadline(jiffies, ticks);
    }

    #[inline]
    pub fn disarm(&mut self) {
        self.pending = Timer::Off;
        self.at = Nanos::MAX;
    }

    /// Ticks that cover `us` and the margin of the reordering timer.
    pub fn reordering_ticks(&self, us: u64) -> u64 {
        self.tick.covering(us + self.margin_us)
    }
}

impl Sender {
    pub(super) fn arm(&mut self, timer: Timer, ticks: u64) {
        self.timers.arm(timer, self.conn.jiffies, ticks);
    }

    /// After progress: a tail loss probe if it applies, else the retransmission timeout.
    pub(super) fn set_timer(&mut self) {
        if !self.schedule_tail_probe(true) {
            self.rearm_rto();
        }
    }

    pub(super) fn rearm_rto(&mut self) {
        if self.packets_out() == 0 {
            self.timers.disarm();
            if self.conn.snd_nxt < self.buffer.write_seq {
                self.persist();
            }
            return;
        }
        let mut ticks = self.rtt.rto_ticks();
        if matches!(self.timers.pending, Timer::Reorder | Timer::Tlp) {
            // The time since the head was sent counts.
            ticks = self.timers.tick.covering(self.rto_left_us().max(1) as u64);
        }
        self.arm(Timer::Rto, ticks);
    }

    /// Microseconds until the head of the queue times out; negative when overdue.
    fn rto_left_us(&self) -> i64 {
        let head = self.board.get(self.conn.snd_una).sent.micros() + self.rtt.rto_ticks() * self.timers.tick.micros();
        head as i64 - self.conn.now.micros() as i64
    }

    /// Arm the tail loss probe: 2 srtt after the last transmission, never later than the timeout.
    #[inline(always)]
    pub(super) fn schedule_tail_probe(&mut self, advancing: bool) -> bool {
        if self.packets_out() == 0 || !matches!(self.conn.state, CaState::Open | CaState::Cwr) {
            return false;
        }
        if !self.profile.eager_tail_probes
            && (self.conn.state == CaState::Cwr
                || (self.conn.cwnd > self.in_flight() && self.conn.snd_nxt < self.buffer.write_seq))
        {
            return false;
        }
        let mut us = u64::from(self.conn.srtt8_us >> 2);
        us += if self.packets_out() == 1 { RttEstimator::rto_floor_us() } else { self.timers.margin_us };
        if !advancing {
            // Rounding up to ticks only lengthens the timeout: work it out when it could matter.
            let sent = self.board.get(self.conn.snd_una).sent.micros();
            if sent + self.rtt.rto_us() < self.conn.now.micros() + us {
                let left = self.rto_left_us();
                if left > 0 {
                    us = us.min(left as u64);
                }
            }
        }
        let mut ticks = self.timers.probe_ticks.of(us);
        if advancing {
            ticks = ticks.min(self.rtt.rto_ticks());
        }
        self.arm(Timer::Tlp, ticks);
        true
    }

    /// Nothing is outstanding that could be acknowledged: unless the pacer has the next segment, the window has no room for it,
    /// and has to be asked for in time (RFC 9293, 3.8.6.1; `tcp_check_probe_timer`).
    #[cold]
    #[inline(never)]
    pub(super) fn persist(&mut self) {
        if self.window_allows() {
            return;
        }
        self.timers.window_probes = 0;
        self.arm(Timer::Persist, self.persist_ticks());
    }

    /// The timeout, doubled with every probe (`tcp_probe0_when`).
    fn persist_ticks(&self) -> u64 {
        const RTO_MAX_S: u64 = 120;
        (self.rtt.rto_ticks() << self.timers.window_probes.min(10)).min(RTO_MAX_S * u64::from(self.tcp.hz))
    }

    /// Ask for the window.
    #[inline(never)]
    pub(super) fn probe_window(&mut self, out: &mut Pool) {
        self.timers.disarm();
        if self.packets_out() > 0 || self.conn.snd_nxt >= self.buffer.write_seq || self.window_allows() {
            return self.transmit_new(out);
        }
        *out.send() = Packet {
            ts: timestamp(self.conn.now),
            ts_echo: self.ts_recent,
            flow: self.flow,
            route: self.route,
            seq: self.conn.snd_una,
            size: self.tcp.ack_bytes as u16,
            kind: Kind::WindowProbe,
            ..Packet::default()
        };
        self.timers.window_probes += 1;
        self.arm(Timer::Persist, self.persist_ticks());
    }

    pub(super) fn on_retransmission_timer(&mut self, out: &mut Pool) {
        match self.timers.pending {
            Timer::Off => self.timers.at = Nanos::MAX,
            Timer::Reorder => self.on_reordering_timeout(out),
            Timer::Tlp => self.send_tail_probe(out),
            Timer::Rto => self.on_rto(out),
            Timer::Persist => self.probe_window(out),
        }
    }

    fn on_reordering_timeout(&mut self, out: &mut Pool) {
        self.timers.disarm();
        let prior_in_flight = self.in_flight();
        // What is still too young waits for the next ACK or the timeout.
        self.detect_loss();
        if prior_in_flight != self.in_flight() {
            if self.conn.state != CaState::Recovery {
                self.enter_recovery(false);
                if !self.owns_window {
                    self.reduce_window(1, false);
                }
            }
            self.retransmit_lost(out);
        }
        if self.timers.pending != Timer::Rto {
            self.timers.pending = Timer::Reorder;
            self.rearm_rto();
        }
    }

    fn send_tail_probe(&mut self, out: &mut Pool) {
        self.timers.disarm();
        if self.packets_out() == 0 {
            return;
        }
        let retransmission = !self.has_new_data();
        if self.tail_probe.high_seq.is_some() && (retransmission || self.profile.eager_tail_probes) {
            // One probe per episode; the timeout counts from the head's transmission.
            self.timers.pending = Timer::Tlp;
            return self.rearm_rto();
        }
        self.counters.tail_probes += 1;
        if retransmission {
            self.probe(self.conn.snd_nxt - 1, out);
        } else {
            self.send_new(self.in_flight(), out);
            self.recovery.prr.out += u32::from(self.conn.state == CaState::Cwr);
            self.validate_window(self.in_flight() >= self.conn.cwnd);
        }
        if retransmission || self.profile.eager_tail_probes {
            self.tail_probe.retransmission = retransmission;
            self.tail_probe.high_seq = Some(self.conn.snd_nxt);
        }
        self.rearm_rto();
    }

    /// An ACK reaches the probe: did it repair a loss?
    pub(super) fn end_tail_probe(&mut self, ack: u32, work: &AckWork) {
        let Some(high) = self.tail_probe.high_seq else {
            return;
        };
        if ack < high {
            return;
        }
        let told_of_probe = if self.profile.tells_duplicates_apart { work.dsack_of_probe } else { work.dsack };
        if !self.tail_probe.retransmission || told_of_probe {
            self.tail_probe.high_seq = None;
        } else if ack > high {
            // The probe's retransmission filled a hole nobody had seen: one reduction.
            self.begin_reduction();
            self.set_state(CaState::Cwr);
            self.end_reduction();
            self.try_keep_open();
        } else if work.is_duplicate() && !work.data_sacked {
            self.tail_probe.high_seq = None;
        }
    }

    pub(super) fn on_rto(&mut self, out: &mut Pool) {
        self.timers.disarm();
        if self.packets_out() == 0 {
            return;
        }
        self.counters.rtos += 1;
        self.enter_loss();
        self.recovery.retransmits += 1;
        self.retransmit(self.conn.snd_una, out);
        self.rtt.backoff += 1;
        self.arm(Timer::Rto, self.rtt.rto_ticks());
    }
}
