//! Vivace (Dong et al.: "PCC Vivace: Online-Learning Congestion Control", NSDI 2018).
//!
//! Time is cut into monitor intervals ([`monitor`]); each is worth a utility of its rate, loss and RTT gradient
//! ([`utility`]), and the rate follows the utility's gradient, found by sending slightly faster and slightly slower
//! ([`search`], [`step`]). The rate is everything: the window only bounds what is in flight to two RTTs' worth, since
//! the TCP below wants a window. Losses and timeouts reach the rate through the intervals alone.
//!
//! In the `paper`'s form an RTT gradient below 0.01 counts as zero, that of a falling RTT too; every interval of start-up
//! doubles the rate, as long as no more than two results are due. An increase that only chance losses speak for is
//! probed again, as in the artefact.
//!
//! `artifact` is what the authors released with the paper (PCC-Uspace, branch NSDI-2018), in latency mode. It differs
//! from the `paper` by: a latency coefficient of 11,330 on a gradient cut to multiples of 0.02, falling RTTs rewarded;
//! a loss coefficient of 1 up to 3 % of loss; megabits of 2^20 bits; a first rate of 1.6 Mbit/s, doubled only when the
//! last doubling's result is in; 50 lost packets and gradients below 0.2 overlooked meanwhile; probes with one pair
//! while the direction lasts; increases beyond a tenth followed up by single intervals; steps of at least 0.5 Mbit/s;
//! intervals of at most 3000 packets, and never cut short by a decision; halving on more than half lost. Left out is
//! what its release has switched off: monitor timeouts and the hibernation they lead to (its connection times out after
//! 100 s). One slip is not reproduced: it takes the mean RTT from the interval of the packet acknowledged last.
//!
//! `loss` is the artefact without the latency term. `geo` is the paper's search with the coefficients Claypool's GEO
//! papers give for Compira's closed implementation: 1, 10 and 2 for throughput, loss and latency. Its units are unknown.
//! With the dimensionless gradient, 2 keeps the queue short, since probes of 5 % change the gradient by 0.1; so the
//! unit is 1. Calibrated, over the link of July 2020, to the papers' downloads of 1, 5 and 30 MB in about 4, 7 and 16 s
//! is start-up alone: first 7 Mbit/s, then 1.35 times as much after every result. With the path's RTT noise most flows
//! then stay near 600 ms and one in ten holds a standing queue (which costs a gradient nothing).
//!
//! Rates are of packets of 1500 bytes, headers included. None falls below 0.5 (`paper`, `geo`) or 1.3 Mbit/s: a link much
//! slower is flooded, and the same packets are lost again and again.

mod monitor;
mod rules;
mod search;
mod step;
mod utility;

use monitor::Monitor;
use rules::Rules;
use search::{Phase, Search};

use super::{Conn, Controller, Params, RateSample, Transmission};

/// A full packet as the artefact counts it.
const PACKET_BITS: f64 = 1500.0 * 8.0;
const CWND_MIN: u32 = 4;

pub const PARAMS: &[(&str, &str)] = &[("preset", "\"artifact\"")];

pub fn build(params: &Params) -> Result<Box<dyn Controller>, String> {
    let rules = match params.text("preset", "artifact", &["artifact", "paper", "loss", "geo"])? {
        "paper" => rules::PAPER,
        "loss" => rules::LOSS,
        "geo" => rules::GEO,
        _ => rules::ARTIFACT,
    };
    Ok(Box::new(Vivace {
        rules,
        search: Search::new(rules, 0.0),
        monitor: Monitor::new(),
        rtt_s: 0.0,
        pace: Pace::default(),
    }))
}

#[derive(Clone, Debug)]
pub struct Vivace {
    rules: Rules,
    search: Search,
    monitor: Monitor,
    /// Mean RTT of the latest interval: the length of the next.
    rtt_s: f64,
    pace: Pace,
}

/// A rate as it is applied: divided once per change.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    mbps: f64,
    packets_per_s: f64,
    bytes_per_s: u64,
}

impl Vivace {
    #[inline(never)]
    fn begin_interval(&mut self, conn: &mut Conn, packet: &Transmission) {
        let gap_s = PACKET_BITS / (self.search.mbps * 1e6);
        let plan = self.search.begin(&mut conn.random);
        let (long, instead) = self.rules.long_rtt_s;
        let span_s = if self.rtt_s > long { instead } else { self.rtt_s };
        let (least, most) = self.rules.packets;
        let length = (span_s * plan.mbps * 1e6 / PACKET_BITS).clamp(least, most);
        self.monitor.begin(packet.sent, plan, length as u32, gap_s);
        self.apply(conn);
    }

    /// The oldest interval is over.
    #[inline(never)]
    fn judge(&mut self) {
        let report = self.monitor.take();
        if report.mean_rtt_s > 0.0 {
            self.rtt_s = report.mean_rtt_s;
        }
        self.search.finish(&report, self.monitor.current());
        if self.rules.cuts && self.search.phase == Phase::Search {
            self.monitor.cut();
        }
    }

    #[inline(always)]
    fn apply(&mut self, conn: &mut Conn) {
        let mbps = self.search.mbps;
        if mbps != self.pace.mbps {
            let packets_per_s = mbps * 1e6 / PACKET_BITS;
            self.pace = Pace { mbps, packets_per_s, bytes_per_s: (packets_per_s * f64::from(conn.mss)) as u64 };
        }
        conn.pacing_rate = self.pace.bytes_per_s;
        let window = 2.0 * self.pace.packets_per_s * f64::from(conn.srtt8_us) / 8e6;
        conn.cwnd = (window as u32).max(CWND_MIN).min(conn.cwnd_clamp);
    }
}

impl Controller for Vivace {
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn init(&mut self, conn: &mut Conn) {
        let rtt_s = f64::from(conn.srtt8_us.max(8)) / 8e6;
        let first = self.rules.start;
        let initial_window = f64::from(conn.initial_cwnd) * PACKET_BITS / rtt_s / 1e6;
        self.search = Search::new(self.rules, if first.mbps > 0.0 { first.mbps } else { initial_window });
        self.rtt_s = if self.rules.first_rtt_s > 0.0 { self.rules.first_rtt_s } else { rtt_s };
        self.apply(conn);
        conn.cwnd = conn.cwnd.max(conn.initial_cwnd);
    }

    fn cong_avoid(&mut self, _conn: &mut Conn, _acked: u32) {}

    fn ssthresh(&mut self, conn: &mut Conn) -> u32 {
        conn.ssthresh
    }

    fn undo(&mut self, conn: &mut Conn) -> u32 {
        conn.cwnd
    }

    fn keeps_window_on_rto(&self) -> bool {
        true
    }

    fn watches_packets(&self) -> bool {
        true
    }

    fn on_packet_sent(&mut self, conn: &mut Conn, packet: &Transmission) {
        if self.monitor.is_due(packet.sent) {
            self.begin_interval(conn, packet);
        }
        self.monitor.note_sent(packet.sent, packet.app_limited);
    }

    fn on_packet_delivered(&mut self, conn: &mut Conn, packet: &Transmission) {
        // A repetition may still wait in the host's queue when the original arrives.
        let rtt = conn.now.saturating_sub(packet.sent);
        // Less than half of the smallest RTT: the ACK of an earlier transmission.
        let trusted = rtt.micros() * 2 >= u64::from(conn.min_rtt_us);
        self.monitor.note_delivered(packet.sent, trusted.then(|| rtt.secs_f64()), packet.was_lost);
    }

    fn on_packet_lost(&mut self, _conn: &mut Conn, packet: &Transmission) {
        self.monitor.note_lost(packet.sent);
    }

    fn on_packet_spared(&mut self, _conn: &mut Conn, packet: &Transmission) {
        self.monitor.note_spared(packet.sent);
    }

    fn owns_window(&self) -> bool {
        true
    }

    fn control(&mut self, conn: &mut Conn, _rate: &RateSample) {
        while self.monitor.has_finished() {
            self.judge();
        }
        self.apply(conn);
    }

    fn paces(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{build, testing};
    use super::*;
    use crate::spec::{ControllerSpec, TcpSpec};
    use crate::time::Nanos;

    fn vivace(preset: &str) -> (Box<dyn Controller>, Conn) {
        let params = json!({ "preset": preset }).as_object().unwrap().clone();
        let mut cc = build(&ControllerSpec { name: "vivace".into(), params }, &TcpSpec::default()).unwrap();
        let mut conn = testing::conn(10, 100);
        (conn.srtt8_us, conn.min_rtt_us) = (8 * 50_000, 50_000);
        cc.init(&mut conn);
        (cc, conn)
    }

    fn packet(seq: u32, sent: Nanos) -> Transmission {
        Transmission { seq, sent, in_flight: 1, lost: 0, app_limited: false, was_lost: false }
    }

    #[test]
    fn an_original_may_arrive_before_its_repetition_has_left_the_host() {
        let (mut cc, mut conn) = vivace("artifact");
        cc.on_packet_sent(&mut conn, &packet(0, Nanos::from_millis(100)));
        conn.now = Nanos::from_millis(150);
        cc.on_packet_lost(&mut conn, &packet(0, Nanos::from_millis(100)));
        let repetition = packet(0, Nanos(150_900_000));
        cc.on_packet_sent(&mut conn, &repetition);
        conn.now = Nanos(150_300_000);
        cc.on_packet_delivered(&mut conn, &repetition);
    }
}
