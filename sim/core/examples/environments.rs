//! Step environments on a network given as JSON: `cargo run --release --example environments -- network.json`. Says how many
//! steps agents made, and how many packets receivers got. `benches/instructions.py` counts what `step` executes.

use std::process::ExitCode;

use orbitcc_core::observe::preset::Preset;
use orbitcc_core::spec::NetworkSpec;
use orbitcc_core::time::Nanos;
use orbitcc_core::world::Policies;
use orbitcc_core::worlds::Worlds;

const WORLDS: usize = 16;
const STEPS: usize = 50;
/// The agents of a world share 1.2 times what a path of 30 ms at 1 bit/s holds, times its rate; segments on the wire.
const WINDOW: f64 = 1.2 * 0.030 / 8.0 / 1514.0;

#[inline(never)]
fn step(worlds: &mut Worlds, actions: &[f32], obs: &mut [f32], reward: &mut [f32], status: &mut [u8]) {
    worlds.step(Some(actions), obs, reward, status).expect("no action is NaN");
}

/// Steps of agents, and packets.
fn run(text: &str) -> Result<(usize, u64), String> {
    let spec = NetworkSpec::from_json(text).map_err(|e| e.to_string())?;
    let (agents, rate) = (spec.flows.len(), spec.links[0].forward.rate[0].1.0);
    let specs: Vec<_> = (1..=WORLDS as u64).map(|seed| NetworkSpec { seed, ..spec.clone() }).collect();
    let preset = Preset::astraea(Nanos::from_millis(30));
    let mut worlds = Worlds::new(&specs, agents, preset, 1, Policies::new(), None).map_err(|e| e.to_string())?;
    let window = (WINDOW * rate as f64 / agents as f64).max(4.0) as u32;
    for (index, flow) in (0..WORLDS).flat_map(|index| (0..agents).map(move |flow| (index, flow))) {
        worlds.member_mut(index).world.set_window(flow, window, Some(rate / 8 / agents as u64));
    }
    let places = WORLDS * agents;
    let (actions, mut obs) = (vec![0.0; places], vec![0.0; places * worlds.observation_dim()]);
    let (mut reward, mut status) = (vec![0.0; places], vec![0; places]);
    (0..STEPS).for_each(|_| step(&mut worlds, &actions, &mut obs, &mut reward, &mut status));
    let flows = (0..WORLDS).flat_map(|index| worlds.member(index).world.flows());
    Ok((STEPS * places, flows.map(|flow| u64::from(flow.receiver.rcv_nxt)).sum()))
}

fn main() -> ExitCode {
    let Some(file) = std::env::args().nth(1) else {
        eprintln!("error: give a file with a network");
        return ExitCode::from(2);
    };
    match std::fs::read_to_string(&file).map_err(|e| e.to_string()).and_then(|text| run(&text)) {
        Ok((steps, packets)) => println!("{steps} {packets}"),
        Err(error) => {
            eprintln!("error: {file}: {error}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
