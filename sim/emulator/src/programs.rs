//! Programs of somebody else in place of a flow's hosts: a client on one side of the links, and its server on the other.
//!
//! Each is the first process of a PID namespace, so that nothing it has started outlives it, or us.

use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use orbitcc_core::tcp::sender::kernel_reading::FlowReading;
use orbitcc_core::time::Nanos;
use orbitcc_core::world::World;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::carrier::{PORTS, address};
use crate::namespaces::{Namespace, TUN};
use crate::sys::{self, Interface};

/// A server must listen, and a client must send, within this.
const PATIENCE: Duration = Duration::from_secs(10);
/// So much payload shows in which direction the data go.
const TELLING_BYTES: u64 = 100_000;
/// Of an output, what is kept for its last line.
const KEPT: usize = 4096;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    flow: usize,
    name: String,
    client: Vec<String>,
    server: Vec<String>,
    port: u16,
    /// Port of the links where the client is; its server is at the other.
    side: usize,
    /// When it is ended.
    stop: Nanos,
    /// Is this side known to be right? Data must come in at port 0.
    settled: bool,
}

struct Process {
    child: Child,
    /// Last lines of stderr and stdout.
    said: Option<[JoinHandle<String>; 2]>,
}

impl Process {
    fn start(words: &[String], place: &Namespace) -> Result<Process, String> {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let network = place.fd();
        // SAFETY: the function calls nothing but the kernel.
        unsafe { command.pre_exec(move || sys::isolate(network)) };
        let mut child = command.spawn().map_err(|error| format!("{:?} cannot be started: {error}", words[0]))?;
        let (stderr, stdout) = (child.stderr.take().expect("piped"), child.stdout.take().expect("piped"));
        Ok(Process { child, said: Some([last_line(stderr), last_line(stdout)]) })
    }

    /// How it has ended, if it has.
    fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        let [stderr, stdout] = self.said.take()?.map(|thread| thread.join().unwrap_or_default());
        let line = if stderr.is_empty() { stdout } else { stderr };
        let said = if line.is_empty() { "it said nothing".into() } else { format!("its last line: {line}") };
        Some(format!("exit code {} ({said})", status.code().unwrap_or(-1)))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn last_line(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let (mut kept, mut buffer) = (Vec::new(), [0; KEPT]);
        while let Ok(size @ 1..) = pipe.read(&mut buffer) {
            kept.extend(&buffer[..size]);
            kept.drain(..kept.len().saturating_sub(KEPT));
        }
        let text = String::from_utf8_lossy(&kept);
        text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default().to_owned()
    })
}

struct Pair {
    spec: Program,
    start: Nanos,
    server: Process,
    client: Option<Process>,
    /// Has its flow ended? The reading is then that of its end.
    over: bool,
    latest: FlowReading,
}

#[derive(Default)]
pub struct Programs {
    pairs: Vec<Pair>,
    /// What went wrong since the last reading.
    failure: Option<String>,
}

impl Programs {
    /// Start the servers, and wait until they listen.
    pub fn start(specs: Vec<Program>, planned: &World, places: &[Namespace; PORTS]) -> Result<Programs, String> {
        let mut pairs = Vec::new();
        if !specs.is_empty() {
            sys::go_early();
        }
        for spec in specs {
            for (side, place) in places.iter().enumerate() {
                let ends = (address(side, spec.flow), address(1 - side, spec.flow));
                place
                    .within(|| Interface::new(TUN)?.route_from(ends.0, ends.1))
                    .map_err(|error| format!("network namespaces: a route: {error}"))?;
            }
            let server = Process::start(&spec.server, &places[1 - spec.side])
                .map_err(|error| format!("program {}: its server {error}", spec.name))?;
            let (start, latest) = (planned.flows()[spec.flow].start, FlowReading::default());
            pairs.push(Pair { spec, start, server, client: None, over: false, latest });
        }
        let began = Instant::now();
        for pair in &mut pairs {
            let Program { name, port, side, .. } = &pair.spec;
            while !places[1 - side].within(|| Ok(listens(*port))).unwrap_or(false) {
                if let Some(how) = pair.server.ended() {
                    return Err(format!("program {name}: its server ended before it listened, with {how}"));
                }
                if began.elapsed() > PATIENCE {
                    return Err(format!("program {name}: its server does not listen at port {port} after 10 s"));
                }
                thread::sleep(Duration::from_millis(10));
            }
        }
        Ok(Programs { pairs, failure: None })
    }

    /// The flows whose hosts they are.
    pub fn flows(&self) -> Vec<usize> {
        self.pairs.iter().map(|pair| pair.spec.flow).collect()
    }

    /// Start the clients of these flows and wait for the first packet at a device, which nobody has taken yet: the time
    /// that programs need until they send is none of a run.
    pub fn begin(
        &mut self,
        places: &[Namespace; PORTS],
        devices: [OwnedFd; PORTS],
        first: impl Fn(usize) -> bool,
    ) -> Result<(), String> {
        for pair in self.pairs.iter_mut().filter(|pair| first(pair.spec.flow)) {
            pair.launch(places)?;
        }
        let began = Instant::now();
        let fds = devices.each_ref().map(AsRawFd::as_raw_fd);
        while !sys::wait_readable(fds, 10_000_000).contains(&true) {
            for pair in &mut self.pairs {
                pair.check(Nanos::ZERO)?;
                if began.elapsed() > PATIENCE {
                    return Err(format!("program {}: it has sent nothing in 10 s", pair.spec.name));
                }
            }
        }
        Ok(())
    }

    pub fn next_event(&self) -> Nanos {
        let next = |pair: &Pair| if pair.client.is_none() { pair.start } else { pair.spec.stop };
        self.pairs.iter().filter(|pair| !pair.over).map(next).min().unwrap_or(Nanos::MAX)
    }

    /// Start and end those whose time has come.
    pub fn advance(&mut self, now: Nanos, places: &[Namespace; PORTS]) {
        for pair in self.pairs.iter_mut().filter(|pair| !pair.over) {
            let mut done = Ok(());
            if pair.spec.stop <= now {
                done = pair.check(now);
                (pair.over, pair.client) = (true, None);
            } else if pair.client.is_none() && pair.start <= now {
                done = pair.launch(places);
            }
            self.failure = self.failure.take().or(done.err());
        }
    }

    /// Put what their packets tell in place of readings of our own hosts; or say what is wrong with one of them.
    pub fn read(&mut self, now: Nanos, crossings: &[FlowReading], flows: &mut [FlowReading]) -> Result<(), String> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        for pair in &mut self.pairs {
            let i = pair.spec.flow;
            if let Some(crossing) = crossings.get(i).filter(|_| !pair.over) {
                pair.latest = *crossing;
                pair.check(now)?;
            }
            flows[i] = pair.latest;
        }
        Ok(())
    }

    /// Payload in both directions, and where the data came from.
    pub fn report(&self) -> Value {
        let one = |pair: &Pair| {
            let (data, back) = (pair.latest.received_bytes, pair.latest.returned_bytes);
            json!({"flow": pair.spec.flow, "name": pair.spec.name, "data_bytes": data, "returned_bytes": back,
                "data_from": if pair.spec.side == 0 { "client" } else { "server" }})
        };
        self.pairs.iter().map(one).collect()
    }
}

impl Pair {
    fn launch(&mut self, places: &[Namespace; PORTS]) -> Result<(), String> {
        let started = Process::start(&self.spec.client, &places[self.spec.side]);
        self.client = Some(started.map_err(|error| format!("program {}: its client {error}", self.spec.name))?);
        Ok(())
    }

    fn check(&mut self, now: Nanos) -> Result<(), String> {
        let Program { flow, name, stop, settled, .. } = &self.spec;
        for (who, process) in [("client", self.client.as_mut()), ("server", Some(&mut self.server))] {
            if let Some(how) = process.and_then(Process::ended) {
                let (past, whole) = (now.saturating_sub(self.start).secs_f64(), (*stop - self.start).secs_f64());
                return Err(format!("program {name}: its {who} ended after {past:.1} s of {whole:.1} s, with {how}"));
            }
        }
        let FlowReading { received_bytes: there, returned_bytes: back, .. } = self.latest;
        if !settled && there + back >= TELLING_BYTES && back > there {
            return Err(format!("data from the server: {flow}"));
        }
        let late = now > self.start + Nanos::from_secs(PATIENCE.as_secs()) || now >= *stop;
        match there == 0 && late && self.client.is_some() {
            true => Err(format!("program {name}: it has sent nothing in {:.0} s", (now - self.start).secs_f64())),
            false => Ok(()),
        }
    }
}

/// Does somebody in the present namespace wait at this port, for connections or datagrams?
fn listens(port: u16) -> bool {
    ["tcp", "tcp6", "udp", "udp6"].into_iter().any(|kind| {
        let table = std::fs::read_to_string(format!("/proc/thread-self/net/{kind}")).unwrap_or_default();
        table.lines().skip(1).any(|line| {
            // Number, local address, remote address, state; 0A is LISTEN.
            let words: Vec<&str> = line.split_whitespace().take(4).collect();
            let [_, local, _, state] = words[..] else { return false };
            local.ends_with(&format!(":{port:04X}")) && (kind.starts_with("udp") || state == "0A")
        })
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn the_last_line_that_says_something_is_kept() {
        let said = format!("{}\nthe cause \n\n", "x".repeat(3 * KEPT));
        assert_eq!(last_line(io::Cursor::new(said)).join().unwrap(), "the cause");
        assert_eq!(last_line(io::empty()).join().unwrap(), "");
    }
}
