//! Sockets of this kernel's TCP and UDP.

use std::io;
use std::mem;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use orbitcc_core::tcp::sender::SenderCounters;
use orbitcc_core::tcp::sender::kernel_reading::FlowReading;

use crate::sys::check;

/// Zeros, as much as is written at a time.
static ZEROS: [u8; 1 << 18] = [0; 1 << 18];

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    Bytes(u64),
    /// Nothing can be moved now.
    Later,
    /// The other side is gone.
    Gone,
}

pub struct Socket {
    fd: OwnedFd,
}

fn place(address: Ipv4Addr, port: u16) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.octets()) },
        sin_zero: [0; 8],
    }
}

const PLACE: libc::socklen_t = size_of::<libc::sockaddr_in>() as libc::socklen_t;

impl Socket {
    pub fn new(datagrams: bool) -> io::Result<Socket> {
        let kind = if datagrams { libc::SOCK_DGRAM } else { libc::SOCK_STREAM };
        // SAFETY: a new descriptor that nobody else owns.
        unsafe {
            let fd = check(libc::socket(libc::AF_INET, kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0))?;
            Ok(Socket { fd: OwnedFd::from_raw_fd(fd) })
        }
    }

    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    fn set(&self, level: i32, option: i32, bytes: &[u8]) -> io::Result<()> {
        // SAFETY: reads the slice.
        check(unsafe {
            libc::setsockopt(self.fd(), level, option, bytes.as_ptr().cast(), bytes.len() as libc::socklen_t)
        })
        .map(|_| ())
    }

    fn set_number(&self, level: i32, option: i32, value: i32) -> io::Result<()> {
        self.set(level, option, &value.to_ne_bytes())
    }

    pub fn set_controller(&self, name: &str) -> io::Result<()> {
        self.set(libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_bytes())
    }

    /// What a BPF program knows it by.
    pub fn set_mark(&self, mark: u32) -> io::Result<()> {
        self.set_number(libc::SOL_SOCKET, libc::SO_MARK, mark as i32)
    }

    /// Segments go when they are written. TCP then tries at once to send what it has.
    pub fn set_no_delay(&self) -> io::Result<()> {
        self.set_number(libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)
    }

    /// Keep at most so many bytes that TCP has not sent.
    pub fn set_unsent(&self, bytes: i32) -> io::Result<()> {
        self.set_number(libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
    }

    /// Closing resets the connection: what is not sent is thrown away.
    pub fn set_abrupt(&self) -> io::Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_LINGER, &[1i32.to_ne_bytes(), 0i32.to_ne_bytes()].concat())
    }

    pub fn set_receive_buffer(&self, bytes: i32) -> io::Result<()> {
        self.set_number(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes)
            .or_else(|_| self.set_number(libc::SOL_SOCKET, libc::SO_RCVBUF, bytes))
    }

    pub fn bind(&self, address: Ipv4Addr, port: u16) -> io::Result<()> {
        let place = place(address, port);
        // SAFETY: reads the address.
        check(unsafe { libc::bind(self.fd(), (&raw const place).cast(), PLACE) }).map(|_| ())
    }

    pub fn listen(&self) -> io::Result<()> {
        // SAFETY: takes numbers only.
        check(unsafe { libc::listen(self.fd(), 1) }).map(|_| ())
    }

    pub fn connect(&self, address: Ipv4Addr, port: u16) -> io::Result<()> {
        let place = place(address, port);
        // SAFETY: reads the address.
        match check(unsafe { libc::connect(self.fd(), (&raw const place).cast(), PLACE) }) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
            _ => Ok(()),
        }
    }

    pub fn accept(&self) -> Option<Socket> {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: a new descriptor that nobody else owns.
        unsafe {
            let fd = libc::accept4(self.fd(), std::ptr::null_mut(), std::ptr::null_mut(), flags);
            (fd >= 0).then(|| Socket { fd: OwnedFd::from_raw_fd(fd) })
        }
    }

    /// Write zeros.
    pub fn write(&self, bytes: u64) -> Moved {
        let size = bytes.min(ZEROS.len() as u64) as usize;
        // SAFETY: reads at most the array's length.
        moved(unsafe { libc::send(self.fd(), ZEROS.as_ptr().cast(), size, libc::MSG_NOSIGNAL) })
    }

    /// Throw away what has come; of datagrams, one.
    pub fn read(&self) -> Moved {
        // SAFETY: with MSG_TRUNC a stream's bytes are not copied; a datagram's are, at most one.
        moved(unsafe {
            let mut byte = 0u8;
            let pointer = (&raw mut byte).cast();
            match self.is_stream() {
                true => libc::recv(self.fd(), std::ptr::null_mut(), 1 << 26, libc::MSG_TRUNC),
                false => libc::recv(self.fd(), pointer, 1, libc::MSG_TRUNC),
            }
        })
    }

    fn is_stream(&self) -> bool {
        let (mut kind, mut size) = (0i32, size_of::<i32>() as libc::socklen_t);
        // SAFETY: writes the number.
        unsafe {
            libc::getsockopt(self.fd(), libc::SOL_SOCKET, libc::SO_TYPE, (&raw mut kind).cast(), &raw mut size);
        }
        kind == libc::SOCK_STREAM
    }

    pub fn info(&self) -> Info {
        let mut info = Info([0; Info::BYTES]);
        let mut size = Info::BYTES as libc::socklen_t;
        // SAFETY: writes at most the array's length.
        unsafe {
            let pointer = info.0.as_mut_ptr().cast();
            libc::getsockopt(self.fd(), libc::IPPROTO_TCP, libc::TCP_INFO, pointer, &raw mut size);
        }
        info
    }
}

fn moved(result: isize) -> Moved {
    match result {
        n if n > 0 => Moved::Bytes(n as u64),
        0 => Moved::Gone,
        _ => match io::Error::last_os_error().kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Moved::Later,
            _ => Moved::Gone,
        },
    }
}

/// The kernel's `struct tcp_info` (include/uapi/linux/tcp.h); fields that an older kernel has not are 0.
#[derive(Clone)]
pub struct Info([u8; Info::BYTES]);

impl Info {
    const BYTES: usize = 248;
    pub const ESTABLISHED: u8 = 1;

    fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.0[at..at + 4].try_into().expect("four bytes"))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.0[at..at + 8].try_into().expect("eight bytes"))
    }

    pub fn state(&self) -> u8 {
        self.0[0]
    }

    /// As a reading: counters since this connection's beginning, which `since` describes.
    pub fn reading(&self, since: &Info) -> FlowReading {
        let past = |at| u64::from(self.u32(at).wrapping_sub(since.u32(at)));
        let timeouts = |info: &Info| u16::from_ne_bytes([info.0[240], info.0[241]]);
        FlowReading {
            counters: SenderCounters {
                sent: past(156),
                retransmitted: past(100),
                rtos: u64::from(timeouts(self).wrapping_sub(timeouts(since))),
                acked_bytes: past(192) * u64::from(self.u32(16)),
                marked: past(196),
                ..SenderCounters::default()
            },
            cwnd: self.u32(80),
            ssthresh: self.u32(76),
            srtt_us: self.u32(68),
            min_rtt_us: self.u32(148),
            packets_out: self.u32(24),
            sacked_out: self.u32(28),
            lost_out: self.u32(32),
            retrans_out: self.u32(36),
            window_bytes: u64::from(self.u32(228)),
            pacing_rate: Some(self.u64(104)).filter(|rate| *rate != u64::MAX).unwrap_or(0),
            state: self.0[1],
            app_limited: self.0[7] & 1 != 0,
            ..FlowReading::default()
        }
    }
}

/// Tells which sockets have something to do: a change is told once.
pub struct Poll {
    fd: OwnedFd,
}

impl Poll {
    pub fn new() -> io::Result<Poll> {
        // SAFETY: a new descriptor that nobody else owns.
        unsafe { Ok(Poll { fd: OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) }) }
    }

    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    pub fn watch(&self, socket: &Socket, token: u64) -> io::Result<()> {
        let mut event =
            libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET) as u32, u64: token };
        // SAFETY: reads the event.
        check(unsafe { libc::epoll_ctl(self.fd(), libc::EPOLL_CTL_ADD, socket.fd(), &raw mut event) }).map(|_| ())
    }

    /// The tokens of sockets with news.
    pub fn news(&self, tokens: &mut Vec<u64>) {
        // SAFETY: zeros are valid events; the call writes at most as many as there are.
        unsafe {
            let mut events: [libc::epoll_event; 64] = mem::zeroed();
            let n = libc::epoll_wait(self.fd(), events.as_mut_ptr(), 64, 0);
            tokens.clear();
            tokens.extend(events.iter().take(n.max(0) as usize).map(|event| event.u64));
        }
    }
}
