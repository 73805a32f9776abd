//! Captures in pcap's classic format with nanoseconds: IPv4 packets whose payload is cut off, as `tcpdump -s` would.
//!
//! Flow i sends from 10.1.x.y to 10.2.x.y with x.y = i. Headers are complete and checksums right, for a payload of zeros
//! (RFC 9293, 3.1; RFC 7323 timestamps and window scaling; RFC 2018 SACK; RFC 792 echoes; RFC 768).

use crate::packet::Marks;
use crate::tcp::ecn::Agreed;
use crate::time::Nanos;

use super::{Bytes, Event, Marked, What};

/// Nanosecond pcap, little endian, and raw IP as link type.
const MAGIC: u32 = 0xa1b2_3c4d;
const LINKTYPE_RAW: u32 = 101;
const SNAP_LENGTH: u32 = 262_144;
/// Simulated time 0 in the file: the hosts' timestamp clock begins there, and handshakes come before first segments.
const EPOCH: Nanos = Nanos::from_secs(1_000);

const SENDER_PORT: u16 = 49_152;
const RECEIVER_PORT: u16 = 5_201;
const DISCARD_PORT: u16 = 9;
/// The sender's own window, in units of its scale: no data comes back.
const SENDER_WINDOW: u16 = 502;
const SENDER_SCALE: u8 = 7;
const SYN_WINDOW: u16 = 64_240;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const SYN: u8 = 2;
const ACK: u8 = 16;
/// Options of RFC 9768 whose first field counts ECT(0), or ECT(1).
const ACCECN0: u8 = 172;
const ACCECN1: u8 = 174;
const OPTION_SPACE: usize = 40;
const IP_BYTES: usize = 20;
/// Of an Ethernet header, which echo requests are counted with.
const ETHERNET_BYTES: u16 = 14;

/// The start of a file.
pub fn header() -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(MAGIC.to_le_bytes());
    out.extend([2, 0, 4, 0]);
    out.extend([0; 8]);
    out.extend(SNAP_LENGTH.to_le_bytes());
    out.extend(LINKTYPE_RAW.to_le_bytes());
    out
}

/// What a file has to know of the flows, and nothing of time: any number of events at a time.
#[derive(Clone, Debug)]
pub struct Writer {
    /// Of both hosts of each flow: packets sent, for their identification; and the scale of the receiver's window.
    flows: Vec<([u16; 2], u32, u16)>,
    /// Bytes that datagrams and segments have on the wire beyond IP's.
    framing: u16,
}

/// A segment's fields that vary.
struct Segment<'a> {
    seq: u64,
    ack: Option<u64>,
    flags: u8,
    marks: Marks,
    window: u16,
    options: &'a [u8],
    payload: u16,
}

impl Writer {
    /// `header_bytes`: what the network adds to payload on the wire; beyond IP's and TCP's headers it is framing.
    pub fn new(flows: usize, header_bytes: u32) -> Writer {
        let framing = header_bytes.saturating_sub(IP_BYTES as u32 + 32) as u16;
        Writer { flows: vec![([0; 2], 0, 0); flows], framing }
    }

    /// Append what is a packet.
    pub fn write(&mut self, event: &Event, out: &mut Vec<u8>) {
        let flow = event.flow as usize;
        match &event.what {
            What::Open { rtt, mss, window, window_scale, ecn, ect } => {
                let [syn_marks, reply_marks, last_marks] = ecn.handshake(*ect);
                let at = event.at;
                self.flows[flow].1 = *window_scale;
                let syn = (EPOCH + at).saturating_sub(*rtt);
                let reply = EPOCH + at;
                // The answer left half-way, as the sender believes (`Sender::establish`).
                let answered = (reply - Nanos(rtt.0 / 2).min(EPOCH)).millis() as u32;
                let sent = syn.millis() as u32;
                let options = syn_options(*mss, sent, 0, SENDER_SCALE);
                let part = Segment { seq: 0, ack: None, flags: SYN, ..plain(0, None, SYN_WINDOW, &options, syn_marks) };
                self.segment(syn, flow, true, &part, out);
                let options = syn_options(*mss, answered, sent, *window_scale as u8);
                let window = (*window).min(0xffff) as u16;
                let part = Segment { flags: SYN | ACK, ..plain(0, Some(0), window, &options, reply_marks) };
                self.segment(reply, flow, false, &part, out);
                let options = timestamps(reply.millis() as u32, answered);
                let part = plain(1, Some(1), SENDER_WINDOW, &options, last_marks);
                self.segment(reply, flow, true, &part, out);
            }
            What::Segment { bytes, ts, ts_echo, marks, .. } => {
                let options = timestamps(ts.millis() as u32, ts_echo.millis() as u32);
                let part = plain(1 + bytes.0, Some(1), SENDER_WINDOW, &options, *marks);
                let part = Segment { payload: (bytes.1 - bytes.0) as u16, ..part };
                self.segment(EPOCH + event.at, flow, true, &part, out);
            }
            What::WindowProbe { at, ts, ts_echo } => {
                let options = timestamps(ts.millis() as u32, ts_echo.millis() as u32);
                let part = plain(1 + at, Some(1), SENDER_WINDOW, &options, Marks::NONE);
                self.segment(EPOCH + event.at, flow, true, &part, out);
            }
            What::Ack { next, window, sack, ts, ts_echo, marks, marked, .. } => {
                let mut options = timestamps(ts.millis() as u32, ts_echo.millis() as u32);
                options.extend(selective(sack));
                options.extend(accurate(*marks, marked, OPTION_SPACE - options.len()));
                let window = (window >> self.flows[flow].1).min(0xffff) as u16;
                let part = plain(1, Some(1 + next), window, &options, *marks);
                self.segment(EPOCH + event.at, flow, false, &part, out);
            }
            What::Datagram { size } => {
                let length = size.saturating_sub(self.framing + IP_BYTES as u16).max(8);
                let mut udp = Vec::from(SENDER_PORT.to_be_bytes());
                udp.extend(DISCARD_PORT.to_be_bytes());
                udp.extend(length.to_be_bytes());
                udp.extend([0; 2]);
                let (from, to) = addresses(flow, true);
                let sum = match checksum(&[&pseudo(from, to, UDP, length), &udp]) {
                    0 => 0xffff, // 0 stands for none
                    sum => sum,
                };
                udp[6..8].copy_from_slice(&sum.to_be_bytes());
                self.packet(EPOCH + event.at, flow, true, UDP, 0, &udp, length, out);
            }
            What::Echo { size, reply } => {
                let length = size.saturating_sub(ETHERNET_BYTES + IP_BYTES as u16).max(8);
                let number = self.flows[flow].2;
                self.flows[flow].2 = number.wrapping_add(u16::from(!reply));
                let mut icmp = vec![if *reply { 0 } else { 8 }, 0, 0, 0];
                icmp.extend((flow as u16).to_be_bytes());
                // Replies are not told apart: the latest is answered.
                icmp.extend(number.wrapping_sub(u16::from(*reply)).to_be_bytes());
                let sum = checksum(&[&icmp]);
                icmp[2..4].copy_from_slice(&sum.to_be_bytes());
                self.packet(EPOCH + event.at, flow, !reply, ICMP, 0, &icmp, length, out);
            }
            What::Lost { .. } | What::Metrics(_) | What::State { .. } => {}
        }
    }

    fn segment(&mut self, at: Nanos, flow: usize, forth: bool, part: &Segment<'_>, out: &mut Vec<u8>) {
        let ports = if forth { [SENDER_PORT, RECEIVER_PORT] } else { [RECEIVER_PORT, SENDER_PORT] };
        let mut tcp = Vec::with_capacity(60);
        tcp.extend(ports[0].to_be_bytes());
        tcp.extend(ports[1].to_be_bytes());
        tcp.extend((part.seq as u32).to_be_bytes());
        // A SYN takes a number of its own.
        let ack = part.ack.map_or(0, |ack| ack as u32 + u32::from(part.flags & SYN != 0));
        tcp.extend(ack.to_be_bytes());
        // AE shares a byte with the length; CWR and ECE are the highest flags.
        let ace = part.marks.tcp();
        tcp.extend([(((20 + part.options.len()) / 4) << 4) as u8 | ace >> 2, part.flags | (ace & 3) << 6]);
        tcp.extend(part.window.to_be_bytes());
        tcp.extend([0; 4]);
        tcp.extend(part.options);
        let length = tcp.len() as u16 + part.payload;
        let (from, to) = addresses(flow, forth);
        let sum = checksum(&[&pseudo(from, to, TCP, length), &tcp]);
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        self.packet(at, flow, forth, TCP, part.marks.ip(), &tcp, length, out);
    }

    /// An IP packet of `length` bytes behind its header, of which `kept` are written.
    #[allow(clippy::too_many_arguments)]
    fn packet(
        &mut self,
        at: Nanos,
        flow: usize,
        forth: bool,
        proto: u8,
        ecn: u8,
        kept: &[u8],
        length: u16,
        out: &mut Vec<u8>,
    ) {
        let total = IP_BYTES as u16 + length;
        let number = &mut self.flows[flow].0[usize::from(!forth)];
        *number = number.wrapping_add(1);
        let mut ip = [0; IP_BYTES];
        ip[0] = 0x45;
        ip[1] = ecn;
        ip[2..4].copy_from_slice(&total.to_be_bytes());
        ip[4..6].copy_from_slice(&number.to_be_bytes());
        ip[6] = 0x40; // never fragmented
        ip[8] = 64;
        ip[9] = proto;
        let (from, to) = addresses(flow, forth);
        ip[12..16].copy_from_slice(&from);
        ip[16..20].copy_from_slice(&to);
        let sum = checksum(&[&ip]);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        out.extend(((at.0 / 1_000_000_000) as u32).to_le_bytes());
        out.extend(((at.0 % 1_000_000_000) as u32).to_le_bytes());
        out.extend(((IP_BYTES + kept.len()) as u32).to_le_bytes());
        out.extend(u32::from(total).to_le_bytes());
        out.extend(ip);
        out.extend(kept);
    }
}

fn plain(seq: u64, ack: Option<u64>, window: u16, options: &[u8], marks: Marks) -> Segment<'_> {
    Segment { seq, ack, flags: ACK, marks, window, options, payload: 0 }
}

fn addresses(flow: usize, forth: bool) -> ([u8; 4], [u8; 4]) {
    let [.., x, y] = (flow as u32).to_be_bytes();
    let ends = ([10, 1, x, y], [10, 2, x, y]);
    if forth { ends } else { (ends.1, ends.0) }
}

/// Two of padding, then the timestamp option.
fn timestamps(ts: u32, echo: u32) -> Vec<u8> {
    let mut options = vec![1, 1, 8, 10];
    options.extend(ts.to_be_bytes());
    options.extend(echo.to_be_bytes());
    options
}

/// Largest segment, SACK permitted, timestamps and window scale. Timestamps take 12 bytes of every segment.
fn syn_options(mss: u32, ts: u32, echo: u32, scale: u8) -> Vec<u8> {
    let mut options = vec![2, 4];
    options.extend(((mss + 12).min(0xffff) as u16).to_be_bytes());
    options.extend([4, 2, 8, 10]);
    options.extend(ts.to_be_bytes());
    options.extend(echo.to_be_bytes());
    options.extend([1, 3, 3, scale]);
    options
}

fn selective(blocks: &[Bytes]) -> Vec<u8> {
    if blocks.is_empty() {
        return Vec::new();
    }
    let mut options = vec![1, 1, 5, 2 + 8 * blocks.len() as u8];
    for (start, end) in blocks {
        options.extend((1 + *start as u32).to_be_bytes());
        options.extend((1 + *end as u32).to_be_bytes());
    }
    options
}

/// RFC 9768's option, if it fits: the first field counts what is never sent here and keeps its initial value, the second is
/// the marked bytes.
fn accurate(marks: Marks, marked: &Marked, room: usize) -> Vec<u8> {
    if marked.agreed != Agreed::Accurate || room < 8 {
        return Vec::new();
    }
    let kind = if marks.ip() == Marks::ECT1.ip() { ACCECN0 } else { ACCECN1 };
    let [_, bytes @ ..] = marked.bytes.to_be_bytes();
    let mut option = vec![kind, 8, 0, 0, 1];
    option.extend(bytes);
    option
}

fn pseudo(from: [u8; 4], to: [u8; 4], proto: u8, length: u16) -> [u8; 12] {
    let mut header = [0; 12];
    header[..4].copy_from_slice(&from);
    header[4..8].copy_from_slice(&to);
    header[9] = proto;
    header[10..].copy_from_slice(&length.to_be_bytes());
    header
}

/// The Internet checksum (RFC 1071) of parts that have even lengths.
fn checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks_exact(2));
    let mut sum: u32 = words.map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_rfc_1071() {
        // Its own example, section 3: the sum of these words is ddf2.
        assert_eq!(checksum(&[&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]]), !0xddf2);
    }

    #[test]
    fn sequence_numbers_wrap_as_a_real_stream_does() {
        let mut writer = Writer::new(1, 66);
        let bytes = ((1 << 32) - 2, (1 << 32) + 1446);
        let marks = Marks::ECT0.with(Marks::CWR);
        let what = What::Segment { bytes, number: 0, ts: EPOCH, ts_echo: EPOCH, marks };
        let mut out = Vec::new();
        writer.write(&Event { at: Nanos::ZERO, flow: 0, what }, &mut out);
        assert_eq!(out[16 + 20 + 4..16 + 20 + 8], [0xff, 0xff, 0xff, 0xff]);
        assert_eq!(out[12..16], 1500u32.to_le_bytes());
        // ECT(0) in the second byte of IP's header; CWR and ACK among TCP's flags, behind a length of 32 bytes.
        assert_eq!((out[17], out[16 + 20 + 12], out[16 + 20 + 13]), (0b10, 0x80, 0x90));
    }
}
