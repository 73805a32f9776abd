//! The recovery state machine: entering and leaving fast recovery, timeouts proven spurious, and undo.

use crate::cc::{CaState, Event};
use crate::pool::Pool;
use crate::spec::profile::LossDetection;
use crate::time::Nanos;

use super::super::timestamp;
use super::Sender;
use super::ack_work::AckWork;
use super::loss::REORDERING_DEFAULT;
use super::prr::Prr;
use super::scoreboard::EVER_RETRANS;
use super::timers::{TailProbe, Timer};

/// What may be transmitted after an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Send {
    /// New data only.
    New,
    /// Lost segments, then new data.
    Lost,
    /// F-RTO's probe: new data instead of retransmissions.
    ProbeNew,
}

/// An episode of repair: what it began with, and what may prove that it was needless.
#[derive(Clone, Debug)]
pub(super) struct Recovery {
    /// Is over when this is acknowledged.
    pub high_seq: u32,
    /// The first segment outstanding when it began; None once undone.
    pub undo_marker: Option<u32>,
    /// Retransmissions not yet proven unnecessary; negative = none made.
    pub undo_retrans: i32,
    /// The threshold before.
    pub prior_ssthresh: u32,
    pub prr: Prr,
    /// When the first retransmission left; zero without one.
    pub retrans_stamp: Nanos,
    /// F-RTO (RFC 5682) waits for a verdict on the timeout.
    pub frto: bool,
    /// Timeouts since the last progress.
    pub retransmits: u32,
    /// Duplicates the receiver has reported, ever.
    pub duplicates: u64,
}

impl Default for Recovery {
    fn default() -> Recovery {
        Recovery {
            high_seq: 0,
            undo_marker: None,
            undo_retrans: -1,
            prior_ssthresh: 0,
            prr: Prr::default(),
            retrans_stamp: Nanos::ZERO,
            frto: false,
            retransmits: 0,
            duplicates: 0,
        }
    }
}

impl Recovery {
    /// A segment was sent again, and departs at `departs`.
    pub fn note_retransmission(&mut self, departs: Nanos) {
        if self.retrans_stamp == Nanos::ZERO {
            self.retrans_stamp = departs;
        }
        self.undo_retrans = self.undo_retrans.max(0) + 1;
    }

    /// The receiver had segment `seq` already.
    pub fn note_duplicate(&mut self, seq: u32) {
        if self.undo_retrans > 0 && self.undo_marker.is_some_and(|marker| seq >= marker) {
            self.undo_retrans -= 1;
        }
    }

    /// Nothing was retransmitted, or the ACK echoes a segment sent before the first retransmission.
    fn was_merely_late(&self, echo: Nanos) -> bool {
        self.retrans_stamp == Nanos::ZERO
            || (echo != Nanos::ZERO && echo.millis() < timestamp(self.retrans_stamp).millis())
    }

    /// Was every retransmission unnecessary, or did this ACK answer an original?
    fn may_undo(&self, echo: Nanos) -> bool {
        self.undo_marker.is_some() && (self.undo_retrans == 0 || self.was_merely_late(echo))
    }

    /// From now on what is proven unnecessary may undo it: `una` is outstanding, `retransmitted` segments were sent again.
    fn begin_undo(&mut self, una: u32, retransmitted: u32) {
        self.undo_marker = Some(una);
        self.undo_retrans = if retransmitted > 0 { retransmitted as i32 } else { -1 };
    }
}

impl Sender {
    /// An ACK that is not plain progress in Open: detect loss, change state. Says what to send.
    pub(super) fn alert(&mut self, prior_una: u32, work: &mut AckWork) -> Send {
        if self.packets_out() == 0 {
            self.board.sacked_out = 0;
        }
        if work.ece {
            // The reduction is required: nothing may undo it.
            self.recovery.prior_ssthresh = 0;
        }
        let una = self.conn.snd_una;
        let counting = self.profile.loss_detection == LossDetection::RackAndCounting;
        let mut count = work.is_duplicate() || (work.data_sacked && self.sacks_reach_far());
        if self.conn.state == CaState::Open {
            self.recovery.retrans_stamp = Nanos::ZERO;
        } else if una >= self.recovery.high_seq {
            match self.conn.state {
                CaState::Cwr if una != self.recovery.high_seq => {
                    self.end_reduction();
                    self.set_state(CaState::Open);
                }
                CaState::Recovery => {
                    self.leave_recovery();
                    self.end_reduction();
                }
                _ => {}
            }
        }
        match self.conn.state {
            CaState::Recovery => {
                if work.una_advanced {
                    if self.undo_partial(prior_una, work) {
                        return Send::New;
                    }
                    count = self.sacks_reach_far();
                }
                if self.undo_by_dsack() {
                    if self.profile.undo_ends_ack {
                        self.try_keep_open();
                        return Send::New;
                    }
                    self.try_to_open(work.ece);
                }
                self.identify_loss(work);
                if self.conn.state != CaState::Recovery {
                    if !self.time_to_recover() {
                        return Send::New;
                    }
                    self.enter_recovery(work.ece);
                }
                if counting && count {
                    self.mark_by_counting(false);
                }
                return Send::Lost;
            }
            CaState::Loss => {
                let send = self.process_loss(work);
                self.identify_loss(work);
                if !(self.conn.state == CaState::Open || work.lost_retrans) {
                    return send;
                }
            }
            _ => {}
        }
        if self.conn.state <= CaState::Disorder {
            self.undo_by_dsack();
        }
        self.identify_loss(work);
        if !self.time_to_recover() {
            self.try_to_open(work.ece);
            return Send::New;
        }
        self.enter_recovery(work.ece);
        if counting && count {
            self.mark_by_counting(true);
        }
        Send::Lost
    }

    pub(super) fn set_state(&mut self, state: CaState) {
        self.cc.on_state(&mut self.conn, state);
        self.conn.state = state;
    }

    /// `ece`: the ACK that shows the loss reports a mark as well.
    pub(super) fn enter_recovery(&mut self, ece: bool) {
        self.forget_retransmissions();
        self.recovery.prior_ssthresh = 0;
        self.init_undo();
        if !matches!(self.conn.state, CaState::Cwr | CaState::Recovery) {
            if !ece {
                self.recovery.prior_ssthresh = self.conn.current_ssthresh();
            }
            self.begin_reduction();
        }
        self.set_state(CaState::Recovery);
    }

    /// A retransmission timeout: everything un-SACKed is lost, except (in newer kernels) what was sent too recently to
    /// tell.
    pub(super) fn enter_loss(&mut self) {
        let new_recovery = self.conn.state < CaState::Recovery;
        if self.profile.timeout_spares_young {
            self.mark_timed_out();
        }
        if self.conn.state <= CaState::Disorder
            || self.conn.snd_una >= self.recovery.high_seq
            || (self.conn.state == CaState::Loss && self.recovery.retransmits == 0)
        {
            self.recovery.prior_ssthresh = self.conn.current_ssthresh();
            self.conn.prior_cwnd = self.conn.cwnd;
            self.conn.ssthresh = self.cc.ssthresh(&mut self.conn);
            self.cc.on_event(&mut self.conn, Event::Loss);
            self.init_undo();
        }
        if !self.profile.timeout_spares_young {
            self.mark_timed_out();
        }
        if !self.cc.keeps_window_on_rto() {
            self.conn.cwnd = if self.profile.timeout_spares_young { self.in_flight() + 1 } else { 1 };
        }
        self.conn.cwnd_cnt = 0;
        self.window_use.since = self.conn.jiffies;
        if self.conn.state <= CaState::Disorder && self.board.sacked_out >= self.rack.reordering {
            self.rack.reordering = self.rack.reordering.min(REORDERING_DEFAULT);
        }
        self.set_state(CaState::Loss);
        self.recovery.high_seq = self.conn.snd_nxt;
        self.tail_probe.high_seq = None;
        self.ecn.queue_cwr();
        // F-RTO (RFC 5682) is pointless if earlier retransmissions of this episode are still unaccounted for.
        self.recovery.frto = new_recovery || self.recovery.retransmits > 0;
    }

    /// Send lost segments, lowest first, as far as the window goes.
    pub(super) fn retransmit_lost(&mut self, out: &mut Pool) {
        let mut rearm = false;
        let mut seq = self.board.retransmit_hint.max(self.conn.snd_una);
        while seq < self.conn.snd_nxt && self.board.retrans_out < self.board.lost_out {
            if self.in_flight() >= self.conn.cwnd || self.pacer.holds(&self.conn, true) {
                break;
            }
            if self.board.needs_retransmission(seq) {
                self.retransmit(seq, out);
                if matches!(self.conn.state, CaState::Cwr | CaState::Recovery) {
                    self.recovery.prr.out += 1;
                }
                rearm |= seq == self.conn.snd_una && self.timers.pending != Timer::Reorder;
            }
            seq += 1;
        }
        self.board.retransmit_hint = seq;
        if rearm {
            self.arm(Timer::Rto, self.rtt.rto_ticks());
        }
    }

    pub(super) fn try_keep_open(&mut self) {
        let state = if self.board.sacked_out + self.board.lost_out > 0 || self.any_retransmission_done() {
            CaState::Disorder
        } else {
            CaState::Open
        };
        if self.conn.state != state {
            self.set_state(state);
            self.recovery.high_seq = self.conn.snd_nxt;
        }
    }

    /// Without a retransmission in the network, the next one is the first.
    fn forget_retransmissions(&mut self) {
        if !self.any_retransmission_done() {
            self.recovery.retrans_stamp = Nanos::ZERO;
        }
    }

    fn try_to_open(&mut self, ece: bool) {
        self.forget_retransmissions();
        if ece {
            self.enter_cwr();
        }
        if self.conn.state != CaState::Cwr {
            self.try_keep_open();
        }
    }

    fn any_retransmission_done(&self) -> bool {
        self.board.retrans_out > 0 || (self.packets_out() > 0 && self.board.get(self.conn.snd_una).has(EVER_RETRANS))
    }

    fn init_undo(&mut self) {
        let TailProbe { high_seq, retransmission } = self.tail_probe;
        let probing = self.profile.eager_tail_probes && high_seq.is_some() && retransmission;
        self.recovery.begin_undo(self.conn.snd_una, self.board.retrans_out + u32::from(probing));
    }

    fn leave_recovery(&mut self) {
        if self.recovery.may_undo(self.ack_echo) {
            self.undo_reduction(false);
        } else {
            self.rack.window_persist = self.rack.window_persist.saturating_sub(1);
        }
        self.set_state(CaState::Open);
    }

    fn undo_partial(&mut self, prior_una: u32, work: &AckWork) -> bool {
        if self.recovery.undo_marker.is_none() || !self.recovery.was_merely_late(work.ts_echo) {
            return false;
        }
        self.check_reordering(prior_una);
        if self.board.retrans_out > 0 {
            return true;
        }
        self.forget_retransmissions();
        self.undo_reduction(true);
        self.try_keep_open();
        self.profile.undo_ends_ack
    }

    fn undo_by_dsack(&mut self) -> bool {
        if self.recovery.undo_marker.is_none() || self.recovery.undo_retrans != 0 {
            return false;
        }
        self.rack.window_persist = 16.min(self.rack.window_persist + 1);
        self.undo_reduction(false);
        true
    }

    fn undo_loss(&mut self, by_frto: bool, work: &AckWork) -> bool {
        if !by_frto && !self.recovery.may_undo(work.ts_echo) {
            return false;
        }
        self.undo_reduction(true);
        if by_frto {
            self.counters.spurious_rtos += 1;
        }
        self.recovery.retransmits = 0;
        self.set_state(CaState::Open);
        true
    }

    fn undo_reduction(&mut self, unmark: bool) {
        if unmark {
            let (una, nxt) = (self.conn.snd_una, self.conn.snd_nxt);
            if self.watches_losses {
                for seq in una..nxt {
                    let packet = self.transmission(seq);
                    if packet.was_lost {
                        self.cc.on_packet_spared(&mut self.conn, &packet);
                    }
                }
            }
            self.board.unmark_lost(una, nxt);
            self.rack.look_from(una);
        }
        if self.recovery.prior_ssthresh > 0 {
            self.conn.cwnd = self.cc.undo(&mut self.conn);
            if self.recovery.prior_ssthresh > self.conn.ssthresh {
                self.conn.ssthresh = self.recovery.prior_ssthresh;
                self.ecn.withdraw_cwr();
            }
        }
        self.window_use.since = self.conn.jiffies;
        self.recovery.undo_marker = None;
        // Look at every outstanding segment again.
        self.rack.advanced = true;
    }

    /// In Loss: is the timeout spurious, genuine, or over?
    fn process_loss(&mut self, work: &AckWork) -> Send {
        let recovered = self.conn.snd_una >= self.recovery.high_seq;
        if work.una_advanced && self.undo_loss(false, work) {
            return Send::New;
        }
        let provable =
            self.recovery.frto || (self.profile.originals_undo_timeout && self.recovery.undo_marker.is_some());
        if provable && work.original_delivered && self.undo_loss(true, work) {
            return Send::New;
        }
        if self.recovery.frto {
            if self.conn.snd_nxt > self.recovery.high_seq {
                let tells = self.profile.tells_duplicates_apart;
                if work.data_sacked || (work.is_duplicate() && !(work.dsack && tells)) {
                    self.recovery.frto = false;
                }
            } else if work.una_advanced && !recovered {
                self.recovery.high_seq = self.conn.snd_nxt;
                if self.has_new_data() {
                    return Send::ProbeNew;
                }
                self.recovery.frto = false;
            }
        }
        if recovered {
            self.leave_recovery();
            return Send::New;
        }
        Send::Lost
    }
}
