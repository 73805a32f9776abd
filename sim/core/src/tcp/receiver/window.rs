//! The receive window: how much is offered, its slow start, and the buffer's autotuning (tcp_select_window, tcp_grow_window,
//! tcp_rcv_space_adjust).

use crate::spec::profile::{Autotuning, WindowShare};
use crate::time::Nanos;

use super::super::timestamp;
use super::Receiver;

/// The largest buffer has to fit into a window field, as Linux counts it, and the most it may be scaled by.
const WINDOW_BITS: u32 = 15;
const MAX_SCALE: u32 = 14;
/// Largest window a header can hold, before scaling.
pub(super) const WINDOW_FIELD_MAX: u64 = 65_535;

/// Half of the buffer is offered as window (tcp_adv_win_scale = 1).
pub const fn window_of(space: u64) -> u64 {
    space - (space >> 1)
}

/// The part of the buffer that is offered as window: so many 256ths (TCP_RMEM_TO_WIN_SCALE), and 256ths of a byte that are
/// added before rounding down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    part: u64,
    rounding: u64,
}

impl Share {
    /// At first, and once segments with `mss` bytes in `truesize` of memory have come (tcp_measure_rcv_mss).
    pub fn of(rule: WindowShare, mss: u64, truesize: u64) -> (Share, Share) {
        let rounded_down = |part| Share { part, rounding: 0 };
        match rule {
            WindowShare::Half => (Share { part: 128, rounding: 128 }, Share { part: 128, rounding: 128 }),
            WindowShare::Measured => (rounded_down(128), rounded_down(((mss << 8) / truesize).max(1))),
        }
    }

    pub const fn window_of(self, space: u64) -> u64 {
        (space * self.part + self.rounding) >> 8
    }
}

/// Buffer memory per segment that autotuning budgets: the smallest step of 128 whose window holds a segment.
pub(super) fn memory_per_segment(mss: u64, truesize: u64) -> u64 {
    let mut memory = truesize;
    while window_of(memory) < mss {
        memory += 128;
    }
    memory
}

impl Receiver {
    /// Bytes of the stream in order; whole segments, since the window is counted in them.
    pub(super) fn stream_bytes(&self) -> u64 {
        u64::from(self.rcv_nxt) * self.mss
    }

    pub(super) fn space(&self) -> u64 {
        self.share.window_of(
            self.rcvbuf.saturating_sub((u64::from(self.out_of_order_segments) + self.unread) * self.truesize),
        )
    }

    /// The window that could be offered now.
    pub(super) fn free_window(&mut self) -> u64 {
        let full = self.share.window_of(self.rcvbuf);
        let mut space = self.space();
        if space < self.window_clamp.min(full) >> 1 {
            self.quick = 0;
            space &= !(self.unit - 1);
            // Close the window in time rather than drop what arrives.
            if space < full >> 4 || space < self.mss {
                return 0;
            }
        }
        self.whole_units(space.min(self.rcv_ssthresh))
    }

    /// Rounded up, so that scaling takes nothing away.
    pub(super) fn whole_units(&self, window: u64) -> u64 {
        (window + self.unit - 1) & !(self.unit - 1)
    }

    /// The window's slow start: two segments per arriving segment, without their timestamps (`tp->advmss` has lost
    /// them when the connection is established), each growth asking for a quick ACK.
    #[inline(always)]
    pub(super) fn grow_window(&mut self) {
        if self.rcv_ssthresh < self.growth_limit {
            self.grow_window_below_limit();
        }
    }

    #[inline(never)]
    fn grow_window_below_limit(&mut self) {
        if self.share != self.measured_share {
            self.take_measured_share();
            if self.rcv_ssthresh >= self.growth_limit {
                return;
            }
        }
        let room = self.window_clamp.min(self.space()).saturating_sub(self.rcv_ssthresh);
        if room > 0 {
            self.rcv_ssthresh += room.min(2 * self.mss);
            self.quick |= 1;
        }
    }

    /// The largest window that its slow start reaches: growth is decided on with the segment in hand unread. There is no
    /// limit before the share has been measured, which the first growth does.
    pub(super) fn limit_growth(&mut self) {
        let most = self.share.window_of(self.rcvbuf.saturating_sub(self.truesize));
        self.growth_limit = if self.share == self.measured_share { self.window_clamp.min(most) } else { u64::MAX };
    }

    /// Data have come; the window's limit goes with the share (tcp_measure_rcv_mss, tcp_set_window_clamp).
    #[cold]
    pub(super) fn take_measured_share(&mut self) {
        self.share = self.measured_share;
        self.window_clamp = self.share.window_of(self.rcvbuf).min(WINDOW_FIELD_MAX * self.unit);
        self.rcv_ssthresh = self.rcv_ssthresh.min(self.window_clamp);
        self.measure_space = self.measure_space.min(self.window_clamp);
        self.limit_growth();
    }

    #[inline(always)]
    pub(super) fn measure_rtt(&mut self, now: Nanos, echo: Nanos) {
        if (echo == self.rtt_echo && self.profile.rtt_once_per_echo) || echo == Nanos::ZERO {
            return;
        }
        self.rtt_echo = echo;
        let sample = (timestamp(now).millis() - echo.millis()).max(1) * 1_000;
        self.rtt8_us = if self.rtt8_us == 0 { sample * 8 } else { self.rtt8_us - self.rtt8_us / 8 + sample };
    }

    /// Dynamic right-sizing: once per RTT, offer room for twice what arrived, and more while that grows.
    #[inline(always)]
    pub(super) fn autotune(&mut self, now: Nanos) {
        // Asked for at every segment: multiplied, not divided.
        if self.rtt8_us == 0 || (now - self.measure_since).0 < 1_000 * (self.rtt8_us >> 3) {
            return;
        }
        let copied = u64::from(self.rcv_nxt - self.measure_start) * self.mss;
        if copied > self.measure_space {
            if self.moderate {
                let rule = self.profile.autotuning;
                let window = autotuned_window(rule, copied, self.measure_space, self.mss);
                let memory = match self.profile.window_share {
                    WindowShare::Half => window / self.mss * self.memory_per_segment,
                    WindowShare::Measured => (window << 8) / self.share.part,
                };
                let rcvbuf = memory.min(self.rmem_max);
                if rcvbuf > self.rcvbuf {
                    self.rcvbuf = rcvbuf;
                    let clamp = match rule {
                        Autotuning::Steps => window,
                        Autotuning::Proportional => self.share.window_of(rcvbuf),
                    };
                    self.window_clamp = clamp.min(WINDOW_FIELD_MAX * self.unit);
                    self.limit_growth();
                }
            }
            self.measure_space = copied;
        }
        self.measure_start = self.rcv_nxt;
        self.measure_since = now;
    }
}

/// Window for `copied` bytes per RTT after `space` in the RTT before (Linux's tcp_rcv_space_adjust).
pub(super) fn autotuned_window(rule: Autotuning, copied: u64, space: u64, mss: u64) -> u64 {
    let window = 2 * copied + 16 * mss;
    match rule {
        Autotuning::Steps if copied >= space + (space >> 1) => 2 * window,
        Autotuning::Steps if copied >= space + (space >> 2) => window + (window >> 1),
        Autotuning::Steps => window,
        Autotuning::Proportional => window + 2 * (window * (copied - space) / space),
    }
}

/// Shift that makes `most` bytes fit the window field.
pub(super) fn window_scale(most: u64) -> u32 {
    most.ilog2().saturating_sub(WINDOW_BITS).min(MAX_SCALE)
}

/// Segments first offered: as many bytes as with an Ethernet's, but two segments.
pub(super) fn initial_segments(segments: u64, mss: u64) -> u64 {
    if mss > 1460 { (1460 * segments / mss).max(2) } else { segments }
}
