//! What the application has written: data to send, through a buffer budgeted as in Linux (`tcp_sndbuf_expand`).

use crate::spec::TcpSpec;

/// Room for headers in a segment's buffer (MAX_TCP_HEADER, as distributions configure it), its shared info and its
/// descriptor, bytes.
const HEADER_ROOM: u64 = 320;
const SHARED_INFO: u64 = 320;
const DESCRIPTOR: u64 = 256;
/// Bytes of TCP options in every segment; buffers are budgeted for segments without.
const OPTIONS: u64 = 12;

#[derive(Clone, Debug)]
pub(super) struct SendBuffer {
    mss: u32,
    /// Segments the application has written, as a segment number.
    pub write_seq: u32,
    /// Last segment of a finite transfer and its payload, if shorter than a full one; else a number no segment has.
    last: u32,
    last_bytes: u32,
    /// A writer that always has more.
    pub bulk: bool,
    /// Segments it takes now, and at most.
    segments: u32,
    most: u32,
    /// The window it was last budgeted for.
    window: u32,
    /// Bytes it is given per segment of window, and bytes a segment takes.
    budget: u64,
    per_segment: u64,
}

impl SendBuffer {
    /// `windows`: as many of the controller's windows are to fit.
    pub fn new(tcp: &TcpSpec, windows: u32) -> SendBuffer {
        let mss = u64::from(tcp.mss);
        let per_segment = mss + tcp.profile().send_buffer_overhead;
        SendBuffer {
            mss: tcp.mss,
            write_seq: 0,
            last: u32::MAX,
            last_bytes: 0,
            bulk: false,
            segments: (tcp.wmem[1] / per_segment) as u32,
            most: (tcp.wmem[2] / per_segment).max(2) as u32,
            window: 0,
            budget: u64::from(windows) * segment_budget(mss + OPTIONS, HEADER_ROOM),
            per_segment,
        }
    }

    /// A transfer of `bytes` in all.
    pub fn write_object(&mut self, bytes: u64) {
        let mss = u64::from(self.mss);
        self.write_seq = bytes.div_ceil(mss) as u32;
        self.last = self.write_seq - 1;
        self.last_bytes = (bytes - u64::from(self.last) * mss) as u32;
    }

    /// `segments` more.
    pub fn write(&mut self, segments: u32) {
        // More than the run can carry has no number, and needs none.
        self.write_seq = self.write_seq.saturating_add(segments).min(u32::MAX - 1);
    }

    /// A bulk writer fills the buffer whenever a third of it is free. `window`: what controller and reordering ask for, segments.
    #[inline(always)]
    pub fn refill(&mut self, window: u32, snd_una: u32) {
        if window > self.window {
            self.expand(window.max(10));
        }
        let queued = self.write_seq - snd_una;
        if 3 * u64::from(queued) <= 2 * u64::from(self.segments) {
            self.write_seq = snd_una + self.segments;
        }
    }

    #[inline(never)]
    fn expand(&mut self, window: u32) {
        self.window = window;
        let wanted = (u64::from(window) * self.budget / self.per_segment).min(u64::from(self.most));
        self.segments = self.segments.max(wanted as u32);
    }

    /// Payload bytes of segment `seq`.
    #[inline]
    pub fn payload(&self, seq: u32) -> u32 {
        if seq == self.last { self.last_bytes } else { self.mss }
    }

    /// Payload bytes of segments `[start, end)`.
    #[inline]
    pub fn payload_of(&self, start: u32, end: u32) -> u64 {
        let full = u64::from(end - start) * u64::from(self.mss);
        if start <= self.last && self.last < end { full - u64::from(self.mss - self.last_bytes) } else { full }
    }
}

/// Bytes of send buffer Linux budgets per segment: memory comes in powers of two. With two windows and more of it there is
/// room to keep sending in recoveries.
fn segment_budget(mss: u64, header_room: u64) -> u64 {
    (mss + header_room + SHARED_INFO).next_power_of_two() + DESCRIPTOR
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn send_buffer_vectors() {
        let buffer = |cwnd: u64, header_room| (2 * cwnd.max(10) * segment_budget(1460, header_room)).min(4_194_304);
        // A kernel without tunnels and wireless LAN has less room for headers: the segment just fits 2 KiB.
        assert_eq!([10, 100, 910, 911].map(|w| buffer(w, 192)), [46_080, 460_800, 4_193_280, 4_194_304]);
        // Distributions' kernels; measured in Linux 6.1.
        assert_eq!([10, 100, 481, 482].map(|w| buffer(w, HEADER_ROOM)), [87_040, 870_400, 4_186_624, 4_194_304]);
        assert_eq!(segment_budget(1460, HEADER_ROOM), 4_352);
        assert_eq!(segment_budget(8960, HEADER_ROOM), 16_640);
    }

    #[test]
    fn only_the_last_segment_of_an_object_is_short() {
        let mut buffer = SendBuffer::new(&TcpSpec::default(), 2);
        assert_eq!((buffer.payload(7), buffer.payload_of(0, 3)), (1448, 3 * 1448));
        buffer.write_object(2 * 1448 + 5);
        assert_eq!([0, 1, 2].map(|seq| buffer.payload(seq)), [1448, 1448, 5]);
        assert_eq!((buffer.payload_of(0, 2), buffer.payload_of(1, 3)), (2 * 1448, 1448 + 5));
        buffer.write_object(1448);
        assert_eq!((buffer.write_seq, buffer.payload(0)), (1, 1448));
    }
}
