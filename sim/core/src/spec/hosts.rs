//! The hosts' TCP: their kernel and its settings.

use serde::{Deserialize, Serialize};

/// "No threshold yet": slow start until the first loss.
pub const SSTHRESH_INFINITE: u32 = 0x7fff_ffff;

/// Which kernel's TCP the hosts run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kernel {
    #[default]
    V6,
    /// Whose receive window opens at once.
    V6_12,
    V4_15,
}

/// How hosts use Explicit Congestion Notification, if both ends do (net.ipv4.tcp_ecn).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EcnMode {
    #[default]
    Off,
    /// RFC 3168: one echo per round trip with marks.
    Classic,
    /// RFC 9768: the receiver reports how many packets were marked.
    Accurate,
}

impl EcnMode {
    fn is_off(&self) -> bool {
        *self == EcnMode::Off
    }
}

/// Where a connection's first slow-start threshold comes from: Linux may remember that of earlier connections to the
/// same destination for an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "serde_json::Value", into = "serde_json::Value")]
pub enum SsthreshCache {
    /// From nowhere: slow start until the first loss.
    Off,
    /// From the flows of this world that have ended on the same path.
    Live,
    /// As if an earlier connection had left this many segments.
    Segments(u32),
}

impl SsthreshCache {
    const ALLOWED: &str = "must be \"off\", \"live\" or a whole number of packets in 2 .. 2^31 - 2";
}

impl TryFrom<serde_json::Value> for SsthreshCache {
    type Error = String;

    fn try_from(value: serde_json::Value) -> Result<SsthreshCache, String> {
        match (value.as_str(), value.as_f64()) {
            (Some("off"), _) => Ok(SsthreshCache::Off),
            (Some("live"), _) => Ok(SsthreshCache::Live),
            (_, Some(n)) if n.fract() == 0.0 && (2.0..f64::from(SSTHRESH_INFINITE)).contains(&n) => {
                Ok(SsthreshCache::Segments(n as u32))
            }
            _ => Err(format!("ssthresh_cache = {value}: {}", SsthreshCache::ALLOWED)),
        }
    }
}

impl From<SsthreshCache> for serde_json::Value {
    fn from(cache: SsthreshCache) -> serde_json::Value {
        match cache {
            SsthreshCache::Off => "off".into(),
            SsthreshCache::Live => "live".into(),
            SsthreshCache::Segments(n) => n.into(),
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct TcpSpec {
    pub kernel: Kernel,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// Bytes added on the wire to each data segment (TCP/IP and framing).
    pub header_bytes: u32,
    /// Wire size of an acknowledgement.
    pub ack_bytes: u32,
    pub initial_cwnd: u32,
    /// Timer ticks per second.
    pub hz: u32,
    /// Minimum, default and maximum receive buffer, bytes of buffer memory. A default of 0 stands for the kernel's.
    pub rmem: [u64; 3],
    pub wmem: [u64; 3],
    pub moderate_rcvbuf: bool,
    pub slow_start_after_idle: bool,
    /// Most segments that the receiving host merges into one before its TCP sees them (GRO); 1 = none.
    pub gro_segments: u32,
    /// The kernel's own habit if absent.
    pub ssthresh_cache: Option<SsthreshCache>,
    #[serde(skip_serializing_if = "EcnMode::is_off")]
    pub ecn: EcnMode,
}

impl Default for TcpSpec {
    fn default() -> Self {
        TcpSpec {
            kernel: Kernel::V6,
            mss: 1448,
            header_bytes: 66,
            ack_bytes: 66,
            initial_cwnd: 10,
            hz: 1000,
            rmem: [4096, 0, 67_108_864],
            wmem: [4096, 16_384, 67_108_864],
            moderate_rcvbuf: true,
            slow_start_after_idle: true,
            gro_segments: 1,
            ssthresh_cache: None,
            ecn: EcnMode::Off,
        }
    }
}
