//! What passes a sender's host, for files that other tools open: packets for pcap, connections for qlog.
//!
//! A capture watches; it changes nothing of a run. Segments are seen when they depart (a paced one may wait in its host
//! until then), acknowledgements when they arrive. The simulator has no handshakes: a capture begins each connection with
//! the one whose round trip the sender started from, and ends none.

pub mod pcap;
pub mod qlog;

use std::collections::BTreeMap;

use crate::cc::{CaState, SSTHRESH_INFINITE};
use crate::flow::{Flow, Life};
use crate::packet::{Kind, Marks, Packet};
use crate::tcp::{self, ecn::Agreed};
use crate::time::Nanos;

use super::World;

/// Half-open range of bytes of a stream.
pub type Bytes = (u64, u64);

/// What the host's TCP says of itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metrics {
    /// Bytes; no threshold while it is infinite.
    pub cwnd: u64,
    pub ssthresh: Option<u64>,
    pub in_flight: u64,
    pub srtt_us: u32,
    pub min_rtt_us: u32,
    pub latest_rtt_us: Option<u32>,
    /// bit/s; none when it does not pace.
    pub pacing_rate: Option<u64>,
}

/// What has been reported as marked so far, by an ACK of a connection with ECN.
#[derive(Clone, Copy, Debug, Default)]
pub struct Marked {
    pub agreed: Agreed,
    pub packets: u64,
    pub bytes: u32,
}

#[derive(Clone, Debug)]
pub enum What {
    /// The connection is open. Windows are those of the two SYN segments, bytes; the window of the sender stays as it is.
    Open {
        rtt: Nanos,
        mss: u32,
        window: u32,
        window_scale: u32,
        ecn: Agreed,
        ect: Marks,
    },
    /// Bytes of the stream leave, for the `number`th time that any do.
    Segment {
        bytes: Bytes,
        number: u64,
        ts: Nanos,
        ts_echo: Nanos,
        marks: Marks,
    },
    /// The receiver is asked for its window, by a segment that it has had.
    WindowProbe {
        at: u64,
        ts: Nanos,
        ts_echo: Nanos,
    },
    /// An acknowledgement: what is expected next, the window from there on, bytes; selective blocks; numbers of segments
    /// that it is the first to acknowledge, as closed ranges; marks, and with accurate ECN the marked bytes.
    Ack {
        next: u64,
        window: u32,
        sack: Vec<Bytes>,
        ts: Nanos,
        ts_echo: Nanos,
        numbers: Vec<Bytes>,
        marks: Marks,
        marked: Marked,
    },
    /// Segments that are found lost.
    Lost {
        number: u64,
        bytes: Bytes,
    },
    Metrics(Metrics),
    State {
        old: &'static str,
        new: &'static str,
    },
    /// A datagram or an echo request of so many bytes on the wire, and an echo reply.
    Datagram {
        size: u16,
    },
    Echo {
        size: u16,
        reply: bool,
    },
}

#[derive(Clone, Debug)]
pub struct Event {
    pub at: Nanos,
    pub flow: u32,
    pub what: What,
}

/// What is remembered of a flow between two events.
#[derive(Clone, Debug, Default)]
struct Watched {
    /// Segments sent so far.
    numbers: u64,
    /// Outstanding segment -> number of its last transmission, and when it departed.
    outstanding: BTreeMap<u32, (u64, Nanos)>,
    /// Segment found lost -> that transmission's number.
    lost: BTreeMap<u32, u64>,
    lost_count: u64,
    metrics: Option<Metrics>,
    state: &'static str,
}

/// A capture under way.
#[derive(Clone)]
pub struct Capture {
    flows: Vec<Watched>,
    events: Vec<Event>,
}

impl Capture {
    fn note(&mut self, at: Nanos, flow: usize, what: What) {
        self.events.push(Event { at, flow: flow as u32, what });
    }

    /// What flow `i` has just handed to its host.
    fn sent(&mut self, now: Nanos, i: usize, flow: &Flow, packet: &Packet) {
        match packet.kind {
            Kind::Data => {
                let watched = &mut self.flows[i];
                let number = watched.numbers;
                watched.numbers += 1;
                watched.outstanding.insert(packet.seq, (number, tcp::departure(packet.ts)));
                let from = position(flow, packet.seq);
                let bytes = (from, from + u64::from(flow.sender.payload(packet.seq)));
                let Packet { ts, ts_echo, marks, .. } = *packet;
                self.note(tcp::departure(ts), i, What::Segment { bytes, number, ts, ts_echo, marks });
            }
            Kind::WindowProbe => {
                let at = position(flow, packet.seq).saturating_sub(1);
                self.note(now, i, What::WindowProbe { at, ts: packet.ts, ts_echo: packet.ts_echo });
            }
            Kind::Datagram => self.note(now, i, What::Datagram { size: packet.size }),
            Kind::Probe => self.note(now, i, What::Echo { size: packet.size, reply: false }),
            // ACKs of the receiving host, and others' packets.
            Kind::Ack | Kind::AckDsack | Kind::ProbeReply | Kind::Carried => {}
        }
    }

    fn acked(&mut self, now: Nanos, i: usize, flow: &Flow, ack: &Packet) {
        let outstanding = &mut self.flows[i].outstanding;
        let later = outstanding.split_off(&ack.seq);
        let mut numbers: Vec<u64> = std::mem::replace(outstanding, later).into_values().map(|sent| sent.0).collect();
        let blocks = ack.sack.iter().filter(|block| !block.is_empty());
        for block in blocks.clone() {
            let sacked: Vec<u32> = outstanding.range(block.start..block.end).map(|(seq, _)| *seq).collect();
            numbers.extend(sacked.iter().filter_map(|seq| outstanding.remove(seq)).map(|sent| sent.0));
        }
        let sack = blocks.map(|block| (position(flow, block.start), position(flow, block.end))).collect();
        let next = position(flow, ack.seq);
        let numbers = ranges(numbers);
        let marked =
            Marked { agreed: flow.sender.ecn(), packets: flow.sender.counters.marked, bytes: ack.marked_bytes };
        let Packet { window, ts, ts_echo, marks, .. } = *ack;
        let what = What::Ack { next, window, sack, ts, ts_echo, numbers, marks, marked };
        self.note(now, i, what);
    }

    /// What has changed of the sender since the last look.
    fn look(&mut self, now: Nanos, i: usize, flow: &Flow) {
        let sender = &flow.sender;
        if sender.counters.lost != self.flows[i].lost_count {
            self.flows[i].lost_count = sender.counters.lost;
            let watched = &mut self.flows[i];
            watched.lost = watched.lost.split_off(&sender.conn.snd_una);
            let mut found = Vec::new();
            for (seq, sent_again) in sender.lost_segments() {
                let Some((number, departed)) = watched.outstanding.get(&seq) else { continue };
                // One that was sent again just now has not been seen to leave.
                if sent_again != Some(*departed) && watched.lost.insert(seq, *number) != Some(*number) {
                    found.push((seq, *number));
                }
            }
            for (seq, number) in found {
                let from = position(flow, seq);
                self.note(now, i, What::Lost { number, bytes: (from, from + u64::from(sender.payload(seq))) });
            }
        }
        let mss = u64::from(sender.conn.mss);
        let metrics = Metrics {
            cwnd: u64::from(sender.conn.cwnd) * mss,
            ssthresh: (sender.conn.ssthresh < SSTHRESH_INFINITE).then(|| u64::from(sender.conn.ssthresh) * mss),
            in_flight: u64::from(sender.in_flight()) * mss,
            srtt_us: sender.conn.srtt8_us / 8,
            min_rtt_us: sender.min_rtt_us(),
            latest_rtt_us: sender.last_rtt_us,
            pacing_rate: sender.paces().then(|| sender.pacing_rate() * 8),
        };
        if self.flows[i].metrics != Some(metrics) {
            self.flows[i].metrics = Some(metrics);
            self.note(now, i, What::Metrics(metrics));
        }
        let new = match sender.conn.state {
            CaState::Open | CaState::Disorder if sender.conn.cwnd < sender.conn.ssthresh => "slow_start",
            CaState::Open | CaState::Disorder => "congestion_avoidance",
            CaState::Cwr | CaState::Recovery => "recovery",
            CaState::Loss => "loss",
        };
        let old = std::mem::replace(&mut self.flows[i].state, new);
        if old != new {
            self.note(now, i, What::State { old, new });
        }
    }

    /// Events up to `now`, in the order of their times; what has not departed yet stays.
    fn take(&mut self, now: Nanos) -> Vec<Event> {
        self.events.sort_by_key(|event| event.at);
        let later = self.events.partition_point(|event| event.at <= now);
        let rest = self.events.split_off(later);
        std::mem::replace(&mut self.events, rest)
    }
}

/// Where segment `seq` begins in the stream, bytes. Only the last one of a transfer may be short.
fn position(flow: &Flow, seq: u32) -> u64 {
    match seq {
        0 => 0,
        _ => u64::from(seq - 1) * u64::from(flow.sender.conn.mss) + u64::from(flow.sender.payload(seq - 1)),
    }
}

/// Closed ranges of these numbers, ascending.
fn ranges(mut numbers: Vec<u64>) -> Vec<Bytes> {
    numbers.sort_unstable();
    let mut ranges: Vec<Bytes> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    ranges
}

impl World {
    /// From now on keep what passes the senders' hosts, until [`World::take_captured`] asks for it.
    pub fn capture(&mut self) {
        let flows = vec![Watched { state: "handshake", ..Watched::default() }; self.flows.len()];
        self.capture = Some(Box::new(Capture { flows, events: Vec::new() }));
    }

    /// What has passed since the last call, in the order of its times.
    pub fn take_captured(&mut self) -> Vec<Event> {
        let now = self.now;
        self.capture.as_mut().map_or_else(Vec::new, |capture| capture.take(now))
    }

    /// Flow `i` begins after a handshake of `rtt`.
    pub(crate) fn capture_start(&mut self, i: usize, rtt: Nanos) {
        let (now, flow) = (self.now, &self.flows[i]);
        if let Some(capture) = &mut self.capture
            && !flow.datagram
            && !flow.hosted
        {
            let (window, window_scale) = (flow.receiver.initial_window(), flow.receiver.window_scale());
            let (mss, ecn, ect) = (flow.sender.conn.mss, flow.sender.ecn(), flow.sender.ect());
            capture.note(now, i, What::Open { rtt, mss, window, window_scale, ecn, ect });
            capture.look(now, i, flow);
        }
    }

    /// Packets that flow `i` has made wait in the pool.
    #[cold]
    #[inline(never)]
    pub(crate) fn capture_sent(&mut self, i: usize) {
        if let Some(capture) = &mut self.capture {
            for k in 0..self.pool.sent_len() {
                capture.sent(self.now, i, &self.flows[i], self.pool.get(self.pool.sent_id(k)));
            }
        }
    }

    /// Flow `i` has taken in an acknowledgement, if it still listens.
    #[cold]
    #[inline(never)]
    pub(crate) fn capture_ack(&mut self, i: usize, ack: &Packet) {
        if let Some(capture) = &mut self.capture {
            capture.acked(self.now, i, &self.flows[i], ack);
        }
        self.capture_state(i);
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn capture_state(&mut self, i: usize) {
        let (now, flow) = (self.now, &self.flows[i]);
        if let Some(capture) = &mut self.capture
            && flow.life == Life::Active
            && !flow.datagram
        {
            capture.look(now, i, flow);
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn capture_reply(&mut self, i: usize, size: u16) {
        if let Some(capture) = &mut self.capture {
            capture.note(self.now, i, What::Echo { size, reply: true });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_closed_ranges() {
        assert_eq!(ranges(vec![7, 3, 4, 5, 9, 8]), [(3, 5), (7, 9)]);
        assert!(ranges(Vec::new()).is_empty());
    }
}
