//! LeoCC (Lai et al.: "LeoCC: Making Internet Congestion Control Robust to LEO Satellite Dynamics", SIGCOMM 2025), as
//! its released module for live networks.
//!
//! BBR's first version that is told of reconfigurations of the path: it then drops to half a product for a moment,
//! takes the RTT it sees as the minimum whatever it was before, and starts up again. Between reconfigurations, two
//! Kalman filters replace the bandwidth's maximum by a mean while the RTT stands above what the path's own
//! fluctuation explains.
//!
//! The released detector takes a gap of more than 45 ms between the replies to a ping every 10 ms for a
//! reconfiguration. `trigger` says where news come from here: `flow`, the path's own handovers, noticed one RTT after
//! they end; `global`, those of all such flows in the network (the module's trigger is global to the host); `ping`, the
//! released detector with real probes through the same queues. Without pings, the fluctuation is measured on RTT
//! samples of the flow, one per 10 ms.

use super::bbr::v1::{Bbr, Mode, Variant};
use super::bbr::{UNIT, sample_rate};
use super::{CaState, Conn, Controller, Event, Params, RateSample, Signal, Subscription};
use crate::spec::Kernel;
use crate::time::Nanos;

const MIN_RTT_WINDOW_S: u32 = 20;
const PROBE_GAIN: u32 = UNIT * 5 / 4;
/// While the RTT stands above its fluctuation.
const PROBE_GAIN_CAUTIOUS: u32 = UNIT * 21 / 20;
const PING_INTERVAL: Nanos = Nanos::from_millis(10);
/// A longer silence between replies is a reconfiguration; so is a fall of the RTT by this much inside ProbeRTT.
const DELTA_US: u32 = 45_000;
/// How long the trigger stands.
const TRIGGER_US: u64 = 200_000;
/// Samples of a measurement of the fluctuation, and its percentiles.
const FLUCTUATION_SAMPLES: usize = 100;
const PERCENTILES: (usize, usize) = (5, 95);

pub const PARAMS: &[(&str, &str)] = &[("trigger", "\"flow\""), ("probe_rtt_cwnd_gain", "0.5")];

pub fn build(params: &Params) -> Result<Box<dyn Controller>, String> {
    let source = match params.text("trigger", "flow", &["flow", "global", "ping"])? {
        "ping" => Subscription::Probes { interval: PING_INTERVAL },
        scope => Subscription::Reconfigurations { shared: scope == "global" },
    };
    let gain = params.number("probe_rtt_cwnd_gain", 0.5, 0.0, 1.0)?;
    Ok(Box::new(LeoCc::new(source, (gain * f64::from(UNIT)) as u32)))
}

/// A scalar Kalman filter in the module's integers: noise variances 4 and 4, first variance 25.
#[derive(Clone, Copy, Debug)]
struct Kalman {
    estimate: u64,
    variance: u64,
}

impl Kalman {
    fn new() -> Kalman {
        Kalman { estimate: 0, variance: 25 }
    }

    /// Returns the gain, of 256.
    fn update(&mut self, measured: u64) -> u64 {
        const NOISE: u64 = 4;
        let unit = u64::from(UNIT);
        self.variance += NOISE;
        let gain = self.variance * unit / (self.variance + NOISE);
        self.estimate = ((unit - gain) * self.estimate + gain * measured) / unit;
        self.variance = (unit - gain) * self.variance / unit;
        gain
    }
}

/// The part of the module that hears of reconfigurations and measures the RTT's fluctuation after each.
#[derive(Clone, Debug)]
struct Monitor {
    trigger: bool,
    /// Of a reconfiguration whose fluctuation is not measured yet: its time and RTT.
    since_us: Option<(u64, u64)>,
    collecting: bool,
    samples: [u32; FLUCTUATION_SAMPLES],
    count: usize,
    /// 0: never measured.
    fluctuation_us: u32,
    /// Latest reply, or latest sample taken of the flow itself.
    latest_us: u64,
}

impl Monitor {
    /// One message of the detector.
    fn hear(&mut self, now_us: u64, rtt_us: u32, reconfigured: bool) {
        if let Some((since, rtt)) = self.since_us {
            self.trigger &= now_us < since + TRIGGER_US;
            if !self.collecting && now_us >= since + rtt {
                self.collecting = true;
                self.count = 0;
            }
        }
        if self.collecting {
            self.collect(rtt_us);
        }
        if reconfigured {
            self.trigger = true;
            self.since_us = Some((now_us, u64::from(rtt_us)));
        }
    }

    fn collect(&mut self, rtt_us: u32) {
        if self.count < FLUCTUATION_SAMPLES {
            self.samples[self.count] = rtt_us;
            self.count += 1;
            return;
        }
        self.samples.sort_unstable();
        let at = |percent| self.samples[FLUCTUATION_SAMPLES * percent / 100];
        self.fluctuation_us = at(PERCENTILES.1) - at(PERCENTILES.0);
        self.collecting = false;
        self.since_us = None;
        self.trigger = false;
    }
}

#[derive(Clone, Debug)]
pub struct LeoCc {
    bbr: Bbr,
    source: Subscription,
    monitor: Monitor,
    /// A reconfiguration is being dealt with.
    reconfiguring: bool,
    /// What the bandwidth filter restarts from.
    restart_bw: u64,
    latest_bw: u64,
    /// Largest sample of the present round.
    round_bw: u64,
    bw_hat: Kalman,
    rtt_hat: Kalman,
}

impl LeoCc {
    /// probe_rtt_gain: window during ProbeRTT, in products; the module's is a half.
    fn new(source: Subscription, probe_rtt_gain: u32) -> LeoCc {
        let variant = Variant { min_rtt_window_s: MIN_RTT_WINDOW_S, probe_rtt_gain, detects_policers: false };
        LeoCc {
            // The module is of Linux 6, whatever kernel the hosts run.
            bbr: Bbr::new(Kernel::V6, variant),
            source,
            monitor: Monitor {
                trigger: false,
                since_us: None,
                collecting: false,
                samples: [0; FLUCTUATION_SAMPLES],
                count: 0,
                fluctuation_us: 0,
                latest_us: 0,
            },
            reconfiguring: false,
            restart_bw: 0,
            latest_bw: 0,
            round_bw: 0,
            bw_hat: Kalman::new(),
            rtt_hat: Kalman::new(),
        }
    }

    fn listen(&mut self, conn: &Conn, rate: &RateSample) {
        let now = conn.now.micros();
        if let Some(rtt) = rate.rtt_us
            && matches!(self.source, Subscription::Reconfigurations { .. })
            && now >= self.monitor.latest_us + PING_INTERVAL.micros()
        {
            self.monitor.latest_us = now;
            self.monitor.hear(now, rtt, false);
        }
        self.reconfiguring |= self.monitor.trigger;
    }

    fn update_bw(&mut self, conn: &mut Conn, rate: &RateSample) {
        self.bbr.update_bw(conn, rate);
        let Some(bw) = sample_rate(rate) else { return };
        if self.bbr.rounds.start {
            self.round_bw = 0;
        }
        self.round_bw = self.round_bw.max(bw);
        if let Some(rtt) = rate.rtt_us
            && self.bbr.mode == Mode::ProbeRtt
            && self.rtt_hat.estimate > u64::from(rtt + DELTA_US)
        {
            self.restart_bw = self.latest_bw;
        }
        self.latest_bw = bw;
    }

    fn check_drain(&mut self, conn: &mut Conn) {
        let starting = self.bbr.mode == Mode::Startup;
        self.bbr.check_drain(conn);
        if starting && self.bbr.mode != Mode::Startup {
            self.restart_bw = 0;
            self.reconfiguring = false;
        }
    }

    fn update_min_rtt(&mut self, conn: &mut Conn, rate: &RateSample) {
        let expired = self.bbr.min_rtt_expired(conn);
        if let Some(rtt) = rate.rtt_us
            && (rtt < self.bbr.min_rtt_us || expired)
        {
            self.bbr.min_rtt_us = rtt;
            self.bbr.min_rtt_stamp = conn.jiffies;
        }
        if !self.bbr.idle_restart && self.bbr.mode == Mode::ProbeBw && (expired || self.reconfiguring) {
            self.bbr.enter_probe_rtt(conn);
        }
        if self.bbr.mode == Mode::ProbeRtt && self.bbr.stay_in_probe_rtt(conn) {
            // The RTT seen now is the path's, be it smaller or larger.
            if let Some(rtt) = rate.rtt_us {
                self.bbr.min_rtt_us = rtt;
            }
            self.bbr.min_rtt_stamp = conn.jiffies;
            self.leave_probe_rtt(conn);
        }
        if rate.delivered > 0 {
            self.bbr.idle_restart = false;
        }
    }

    fn leave_probe_rtt(&mut self, conn: &mut Conn) {
        conn.cwnd = conn.cwnd.max(self.bbr.prior_cwnd);
        if self.reconfiguring || !self.bbr.full_bw_reached {
            self.bbr.mode = Mode::Startup;
            self.bbr.full_bw_reached = false;
            self.bbr.forget_full_pipe();
        } else {
            self.bbr.enter_probe_bw(conn);
        }
        if self.reconfiguring {
            self.bbr.max_bw.reset(self.bbr.rounds.count, self.restart_bw);
        }
    }

    /// The bandwidth to send at, and how to probe for more.
    fn choose_bw(&mut self) -> u64 {
        let fluctuation = self.monitor.fluctuation_us;
        let inflated = fluctuation > 0
            && self.rtt_hat.estimate >= u64::from(self.bbr.min_rtt_us) + u64::from(fluctuation)
            && !self.reconfiguring
            && self.bbr.mode == Mode::ProbeBw;
        self.bbr.probe_gain = if inflated { PROBE_GAIN_CAUTIOUS } else { PROBE_GAIN };
        if inflated { self.bw_hat.estimate } else { self.bbr.bw() }
    }
}

impl Controller for LeoCc {
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn init(&mut self, conn: &mut Conn) {
        self.bbr.init(conn);
        self.monitor.latest_us = conn.now.micros();
    }

    fn cong_avoid(&mut self, _conn: &mut Conn, _acked: u32) {}

    fn ssthresh(&mut self, conn: &mut Conn) -> u32 {
        self.bbr.ssthresh(conn)
    }

    fn undo(&mut self, conn: &mut Conn) -> u32 {
        self.bbr.undo(conn)
    }

    fn on_state(&mut self, conn: &mut Conn, new: CaState) {
        self.bbr.on_state(conn, new);
    }

    fn on_event(&mut self, conn: &mut Conn, event: Event) {
        if event == Event::TxStart && conn.app_limited > 0 && self.bbr.mode == Mode::ProbeRtt {
            self.bbr.idle_restart = true;
            if self.bbr.probe_rtt_done.is_some_and(|done| conn.jiffies > done) {
                self.leave_probe_rtt(conn);
            }
            return;
        }
        self.bbr.on_event(conn, event);
    }

    fn subscription(&self) -> Subscription {
        self.source
    }

    fn on_signal(&mut self, conn: &mut Conn, signal: Signal) {
        let now = conn.now.micros();
        match signal {
            Signal::Pong { rtt_us } => {
                let silent = now - self.monitor.latest_us > u64::from(DELTA_US);
                self.monitor.latest_us = now;
                self.monitor.hear(now, rtt_us, silent);
            }
            Signal::Reconfiguration => self.monitor.hear(now, conn.srtt8_us >> 3, true),
            Signal::HandoverReport | Signal::HandoverExpiry => {}
        }
    }

    fn owns_window(&self) -> bool {
        true
    }

    fn control(&mut self, conn: &mut Conn, rate: &RateSample) {
        self.listen(conn, rate);
        if self.bbr.mode == Mode::ProbeBw
            && rate.interval_us > 0
            && rate.prior_delivered >= self.bbr.rounds.next_delivered
        {
            self.bw_hat.update(self.round_bw);
        }
        self.update_bw(conn, rate);
        self.bbr.update_aggregation(conn, rate);
        self.bbr.update_cycle(conn, rate);
        self.bbr.check_full_pipe(rate);
        self.check_drain(conn);
        self.update_min_rtt(conn, rate);
        self.bbr.update_gains();
        if let Some(rtt) = rate.rtt_us {
            self.rtt_hat.update(u64::from(rtt));
        }
        let bw = self.choose_bw();
        self.bbr.set_pacing(conn, bw, self.bbr.pacing_gain);
        self.bbr.set_cwnd(conn, rate, bw);
    }

    fn paces(&self) -> bool {
        true
    }

    fn send_buffer_windows(&self) -> u32 {
        3
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::conn;
    use super::*;

    #[test]
    fn kalman_gains_converge_to_six_tenths() {
        let mut filter = Kalman::new();
        let gains: Vec<u64> = (0..6).map(|_| filter.update(1_000)).collect();
        assert_eq!(gains, [224, 162, 153, 153, 153, 153]);
        assert!((980..=1_000).contains(&filter.estimate), "{}", filter.estimate);
    }

    fn monitor() -> Monitor {
        LeoCc::new(Subscription::Nothing, UNIT / 2).monitor
    }

    #[test]
    fn the_trigger_stands_for_200_ms() {
        let mut m = monitor();
        m.hear(1_000_000, 50_000, true);
        assert!(m.trigger);
        m.hear(1_190_000, 50_000, false);
        assert!(m.trigger);
        m.hear(1_200_000, 50_000, false);
        assert!(!m.trigger);
    }

    #[test]
    fn the_fluctuation_is_the_spread_of_a_hundred_samples_from_one_rtt_after_the_trigger() {
        let mut m = monitor();
        m.hear(1_000_000, 60_000, true);
        for k in 0..120u32 {
            // Before 1.06 s: not counted; they would be the largest five.
            let rtt = if k < 5 { 900_000 } else { 50_000 + 100 * (k - 5) };
            m.hear(1_010_000 + 10_000 * u64::from(k), rtt, false);
        }
        assert_eq!(m.fluctuation_us, 9_000, "95th less 5th of 100 samples, 0.1 ms apart");
        assert!(!m.collecting && m.since_us.is_none());
    }

    #[test]
    fn silence_of_more_than_45_ms_between_replies_is_a_reconfiguration() {
        let mut leocc = LeoCc::new(Subscription::Probes { interval: PING_INTERVAL }, UNIT / 2);
        let mut c = conn(10, 10);
        let mut pong = |us| {
            c.now = Nanos::from_micros(us);
            leocc.on_signal(&mut c, Signal::Pong { rtt_us: 30_000 });
            leocc.monitor.trigger
        };
        assert!(!pong(30_000) && !pong(75_000));
        assert!(pong(120_001));
    }

    #[test]
    fn after_idling_it_probes_the_rtt_only_once_something_was_delivered() {
        let mut leocc = LeoCc::new(Subscription::Nothing, UNIT / 2);
        let mut c = conn(10, 10);
        (leocc.bbr.mode, leocc.bbr.idle_restart, leocc.reconfiguring) = (Mode::ProbeBw, true, true);
        let sample = |delivered| RateSample { delivered, rtt_us: Some(50_000), ..RateSample::default() };
        let modes = [0, 1, 1].map(|delivered| {
            leocc.update_min_rtt(&mut c, &sample(delivered));
            leocc.bbr.mode
        });
        assert_eq!(modes, [Mode::ProbeBw, Mode::ProbeBw, Mode::ProbeRtt]);
    }

    #[test]
    fn the_module_is_of_linux_6_on_any_host() {
        let params = Params { given: &serde_json::Map::new(), kernel: Kernel::V4_15 };
        let mut c = conn(10, 10);
        c.srtt8_us = 8 * 50_000;
        let mut rate_of = |params: &Params| {
            build(params).unwrap().init(&mut c);
            c.pacing_rate
        };
        let v6 = Params { given: &serde_json::Map::new(), kernel: Kernel::V6 };
        assert_eq!(rate_of(&params), rate_of(&v6), "one percent of margin, payload only");
    }
}
