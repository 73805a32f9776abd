//! A window set from outside: by the environment (`external`) or by a network running natively (`policy`).
//!
//! As in Astraea's kernel module: no slow start, no reaction to loss of its own (the window stands through recovery
//! and timeouts until the agent moves it), packets paced at one window per smoothed RTT (Liao et al., EuroSys 2024).
//! Or, as in Orca, over Cubic, which reacts to every ACK and loss and goes on from the window the agent sets (Abbasloo
//! et al., SIGCOMM 2020).

use super::cubic::Cubic;
use super::{CaState, Conn, Controller, Event, Params, RateSample};

pub const PARAMS: &[(&str, &str)] =
    &[("initial_cwnd", "10"), ("over", "\"none\""), ("pacing_gain", "1.0"), ("floor", "4")];
pub const POLICY_PARAMS: &[(&str, &str)] =
    &[("initial_cwnd", "10"), ("over", "\"none\""), ("pacing_gain", "1.0"), ("floor", "4"), ("policy", "null")];

/// Smallest window an agent may set unless told otherwise, segments (Astraea's option handler).
pub const CWND_MIN: u32 = 4;
/// Largest window an agent may set, segments.
pub const CWND_MAX: u32 = 1 << 20;
/// Wire bytes per segment in the pacing formula.
const MTU: u64 = 1500;

pub fn build(params: &Params) -> Result<Box<dyn Controller>, String> {
    let initial = params.number("initial_cwnd", 10.0, 1.0, 1e6)?;
    let floor = params.number("floor", f64::from(CWND_MIN), 1.0, 1e6)?;
    let gain = params.number("pacing_gain", 1.0, 0.1, 10.0)?;
    Ok(match params.text("over", "none", &["none", "cubic"])? {
        "cubic" => Box::new(AgentOverCubic { cubic: Cubic::linux(params.kernel), found_capacity: false }),
        _ => Box::new(AgentWindow { initial: initial as u32, floor: floor as u32, gain, pacing: None }),
    })
}

#[derive(Clone, Debug)]
pub struct AgentWindow {
    initial: u32,
    /// The smallest window it may be given.
    floor: u32,
    /// Windows per smoothed RTT at which packets are paced.
    gain: f64,
    /// Fixed from outside, bytes per second; otherwise one window per smoothed RTT.
    pacing: Option<u64>,
}

impl AgentWindow {
    fn set_pacing(&self, conn: &mut Conn) {
        match self.pacing {
            Some(rate) => conn.pacing_rate = rate,
            None if self.gain == 1.0 => conn.pacing_rate = window_rate(conn),
            None => conn.pacing_rate = (self.gain * window_rate(conn) as f64) as u64,
        }
    }
}

impl Controller for AgentWindow {
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn init(&mut self, conn: &mut Conn) {
        conn.cwnd = self.initial;
        self.set_pacing(conn);
    }

    fn cong_avoid(&mut self, _conn: &mut Conn, _acked: u32) {}

    fn ssthresh(&mut self, conn: &mut Conn) -> u32 {
        conn.cwnd.max(10)
    }

    fn undo(&mut self, conn: &mut Conn) -> u32 {
        conn.cwnd
    }

    fn owns_window(&self) -> bool {
        true
    }

    fn control(&mut self, conn: &mut Conn, _rate: &RateSample) {
        self.set_pacing(conn);
    }

    fn keeps_window_on_rto(&self) -> bool {
        true
    }

    fn paces(&self) -> bool {
        true
    }

    fn set_window(&mut self, conn: &mut Conn, cwnd: u32, pacing: Option<u64>) -> bool {
        conn.cwnd = cwnd.clamp(self.floor, CWND_MAX);
        self.pacing = pacing;
        self.set_pacing(conn);
        true
    }
}

/// MTU * max(cwnd, packets out) / srtt, bytes per second; 0 (unpaced) before the first sample.
fn window_rate(conn: &Conn) -> u64 {
    let window = u64::from(conn.cwnd.max(conn.packets_out()));
    if conn.srtt8_us == 0 { 0 } else { MTU * window * 8_000_000 / u64::from(conn.srtt8_us) }
}

/// Cubic, whose window an agent scales from time to time.
#[derive(Clone, Debug)]
pub struct AgentOverCubic {
    cubic: Cubic,
    /// The first slow start is over; until then the agent is not heard.
    found_capacity: bool,
}

impl Controller for AgentOverCubic {
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn init(&mut self, conn: &mut Conn) {
        self.cubic.init(conn);
    }

    fn on_delivered(&mut self, conn: &mut Conn, delivered: u32, rtt_us: Option<u32>) {
        self.cubic.on_delivered(conn, delivered, rtt_us);
    }

    fn cong_avoid(&mut self, conn: &mut Conn, acked: u32) {
        self.cubic.cong_avoid(conn, acked);
    }

    fn ssthresh(&mut self, conn: &mut Conn) -> u32 {
        self.cubic.ssthresh(conn)
    }

    fn on_state(&mut self, conn: &mut Conn, new: CaState) {
        self.cubic.on_state(conn, new);
    }

    fn on_event(&mut self, conn: &mut Conn, event: Event) {
        self.cubic.on_event(conn, event);
    }

    fn set_window(&mut self, conn: &mut Conn, cwnd: u32, _pacing: Option<u64>) -> bool {
        self.found_capacity |= !conn.in_slow_start();
        // TCP sets the window itself while it recovers.
        let heard = self.found_capacity && matches!(conn.state, CaState::Open | CaState::Disorder);
        if heard && cwnd != conn.cwnd {
            conn.cwnd = cwnd.clamp(CWND_MIN, CWND_MAX);
            // A smaller window is no reason for slow start: the agent made it.
            conn.ssthresh = conn.ssthresh.min(conn.cwnd);
            self.cubic.resume();
        }
        heard
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::conn;
    use super::*;

    #[test]
    fn an_agent_over_cubic_is_heard_after_slow_start_and_outside_of_recoveries() {
        let mut agent = AgentOverCubic { cubic: Cubic::linux(crate::spec::Kernel::V6), found_capacity: false };
        let mut c = conn(50, 100);
        assert!(!agent.set_window(&mut c, 200, None));
        c.ssthresh = 50;
        assert!(agent.set_window(&mut c, 25, None));
        assert_eq!((c.cwnd, c.ssthresh), (25, 25), "not back to slow start");
        c.ssthresh = 40;
        assert!(agent.set_window(&mut c, 0, None), "once heard, always heard");
        assert_eq!(c.cwnd, CWND_MIN);
        c.state = CaState::Recovery;
        assert!(!agent.set_window(&mut c, 100, None));
    }
}
