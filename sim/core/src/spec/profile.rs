//! What differs between the kernels whose TCP the hosts may run: one place per difference.

use crate::time::Nanos;

use super::hosts::{Kernel, SsthreshCache, TcpSpec};

/// How the receive buffer grows with what arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Autotuning {
    /// Twice what arrived in a round trip, times 1.5 or 2 when that grew by a quarter or a half.
    Steps,
    /// Twice what arrived in a round trip, and twice its growth in proportion.
    Proportional,
}

/// What part of the receive buffer is offered as window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowShare {
    /// Half (tcp_adv_win_scale = 1).
    Half,
    /// Half until data come, then what their payload is of the memory it takes.
    Measured,
}

/// What tells a lost segment from a late one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossDetection {
    /// Young RACK, whose window is 1 ms at least, beside the counting of RFC 6675: lost is a segment with as many
    /// SACKed ones above it as reordering is believed to reach.
    RackAndCounting,
    /// RACK as in RFC 8985; three SACKs merely close its window.
    Rack,
}

/// When proportional rate reduction, below its target, sends one segment more than was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SafeAck {
    /// When a retransmission was ACKed and none was lost again.
    RetransmissionArrived,
    /// When the cumulative ACK advanced and nothing was newly lost.
    Progress,
}

/// The shortest the probe and reordering timers wait beyond what they wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerMargin {
    Micros(u64),
    Ticks(u64),
}

/// The rules of one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    // Receiver.
    /// Receive buffer at first (the middle of net.ipv4.tcp_rmem), bytes of buffer memory.
    pub rmem_default: u64,
    /// Receive window at first, segments; otherwise what the buffer allows, up to 65535 bytes. With it comes a least
    /// receive buffer: room for that window (`tcp_fixup_rcvbuf`).
    pub initial_window_segments: Option<u64>,
    /// Is it, in the handshake and after it, at most what a window field holds unscaled? Otherwise in the handshake only.
    pub initial_window_fits_field: bool,
    pub window_share: WindowShare,
    pub autotuning: Autotuning,
    /// Is the receiver's RTT measured once per echoed timestamp, or on every segment?
    pub rtt_once_per_echo: bool,
    /// Longest delay of an ACK, microseconds.
    pub delayed_ack_max_us: u64,
    /// Are duplicate ACKs thinned out?
    pub compresses_acks: bool,
    /// Is the filling of the last hole ACKed at once?
    pub acks_filled_hole: bool,

    // Sender.
    /// Send buffer memory one segment takes beside its payload, bytes.
    pub send_buffer_overhead: u64,
    /// How late a paced segment leaves, unless the host's queue runs for another reason meanwhile.
    pub pacing_slack: Nanos,
    /// Does a window that was the limit once count as used until the round ends?
    pub latches_window_use: bool,
    pub loss_detection: LossDetection,
    pub timer_margin: TimerMargin,
    /// Are tail probes armed with data waiting for other reasons than the window, and while the window is reduced?
    /// And does a probe of new data open an episode, so that no other follows it?
    pub eager_tail_probes: bool,
    /// Are duplicates reported for a tail probe's segment told from others; do others widen RACK's window only if
    /// reordering was seen; and do they count as delivered?
    pub tells_duplicates_apart: bool,
    pub safe_ack: SafeAck,
    /// Does a timeout spare segments that were sent within the last round trip, and keep a window for them?
    pub timeout_spares_young: bool,
    /// Does original data that arrives after a timeout prove it spurious, F-RTO or not?
    pub originals_undo_timeout: bool,
    /// Does an undo within a recovery end the processing of its ACK?
    pub undo_ends_ack: bool,

    /// Where a flow's first threshold comes from.
    pub ssthresh_cache: SsthreshCache,
}

/// Linux 6.x (read in 6.1; 6.12 agrees but for the receive window).
pub const V6: Profile = Profile {
    rmem_default: 131_072,
    initial_window_segments: None,
    initial_window_fits_field: true,
    window_share: WindowShare::Half,
    autotuning: Autotuning::Proportional,
    rtt_once_per_echo: true,
    delayed_ack_max_us: 200_000,
    compresses_acks: true,
    acks_filled_hole: true,
    // One segment per buffer: descriptor, and header room with shared info, for which it takes 1024.
    send_buffer_overhead: 1280,
    // Of fq's timer (fq_init: `timer_slack`), since 5.7.
    pacing_slack: Nanos(10_000),
    latches_window_use: true,
    loss_detection: LossDetection::Rack,
    timer_margin: TimerMargin::Micros(2_000),
    eager_tail_probes: true,
    tells_duplicates_apart: true,
    safe_ack: SafeAck::Progress,
    timeout_spares_young: true,
    originals_undo_timeout: false,
    undo_ends_ack: false,
    ssthresh_cache: SsthreshCache::Off,
};

/// Linux 6.12. Since 6.10 what a large receive buffer allows is offered from the first ACK on ("tcp: remove 64 KByte limit
/// for initial tp->rcv_wnd value", 378979e94e95); since 6.6 the share of the buffer is measured ("tcp: get rid of
/// sysctl_tcp_adv_win_scale", dfa2f0483360), since 6.11 with the window's limit ("tcp: Update window clamping condition",
/// a2cbb1603943); since 6.3 a segment's head is no longer rounded up to 1024 bytes ("net: add dedicated kmem_cache for
/// typical/small skb->head", bf9f1baa279f).
pub const V6_12: Profile = Profile {
    initial_window_fits_field: false,
    window_share: WindowShare::Measured,
    // Descriptor, header room (as distributions configure it) and shared info.
    send_buffer_overhead: 256 + 320 + 320,
    ..V6
};

/// Linux 4.15, as released (distributions' later builds take over parts of what is newer).
pub const V4_15: Profile = Profile {
    rmem_default: 87_380,
    initial_window_segments: Some(20),
    initial_window_fits_field: true,
    window_share: WindowShare::Half,
    autotuning: Autotuning::Steps,
    rtt_once_per_echo: false,
    delayed_ack_max_us: 500_000,
    compresses_acks: false,
    acks_filled_hole: false,
    // Segmentation offload, as its users had it: a buffer holds a millisecond at the pacing rate, eight segments and
    // more where the usual 4 MB are the limit.
    send_buffer_overhead: 1280 / 8,
    pacing_slack: Nanos::ZERO,
    latches_window_use: false,
    loss_detection: LossDetection::RackAndCounting,
    timer_margin: TimerMargin::Ticks(2),
    eager_tail_probes: false,
    tells_duplicates_apart: false,
    safe_ack: SafeAck::RetransmissionArrived,
    timeout_spares_young: false,
    originals_undo_timeout: true,
    undo_ends_ack: true,
    ssthresh_cache: SsthreshCache::Live,
};

impl Kernel {
    pub const fn profile(self) -> &'static Profile {
        match self {
            Kernel::V6 => &V6,
            Kernel::V6_12 => &V6_12,
            Kernel::V4_15 => &V4_15,
        }
    }
}

impl TcpSpec {
    pub fn profile(&self) -> &'static Profile {
        self.kernel.profile()
    }

    /// The receive buffer at first, bytes of buffer memory.
    pub fn rmem_default(&self) -> u64 {
        if self.rmem[1] == 0 { self.profile().rmem_default } else { self.rmem[1] }
    }
}
