//! What loss has taught: how much may be in flight, how fast (draft, 5.5.10).

use super::super::super::{CaState, Conn, Transmission};
use super::probe::Phase;
use super::{Bbr3, CWND_MIN, Probing, Share, draft};

#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Since the last probe; infinite (all ones) without loss.
    pub bw_lo: u64,
    pub inflight_lo: u32,
    /// What probing found to be too much, or infinite.
    pub inflight_hi: u32,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { bw_lo: u64::MAX, inflight_lo: u32::MAX, inflight_hi: u32::MAX }
    }
}

impl Bounds {
    pub fn reset_lower(&mut self) {
        self.bw_lo = u64::MAX;
        self.inflight_lo = u32::MAX;
    }

    /// A round with loss: down to `cut`, but not below what this round has delivered.
    pub fn lower(&mut self, max_bw: u64, cwnd: u32, bw_latest: u64, inflight_latest: u32, cut: Share) {
        if self.bw_lo == u64::MAX {
            self.bw_lo = max_bw;
        }
        if self.inflight_lo == u32::MAX {
            self.inflight_lo = cwnd;
        }
        self.bw_lo = bw_latest.max(cut.of(self.bw_lo));
        self.inflight_lo = inflight_latest.max(cut.of(u64::from(self.inflight_lo)) as u32);
    }

    /// A little less than `inflight_hi`, to leave room for others.
    pub fn with_headroom(&self, headroom: Share) -> u32 {
        if self.inflight_hi == u32::MAX {
            return u32::MAX;
        }
        let free = (headroom.of(u64::from(self.inflight_hi)) as u32).max(1);
        self.inflight_hi.saturating_sub(free).max(CWND_MIN)
    }

    /// So much in flight did no harm (infinite bounds stay).
    pub fn note_safe(&mut self, in_flight: u32) {
        self.inflight_hi = self.inflight_hi.max(in_flight);
    }

    pub fn raise_to(&mut self, other: &Bounds) {
        self.bw_lo = self.bw_lo.max(other.bw_lo);
        self.inflight_lo = self.inflight_lo.max(other.inflight_lo);
        self.inflight_hi = self.inflight_hi.max(other.inflight_hi);
    }
}

impl<const DRAFT: bool> Bbr3<DRAFT> {
    /// A round that did not probe has ended.
    pub(super) fn adapt_lower_bounds(&mut self, conn: &Conn) {
        if self.loss_in_round {
            let (max_bw, cut) = (self.max_bw(), Self::RULES.cut);
            self.bounds.lower(max_bw, conn.cwnd, self.bw_latest, self.inflight_latest, cut);
        }
    }

    pub(super) fn lost_too_much(&self, lost: u32, in_flight: u32) -> bool {
        lost > 0 && in_flight > 0 && u64::from(lost) > Self::RULES.loss_threshold.of(u64::from(in_flight))
    }

    /// A packet was found lost: in a probe the first one too many bounds what may be in flight.
    pub(super) fn note_loss(&mut self, conn: &mut Conn, packet: &Transmission) {
        if !self.loss_in_round {
            // Observe the full round of the loss.
            self.loss_round_delivered = conn.delivered;
        }
        if DRAFT && conn.state < CaState::Recovery && !self.before.fresh {
            // The recovery that begins with this loss is too late to tell what the loss itself will change.
            self.save_before();
            self.before.fresh = true;
        }
        self.loss_in_round = true;
        if DRAFT {
            self.lost_ranges.note(packet.seq);
        }
        if !self.probe.samples {
            return;
        }
        let lost = conn.lost - packet.lost;
        if self.lost_too_much(lost, packet.in_flight) {
            let crossed = self.in_flight_at_threshold(lost, packet.in_flight);
            self.in_flight_too_high(conn, crossed, packet.app_limited);
        }
    }

    /// How much was in flight when losses reached the threshold, somewhere in the lost packet's own flight.
    fn in_flight_at_threshold(&self, lost: u32, in_flight: u32) -> u32 {
        let Share(num, den) = Self::RULES.loss_threshold;
        if DRAFT {
            return draft::in_flight_at_loss(lost, in_flight, num, den);
        }
        let (before, lost_before) = (u64::from(in_flight - 1), u64::from(lost - 1));
        let budget = (before * num).div_ceil(den);
        let prefix = budget.saturating_sub(lost_before) * den / (den - num);
        (before + prefix) as u32
    }

    pub(super) fn in_flight_too_high(&mut self, conn: &mut Conn, in_flight: u32, app_limited: bool) {
        self.probe.previous_too_high = true;
        // React once per probe.
        self.probe.samples = false;
        if !app_limited {
            let kept = Self::RULES.cut.of(u64::from(self.target_inflight(conn))) as u32;
            self.bounds.inflight_hi = in_flight.max(kept);
        }
        if self.in_phase(Phase::Up) {
            self.before.left = Some(Probing::Up);
            self.start_down(conn);
        }
    }
}
