//! A window set from outside: by the environment (`external`) or by a network running natively (`policy`).
//!
//! As in Astraea's kernel module: no slow start, no reaction to loss of its own (the window stands through recovery
//! and timeouts until the agent moves it), packets paced at one window per smoothed RTT (Liao et al., EuroSys 2024).

use super::{Conn, Controller, Params, RateSample};

pub const PARAMS: &[(&str, &str)] = &[("initial_cwnd", "10")];
pub const POLICY_PARAMS: &[(&str, &str)] = &[("initial_cwnd", "10"), ("policy", "null")];

/// Smallest window an agent may set, segments (Astraea's option handler).
pub const CWND_MIN: u32 = 4;
/// Largest window an agent may set, segments.
pub const CWND_MAX: u32 = 1 << 20;
/// Wire bytes per segment in the pacing formula.
const MTU: u64 = 1500;

pub fn build(params: &Params) -> Result<Box<dyn Controller>, String> {
    let initial = params.number("initial_cwnd", 10.0, f64::from(CWND_MIN), 1e6)?;
    Ok(Box::new(AgentWindow { initial: initial as u32, pacing: None }))
}

#[derive(Clone, Debug)]
pub struct AgentWindow {
    initial: u32,
    /// Fixed from outside, bytes per second; otherwise one window per smoothed RTT.
    pacing: Option<u64>,
}

impl AgentWindow {
    fn set_pacing(&self, conn: &mut Conn) {
        match self.pacing {
            Some(rate) => conn.pacing_rate = rate,
            None => conn.pacing_rate = window_rate(conn),
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
        conn.cwnd = cwnd.clamp(CWND_MIN, CWND_MAX);
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
