//! A window set from outside: by the environment (`external`) or by a policy in its world (`policy`).
//!
//! As in Astraea (Liao et al., EuroSys 2024): no slow start, packets paced at one window per smoothed RTT. `recovery` says
//! what losses do. `kernel`, as under Astraea's released kernel module: proportional rate reduction holds the window
//! during a recovery, which ends with the window from before it, and a timeout reduces it to one segment beyond what is
//! in flight. `hold`, as under a module that answers `cong_control`: the window stands through both.
//!
//! Or, as in Orca (Abbasloo et al., SIGCOMM 2020, and its released kernel and server), over Cubic, which reacts to every
//! ACK and loss: the agent sets the window at any time, and Cubic goes on from there.

use super::cubic::Cubic;
use super::{CaState, Conn, Controller, Event, Params, RateSample};
use crate::time::Nanos;

macro_rules! params {
    ($($more:expr),*) => {
        &[("initial_cwnd", "10"), ("over", "\"none\""), ("pacing_gain", "1.0"), ("floor", "4"),
          ("recovery", "\"hold\"") $(, $more)*]
    };
}
pub const PARAMS: &[(&str, &str)] = params!();
pub const POLICY_PARAMS: &[(&str, &str)] = params!(("policy", "null"));

/// Smallest window an agent may set unless told otherwise, segments (the option handler of Astraea and Orca).
pub const CWND_MIN: u32 = 4;
/// Largest window an agent may set, segments.
pub const CWND_MAX: u32 = 1 << 20;
/// Wire bytes per segment in the pacing formula.
const MTU: u64 = 1500;

pub fn build(params: &Params) -> Result<Box<dyn Controller>, String> {
    let initial = params.number("initial_cwnd", 10.0, 1.0, 1e6)?;
    let floor = params.number("floor", f64::from(CWND_MIN), 1.0, 1e6)?;
    let gain = params.number("pacing_gain", 1.0, 0.1, 10.0)?;
    let holds = params.text("recovery", "hold", &["kernel", "hold"])? == "hold";
    Ok(match params.text("over", "none", &["none", "cubic"])? {
        "cubic" => Box::new(AgentOverCubic::new(Cubic::linux(params.kernel))),
        _ => Box::new(AgentWindow { initial: initial as u32, floor: floor as u32, gain, pacing: None, holds }),
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
    /// The window stands through recoveries and timeouts.
    holds: bool,
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
        self.holds
    }

    fn control(&mut self, conn: &mut Conn, _rate: &RateSample) {
        self.set_pacing(conn);
    }

    fn keeps_window_on_rto(&self) -> bool {
        self.holds
    }

    fn after_ack(&mut self, conn: &mut Conn) {
        self.set_pacing(conn);
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

/// Cubic, whose window an agent scales from time to time. Packets are paced as under [`AgentWindow`].
///
/// Until Cubic has left its first slow start, the server of Orca raises the window by a tenth whenever it polls the
/// socket and finds a new ACK, and the agent is not heard.
#[derive(Clone, Debug)]
pub struct AgentOverCubic {
    cubic: Cubic,
    /// A poll has found that the first slow start is over.
    found_capacity: bool,
    next_poll: Nanos,
}

impl AgentOverCubic {
    /// Between two polls of Orca's server during the first slow start.
    const POLL: Nanos = Nanos::from_millis(2);

    fn new(cubic: Cubic) -> AgentOverCubic {
        AgentOverCubic { cubic, found_capacity: false, next_poll: Nanos::ZERO }
    }
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

    fn paces(&self) -> bool {
        true
    }

    fn after_ack(&mut self, conn: &mut Conn) {
        if !self.found_capacity && conn.now >= self.next_poll {
            self.next_poll = conn.now + AgentOverCubic::POLL;
            self.found_capacity = conn.ssthresh < conn.cwnd;
            if !self.found_capacity {
                conn.cwnd = ((1.1 * f64::from(conn.cwnd)) as u32).clamp(CWND_MIN, CWND_MAX);
            }
        }
        conn.pacing_rate = window_rate(conn);
    }

    fn set_window(&mut self, conn: &mut Conn, cwnd: u32, _pacing: Option<u64>) -> bool {
        self.found_capacity |= conn.ssthresh < conn.cwnd;
        if self.found_capacity {
            conn.cwnd = cwnd.clamp(CWND_MIN, CWND_MAX);
        }
        self.found_capacity
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::conn;
    use super::*;

    #[test]
    fn an_agent_over_cubic_is_heard_after_the_first_slow_start() {
        let mut agent = AgentOverCubic::new(Cubic::linux(crate::spec::Kernel::V6));
        let mut c = conn(50, 50);
        assert!(!agent.set_window(&mut c, 200, None), "at the threshold it is not over");
        c.ssthresh = 49;
        assert!(agent.set_window(&mut c, 25, None));
        assert_eq!((c.cwnd, c.ssthresh), (25, 49), "the threshold stays, so Cubic is in slow start again");
        assert!(agent.set_window(&mut c, 0, None), "once heard, always heard");
        assert_eq!(c.cwnd, CWND_MIN);
        c.state = CaState::Recovery;
        assert!(agent.set_window(&mut c, 100, None));
        assert_eq!(c.cwnd, 100);
    }

    #[test]
    fn polls_that_find_an_ack_raise_the_first_slow_start_by_a_tenth() {
        let mut agent = AgentOverCubic::new(Cubic::linux(crate::spec::Kernel::V6));
        let mut c = Conn { srtt8_us: 8 * 50_000, ..conn(45, 100) };
        let mut after = |ms: u64, c: &mut Conn| {
            c.now = Nanos::from_millis(ms);
            agent.after_ack(c);
            c.cwnd
        };
        assert_eq!([after(10, &mut c), after(11, &mut c), after(12, &mut c)], [49, 49, 53]);
        assert_eq!(c.pacing_rate, 1500 * 53 * 20, "one window of 53 segments per 50 ms");
        c.ssthresh = 50;
        assert_eq!([after(15, &mut c), after(20, &mut c)], [53, 53]);
        assert!(agent.found_capacity);
    }

    #[test]
    fn recovery_as_the_kernel_has_it_or_held() {
        let of = |recovery: &str| {
            let given = serde_json::json!({ "recovery": recovery });
            let params = given.as_object().unwrap();
            build(&Params { given: params, kernel: crate::spec::Kernel::V6 })
        };
        let (kernel, hold) = (of("kernel").unwrap(), of("hold").unwrap());
        assert_eq!((kernel.owns_window(), kernel.keeps_window_on_rto()), (false, false));
        assert_eq!((hold.owns_window(), hold.keeps_window_on_rto()), (true, true));
        assert_eq!(of("freeze").err().unwrap(), "recovery = \"freeze\": must be one of kernel, hold");
    }
}
