//! Agents as congestion controllers of this kernel: the BPF program of `bpf/`, and the memory it shares with us.

use std::ffi::OsStr;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use libbpf_rs::{Link, MapCore, Object, ObjectBuilder};
use orbitcc_core::tcp::acks::Acks;
use orbitcc_core::time::Nanos;

use crate::setup::{Agent, Form};

pub const BUILT_IN: bool = true;

/// Compiled from `bpf/agent.bpf.c` by `make bpf`.
static PROGRAM: &[u8] = include_bytes!("../bpf/agent.bpf.o");
/// As in `bpf/agent.bpf.c`.
const SLOTS: usize = 1024;
/// What the program calls its controllers; names are the machine's, so every process has its own.
const PLACEHOLDERS: [&[u8; 9]; 3] = [b"orl_agent", b"orl_linux", b"orl_cubic"];
/// Their maps in the program, in the order of [`Form`].
const MAPS: [&str; 3] = ["agent", "linux_agent", "cubic"];

#[repr(C)]
#[derive(Clone, Copy)]
struct Sums {
    rtt_sum_us: u64,
    rtt_placed_us: u64,
    rate_sum: u64,
    longest_gap_ns: u64,
    rtt_least_us: u32,
    rtt_samples: u32,
    rate_samples: u32,
    count: u32,
}

/// `struct slot` of the program.
#[repr(C)]
struct Slot {
    pacing: u64,
    cwnd: u32,
    order: u32,
    epoch: u32,
    gain_milli: u32,
    initial_cwnd: u32,
    passed: u32,
    last_ack_ns: u64,
    next_poll_ns: u64,
    seen_epoch: u32,
    done_order: u32,
    lost: u32,
    unused: u32,
    acks: [Sums; 2],
}

/// The controllers exist as long as this does.
pub struct Agents {
    forms: Vec<Form>,
    names: [String; 3],
    slots: *mut Slot,
    _links: Vec<Link>,
    _object: Object,
}

impl Agents {
    pub fn load(agents: &[Agent]) -> Result<Agents, String> {
        if agents.len() > SLOTS {
            return Err(format!("flows: {} flows of agents, at most {SLOTS} can be emulated", agents.len()));
        }
        let failed = |what: &str| {
            let what = what.to_owned();
            move |error: libbpf_rs::Error| format!("agents: {what}: {error:#}")
        };
        libbpf_rs::set_print(None);
        let id = std::process::id();
        let names = ["a", "l", "c"].map(|form| format!("orl{form}{id:x}"));
        let mut program = PROGRAM.to_vec();
        for (placeholder, name) in PLACEHOLDERS.iter().zip(&names) {
            let found: Vec<_> = (0..program.len() - 9).filter(|i| program[*i..].starts_with(*placeholder)).collect();
            let &[at] = &found[..] else { return Err("agents: the BPF program is not as it should be".into()) };
            let mut padded = [0; 9];
            let short = &name.as_bytes()[..name.len().min(9)];
            padded[..short.len()].copy_from_slice(short);
            program[at..at + 9].copy_from_slice(&padded);
        }
        let names = names.map(|name| name[..name.len().min(9)].to_owned());
        let open = ObjectBuilder::default().open_memory(&program).map_err(failed("the BPF program"))?;
        let mut object = open.load().map_err(failed("loading the BPF program"))?;
        let mut links = Vec::new();
        let mut slots = ptr::null_mut();
        for mut map in object.maps_mut() {
            let name: &OsStr = map.name();
            let wanted = agents.iter().any(|agent| name == OsStr::new(MAPS[agent.form as usize]));
            if name == "slots" {
                let size = SLOTS * size_of::<Slot>();
                // SAFETY: a new mapping of the map's memory, which lives as long as the mapping.
                slots = unsafe {
                    let protection = libc::PROT_READ | libc::PROT_WRITE;
                    let fd = map.as_fd().as_raw_fd();
                    libc::mmap(ptr::null_mut(), size, protection, libc::MAP_SHARED, fd, 0)
                };
                if slots == libc::MAP_FAILED {
                    return Err(format!("agents: {}", std::io::Error::last_os_error()));
                }
            } else if wanted {
                links.push(map.attach_struct_ops().map_err(failed("registering with the kernel's TCP"))?);
            }
        }
        let forms = agents.iter().map(|agent| agent.form).collect();
        let loaded = Agents { forms, names, slots: slots.cast(), _links: links, _object: object };
        for (k, agent) in agents.iter().enumerate() {
            loaded.put(k, offset_of!(Slot, gain_milli), (agent.pacing_gain * 1000.0) as u32);
            loaded.put(k, offset_of!(Slot, initial_cwnd), agent.initial_cwnd);
            for which in 0..2 {
                let least = offset_of!(Slot, acks) + which * size_of::<Sums>() + offset_of!(Sums, rtt_least_us);
                loaded.put(k, least, u32::MAX);
            }
        }
        Ok(loaded)
    }

    /// The name by which a socket gets its controller.
    pub fn controller(&self, slot: usize) -> &str {
        &self.names[self.forms[slot] as usize]
    }

    fn put<T>(&self, slot: usize, offset: usize, value: T) {
        assert!(slot < SLOTS && offset + size_of::<T>() <= size_of::<Slot>());
        // SAFETY: within the mapping, and aligned as in the structure; the kernel reads it at any time.
        unsafe { ptr::write_volatile(self.slots.add(slot).byte_add(offset).cast(), value) }
    }

    fn get<T>(&self, slot: usize, offset: usize) -> T {
        assert!(slot < SLOTS && offset + size_of::<T>() <= size_of::<Slot>());
        // SAFETY: as above; the types are plain numbers.
        unsafe { ptr::read_volatile(self.slots.add(slot).byte_add(offset).cast()) }
    }

    /// From the moment on when TCP next tries to send.
    pub fn set_window(&mut self, slot: usize, cwnd: u32, pacing: Option<u64>) {
        let order: u32 = self.get(slot, offset_of!(Slot, order));
        self.put(slot, offset_of!(Slot, pacing), pacing.unwrap_or(0));
        self.put(slot, offset_of!(Slot, cwnd), cwnd);
        self.put(slot, offset_of!(Slot, order), order.wrapping_add(1));
    }

    /// The flow starts now: what was before, the handshake, is none of its acknowledgements and no pause between them.
    pub fn start(&mut self, slot: usize, clock_ns: u64) {
        self.take(slot, 0);
        self.put(slot, offset_of!(Slot, last_ack_ns), clock_ns);
    }

    /// What the acknowledgements said since the last call, and the segments found lost so far.
    pub fn take(&mut self, slot: usize, zero_ns: u64) -> (Acks, u64) {
        let epoch: u32 = self.get(slot, offset_of!(Slot, epoch));
        self.put(slot, offset_of!(Slot, epoch), epoch.wrapping_add(1));
        let lost: u32 = self.get(slot, offset_of!(Slot, lost));
        let last_ack_ns: u64 = self.get(slot, offset_of!(Slot, last_ack_ns));
        let last = Nanos(last_ack_ns.saturating_sub(zero_ns));
        // Sums are cleared by the first acknowledgement of their epoch; without one these are of two epochs ago.
        let seen: u32 = self.get(slot, offset_of!(Slot, seen_epoch));
        let acks = if seen == epoch {
            let at = offset_of!(Slot, acks) + (epoch as usize & 1) * size_of::<Sums>();
            let sums: Sums = self.get(slot, at);
            Acks {
                rtt_sum_us: sums.rtt_sum_us,
                rtt_placed_us: sums.rtt_placed_us,
                rtt_least_us: sums.rtt_least_us,
                rtt_samples: sums.rtt_samples,
                rate_sum: sums.rate_sum as f64,
                rate_samples: sums.rate_samples,
                longest_gap: Nanos(sums.longest_gap_ns),
                last,
            }
        } else {
            Acks { last, ..Acks::default() }
        };
        (acks, u64::from(lost))
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody uses it any more.
        unsafe { libc::munmap(self.slots.cast(), SLOTS * size_of::<Slot>()) };
    }
}
