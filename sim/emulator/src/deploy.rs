//! `deploy`, `undeploy`, `deployed` and `object`: a policy as a congestion control of this kernel that needs no process.
//!
//! What is loaded hangs on files below [`ROOT`], one folder per policy: `link`, which keeps the congestion control
//! registered, and `counters`. A folder gets its name in one step when it is complete.

use std::ffi::{CString, OsStr};
use std::fs;
use std::io::{self, Read, Write};
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapFlags, MapHandle, ObjectBuilder};
use orbitcc_fixed::layout::{Limits, Parameters, Program};
use serde_json::{Value, json};

/// Compiled from `bpf/deploy.bpf.c` and `bpf/deploy_kernel.bpf.c` by `make bpf`: for policies whose window stands through
/// recoveries, and for those that leave recoveries to the kernel.
static HOLDS: &[u8] = include_bytes!("../bpf/deploy.bpf.o");
static KERNEL_RECOVERS: &[u8] = include_bytes!("../bpf/deploy_kernel.bpf.o");
/// The congestion control's name in it, and the beginning of the policy's bytes, as in `bpf/fixed_policy.h`.
const PLACEHOLDER: &[u8; 15] = b"orbitcc_policy_";
const MAGIC: [u64; 2] = [0x6f72_6269_7463_6331, 0x706f_6c69_6379_3031];
/// Bytes of a policy behind its magic: `struct limits` and `struct program`.
const POLICY: usize = size_of::<Limits>() + size_of::<Program>();
/// Where they say whether the window stands through recoveries.
const HOLD: usize = size_of::<Limits>() + offset_of!(Program, parameters) + offset_of!(Parameters, hold);

const BPF_FILES: &str = "/sys/fs/bpf";
const ROOT: &str = "/sys/fs/bpf/orbitcc";
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
const FREED: Duration = Duration::from_secs(5);
/// `struct counters` of the program.
const COUNTERS: [&str; 9] =
    ["opened", "closed", "acks", "decisions", "fallbacks", "ack_ns", "decision_ns", "taken_over", "handed_back"];

/// Do what the arguments say; the answer goes to the standard output.
pub fn run(arguments: &[String]) -> Result<(), String> {
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["object", name] => {
            let object = object(name, &input()?)?;
            io::stdout().write_all(&object).map_err(|error| format!("the standard output: {error}"))
        }
        ["deploy", name] => deploy(name, &input()?),
        ["undeploy", name] => undeploy(name),
        ["deployed"] => {
            println!("{}", Value::Array(deployed()?));
            Ok(())
        }
        _ => Err("object NAME, deploy NAME, undeploy NAME or deployed".into()),
    }
}

fn input() -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes).map_err(|error| format!("the standard input: {error}"))?;
    Ok(bytes)
}

/// A name that the kernel and its BPF file system take.
fn checked(name: &str) -> Result<&str, String> {
    let fits = (1..=15).contains(&name.len()) && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_');
    if fits { Ok(name) } else { Err("1 to 15 letters, digits and underscores".into()) }
}

/// The one place of these bytes.
fn place(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    let mut found = bytes.windows(wanted.len()).enumerate().filter(|(_, window)| *window == wanted).map(|(at, _)| at);
    found.next().filter(|_| found.next().is_none())
}

/// The program with a name and a policy in it.
fn object(name: &str, policy: &[u8]) -> Result<Vec<u8>, String> {
    let name = checked(name)?;
    let magic: Vec<u8> = MAGIC.iter().flat_map(|word| word.to_le_bytes()).collect();
    let broken = "the BPF program in this orbitcc-emulator is not as it should be";
    if policy.len() != POLICY {
        return Err(format!("a policy of {POLICY} bytes on the standard input, not {}", policy.len()));
    }
    let holds = policy[HOLD..HOLD + 4] != [0; 4];
    let mut program = if holds { HOLDS } else { KERNEL_RECOVERS }.to_vec();
    let at = place(&program, PLACEHOLDER).ok_or(broken)?;
    program[at..at + PLACEHOLDER.len()].fill(0);
    program[at..at + name.len()].copy_from_slice(name.as_bytes());
    let at = place(&program, &magic).ok_or(broken)?;
    program[at + magic.len()..at + magic.len() + POLICY].copy_from_slice(policy);
    Ok(program)
}

fn folder(name: &str) -> PathBuf {
    Path::new(ROOT).join(name)
}

/// The folder of all policies; the BPF file system is mounted where it is not.
fn prepare() -> Result<(), String> {
    let failed = |error: io::Error| format!("{ROOT}: {error}");
    // SAFETY: the structure is plain memory, written by the call.
    let mounted = unsafe {
        let mut found: libc::statfs = std::mem::zeroed();
        let path = CString::new(BPF_FILES).expect("no zero byte");
        libc::statfs(path.as_ptr(), &mut found) == 0 && found.f_type == libc::BPF_FS_MAGIC as libc::__fsword_t
    };
    if !mounted {
        let [kind, path] = ["bpf", BPF_FILES].map(|text| CString::new(text).expect("no zero byte"));
        // SAFETY: all are strings that outlive the call.
        let result = unsafe { libc::mount(kind.as_ptr(), path.as_ptr(), kind.as_ptr(), 0, std::ptr::null()) };
        if result != 0 {
            return Err(format!("{BPF_FILES}: the BPF file system: {}", io::Error::last_os_error()));
        }
    }
    fs::create_dir_all(ROOT).map_err(failed)?;
    clear()
}

/// Remove the folders of loaders that were killed: what they had registered would be active, and not listed.
fn clear() -> Result<(), String> {
    let Ok(entries) = fs::read_dir(ROOT) else { return Ok(()) };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let mut parts = name.to_str().unwrap_or_default().split('~').skip(1);
        if let (Some(process), started) = (parts.next(), parts.next())
            && (started.is_none() || start_of(process).as_deref() != started)
        {
            remove(&entry.path()).map_err(|error| format!("{ROOT}: {error}"))?;
        }
    }
    Ok(())
}

/// When a process started, as the kernel counts it: it tells a process from a later one with its number.
fn start_of(process: &str) -> Option<String> {
    let stat = fs::read_to_string(Path::new("/proc").join(process).join("stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19).map(str::to_owned)
}

/// Remove a folder: the link first, so that no policy stays without its counters.
fn remove(folder: &Path) -> io::Result<()> {
    for name in ["link", "counters"] {
        match fs::remove_file(folder.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::remove_dir(folder)
}

fn deploy(name: &str, object: &[u8]) -> Result<(), String> {
    let name = checked(name)?;
    let named = [name.as_bytes(), &[0]].concat();
    if !object.windows(named.len()).any(|window| window == named) {
        return Err("the name in the object on the standard input".into());
    }
    prepare()?;
    let taken = || format!("a name that is not deployed (`undeploy {name}` removes what is)");
    let target = folder(name);
    if target.exists() {
        return Err(taken());
    }
    let failed = |what: &'static str| move |error: libbpf_rs::Error| format!("{what}: {error:#}");
    libbpf_rs::set_print(None);
    let open = ObjectBuilder::default().open_memory(object).map_err(failed("an object that libbpf can read"))?;
    let mut loaded = open.load().map_err(failed("a BPF program that this kernel takes"))?;
    let process = std::process::id().to_string();
    let started = start_of(&process).unwrap_or_default();
    let part = Path::new(ROOT).join(format!("{name}~{process}~{started}"));
    fs::create_dir(&part).map_err(|error| format!("{}: {error}", part.display()))?;
    let done = (|| {
        let find = |wanted: &str| format!("the BPF program has no map {wanted}");
        let mut maps: Vec<_> = loaded.maps_mut().collect();
        let counters = maps.iter_mut().find(|map| map.name() == OsStr::new("counters"));
        counters.ok_or_else(|| find("counters"))?.pin(part.join("counters")).map_err(failed("counters"))?;
        let ops = maps.iter_mut().find(|map| map.name() == OsStr::new("deploy"));
        let mut link = ops.ok_or_else(|| find("deploy"))?.attach_struct_ops().map_err(|error| {
            if error.kind() == libbpf_rs::ErrorKind::AlreadyExists {
                "a name that no congestion control of this kernel has".into()
            } else {
                format!("registering with the kernel's TCP: {error:#}")
            }
        })?;
        link.pin(part.join("link")).map_err(failed("link"))?;
        // Only one of two that are loaded at the same time gets the name.
        fs::rename(&part, &target).map_err(|_| taken())
    })();
    if done.is_err() {
        remove(&part).ok();
    }
    done
}

fn undeploy(name: &str) -> Result<(), String> {
    let target = folder(checked(name)?);
    clear()?;
    if !target.exists() {
        return Err("a name that is deployed".into());
    }
    remove(&target).map_err(|error| format!("{}: {error}", target.display()))?;
    fs::remove_dir(ROOT).ok(); // if it was the last one
    // The kernel unregisters the congestion control a moment after the last file is gone.
    let until = Instant::now() + FREED;
    while fs::read_to_string(AVAILABLE).is_ok_and(|names| names.split_whitespace().any(|other| other == name))
        && Instant::now() < until
    {
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Every policy with its counters, sums over all cores.
fn deployed() -> Result<Vec<Value>, String> {
    clear()?;
    let Ok(entries) = fs::read_dir(ROOT) else { return Ok(Vec::new()) };
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| !name.contains('~'));
    names.sort();
    names.iter().map(|name| counters(name)).collect()
}

fn counters(name: &str) -> Result<Value, String> {
    let failed = |error: libbpf_rs::Error| format!("{name}: its counters: {error:#}");
    let map = MapHandle::from_pinned_path(folder(name).join("counters")).map_err(failed)?;
    let cores = map.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(failed)?.unwrap_or_default();
    let mut told = json!({"name": name});
    for (k, field) in COUNTERS.iter().enumerate() {
        told[*field] = cores.iter().map(|bytes| counter(bytes, k)).sum::<u64>().into();
    }
    Ok(told)
}

/// One counter of a core; 0 if the program, of an earlier version, does not count it.
fn counter(bytes: &[u8], k: usize) -> u64 {
    bytes.get(8 * k..).and_then(<[u8]>::first_chunk).map_or(0, |word| u64::from_ne_bytes(*word))
}

#[cfg(test)]
mod tests;
