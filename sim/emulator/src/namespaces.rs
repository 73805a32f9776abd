//! Two network namespaces of our own, one for data senders and one for receivers, joined by nothing but our TUN devices.
//!
//! They have no names: they, and everything in them, are gone when the last descriptor of them is closed, also after a
//! kill.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use orbitcc_core::spec::{EcnMode, TcpSpec};

use crate::carrier::PORTS;
use crate::sys::{self, Interface};

/// Packets that may wait for the link process in a device: a window's burst.
const DEVICE_QUEUE: u32 = 20_000;
pub const TUN: &str = "orbitcc0";

pub struct Namespace {
    file: File,
    home: File,
}

impl Namespace {
    fn present() -> io::Result<File> {
        File::open("/proc/thread-self/ns/net")
    }

    /// One that exists.
    pub fn open(path: &str) -> io::Result<Namespace> {
        Ok(Namespace { file: File::open(path)?, home: Namespace::present()? })
    }

    pub fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Do something in it.
    pub fn within<T>(&self, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        sys::enter(&self.file)?;
        let result = act();
        sys::enter(&self.home)?;
        result
    }

    fn fresh() -> io::Result<Namespace> {
        let home = Namespace::present()?;
        sys::unshare(libc::CLONE_NEWNET)?;
        let file = Namespace::present()?;
        sys::enter(&home)?;
        Ok(Namespace { file, home })
    }
}

/// Without privileges of our own: a user namespace in which we have them, over networks that we make and over the one we
/// are in from now on, since nobody may return to another's. Before any thread.
pub fn become_root() -> io::Result<()> {
    // SAFETY: takes nothing.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    if user == 0 {
        return Ok(());
    }
    sys::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET)?;
    sys::set("/proc/self/setgroups", "deny")?;
    sys::set("/proc/self/uid_map", &format!("0 {user} 1"))?;
    sys::set("/proc/self/gid_map", &format!("0 {group} 1"))
}

/// Make both namespaces, each with its device; `mtu` of the paths.
pub fn make(tcp: &TcpSpec, frame: u32) -> io::Result<([Namespace; PORTS], [OwnedFd; PORTS])> {
    let mtu = tcp.mss + tcp.header_bytes - frame;
    let one = |port: u8| {
        let namespace = Namespace::fresh()?;
        let tun = namespace.within(|| {
            settle(tcp)?;
            let lo = Interface::new("lo")?;
            lo.up()?;
            // On a loopback device every address of a prefix is our own.
            Interface::new("lo:1")?.set_address([10, port, 0, 1], [255, 255, 0, 0])?;
            let tun = sys::open_tun(TUN)?;
            let device = Interface::new(TUN)?;
            device.set_mtu(mtu as i32)?;
            // With more in a burst TCP paces a millisecond's segments at once, and the simulator's hosts pace each.
            device.set_queue(DEVICE_QUEUE, 1)?;
            device.up()?;
            device.route([10, 1 - port, 0, 0], [255, 255, 0, 0])?;
            Ok(tun)
        })?;
        io::Result::Ok((namespace, tun))
    };
    let ((a, tun_a), (b, tun_b)) = (one(0)?, one(1)?);
    Ok(([a, b], [tun_a, tun_b]))
}

/// The scenario's hosts, as settings of the present namespace.
fn settle(tcp: &TcpSpec) -> io::Result<()> {
    let triple = |sizes: [u64; 3]| format!("{} {} {}", sizes[0], sizes[1], sizes[2]);
    let switch = |on: bool| if on { "1" } else { "0" }.to_owned();
    let rmem = [tcp.rmem[0], tcp.rmem_default(), tcp.rmem[2]];
    for (name, value) in [
        ("ipv6/conf/all/disable_ipv6", switch(true)),
        ("ipv6/conf/default/disable_ipv6", switch(true)),
        ("ipv4/conf/all/rp_filter", switch(false)),
        ("ipv4/conf/default/rp_filter", switch(false)),
        ("ipv4/tcp_rmem", triple(rmem)),
        ("ipv4/tcp_wmem", triple(tcp.wmem)),
        ("ipv4/tcp_moderate_rcvbuf", switch(tcp.moderate_rcvbuf)),
        ("ipv4/tcp_slow_start_after_idle", switch(tcp.slow_start_after_idle)),
        ("ipv4/tcp_no_metrics_save", switch(true)),
        ("ipv4/tcp_timestamps", switch(true)),
        ("ipv4/tcp_sack", switch(true)),
        ("ipv4/tcp_ecn", switch(tcp.ecn != EcnMode::Off)),
    ] {
        let path = format!("/proc/sys/net/{name}");
        if let Err(error) = sys::set(&path, &value)
            && !(name.starts_with("ipv6") && error.kind() == io::ErrorKind::NotFound)
        {
            let setting = name.replace('/', ".");
            return Err(io::Error::new(error.kind(), format!("net.{setting} = {value}: {error}")));
        }
    }
    Ok(())
}
