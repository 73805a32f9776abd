//! The response to marks, as in Google's Linux tree (branch v3, `tcp_bbr.c`). It is off by default, as there: a route has to
//! say that marks mean a short queue (RTAX_FEATURE_ECN_LOW). The draft defines none (3.7).
//!
//! Marks outside of probes lower `inflight_lo` once per round, by a third of the average share of marked packets. Too many
//! marks end Startup, and a probe. When marks cease in a cycle without loss, the next probe begins at once and grows fast.

use super::super::super::{CaState, Conn, RateSample};
use super::super::UNIT;
use super::Bbr3;

/// A new share counts 1/16 in the average (`bbr_ecn_alpha_gain`), which begins at 1 (`bbr_ecn_alpha_init`).
const ALPHA_GAIN: u32 = UNIT / 16;
/// Of the average, what `inflight_lo` is cut by (`bbr_ecn_factor`).
const FACTOR: u32 = UNIT / 3;
/// A larger share of marked packets is too much (`bbr_ecn_thresh`).
const THRESHOLD: u32 = UNIT / 2;
/// So many rounds in a row with such a share end Startup (`bbr_full_ecn_cnt`).
const STARTUP_ROUNDS: u32 = 2;
/// The first growth of `inflight_hi` after marks have ceased, of itself (`bbr_ecn_reprobe_gain`).
const REPROBE_GAIN: u32 = UNIT / 2;

#[derive(Clone, Debug)]
pub(super) struct Marks {
    /// Packets carry ECT(1) rather than ECT(0).
    pub ect1: bool,
    /// Marks count once the minimum RTT is no longer than this (`bbr_ecn_max_rtt_us`), ...
    pub max_rtt_us: u32,
    /// ... and from then on.
    pub eligible: bool,
    /// Average share of marked packets, of 256.
    pub alpha: u32,
    /// Segments delivered and marked when it was last updated.
    updated_at: (u32, u32),
    startup_rounds: u32,
    pub in_round: bool,
    /// Marks and losses in the present probing cycle.
    pub in_cycle: bool,
    pub loss_in_cycle: bool,
}

impl Marks {
    pub fn new(ect1: bool, max_rtt_us: u32) -> Marks {
        Marks {
            ect1,
            max_rtt_us,
            eligible: false,
            alpha: UNIT,
            updated_at: (0, 0),
            startup_rounds: 0,
            in_round: false,
            in_cycle: false,
            loss_in_cycle: false,
        }
    }

    pub fn reset(&mut self) {
        (self.in_round, self.in_cycle, self.loss_in_cycle) = (false, false, false);
    }

    /// A round has ended: does it end Startup, if that is the mode (`bbr_update_ecn_alpha`)?
    fn end_round(&mut self, conn: &Conn, min_rtt_us: u32, starting: bool) -> bool {
        self.eligible |= min_rtt_us <= self.max_rtt_us;
        let delivered = u64::from(conn.delivered - self.updated_at.0);
        if !self.eligible || delivered == 0 {
            return false;
        }
        let marked = u64::from(conn.delivered_ce - self.updated_at.1);
        // Accurate ECN may report more marks than segments, of packets that came twice.
        let share = ((marked << 8) / delivered).min(UNIT.into()) as u32;
        self.alpha = (((UNIT - ALPHA_GAIN) * self.alpha) >> 8) + ((ALPHA_GAIN * share) >> 8);
        self.updated_at = (conn.delivered, conn.delivered_ce);
        if starting {
            self.startup_rounds = if share >= THRESHOLD { self.startup_rounds + 1 } else { 0 };
        }
        starting && self.startup_rounds >= STARTUP_ROUNDS
    }

    /// What marks leave of `inflight_lo`.
    pub fn cut(&self, inflight_lo: u32) -> u32 {
        let kept = UNIT - ((self.alpha * FACTOR) >> 8);
        ((u64::from(inflight_lo) * u64::from(kept)) >> 8) as u32
    }

    fn too_many(&self, rate: &RateSample) -> bool {
        let most = (u64::from(rate.delivered) * u64::from(THRESHOLD)) >> 8;
        self.eligible && rate.delivered > 0 && u64::from(rate.marked) > most
    }
}

impl<const DRAFT: bool> Bbr3<DRAFT> {
    /// An ACK, its round known.
    #[inline(always)]
    pub(super) fn note_marks(&mut self, conn: &Conn) {
        let Some(marks) = &mut self.marks else {
            return;
        };
        if self.rounds.start && marks.end_round(conn, self.min_rtt_us, !self.full_bw_reached) {
            self.queue_too_high_in_startup(conn);
        }
        if let Some(marks) = &mut self.marks {
            marks.in_round |= marks.eligible && conn.ece;
        }
    }

    /// At the end of an ACK.
    #[inline(always)]
    pub(super) fn note_cycle(&mut self, rate: &RateSample) {
        if let Some(marks) = &mut self.marks {
            marks.loss_in_cycle |= rate.lost_since > 0;
            marks.in_cycle |= rate.marked > 0;
        }
    }

    /// Does the sample of an ACK say that too much is in flight (`bbr_is_inflight_too_high`)?
    pub(super) fn is_inflight_too_high(&self, rate: &RateSample) -> bool {
        self.lost_too_much(rate.lost_since, rate.flight_then)
            || self.marks.as_ref().is_some_and(|marks| marks.too_many(rate))
    }

    /// Have the marks of a cycle without loss ceased? The power of two by which the next probe begins to grow.
    pub(super) fn marks_ceased(&self, conn: &Conn) -> Option<u32> {
        let marks = self.marks.as_ref()?;
        let ceased = marks.eligible && marks.in_cycle && !marks.loss_in_cycle && conn.state == CaState::Open;
        let growth = (u64::from(self.bounds.inflight_hi) * u64::from(REPROBE_GAIN)) >> 8;
        ceased.then(|| growth.max(1).ilog2())
    }
}
