//! The process that holds a live world's real hosts.

use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};

use orbitcc_core::flow::Flow;
use orbitcc_core::observe::policy::Failure;
use orbitcc_core::spec::{NetworkSpec, SpecError};
use orbitcc_core::time::Nanos;
use orbitcc_core::wire::Remote;
use orbitcc_core::world::World;
use orbitcc_core::world::kernel_hosts::{Connect, Hosts, Reading};
use serde_json::{Value, json};

/// `orbitcc-emulator` at work. Dropping it ends it.
pub struct Emulator {
    remote: Remote<ChildStdout, ChildStdin>,
    child: Child,
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Hosts for Emulator {
    fn read_at(&mut self, at: Nanos, reading: &mut Reading) -> Result<(), Failure> {
        self.remote.read_at(at, reading)
    }

    fn set_window(&mut self, flow: usize, cwnd: u32, pacing: Option<u64>) -> Result<(), Failure> {
        self.remote.set_window(flow, cwnd, pacing)
    }
}

impl Emulator {
    /// The program at `path`, at work on a network whose flows are `world`'s. The clock runs from now on. `programs`: of
    /// somebody else, for some of the flows.
    pub fn start(path: &str, spec: &NetworkSpec, world: &World, programs: &Value) -> Result<Emulator, SpecError> {
        let setup = json!({"network": spec, "agents": agents(spec, world.flows()), "programs": programs});
        let started = Command::new(path).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| SpecError(format!("emulator {path}: {error}")))?;
        let (from, to) = (child.stdout.take().expect("piped"), child.stdin.take().expect("piped"));
        match Remote::open(from, to, &setup.to_string()) {
            Ok(remote) => Ok(Emulator { remote, child }),
            Err(failure) => {
                child.kill().ok();
                child.wait().ok();
                Err(SpecError(failure.to_string()))
            }
        }
    }

    /// What it reports at its end, JSON text.
    pub fn finish(&mut self) -> Result<String, Failure> {
        self.remote.finish()
    }
}

/// The hosts of new worlds that are not the simulator's: those of an emulator of their own, where its program is given, and
/// those of QUIC.
pub fn connect(program: Option<&str>) -> Arc<Connect> {
    match program.map(str::to_owned) {
        Some(path) => Arc::new(move |spec, world| {
            let emulator = Emulator::start(&path, spec, world, &json!([]))?;
            world.follow(Arc::new(Mutex::new(emulator)));
            Ok(())
        }),
        None => Arc::new(host),
    }
}

#[cfg(feature = "quic")]
pub fn host(spec: &NetworkSpec, world: &mut World) -> Result<(), SpecError> {
    orbitcc_quic::host(spec, world);
    Ok(())
}

#[cfg(not(feature = "quic"))]
pub fn host(_spec: &NetworkSpec, world: &mut World) -> Result<(), SpecError> {
    match world.flows().iter().position(|flow| flow.hosted) {
        Some(i) => Err(SpecError(format!("flows[{i}].transport = quic: must be tcp; this build has no QUIC"))),
        None => Ok(()),
    }
}

/// What the kernel's side has to know of the flows that agents drive: parameters of what is under their actions.
fn agents(spec: &NetworkSpec, flows: &[Flow]) -> Vec<Value> {
    let mut list = Vec::new();
    for (i, flow) in flows.iter().enumerate() {
        let Some(agent) = &flow.agent else { continue };
        let mut params = spec.flows[i].controller.params.clone();
        params.extend(agent.action.controller.clone());
        let number = |name: &str, default: f64| params.get(name).and_then(Value::as_f64).unwrap_or(default);
        let text = |name: &str, default| params.get(name).and_then(Value::as_str).unwrap_or(default);
        list.push(json!({
            "flow": i,
            "form": if text("over", "none") == "cubic" { "cubic" } else { text("recovery", "hold") },
            "pacing_gain": number("pacing_gain", 1.0),
            "initial_cwnd": number("initial_cwnd", 10.0) as u32,
        }));
    }
    list
}
