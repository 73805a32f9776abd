//! Run a network from its JSON text: `cargo run --release --example network -- network.json`. Says how many packets
//! receivers and links got, and the hash of all events. `benches/instructions.py` counts what `run` executes.

use std::process::ExitCode;

use orbitcc_core::spec::NetworkSpec;
use orbitcc_core::time::Nanos;
use orbitcc_core::world::{Policies, World};

/// Flows driven from outside are watched so often, with this window (segments) and pacing rate (bytes per second).
const INTERVAL: Nanos = Nanos::from_millis(30);
const WINDOW: u32 = 495;
const PACING: u64 = 12_500_000;

#[inline(never)]
fn run(world: &mut World) {
    let external: Vec<usize> = (0..world.flows().len()).filter(|i| world.flows()[*i].is_external()).collect();
    let mut next = INTERVAL;
    while !external.is_empty() && !world.is_finished() {
        world.run_until(next);
        next += INTERVAL;
        world.close_intervals(|flow| flow.is_external());
        external.iter().for_each(|i| world.set_window(*i, WINDOW, Some(PACING)));
    }
    world.run();
}

fn main() -> ExitCode {
    let mut failed = false;
    for file in std::env::args().skip(1) {
        let read = std::fs::read_to_string(&file).map_err(|e| e.to_string());
        let network = read.and_then(|text| NetworkSpec::from_json(&text).map_err(|e| e.to_string()));
        match network.and_then(|spec| World::new(&spec, &Policies::new(), Nanos::ZERO).map_err(|e| e.to_string())) {
            Ok(mut world) => {
                run(&mut world);
                let received: u64 = world.flows().iter().map(|flow| u64::from(flow.receiver.rcv_nxt)).sum();
                let hops: u64 = world.link_directions().iter().step_by(2).map(|link| link.counters.delivered).sum();
                println!("{received} {hops} {} {:016x}", world.events(), world.event_hash());
            }
            Err(error) => {
                eprintln!("error: {file}: {error}");
                failed = true;
            }
        }
    }
    if failed { ExitCode::from(2) } else { ExitCode::SUCCESS }
}
