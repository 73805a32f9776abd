//! Settings that hold for the whole machine: kept while they are needed, put back afterwards, also after a kill.
//!
//! The switches of tcp_cubic belong to its module, not to a network namespace. Who needs other values than those that
//! stand locks them for himself; who needs those that stand shares them. A child process waits for the emulator's end and
//! puts the old values back.

use std::fs::{self, File};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::PathBuf;

use orbitcc_core::spec::ControllerSpec;

use crate::sys;

const CUBIC: &str = "/sys/module/tcp_cubic/parameters";

/// What holds until this is dropped.
pub struct Machine {
    _lock: Option<File>,
    _end: Option<OwnedFd>,
}

/// The module's parameters for a Cubic of the simulator's parameters, by file.
fn wanted(controller: &ControllerSpec) -> Option<[(&'static str, &'static str); 4]> {
    let text = |name: &str, default: &'static str| {
        controller.params.get(name).and_then(|value| value.as_str()).unwrap_or(default).to_owned()
    };
    let switch = |name: &str| match text(name, "on").as_str() {
        "on" => Some("1"),
        "off" => Some("0"),
        _ => None,
    };
    // Bit 1: by ACK trains, bit 2: by delay.
    let (hystart, detect) = match text("hystart", "both").as_str() {
        "both" => ("1", "3"),
        "train" => ("1", "1"),
        "delay" => ("1", "2"),
        "off" => ("0", "3"),
        _ => return None,
    };
    Some([
        ("hystart", hystart),
        ("hystart_detect", detect),
        ("fast_convergence", switch("fast_convergence")?),
        ("tcp_friendliness", switch("friendliness")?),
    ])
}

impl Machine {
    /// As these controllers need it.
    pub fn prepare(controllers: &[&ControllerSpec]) -> Result<Machine, String> {
        let mut needed = None;
        for (i, controller) in controllers.iter().enumerate().filter(|(_, c)| c.name == "cubic") {
            let own = wanted(controller)
                .ok_or_else(|| format!("flows[{i}].controller: Linux's cubic has no such parameters"))?;
            if needed.is_some_and(|other| other != own) {
                return Err(format!(
                    "flows[{i}].controller: parameters of Linux's cubic hold for the whole machine, so all cubic flows \
                     of a run have the same"
                ));
            }
            needed = Some(own);
        }
        match needed {
            None => Ok(Machine { _lock: None, _end: None }),
            Some(values) => {
                Machine::set(&values).map_err(|error| format!("flows: parameters of tcp_cubic ({CUBIC}): {error}"))
            }
        }
    }

    fn set(values: &[(&str, &str)]) -> io::Result<Machine> {
        let path = |name: &str| PathBuf::from(CUBIC).join(name);
        let lock = File::open(path("hystart"))?;
        let busy = || io::Error::other("another run holds them at other values");
        if !sys::lock(&lock, false) {
            return Err(busy());
        }
        let mut changes = Vec::new();
        for (name, value) in values {
            let old = fs::read_to_string(path(name))?.trim().to_owned();
            if old != *value {
                changes.push((path(name), old, *value));
            }
        }
        if changes.is_empty() {
            return Ok(Machine { _lock: Some(lock), _end: None });
        }
        if !sys::lock(&lock, true) {
            return Err(busy());
        }
        let end = put_back_at_the_end(changes.iter().map(|(path, old, _)| (path.clone(), old.clone())).collect())?;
        for (path, _, value) in &changes {
            sys::set(path, value)?;
        }
        Ok(Machine { _lock: Some(lock), _end: Some(end) })
    }
}

/// When the descriptor is closed, by whatever end of this process, these files have these contents again. Before any
/// thread.
fn put_back_at_the_end(values: Vec<(PathBuf, String)>) -> io::Result<OwnedFd> {
    let mut ends = [0; 2];
    // SAFETY: two new descriptors. The child of a process without threads may do anything; it never returns.
    unsafe {
        sys::check(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC))?;
        let (read, write) = (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]));
        if sys::check(libc::fork())? > 0 {
            return Ok(write);
        }
        drop(write);
        libc::setsid();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGPIPE] {
            libc::signal(signal, libc::SIG_IGN);
        }
        for standard in 0..3 {
            libc::close(standard);
        }
        let mut byte = 0u8;
        while libc::read(std::os::fd::AsRawFd::as_raw_fd(&read), (&raw mut byte).cast(), 1) < 0 {}
        for (path, value) in values {
            sys::set(path, &value).ok();
        }
        libc::_exit(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cubic_of_the_simulator_is_one_of_the_module_or_none() {
        let cubic = |params: serde_json::Value| {
            let spec = ControllerSpec { name: "cubic".into(), params: params.as_object().unwrap().clone() };
            wanted(&spec).map(|values| values.map(|v| v.1))
        };
        assert_eq!(cubic(serde_json::json!({})), Some(["1", "3", "1", "1"]));
        assert_eq!(cubic(serde_json::json!({"hystart": "off", "friendliness": "off"})), Some(["0", "3", "1", "0"]));
        assert_eq!(cubic(serde_json::json!({"hystart": "search"})), None);
    }
}
