//! What the standard library does not have of Linux.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

/// The result of a call that says -1 when it failed.
pub fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Nanoseconds of the clock that never jumps.
pub fn clock_ns() -> u64 {
    // SAFETY: the structure is plain memory, written by the call.
    unsafe {
        let mut now: libc::timespec = mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }
}

/// Sleep until one of the descriptors can be read, or for so long; which can be.
pub fn wait_readable<const N: usize>(fds: [RawFd; N], ns: u64) -> [bool; N] {
    let mut polled = fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    let capped = ns.min(3_600_000_000_000);
    let span = libc::timespec { tv_sec: (capped / 1_000_000_000) as i64, tv_nsec: (capped % 1_000_000_000) as i64 };
    // SAFETY: the array outlives the call; an interrupted call leaves revents at 0.
    unsafe { libc::ppoll(polled.as_mut_ptr(), N as libc::nfds_t, &span, std::ptr::null()) };
    polled.map(|p| p.revents != 0)
}

/// Timers of this thread fire as late as 1 ns, not 50 us.
pub fn be_punctual() {
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// Go before everything else that runs here (SCHED_FIFO). For links only, which sleep most of the time: traffic itself is
/// not for real-time priorities.
pub fn go_first() -> io::Result<()> {
    let wish = libc::sched_param { sched_priority: 50 };
    // SAFETY: reads the structure. Children do not inherit it.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &wish) }).map(|_| ())
}

/// Go before other ordinary threads. A thread that has to wait for a core while it reads from a socket, or writes to it,
/// keeps the kernel from handling that socket's packets: acknowledgements would stop for milliseconds.
pub fn go_early() {
    // A nice value counts among the processes of a session, and sessions share alike (sched_autogroup_enabled): in a session
    // of our own we have a group whose weight we may set. Nothing is lost where there are no such groups.
    // SAFETY: takes numbers only.
    unsafe {
        libc::setsid();
        libc::setpriority(libc::PRIO_PROCESS, 0, -20);
    }
    set("/proc/self/autogroup", "-20").ok();
}

/// Processor time of this thread and of the process, in seconds; its largest resident memory in bytes (that of `getrusage`
/// would count the process that has started us).
pub fn usage() -> (f64, f64, u64) {
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
    let [thread, process] = [libc::RUSAGE_THREAD, libc::RUSAGE_SELF].map(|who| {
        // SAFETY: the structure is plain memory, written by the call.
        unsafe {
            let mut usage: libc::rusage = mem::zeroed();
            libc::getrusage(who, &mut usage);
            usage
        }
    });
    let both = |u: &libc::rusage| seconds(u.ru_utime) + seconds(u.ru_stime);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse::<u64>().ok());
    (both(&thread), both(&process), peak.unwrap_or(0) * 1024)
}

/// A counter that wakes whoever polls it.
pub fn event_fd() -> io::Result<OwnedFd> {
    // SAFETY: a new descriptor that nobody else owns.
    unsafe { Ok(OwnedFd::from_raw_fd(check(libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC))?)) }
}

pub fn signal(event: &OwnedFd) {
    let one = 1u64;
    // SAFETY: eight bytes of a living number.
    unsafe { libc::write(event.as_raw_fd(), (&raw const one).cast(), 8) };
}

/// Take bytes if there are any.
pub fn read(fd: RawFd, buffer: &mut [u8]) -> Option<usize> {
    // SAFETY: at most the buffer's length is written to it.
    let n = unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) };
    (n > 0).then_some(n as usize)
}

pub fn write(fd: RawFd, bytes: &[u8]) -> bool {
    // SAFETY: at most the slice's length is read from it.
    unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) == bytes.len() as isize }
}

pub fn set_nonblocking(fd: RawFd) -> io::Result<()> {
    // SAFETY: takes numbers only.
    unsafe {
        let flags = check(libc::fcntl(fd, libc::F_GETFL))?;
        check(libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK)).map(|_| ())
    }
}

pub fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: takes a number only.
    check(unsafe { libc::unshare(flags) }).map(|_| ())
}

pub fn enter(namespace: &File) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(|_| ())
}

/// In a child before it becomes another program: enter the network namespace `network`, and end with this process. The
/// program gets a PID namespace, so that what it has started ends with it. The first process there and the one outside
/// wait, and end as it does; the program itself is not the first, on which signals would have no effect.
pub fn isolate(network: RawFd) -> io::Result<()> {
    // SAFETY: takes numbers only, after a fork.
    unsafe {
        check(libc::setns(network, libc::CLONE_NEWNET))?;
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        check(libc::unshare(libc::CLONE_NEWPID))?;
        for _ in 0..2 {
            let child = check(libc::fork())?;
            if child != 0 {
                end_as(child);
            }
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        }
    }
    Ok(())
}

/// Wait for a child with no file open, and end with its exit code, or that of a shell after a signal.
///
/// # Safety
/// Only after a fork: it calls nothing but the kernel.
unsafe fn end_as(child: libc::pid_t) -> ! {
    // SAFETY: takes numbers and a living one.
    unsafe {
        libc::syscall(libc::SYS_close_range, 0u32, u32::MAX, 0u32);
        let mut status = 0;
        while libc::waitpid(-1, &raw mut status, 0) != child {}
        libc::_exit(if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) })
    }
}

/// Lock a file against others, or share it, without waiting.
pub fn lock(file: &File, alone: bool) -> bool {
    let how = if alone { libc::LOCK_EX } else { libc::LOCK_SH };
    // SAFETY: takes numbers only.
    unsafe { libc::flock(file.as_raw_fd(), how | libc::LOCK_NB) == 0 }
}

const TUNSETIFF: libc::Ioctl = 0x4004_54ca;

fn named(name: &str) -> libc::ifreq {
    // SAFETY: zeros are a valid request; the name is shorter than its field (checked by the zip) and ends with a zero.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

/// Attach to the TUN device `name` of the present network namespace; it is made if there is none.
pub fn open_tun(name: &str) -> io::Result<OwnedFd> {
    let device = File::options().read(true).write(true).open("/dev/net/tun")?;
    let mut request = named(name);
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the request outlives the call.
    check(unsafe { libc::ioctl(device.as_raw_fd(), TUNSETIFF, &raw mut request) })?;
    set_nonblocking(device.as_raw_fd())?;
    Ok(device.into())
}

/// Settings of a network interface in the present namespace.
pub struct Interface {
    socket: OwnedFd,
    name: String,
}

impl Interface {
    pub fn new(name: &str) -> io::Result<Interface> {
        // SAFETY: a new descriptor that nobody else owns.
        let socket = unsafe {
            OwnedFd::from_raw_fd(check(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0))?)
        };
        Ok(Interface { socket, name: name.to_owned() })
    }

    fn ask(&self, what: libc::Ioctl, fill: impl FnOnce(&mut libc::ifreq)) -> io::Result<()> {
        let mut request = named(&self.name);
        fill(&mut request);
        // SAFETY: the request outlives the call.
        check(unsafe { libc::ioctl(self.socket.as_raw_fd(), what, &raw mut request) }).map(|_| ())
    }

    pub fn up(&self) -> io::Result<()> {
        self.ask(libc::SIOCSIFFLAGS, |r| r.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short)
    }

    pub fn set_mtu(&self, bytes: i32) -> io::Result<()> {
        self.ask(libc::SIOCSIFMTU, |r| r.ifr_ifru.ifru_mtu = bytes)
    }

    pub fn set_address(&self, address: [u8; 4], mask: [u8; 4]) -> io::Result<()> {
        self.ask(libc::SIOCSIFADDR, |r| r.ifr_ifru.ifru_addr = internet(address))?;
        self.ask(libc::SIOCSIFNETMASK, |r| r.ifr_ifru.ifru_netmask = internet(mask))
    }

    /// Packets that may wait in it, and segments that the kernel may hand over as one. Through rtnetlink, which asks for
    /// privileges over the device's namespace only.
    pub fn set_queue(&self, packets: u32, burst: u32) -> io::Result<()> {
        const TXQLEN: u16 = 13;
        const GSO_MAX_SEGS: u16 = 40;
        let index = self.index()?.to_ne_bytes();
        // struct ifinfomsg: family, type, index, flags, change.
        let body = [[0; 4], index, [0; 4], [0; 4]].concat();
        netlink(libc::RTM_NEWLINK, 0, &body, &[(TXQLEN, packets.to_ne_bytes()), (GSO_MAX_SEGS, burst.to_ne_bytes())])
    }

    fn index(&self) -> io::Result<u32> {
        let name = CString::new(self.name.as_str())?;
        // SAFETY: reads the name.
        Ok(unsafe { libc::if_nametoindex(name.as_ptr()) })
    }

    /// Packets to `target` go out here, from our address `source` unless their socket has another one.
    pub fn route_from(&self, source: Ipv4Addr, target: Ipv4Addr) -> io::Result<()> {
        // struct rtmsg: family, prefix, source prefix, TOS; table, protocol, scope, type; flags.
        let body = [[libc::AF_INET as u8, 32, 0, 0], [libc::RT_TABLE_MAIN, 3, libc::RT_SCOPE_LINK, 1], [0; 4]].concat();
        let device = (libc::RTA_OIF, self.index()?.to_ne_bytes());
        let rest = [(libc::RTA_DST, target.octets()), (libc::RTA_PREFSRC, source.octets()), device];
        netlink(libc::RTM_NEWROUTE, libc::NLM_F_CREATE, &body, &rest)
    }

    /// Packets to these addresses go out here.
    pub fn route(&self, network: [u8; 4], mask: [u8; 4]) -> io::Result<()> {
        let name = CString::new(self.name.as_str())?;
        // SAFETY: zeros are a valid route; name and route outlive the call.
        unsafe {
            let mut route: libc::rtentry = mem::zeroed();
            (route.rt_dst, route.rt_genmask, route.rt_gateway) = (internet(network), internet(mask), internet([0; 4]));
            route.rt_flags = libc::RTF_UP;
            route.rt_dev = name.as_ptr().cast_mut();
            check(libc::ioctl(self.socket.as_raw_fd(), libc::SIOCADDRT, &raw const route)).map(|_| ())
        }
    }
}

/// Ask rtnetlink of the present namespace for something: a message of a kind, with attributes.
fn netlink(kind: u16, flags: libc::c_int, body: &[u8], attributes: &[(u16, [u8; 4])]) -> io::Result<()> {
    // struct nlmsghdr: length, type, flags, sequence, port.
    let mut message = ((16 + body.len() + 8 * attributes.len()) as u32).to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(((libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags) as u16).to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    // struct rtattr: length, type; the value.
    for (kind, value) in attributes {
        message.extend(8u16.to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend(value);
    }
    // SAFETY: a new descriptor that nobody else owns.
    let socket = unsafe {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        OwnedFd::from_raw_fd(check(libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE))?)
    };
    if !write(socket.as_raw_fd(), &message) {
        return Err(io::Error::last_os_error());
    }
    let mut answer = [0; 1024];
    // struct nlmsgerr: a header, and the negative error number.
    match read(socket.as_raw_fd(), &mut answer) {
        Some(size) if size >= 20 => match i32::from_ne_bytes(answer[16..20].try_into().expect("four bytes")) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(-error)),
        },
        _ => Err(io::Error::last_os_error()),
    }
}

fn internet(address: [u8; 4]) -> libc::sockaddr {
    let mut generic = libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: [0; 14] };
    for (to, from) in generic.sa_data[2..6].iter_mut().zip(address) {
        *to = from as libc::c_char;
    }
    generic
}

/// Write to a file of /proc/sys or /sys.
pub fn set(path: impl AsRef<Path>, value: &str) -> io::Result<()> {
    std::fs::write(path, value)
}
