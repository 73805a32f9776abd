//! Captures as qlog 0.3 (draft-ietf-quic-qlog-main-schema-03), one trace per connection, as qvis opens them.
//!
//! TCP in QUIC's terms: a packet's number counts transmissions, an ACK frame holds the numbers that an acknowledgement is
//! the first to cover (of a segment sent twice, the later one), and the receive window is a MAX_DATA frame. With ECN, packets
//! have their field, and ACK frames count the packets that have been reported as marked.

use std::fmt::Write;

use crate::packet::Marks;
use crate::tcp::ecn::Agreed;
use crate::time::Nanos;

use super::{Event, What};

/// The ECN field of a packet that has one.
fn ecn(marks: Marks) -> &'static str {
    match marks.ip() {
        0 => "",
        1 => ",\"ecn\":\"ECT(1)\"",
        2 => ",\"ecn\":\"ECT(0)\"",
        _ => ",\"ecn\":\"CE\"",
    }
}

/// Add the events of JSON-SEQ text of qlog, one per line, without the record that describes the trace.
pub fn append_records(text: &[u8], out: &mut String) {
    for record in String::from_utf8_lossy(text).split('\u{1e}') {
        let record = record.trim();
        if !record.is_empty() && !record.contains("\"qlog_version\"") {
            out.push_str(record);
            out.push('\n');
        }
    }
}

/// The event as JSON text, if it is one of qlog's; times in milliseconds.
pub fn write(event: &Event, out: &mut String) -> bool {
    let start = out.len();
    let time = |at: Nanos| at.0 as f64 / 1e6;
    let mut put = |name: &str, data: std::fmt::Arguments<'_>| {
        let at = time(event.at);
        write!(out, "{{\"time\":{at:.6},\"name\":\"{name}\",\"data\":{{{data}}}}}").expect("a string takes all");
    };
    match &event.what {
        What::Open { mss, .. } => put("recovery:parameters_set", format_args!("\"max_datagram_size\":{mss}")),
        What::Segment { bytes: (from, to), number, marks, .. } => put(
            "transport:packet_sent",
            format_args!(
                "\"header\":{{\"packet_type\":\"1RTT\",\"packet_number\":{number}}},\"raw\":{{\"length\":{0},\
                 \"payload_length\":{0}}},\"frames\":[{{\"frame_type\":\"stream\",\"stream_id\":0,\"offset\":{from},\
                 \"length\":{0}}}]{1}",
                to - from,
                ecn(*marks)
            ),
        ),
        What::WindowProbe { .. } | What::Datagram { .. } | What::Echo { .. } => {}
        What::Ack { next, window, numbers, marked, .. } => {
            let ranges: Vec<String> = numbers.iter().map(|(first, last)| format!("[{first},{last}]")).collect();
            let ack = match ranges.is_empty() {
                true => String::new(),
                false => {
                    let ce = match marked.agreed {
                        Agreed::Off => String::new(),
                        _ => format!(",\"ce\":{}", marked.packets),
                    };
                    format!("{{\"frame_type\":\"ack\",\"acked_ranges\":[{}]{ce}}},", ranges.join(","))
                }
            };
            put(
                "transport:packet_received",
                format_args!(
                    "\"header\":{{\"packet_type\":\"1RTT\"}},\"frames\":[{ack}{{\"frame_type\":\"max_data\",\
                     \"maximum\":{}}}]",
                    next + u64::from(*window)
                ),
            );
        }
        What::Lost { number, bytes } => put(
            "recovery:packet_lost",
            format_args!(
                "\"header\":{{\"packet_type\":\"1RTT\",\"packet_number\":{number}}},\"frames\":[{{\"frame_type\":\
                 \"stream\",\"stream_id\":0,\"offset\":{},\"length\":{}}}]",
                bytes.0,
                bytes.1 - bytes.0
            ),
        ),
        What::Metrics(m) => {
            let mut rest = String::new();
            if let Some(bytes) = m.ssthresh {
                write!(rest, ",\"ssthresh\":{bytes}").expect("a string takes all");
            }
            if let Some(us) = m.latest_rtt_us {
                write!(rest, ",\"latest_rtt\":{:.3}", f64::from(us) / 1e3).expect("a string takes all");
            }
            if let Some(rate) = m.pacing_rate {
                write!(rest, ",\"pacing_rate\":{rate}").expect("a string takes all");
            }
            put(
                "recovery:metrics_updated",
                format_args!(
                    "\"congestion_window\":{},\"bytes_in_flight\":{},\"smoothed_rtt\":{:.3},\"min_rtt\":{:.3}{rest}",
                    m.cwnd,
                    m.in_flight,
                    f64::from(m.srtt_us) / 1e3,
                    f64::from(m.min_rtt_us) / 1e3
                ),
            );
        }
        What::State { old, new } => {
            put("recovery:congestion_state_updated", format_args!("\"old\":\"{old}\",\"new\":\"{new}\""));
        }
    }
    out.len() > start
}
