//! C4, Christian's Congestion Control Code (draft-huitema-ccwg-c4-spec-04 of July 2026, "spec" below, and the reference
//! implementation: `picoquic/c4.c` of 7 July 2026).
//!
//! Two estimates drive it. The nominal rate is the largest delivery rate measured, reduced by congestion alone. The
//! nominal max RTT is the longest RTT that the path shows without a queue of ours: its latency and its jitter, so that
//! a stalled ACK on Wi-Fi does not stall the sender. A flow paces at `alpha` times the rate, within a window of that
//! rate times the max RTT and a margin. Time is cut into eras, of one round trip each.
//!
//! | State    | alpha        | Window                        | Left at                   | For                             |
//! |----------|--------------|-------------------------------|---------------------------|---------------------------------|
//! | Initial  | 2            | grows by what is acknowledged | 3 eras of unchanged rate, | Recovery                        |
//! |          |              |                               | congestion                |                                 |
//! | Resuming | –            | the remembered one            | 2 full eras, congestion   | Recovery                        |
//! | Recovery | 15/16 or 7/8 | rate x (max RTT + margin)     | its era's end             | Pushing if a probe found more,  |
//! |          |              |                               |                           | otherwise Cruising              |
//! | Cruising | 1            | same                          | 2 eras, sender not idle;  | Probing; Recovery               |
//! |          |              |                               | congestion                |                                 |
//! | Probing  | 17/16, 33/32 | same, a segment more at least | its era's end, congestion | Recovery                        |
//! | Pushing  | 5/4          | same                          | the rate stops growing,   | Recovery; Initial after 3 eras  |
//! |          |              |                               | congestion                | of growth                       |
//!
//! | Signal | Threshold, from the sensitivity to the rate       | In Cruising                              | In Recovery |
//! |--------|---------------------------------------------------|------------------------------------------|-------------|
//! | delay  | max RTT and 1/16 to 1/4 of it, at most 25 ms more | rate falls by excess/threshold, 1/4 at   | alpha 7/8   |
//! |        |                                                   | most                                     |             |
//! | marks  | an average share of 3/32 to 3/16                  | rate falls by the share's excess         | same        |
//! | loss   | an average share of 2 to 52 %                     | rate falls by 1/4                        | none        |
//!
//! In every other state a signal ends the state and leaves the rate. Two cycles with congestion in a row set the rate to
//! the largest one measured since. A path whose RTT proves to be jittery after all starts up anew, once.
//!
//! `flavour = picoquic` does what the reference does where the specification says something else or nothing:
//! Initial jumps to half of the rate at which the first packets arrive (peak over a millisecond); sensitivity 0.94 at
//! 1 MB/s; a delay counts only in eras that follow faster ones; a loss reduces rate and max RTT, by 1/8 to 1/4; Pushing
//! lasts an era, is entered again while Recovery finds growth, and the third growth in a row starts Initial; after a
//! cycle that marks ended, probes are smaller and follow sooner. Both take from the reference what the draft leaves
//! open: what "growth" is, the conditions of the new start, the drain, that marks are averaged per report of a mark
//! (per ACK, as the draft says, a single mark is half of a delayed ACK and above every threshold).
//!
//! What QUIC has and TCP lacks: losses are averaged in the order in which they are found, not by packet number; only
//! losses that an ACK shows count, and the timeout is QUIC's probe: one segment goes, the next ACK restores the window.
//! Marks are counted by accurate ECN ([`super::EcnUse::Accurate`]). Careful Resume's seed is `resume_cwnd` and
//! `resume_rtt_ms`. Bytes are payload. The pacer is TCP's: picoquic lets 4 ms of packets go at once.

mod path;
mod signals;
mod states;
#[cfg(test)]
mod tests;
mod thresholds;

use super::careful_resume::Remembered;
use super::{Conn, Controller, EcnUse, Params, RateSample};
use path::{Delays, Drops, Marking, Peak};

const ALPHA_INITIAL: f64 = 2.0;
const ALPHA_RECOVERY: f64 = 15.0 / 16.0;
/// When congestion goes on in Recovery (C4_ALPHA_RECOVER2_1024).
const ALPHA_DRAIN: f64 = 7.0 / 8.0;
const ALPHA_CRUISE: f64 = 1.0;
const ALPHA_PROBE: f64 = 17.0 / 16.0;
const ALPHA_PROBE_MARKED: f64 = 33.0 / 32.0;
const ALPHA_PUSH: f64 = 5.0 / 4.0;
/// Of Resuming, which judges its growth by it and does not send by it.
const ALPHA_RESUMING: f64 = 3.0;
/// Added to Cruising's on paths with RTTs below a millisecond, where hosts pace too slowly (spec, "Pacing and CPU load").
const ALPHA_LOCAL: f64 = 3.0 / 64.0;
const LOCAL_RTT_US: u32 = 1_000;
/// The largest reduction, and what a loss costs.
const BETA: f64 = 0.25;
/// Least pacing rate of Initial: 1,048,576 bit/s.
const INITIAL_PACING: f64 = 131_072.0;
/// Of windows outside of Initial: a quarter of the max RTT or this.
const MARGIN_US: f64 = 15_000.0;
const CWND_MIN: u32 = 2;
/// Eras of unchanged rate that end Initial; so many and a delay or a mark do, too.
const INITIAL_ERAS: u32 = 3;
const INITIAL_ERAS_SIGNAL: u32 = 2;
/// Each takes three bits of Initial's growth.
const INITIAL_SHIFT: u32 = 3;
/// Losses do not end Initial before this many ACKs and losses.
const INITIAL_PACKETS: u32 = 20;
const CRUISE_ERAS: u32 = 2;
/// The first era of Pushing measures Recovery's packets; after this many Initial takes over.
const PUSH_ERAS: u32 = 3;
/// Recoveries in a row that find growth start Initial (C4_PROBE_LEVEL_MAX).
const GROWTHS: u32 = 3;
const RESUMING_ERAS: u32 = 2;
/// A flow of which less than 16/17 of the remembered window is in flight does not test it.
const RESUMING_SHARE: f64 = 17.0 / 16.0;
/// Initial again: max RTT above this and 5/2 of the min RTT, rate below this.
const JITTER_MAX_RTT_US: f64 = 50_000.0;
const JITTER_RATE: f64 = 1e6;
const JITTER_SHARE: f64 = 0.4;

pub const PARAMS: &[(&str, &str)] = &[("flavour", "\"draft\""), ("resume_cwnd", "0"), ("resume_rtt_ms", "0")];

pub fn build(params: &Params) -> Result<Box<dyn Controller>, String> {
    let flavour = match params.text("flavour", "draft", &["draft", "picoquic"])? {
        "picoquic" => Flavour::Picoquic,
        _ => Flavour::Draft,
    };
    Ok(Box::new(C4::new(flavour, Remembered::of(params)?)))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flavour {
    Draft,
    Picoquic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Initial,
    Resuming,
    Recovery,
    Cruising,
    Probing,
    Pushing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    None,
    Slow,
    Fast,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    Delay,
    Marks,
    Loss,
}

/// What the latest attempt to send faster is judged by.
#[derive(Clone, Copy, Debug, Default)]
struct Attempt {
    /// Rate before, bytes per second, and `alpha` of the attempt.
    rate: f64,
    alpha: f64,
    /// The path was the limit, not the application.
    was_full: bool,
    congested: bool,
}

#[derive(Clone, Debug)]
pub struct C4 {
    flavour: Flavour,
    remembered: Option<Remembered>,
    state: State,
    /// Bytes per second.
    nominal_rate: f64,
    alpha: f64,
    /// Of the packets that are acknowledged in this era.
    alpha_previous: f64,
    /// The era ends when a segment is delivered that was sent when this many were.
    era_delivered: u32,
    delays: Delays,
    drops: Drops,
    marking: Marking,
    peak: Peak,
    attempt: Attempt,
    /// Window of Initial, bytes; ACKs and losses; eras in which the rate did not grow.
    initial_cwnd: f64,
    initial_packets: u32,
    initial_eras: u32,
    /// Eras of the present state, where those count.
    eras: u32,
    /// Recovery was entered from Probing; from Resuming.
    after_probing: bool,
    after_resuming: bool,
    /// picoquic's probe level: 0 after marks, 1, and how often in a row Recovery found growth.
    level: u32,
    /// Recovery was entered by marks, or had some.
    marks_in_recovery: bool,
    /// Cycles with congestion in a row, and the largest rate measured in the present one.
    congested_cycles: u32,
    cycle_rate: f64,
    restarted_by_jitter: bool,
}

impl C4 {
    fn new(flavour: Flavour, remembered: Option<Remembered>) -> C4 {
        C4 {
            flavour,
            remembered,
            state: State::Initial,
            nominal_rate: 0.0,
            alpha: ALPHA_INITIAL,
            alpha_previous: ALPHA_INITIAL,
            era_delivered: 0,
            delays: Delays::default(),
            drops: Drops::default(),
            marking: Marking::default(),
            peak: Peak::default(),
            attempt: Attempt::default(),
            initial_cwnd: 0.0,
            initial_packets: 0,
            initial_eras: 0,
            eras: 0,
            after_probing: false,
            after_resuming: false,
            level: 1,
            marks_in_recovery: false,
            congested_cycles: 0,
            cycle_rate: 0.0,
            restarted_by_jitter: false,
        }
    }

    fn sensitivity(&self) -> f64 {
        thresholds::sensitivity(self.flavour, self.nominal_rate)
    }

    fn on_rate(&mut self, conn: &Conn, rate: &RateSample) {
        let before = self.nominal_rate;
        let bytes = f64::from(rate.delivered) * f64::from(conn.mss);
        let measured = bytes * 1e6 / rate.interval_us as f64;
        self.cycle_rate = self.cycle_rate.max(measured);
        let bounces = self.state == State::Recovery && self.attempt.congested;
        if measured > before && !bounces {
            self.attempt.was_full = true;
            self.nominal_rate = measured;
        } else if bytes > before * self.delays.min_us * 1e-6 {
            // More in flight than the rate asks for: the path slowed it down, not the application.
            self.attempt.was_full = true;
        }
    }

    fn on_initial_ack(&mut self, conn: &Conn, rate: &RateSample, ends_era: bool) {
        self.initial_packets += 1;
        let share = 1 << (INITIAL_SHIFT * self.initial_eras);
        self.initial_cwnd += f64::from(rate.acked) * f64::from(conn.mss) / f64::from(share);
        if !ends_era {
            return;
        }
        if self.growth() != Growth::None {
            self.initial_eras = 0;
        } else if self.attempt.was_full && self.nominal_rate > 0.0 {
            self.initial_eras += 1;
        }
        self.begin_era(conn);
        if self.initial_eras >= INITIAL_ERAS {
            self.exit_initial(conn);
        } else {
            self.begin_attempt();
        }
    }

    fn on_pushing_ack(&mut self, conn: &Conn, ends_era: bool) {
        let fast = self.growth() == Growth::Fast;
        self.eras += u32::from(ends_era);
        match self.flavour {
            Flavour::Picoquic if fast => {}
            Flavour::Picoquic if ends_era => return self.enter_recovery(conn, None),
            Flavour::Draft if ends_era && (self.eras == 1 || (fast && self.eras < PUSH_ERAS)) => {}
            Flavour::Draft if ends_era && fast => return self.enter_initial(conn),
            Flavour::Draft if ends_era => return self.enter_recovery(conn, None),
            _ => return,
        }
        self.begin_attempt();
        self.begin_era(conn);
    }

    fn on_ack(&mut self, conn: &Conn, rate: &RateSample) {
        if rate.interval_us > 0 && rate.delivered > 0 {
            self.on_rate(conn, rate);
        }
        if self.state == State::Resuming && f64::from(conn.in_flight) * RESUMING_SHARE < f64::from(self.seed().cwnd) {
            self.era_delivered = conn.delivered;
        }
        let ends_era = rate.delivered > 0 && rate.prior_delivered >= self.era_delivered;
        if self.state == State::Initial {
            return self.on_initial_ack(conn, rate, ends_era);
        }
        if ends_era {
            self.delays.end_era(self.alpha_previous <= ALPHA_CRUISE);
            if self.is_jittery() {
                self.restarted_by_jitter = true;
                return self.enter_initial(conn);
            }
        }
        match self.state {
            State::Pushing => self.on_pushing_ack(conn, ends_era),
            _ if !ends_era => {}
            State::Initial | State::Probing => self.enter_recovery(conn, None),
            State::Recovery => self.exit_recovery(conn),
            State::Cruising => {
                self.begin_era(conn);
                self.eras += 1;
                let wanted = if self.level == 0 && self.flavour == Flavour::Picoquic { 1 } else { CRUISE_ERAS };
                if self.eras >= wanted && !rate.app_limited {
                    self.enter_probing(conn);
                }
            }
            State::Resuming => {
                self.eras += 1;
                if self.eras >= RESUMING_ERAS {
                    self.enter_recovery(conn, None);
                } else {
                    self.begin_era(conn);
                }
            }
        }
    }

    /// The first start may have ended too early on such a path.
    fn is_jittery(&self) -> bool {
        !self.restarted_by_jitter
            && self.delays.max_us > JITTER_MAX_RTT_US
            && self.nominal_rate < JITTER_RATE
            && self.delays.min_us < JITTER_SHARE * self.delays.max_us
    }

    /// Pacing rate and window follow from the estimates.
    fn apply(&mut self, conn: &mut Conn) {
        let mss = f64::from(conn.mss);
        let max_rtt_s = self.delays.max_us * 1e-6;
        let mut pacing = self.alpha * self.nominal_rate;
        let mut window = pacing * max_rtt_s;
        if window == 0.0 {
            window = f64::from(conn.initial_cwnd) * mss;
        }
        match self.state {
            State::Initial => {
                window = window.max(self.initial_cwnd);
                pacing = pacing.max(INITIAL_PACING);
                if self.flavour == Flavour::Picoquic && self.peak.rate > pacing {
                    pacing = (pacing + self.peak.rate) / 2.0;
                    window = window.max(self.peak.rate * f64::from(conn.srtt8_us) / 8e6 / 2.0);
                }
                self.initial_cwnd = window;
            }
            State::Resuming => {
                window = f64::from(self.seed().cwnd) * mss;
                pacing = window / self.seed().rtt_s();
            }
            _ => {
                window += pacing * MARGIN_US.min(self.delays.max_us / 4.0) * 1e-6;
                if matches!(self.state, State::Probing | State::Pushing) {
                    window += (mss - (self.alpha - 1.0) * self.nominal_rate * max_rtt_s).max(0.0);
                }
            }
        }
        conn.pacing_rate = pacing as u64;
        conn.cwnd = (libm::ceil(window / mss) as u32).clamp(CWND_MIN, conn.cwnd_clamp);
    }

    fn seed(&self) -> Remembered {
        self.remembered.unwrap_or_default()
    }
}

impl Controller for C4 {
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn ecn_use(&self) -> EcnUse {
        EcnUse::Accurate
    }

    fn init(&mut self, conn: &mut Conn) {
        let rtt_us = conn.srtt8_us >> 3;
        self.delays.set_max(rtt_us.into());
        self.delays.note(rtt_us, 0.0);
        self.enter_initial(conn);
        if self.remembered.is_some_and(|seed| seed.is_of_path(rtt_us.into())) {
            self.enter_resuming(conn);
        }
        self.apply(conn);
    }

    fn cong_avoid(&mut self, _conn: &mut Conn, _acked: u32) {}

    fn ssthresh(&mut self, conn: &mut Conn) -> u32 {
        conn.ssthresh
    }

    fn undo(&mut self, conn: &mut Conn) -> u32 {
        conn.cwnd
    }

    fn owns_window(&self) -> bool {
        true
    }

    fn control(&mut self, conn: &mut Conn, rate: &RateSample) {
        if conn.delivered_ce > self.marking.seen_marked {
            self.on_marks(conn);
        }
        if let Some(rtt_us) = rate.rtt_us {
            self.on_rtt(conn, rtt_us);
            if self.flavour == Flavour::Picoquic {
                self.peak.note(conn, rtt_us);
            }
        }
        self.on_losses(conn, rate.lost);
        self.drops.note_delivered(rate.acked);
        if rate.acked > 0 {
            self.on_ack(conn, rate);
        }
        self.apply(conn);
    }

    fn paces(&self) -> bool {
        true
    }

    fn send_buffer_windows(&self) -> u32 {
        3
    }
}
