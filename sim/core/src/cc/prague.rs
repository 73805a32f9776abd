//! TCP Prague as in the L4S team's Linux (`tcp_prague.c`, version 0.7; draft-briscoe-iccrg-prague-congestion-control): DCTCP
//! for the Internet. Packets carry ECT(1), the receiver counts marks (AccECN), and windows are fractional: growth counts
//! unmarked ACKs only, and below an RTT of 25 ms flows grow and yield as if they had that RTT. Windows of up to four
//! packets are governed by a rate, which is 3 % higher in the first half of a round trip than in the second.
//!
//! `fallback` is version 0.6's detection of queues that mark as RFC 3168 says (its module option `prague_ecn_fallback`, which
//! is off by default there, too). Packets are not made smaller below 1 Mbit/s. Prague is written for the `fq` queue, where
//! paced packets wait below TCP: a window is in full use unless the application is the limit.

use super::{CaState, Conn, Controller, EcnUse, Event, Params, RateSample};
use crate::time::Nanos;

const ALPHA_BITS: u32 = 24;
const MAX_ALPHA: u64 = 1 << ALPHA_BITS;
/// A new share counts 1/2^4 in the average.
const SHIFT_G: u32 = 4;
/// Windows count in 1/2^20 of a packet.
const CWND_UNIT: u32 = 20;
const ONE_CWND: u64 = 1 << CWND_UNIT;
const MIN_CWND: u32 = 2;
/// 100 kbit/s, in bytes per second.
const MIN_RATE: u64 = 12_500;
/// Rounds after slow start from which on the RTT does not matter.
const TRANSITION: u32 = 4;
/// The virtual RTT; longer than the limit, growth is not scaled. In 1/8 µs, as smoothed RTTs.
const TARGET_US: u64 = 25_000;
const TARGET: u64 = TARGET_US << 3;
const MAX_SCALED_RTT: u64 = 100_000 << 3;
const MTU: u64 = 1500;
/// IP and TCP with timestamps.
const HEADERS: u64 = 52;
/// The rate varies by 4/2^7.
const RATE_OFFSET: u64 = 4;
const OFFSET_SHIFT: u32 = 7;
/// Gain of the slow RTT average.
const HSRTT_SHIFT: u32 = 7;
/// 1/8 µs to seconds, nearly.
const RTT2SEC_SHIFT: u32 = 23;
/// Windows up to so many packets are governed by the rate.
const TRANSIT_PACKETS: u64 = 4;

pub const PARAMS: &[(&str, &str)] = &[("fallback", "\"off\"")];

pub fn build(params: &Params) -> Result<Box<dyn Controller>, String> {
    let fallback = params.text("fallback", "off", &["on", "off"])? == "on";
    Ok(Box::new(Prague { classic: fallback.then(Classic::default), ..Prague::default() }))
}

#[derive(Clone, Debug, Default)]
pub struct Prague {
    /// Average share of marked packets, times 2^(24 + 4).
    upscaled_alpha: u64,
    alpha_at: Nanos,
    reduced_at: Option<Nanos>,
    /// The window, and bytes per second on the wire.
    frac_cwnd: u64,
    rate: u64,
    rate_governs: bool,
    /// Growth per unmarked ACK and window.
    increase: u64,
    /// Smoothed RTT of many rounds, times 2^7, in 1/8 µs.
    hsrtt: u64,
    saw_ce: bool,
    in_loss: bool,
    loss_cwnd: u32,
    loss_rate: u64,
    /// The round ends when this is acknowledged; counts at its start, and of the last ACK.
    round_end: u32,
    delivered: u32,
    delivered_ce: u32,
    seen_ce: u32,
    /// Rounds since slow start.
    round: u32,
    classic: Option<Classic>,
}

fn scaled(value: u64, factor: u64, shift: u32) -> u64 {
    ((u128::from(value) * u128::from(factor)) >> shift) as u64
}

fn nearest(value: u64, divisor: u64) -> u64 {
    (value + (divisor >> 1)) / divisor
}

fn mtu(conn: &Conn) -> u64 {
    u64::from(conn.mss) + HEADERS
}

impl Prague {
    fn is_rtt_independent(&self, conn: &Conn) -> bool {
        !conn.in_slow_start() && self.round >= TRANSITION
    }

    fn rate_governs(&self, conn: &Conn) -> bool {
        self.rate_governs && self.is_rtt_independent(conn)
    }

    fn window(&self, conn: &Conn) -> u32 {
        (self.frac_cwnd.div_ceil(ONE_CWND) as u32).max(MIN_CWND).min(conn.cwnd_clamp)
    }

    fn rate_to_frac(&self, conn: &Conn) -> u64 {
        let slow = self.hsrtt >> HSRTT_SHIFT;
        let rtt = if slow > 0 { slow } else { conn.srtt8_us.into() };
        scaled(self.rate, rtt, RTT2SEC_SHIFT - CWND_UNIT).div_ceil(mtu(conn))
    }

    fn packets_per_s_times_mtu(conn: &Conn) -> u64 {
        let rate = 8_000_000 * mtu(conn);
        if conn.srtt8_us > 0 { rate / u64::from(conn.srtt8_us) } else { rate }
    }

    fn frac_to_rate(&self, conn: &Conn) -> u64 {
        scaled(Prague::packets_per_s_times_mtu(conn), self.frac_cwnd, CWND_UNIT).max(MIN_RATE)
    }

    /// One packet per window and round; below the target RTT as much less as makes a packet per target RTT and equal rates.
    fn update_increase(&mut self, conn: &Conn) {
        let rtt = u64::from(conn.srtt8_us);
        let scales = self.round >= TRANSITION && 0 < rtt && rtt < TARGET.min(MAX_SCALED_RTT);
        self.increase = if scales { nearest((rtt << CWND_UNIT) * rtt, TARGET * TARGET) } else { ONE_CWND };
    }

    fn begin_round(&mut self, conn: &Conn) {
        (self.round_end, self.delivered, self.delivered_ce) = (conn.snd_nxt, conn.delivered, conn.delivered_ce);
        if !conn.in_slow_start() {
            self.round = self.round.checked_add(1).unwrap_or(TRANSITION);
        }
        self.update_increase(conn);
    }

    fn round_is_over(&self, conn: &Conn) -> bool {
        let elapsed = conn.now.saturating_sub(self.alpha_at);
        conn.snd_una >= self.round_end && (!self.is_rtt_independent(conn) || elapsed >= Nanos::from_micros(TARGET_US))
    }

    fn update_alpha(&mut self, conn: &Conn) {
        if self.saw_ce {
            if let Some(classic) = &mut self.classic {
                classic.detect(conn);
            }
            let marked = u64::from(conn.delivered_ce - self.delivered_ce) << ALPHA_BITS;
            let share = marked / u64::from(conn.delivered - self.delivered).max(1);
            let alpha = self.upscaled_alpha - (self.upscaled_alpha >> SHIFT_G) + share;
            self.upscaled_alpha = alpha.min(MAX_ALPHA << SHIFT_G);
            self.alpha_at = conn.now;
        }
        self.hsrtt = self.hsrtt + u64::from(conn.srtt8_us) - (self.hsrtt >> HSRTT_SHIFT);
        self.begin_round(conn);
    }

    /// Grow the fractional window; slow start also the whole one, and returns true if it takes all.
    fn grow(&mut self, conn: &mut Conn, acked: u32, marked: u32) -> bool {
        if marked > 0 && !self.saw_ce {
            self.frac_cwnd = (self.frac_cwnd + 1) >> 1;
            self.saw_ce = true;
        }
        let mut unmarked = acked.saturating_sub(marked);
        if unmarked == 0 || self.in_loss || conn.app_limited > 0 {
            return false;
        }
        if conn.in_slow_start() {
            unmarked = conn.slow_start(unmarked);
            self.frac_cwnd = u64::from(conn.cwnd) << CWND_UNIT;
            if unmarked == 0 {
                self.update_increase(conn);
                return true;
            }
        }
        let (unmarked, mtu) = (u64::from(unmarked), mtu(conn));
        if self.rate_governs(conn) {
            let virtual_rtt = TARGET.max(conn.srtt8_us.into());
            let increase = ((unmarked * MTU) << RTT2SEC_SHIFT) / virtual_rtt;
            let bytes = u128::from(self.rate) * u128::from(virtual_rtt);
            let window = bytes.div_ceil(u128::from(mtu << RTT2SEC_SHIFT)) as u64;
            if window > 0 {
                self.rate += nearest(increase, window);
            }
            self.frac_cwnd = (self.frac_cwnd + unmarked).max(self.rate_to_frac(conn));
        } else {
            let mut increase = unmarked * self.increase;
            if self.frac_cwnd > 0 {
                increase = nearest(increase << CWND_UNIT, self.frac_cwnd);
            }
            self.frac_cwnd += unmarked.max(increase * MTU / mtu);
            self.rate = (self.rate + unmarked).max(self.frac_to_rate(conn));
        }
        false
    }

    /// The whole window follows the fractional one by one packet per ACK.
    fn follow(&mut self, conn: &mut Conn) {
        let window = self.window(conn);
        if conn.cwnd > window {
            conn.cwnd -= 1;
            conn.ssthresh = conn.cwnd;
            self.update_increase(conn);
        } else if conn.cwnd < window {
            conn.cwnd += 1;
            self.update_increase(conn);
        }
    }

    fn pace(&mut self, conn: &mut Conn) {
        let mut rate = if self.rate_governs(conn) {
            let offset = scaled(RATE_OFFSET, self.rate, OFFSET_SHIFT);
            let half = TARGET.max(conn.srtt8_us.into()) >> 4;
            let late = conn.now.saturating_sub(self.alpha_at) >= Nanos::from_micros(half);
            if late { self.rate - offset } else { self.rate + offset }
        } else {
            let packets = (self.frac_cwnd >> CWND_UNIT).max(conn.in_flight.into());
            self.rate = (Prague::packets_per_s_times_mtu(conn) * packets).max(MIN_RATE);
            self.rate
        };
        if conn.cwnd < conn.ssthresh / 2 {
            rate <<= 1;
        }
        conn.pacing_rate = rate * u64::from(conn.mss) / mtu(conn);
    }

    fn react_to_loss(&mut self, conn: &Conn) {
        (self.loss_cwnd, self.loss_rate) = (conn.cwnd, self.rate);
        if self.rate_governs(conn) {
            self.rate -= self.rate >> 1;
            self.frac_cwnd = self.rate_to_frac(conn);
        } else {
            self.frac_cwnd -= self.frac_cwnd >> 1;
            self.rate = self.frac_to_rate(conn);
        }
        self.in_loss = true;
    }

    fn react_to_marks(&mut self, conn: &Conn) {
        let lately = |at: Nanos| conn.now.saturating_sub(at) < Nanos::from_micros(TARGET_US);
        if self.is_rtt_independent(conn) && self.reduced_at.is_some_and(lately) {
            return;
        }
        self.reduced_at = Some(conn.now);
        let mut alpha = self.upscaled_alpha >> SHIFT_G;
        if let Some(classic) = &self.classic {
            alpha = alpha.max(classic.share());
        }
        if self.rate_governs(conn) {
            self.rate = (self.rate - scaled(self.rate, alpha, ALPHA_BITS + 1)).max(MIN_RATE);
            self.frac_cwnd = self.rate_to_frac(conn);
        } else {
            // After a fractional window of nearly 0, one of a million packets is possible: more than 64 bits.
            let reduced = u128::from(alpha) * u128::from(self.frac_cwnd) + u128::from(MAX_ALPHA);
            self.frac_cwnd -= (reduced >> (ALPHA_BITS + 1)) as u64;
            self.rate = self.frac_to_rate(conn);
        }
    }
}

impl Controller for Prague {
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn ecn_use(&self) -> EcnUse {
        EcnUse::Accurate
    }

    fn init(&mut self, conn: &mut Conn) {
        self.alpha_at = conn.now;
        self.frac_cwnd = u64::from(conn.cwnd) << CWND_UNIT;
        self.hsrtt = u64::from(conn.srtt8_us.max(8)) << HSRTT_SHIFT;
        if let Some(classic) = &mut self.classic {
            classic.begin(conn);
        }
        self.pace(conn);
        self.begin_round(conn);
    }

    fn on_delivered(&mut self, _conn: &mut Conn, _delivered: u32, rtt_us: Option<u32>) {
        if let (Some(classic), Some(rtt)) = (&mut self.classic, rtt_us) {
            classic.on_rtt(rtt);
        }
    }

    fn cong_avoid(&mut self, _conn: &mut Conn, _acked: u32) {}

    fn ssthresh(&mut self, conn: &mut Conn) -> u32 {
        if let Some(classic) = &mut self.classic {
            classic.rescale(conn.ssthresh);
        }
        conn.ssthresh
    }

    fn owns_window(&self) -> bool {
        true
    }

    fn control(&mut self, conn: &mut Conn, rate: &RateSample) {
        let marked = conn.delivered_ce - std::mem::replace(&mut self.seen_ce, conn.delivered_ce);
        if !self.grow(conn, rate.acked, marked) {
            self.follow(conn);
        }
        if self.round_is_over(conn) {
            self.update_alpha(conn);
        }
        self.pace(conn);
        let small = u64::from(conn.cwnd) * mtu(conn) <= TRANSIT_PACKETS * MTU;
        self.rate_governs = self.saw_ce && small;
        if self.rate_governs {
            self.frac_cwnd = self.rate_to_frac(conn);
        } else {
            self.rate = self.frac_to_rate(conn);
        }
    }

    fn paces(&self) -> bool {
        true
    }

    fn on_state(&mut self, conn: &mut Conn, new: CaState) {
        if new == conn.state {
            return;
        }
        match new {
            CaState::Recovery => self.react_to_loss(conn),
            CaState::Cwr => self.react_to_marks(conn),
            CaState::Open => self.in_loss = false,
            CaState::Disorder | CaState::Loss => {}
        }
    }

    fn on_event(&mut self, conn: &mut Conn, event: Event) {
        if event == Event::Loss {
            self.react_to_loss(conn);
        }
    }

    fn undo(&mut self, conn: &mut Conn) -> u32 {
        self.in_loss = false;
        self.rate = self.rate.max(self.loss_rate);
        self.frac_cwnd = self.rate_to_frac(conn);
        self.loss_cwnd.max(conn.cwnd)
    }
}

/// The score of version 0.6 that tells whether the bottleneck marks as RFC 3168 says: it rises with the deviation of the RTT
/// above 750 µs and with queues above 2 ms, and counts in 2^20.
#[derive(Clone, Debug, Default)]
struct Classic {
    score: i64,
    /// Smoothed RTT times 2^shift and deviation times 2^(shift + 1), µs.
    srtt: u64,
    deviation: u64,
    shift: u32,
    /// What logarithms in whole numbers leave over.
    rest_depth: u64,
    rest_deviation: u64,
}

impl Classic {
    const BITS: u32 = 20;
    const MAX_SHIFT: u32 = 18;
    const CARRY: u64 = 741_455;
    const ADJUSTMENT: u64 = 262_144;
    const SURELY_L4S: i64 = 16 << (Classic::BITS - 1);
    const SURELY_CLASSIC: i64 = Classic::SURELY_L4S + (1 << Classic::BITS);
    const MAX: i64 = Classic::SURELY_CLASSIC + Classic::SURELY_L4S;
    /// Half of the binary logarithms of 750 µs and of 2 ms, nearly.
    const DEVIATION: i64 = 10_014_683 >> 1;
    const DEPTH: i64 = 11_498_458 >> 1;

    fn begin(&mut self, conn: &Conn) {
        self.shift = Classic::MAX_SHIFT;
        self.srtt = u64::from(conn.srtt8_us >> 3) << self.shift;
        self.deviation = 1 << (self.shift + 1);
        (self.rest_deviation, self.rest_depth) = (Classic::CARRY, Classic::CARRY >> 1);
    }

    fn on_rtt(&mut self, rtt_us: u32) {
        if self.srtt == 0 {
            (self.srtt, self.deviation) = (u64::from(rtt_us) << self.shift, 1 << (self.shift + 1));
            return;
        }
        let error = i64::from(rtt_us) - (self.srtt >> self.shift) as i64;
        self.srtt = self.srtt.saturating_add_signed(error).max(1);
        let away = error.abs() - (self.deviation >> (self.shift + 1)) as i64;
        self.deviation = self.deviation.saturating_add_signed(away);
    }

    /// Averages over more RTTs with larger windows.
    fn rescale(&mut self, ssthresh: u32) {
        let log = ssthresh.max(1).ilog2();
        let shift = (log + (log >> 1) + 1).min(Classic::MAX_SHIFT);
        for value in [&mut self.srtt, &mut self.deviation, &mut self.rest_depth, &mut self.rest_deviation] {
            *value = if shift > self.shift { *value << (shift - self.shift) } else { *value >> (self.shift - shift) };
        }
        self.shift = shift;
    }

    /// Whole part of log2(value x rest / 2^shift), at least 0; what is left over goes to the next.
    fn log(value: u64, rest: &mut u64, shift: u32, adjustment: u64) -> i64 {
        let product = (value * *rest + adjustment).max(1);
        let log = product.ilog2().max(shift) - shift;
        *rest = product >> log;
        i64::from(log) << (Classic::BITS - 1)
    }

    fn detect(&mut self, conn: &Conn) {
        let (srtt, deviation) = (self.srtt >> self.shift, self.deviation >> (self.shift + 1));
        if srtt == 0 || conn.min_rtt_us == u32::MAX {
            return;
        }
        let adjustment = Classic::ADJUSTMENT >> (Classic::MAX_SHIFT - self.shift);
        let mut score = self.score - Classic::DEVIATION;
        score += Classic::log(deviation, &mut self.rest_deviation, self.shift + 1, adjustment);
        let min = u64::from(conn.min_rtt_us);
        if srtt > min {
            let depth = Classic::log(srtt - min, &mut self.rest_depth, self.shift, adjustment >> 1);
            score += (depth - Classic::DEPTH).max(0);
        }
        self.score = score.clamp(0, Classic::MAX);
    }

    /// The least share by which to reduce, as `alpha`: 0.6 where the queue is surely classic.
    fn share(&self) -> u64 {
        let above = (self.score.min(Classic::SURELY_CLASSIC) - Classic::SURELY_L4S).max(0) as u64;
        ((above >> 1) + (above >> 3)) << (ALPHA_BITS - Classic::BITS)
    }
}

#[cfg(test)]
mod tests;
