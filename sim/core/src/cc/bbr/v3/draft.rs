//! Rules that draft-ietf-ccwg-bbr-06 has and Linux has not.

use super::super::super::{CaState, Conn, RateSample};
use super::super::{BW_SCALE, UNIT};
use super::plateau::STARTUP_LOSS_EVENTS;
use super::{Bbr3, Mode, Probing};

/// A send quantum is of at most 64 KBytes (5.6.3).
const QUANTUM_MAX_BYTES: u64 = 65_536;
/// BBR.ExtraAckedFilterLen (2.12), in rounds.
const EXTRA_ACKED_FILTER_LEN: u32 = 10;

/// BBR.offload_budget (5.5.8.1) in segments: three send quanta (5.6.3) of a millisecond, or two segments.
pub(super) fn offload_budget(conn: &Conn) -> u32 {
    let mss = u64::from(conn.mss);
    let quantum = (conn.pacing_rate / 1_000).min(QUANTUM_MAX_BYTES).max(2 * mss);
    (3 * quantum / mss) as u32
}

/// InflightAtLoss (5.5.10.2) for segments of size 1 and BBR.LossThresh `num / den`, rounded down. Where more was lost
/// before the segment than the threshold allows, the prefix is negative.
pub(super) fn in_flight_at_loss(lost: u32, in_flight: u32, num: u64, den: u64) -> u32 {
    let (num, den) = (num as i64, den as i64);
    let (before, lost_before) = (i64::from(in_flight) - 1, i64::from(lost) - 1);
    let prefix = (num * before - den * lost_before).div_euclid(den - num);
    (before + prefix).max(0) as u32
}

/// Discontiguous ranges of segments found lost in one round (5.3.1.3). A segment extends a range if it follows the one
/// found lost before it: TCP finds them lost in the order of their numbers, except those sent again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LostRanges {
    count: u32,
    end: Option<u32>,
}

impl LostRanges {
    pub fn note(&mut self, seq: u32) {
        self.count += u32::from(self.end != Some(seq));
        self.end = Some(seq + 1);
    }
}

impl<const DRAFT: bool> Bbr3<DRAFT> {
    /// UpdateACKAggregation (5.5.9): the most of this round in Startup, of ten rounds later, however much it is.
    #[inline(always)]
    pub(super) fn update_extra_acked(&mut self, conn: &Conn, rate: &RateSample, bw: u64) {
        let now = conn.now.micros();
        let interval = &mut self.aggregation;
        let mut expected = (bw.saturating_mul(now - interval.epoch_start_us)) >> BW_SCALE;
        if u64::from(interval.epoch_acked) <= expected {
            interval.begin_epoch(now);
            expected = 0;
        }
        interval.epoch_acked += rate.acked;
        let extra = (u64::from(interval.epoch_acked) - expected).min(u64::from(conn.cwnd));
        let filter_len = if self.full_bw_reached { EXTRA_ACKED_FILTER_LEN } else { 1 };
        self.extra_acked.update(filter_len - 1, self.rounds.count, extra);
    }

    /// CheckStartupHighLoss (5.3.1.3), at the end of a round with loss. The draft has no pseudo-code for it: the loss
    /// rate is that of IsInflightTooHigh, and ProbeRTT, though Startup may follow it, is not Startup.
    pub(super) fn check_startup_high_loss(&mut self, conn: &Conn, rate: &RateSample) {
        if !self.loss_round_start {
            return;
        }
        let ranges = std::mem::take(&mut self.lost_ranges).count;
        let in_recovery = conn.state == CaState::Recovery && rate.prior_delivered >= self.recovery_delivered;
        if self.mode == Mode::Startup
            && in_recovery
            && ranges >= STARTUP_LOSS_EVENTS
            && self.lost_too_much(rate.lost_since, rate.flight_then)
        {
            self.full_bw_reached = true;
            self.bounds.inflight_hi = self.bdp(conn, self.bw(), UNIT).max(self.inflight_latest);
            self.before.left = Some(Probing::Startup);
        }
    }

    /// OnEnterRTO, OnEnterFastRecovery and the end of either (5.6.4.4). The model stays as it is; what undo needs is
    /// saved when TCP asks for the threshold.
    pub(super) fn follow_state(&mut self, conn: &mut Conn, new: CaState) {
        match new {
            CaState::Loss => self.previous_state = CaState::Loss,
            CaState::Recovery => self.recovery_delivered = conn.delivered,
            _ if conn.state >= CaState::Recovery => conn.cwnd = conn.cwnd.max(self.prior_cwnd),
            _ => {}
        }
    }
}
