//! For tests: a controller over a simulated path, read after every ACK.

use std::sync::{Arc, Mutex};

use super::super::{CaState, Conn, Controller, Event, RateSample, Transmission};
use crate::spec::*;
use crate::time::Nanos;
use crate::units::BitRate;
use crate::world::{Policies, World};

pub type Read<C, R> = fn(&C, &Conn, &RateSample) -> R;

struct Watched<C, R> {
    inner: C,
    read: Read<C, R>,
    log: Arc<Mutex<Vec<R>>>,
}

impl<C: Controller + Clone + 'static, R: Send + 'static> Controller for Watched<C, R> {
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Watched { inner: self.inner.clone(), read: self.read, log: self.log.clone() })
    }

    fn init(&mut self, conn: &mut Conn) {
        self.inner.init(conn);
    }

    fn cong_avoid(&mut self, _conn: &mut Conn, _acked: u32) {}

    fn ssthresh(&mut self, conn: &mut Conn) -> u32 {
        self.inner.ssthresh(conn)
    }

    fn undo(&mut self, conn: &mut Conn) -> u32 {
        self.inner.undo(conn)
    }

    fn on_state(&mut self, conn: &mut Conn, new: CaState) {
        self.inner.on_state(conn, new);
    }

    fn on_event(&mut self, conn: &mut Conn, event: Event) {
        self.inner.on_event(conn, event);
    }

    fn control(&mut self, conn: &mut Conn, rate: &RateSample) {
        self.inner.control(conn, rate);
        self.log.lock().unwrap().push((self.read)(&self.inner, conn, rate));
    }

    fn on_packet_lost(&mut self, conn: &mut Conn, packet: &Transmission) {
        self.inner.on_packet_lost(conn, packet);
    }
}

pub fn secs(s: f64) -> Nanos {
    Nanos((s * 1e9).round() as u64)
}

/// One link of 1500-byte packets, half the RTT each way, drop-tail.
pub fn path(controller: &str, rate_mbps: f64, rtt_ms: f64, buffer_bdp: f64, seconds: f64) -> NetworkSpec {
    let delay = DelaySpec { interpolate: false, points: vec![(Nanos::ZERO, secs(rtt_ms / 2e3))] };
    let limit = (rate_mbps * rtt_ms * 125.0 * buffer_bdp) as u64;
    let (name, draft) = controller.split_once(':').unwrap_or((controller, "off"));
    let params = if name == "bbr3" { serde_json::json!({"draft": draft}) } else { serde_json::json!({}) };
    NetworkSpec {
        seed: 1,
        duration: secs(seconds),
        tcp: TcpSpec { header_bytes: 52, ack_bytes: 52, rmem: [4096, 1 << 26, 1 << 28], ..TcpSpec::default() },
        noise: NoiseSpec::default(),
        exact: false,
        links: vec![LinkSpec {
            name: "path".into(),
            forward: DirectionSpec {
                rate: vec![(Nanos::ZERO, mbps(rate_mbps))],
                delay: delay.clone(),
                queue: QueueSpec::DropTailBytes { limit: limit.max(15_000) },
                ..DirectionSpec::default()
            },
            reverse: DirectionSpec { delay, ..DirectionSpec::default() },
            outages: Vec::new(),
            handovers: Vec::new(),
        }],
        flows: vec![FlowSpec {
            name: "flow".into(),
            path: vec![0],
            return_path: None,
            reroutes: Vec::new(),
            start: Nanos::ZERO,
            stop: None,
            uplink_delay: Nanos::ZERO,
            controller: ControllerSpec { name: name.into(), params: params.as_object().unwrap().clone() },
            traffic: TrafficSpec::default(),
            receiver: ReceiverSpec::default(),
            delay_preference: 0.0,
            follows: None,
            watched: false,
            relays: None,
            quic: None,
        }],
    }
}

pub fn mbps(rate: f64) -> BitRate {
    BitRate((rate * 1e6) as u64)
}

/// Run with `controller` in the place of the first flow's, which has to be of the same kind.
pub fn watch<C, R>(spec: &NetworkSpec, controller: C, read: Read<C, R>) -> Vec<R>
where
    C: Controller + Clone + 'static,
    R: Send + 'static,
{
    let log = Arc::new(Mutex::new(Vec::new()));
    let mut world = World::new(spec, &Policies::new(), Nanos::ZERO).unwrap();
    world.flows[0].sender.cc = Box::new(Watched { inner: controller, read, log: log.clone() });
    world.run();
    drop(world);
    Arc::into_inner(log).expect("the world is gone").into_inner().unwrap()
}
