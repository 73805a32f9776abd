//! `orbitcc-emulator`: real packets over the simulator's links, real TCP of this machine at their ends.
//!
//! Without arguments it is told on its standard input what to set up, then what to do (`orbitcc_core::wire`), and answers
//! on its standard output; when its input ends, everything it made is gone. `probe` prints what it can do. `object`,
//! `deploy`, `undeploy` and `deployed` concern policies that stay in the kernel ([`deploy`]).

#[cfg(target_os = "linux")]
mod carrier;
#[cfg(target_os = "linux")]
mod lateness;
#[cfg(target_os = "linux")]
mod machine;
#[cfg(target_os = "linux")]
mod namespaces;
#[cfg(target_os = "linux")]
mod programs;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod server;
#[cfg(target_os = "linux")]
mod setup;
#[cfg(target_os = "linux")]
mod sockets;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(target_os = "linux")]
mod tcp_flows;

#[cfg(all(target_os = "linux", feature = "agents"))]
mod agents;
#[cfg(all(target_os = "linux", not(feature = "agents")))]
#[path = "no_agents.rs"]
mod agents;
#[cfg(all(target_os = "linux", feature = "agents"))]
mod deploy;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("probe") => {
            println!("{}", serde_json::json!({"version": env!("CARGO_PKG_VERSION"), "agents": agents::BUILT_IN}));
            std::process::ExitCode::SUCCESS
        }
        #[cfg(feature = "agents")]
        Some("object" | "deploy" | "undeploy" | "deployed") => {
            let arguments: Vec<String> = std::env::args().skip(1).collect();
            match deploy::run(&arguments) {
                Ok(()) => std::process::ExitCode::SUCCESS,
                Err(line) => {
                    let name = arguments.get(1).map_or("", String::as_str);
                    eprintln!("name: {name:?} is not allowed; allowed: {line}");
                    std::process::ExitCode::from(2)
                }
            }
        }
        Some(other) => {
            eprintln!("orbitcc-emulator: {other:?} is not known; give nothing, or probe");
            std::process::ExitCode::from(2)
        }
        None => run::run(),
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("orbitcc-emulator: Linux only");
    std::process::exit(2);
}
