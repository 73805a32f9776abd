//! Monitor intervals: what became of the packets sent in each. A packet belongs to the interval in which it was sent; an
//! interval is over when every packet of it was delivered or lost.

use crate::time::Nanos;

/// Intervals that can be under way; when all are, the last one grows.
const RING: usize = 32;

/// What an interval is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The first at a doubled rate.
    Doubled,
    /// Probe number k.
    Probe(usize),
    /// Results are awaited at the base rate.
    #[default]
    Waiting,
    /// At the rate moved to.
    Moved,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Plan {
    pub role: Role,
    /// Results count only for the decision they were planned for.
    pub decision: u32,
    pub mbps: f64,
}

/// One interval, with running sums for the regression of RTT over send time (seconds, relative to the interval's
/// first packet).
#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    plan: Plan,
    id: u64,
    start: Nanos,
    /// Packets it is to have.
    length: u32,
    /// What sending them took, seconds; 0 while it is being sent.
    duration_s: f64,
    sent: u32,
    settled: u32,
    lost: u32,
    app_limited: bool,
    samples: f64,
    first_rtt_s: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

/// The result of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    pub plan: Plan,
    pub id: u64,
    /// Packets per second that left.
    pub packets_per_s: f64,
    pub packets: f64,
    pub lost: f64,
    /// Change of the RTT per second of send time, dimensionless.
    pub gradient: f64,
    /// 0 if nothing was delivered.
    pub mean_rtt_s: f64,
    /// The application or the machinery below, not the rate, decided what was sent.
    pub void: bool,
}

impl Interval {
    fn is_closed(&self) -> bool {
        self.duration_s > 0.0
    }

    fn is_settled(&self) -> bool {
        self.is_closed() && self.settled >= self.sent
    }

    fn report(&self) -> Report {
        let n = self.samples;
        let spread = n * self.xx - self.x * self.x;
        let slope = if n > 1.0 && spread > 1e-12 { (n * self.xy - self.x * self.y) / spread } else { 0.0 };
        Report {
            plan: self.plan,
            id: self.id,
            packets_per_s: f64::from(self.sent) / self.duration_s,
            packets: f64::from(self.settled.max(1)),
            lost: f64::from(self.lost),
            gradient: slope,
            mean_rtt_s: if n > 0.0 { self.first_rtt_s + self.y / n } else { 0.0 },
            void: self.app_limited || self.settled == 0,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Monitor {
    ring: [Interval; RING],
    head: usize,
    len: usize,
    begun: u64,
    last_sent: Nanos,
}

impl Monitor {
    pub fn new() -> Monitor {
        Monitor { ring: [Interval::default(); RING], head: 0, len: 0, begun: 0, last_sent: Nanos::ZERO }
    }

    fn at(&mut self, i: usize) -> &mut Interval {
        &mut self.ring[(self.head + i) % RING]
    }

    /// Number of the interval being sent.
    pub fn current(&self) -> u64 {
        self.begun
    }

    /// Should a packet sent now open the next interval? Packets of one instant stay together.
    pub fn is_due(&mut self, now: Nanos) -> bool {
        if self.len == 0 {
            return true;
        }
        let (last, room) = (self.len - 1, self.len < RING);
        let later = now > self.last_sent;
        let current = self.at(last);
        current.sent >= current.length && later && room
    }

    /// Close the interval being sent and open one of `length` packets. `gap_s`: the time between packets so far.
    pub fn begin(&mut self, now: Nanos, plan: Plan, length: u32, gap_s: f64) {
        if self.len > 0 {
            let (last, last_sent) = (self.len - 1, self.last_sent);
            let current = self.at(last);
            let paced = (last_sent - current.start).secs_f64() + gap_s;
            current.duration_s = (now - current.start).secs_f64().min(paced);
        }
        self.len += 1;
        self.begun += 1;
        let (last, id) = (self.len - 1, self.begun);
        *self.at(last) = Interval { plan, id, start: now, length, ..Interval::default() };
    }

    /// The interval being sent shall end with the next packet.
    pub fn cut(&mut self) {
        if self.len > 0 {
            let last = self.len - 1;
            self.at(last).length = 0;
        }
    }

    pub fn note_sent(&mut self, now: Nanos, app_limited: bool) {
        self.last_sent = now;
        let last = self.len - 1;
        let current = self.at(last);
        current.sent += 1;
        current.app_limited |= app_limited;
    }

    /// The interval in which a packet was sent; None if it is over.
    #[inline]
    fn interval_of(&mut self, sent: Nanos) -> Option<&mut Interval> {
        if self.len == 0 || sent < self.at(0).start {
            return None;
        }
        let mut i = 0;
        while i + 1 < self.len && self.at(i + 1).start <= sent {
            i += 1;
        }
        Some(self.at(i))
    }

    /// A packet arrived; `rtt_s` is None if its RTT cannot be trusted. `was_lost`: it had been counted as lost.
    pub fn note_delivered(&mut self, sent: Nanos, rtt_s: Option<f64>, was_lost: bool) {
        let Some(interval) = self.interval_of(sent) else {
            return;
        };
        if was_lost {
            interval.lost = interval.lost.saturating_sub(1);
        } else {
            interval.settled += 1;
        }
        if let Some(rtt) = rtt_s {
            if interval.samples == 0.0 {
                interval.first_rtt_s = rtt;
            }
            let (x, y) = ((sent - interval.start).secs_f64(), rtt - interval.first_rtt_s);
            interval.samples += 1.0;
            interval.x += x;
            interval.y += y;
            interval.xx += x * x;
            interval.xy += x * y;
        }
    }

    pub fn note_lost(&mut self, sent: Nanos) {
        if let Some(interval) = self.interval_of(sent) {
            interval.settled += 1;
            interval.lost += 1;
        }
    }

    /// A packet counted as lost is in flight after all.
    pub fn note_spared(&mut self, sent: Nanos) {
        if let Some(interval) = self.interval_of(sent) {
            interval.settled = interval.settled.saturating_sub(1);
            interval.lost = interval.lost.saturating_sub(1);
        }
    }

    /// Is the oldest interval over? A tail loss probe hides the fate of the packet it repeats: when all packets of a
    /// later interval are settled, what is still open of this one will never be.
    #[inline]
    pub fn has_finished(&mut self) -> bool {
        if self.len == 0 || !self.at(0).is_closed() {
            return false;
        }
        self.at(0).is_settled()
            || (1..self.len).any(|i| self.at(i).is_settled())
            || self.len == RING && self.at(RING - 1).settled > 0
    }

    /// Take out the oldest interval.
    pub fn take(&mut self) -> Report {
        let report = self.at(0).report();
        self.head = (self.head + 1) % RING;
        self.len -= 1;
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(t: u64) -> Nanos {
        Nanos(t * 1_000_000)
    }

    fn finished(monitor: &mut Monitor) -> Option<Report> {
        monitor.has_finished().then(|| monitor.take())
    }

    /// Ten packets, one per millisecond from `from`.
    fn send(m: &mut Monitor, from: u64) {
        m.begin(ms(from), Plan::default(), 10, 1e-3);
        (0..10).for_each(|k| m.note_sent(ms(from + k), false));
    }

    #[test]
    fn the_gradient_is_the_least_squares_slope_of_rtt_over_send_time() {
        let mut m = Monitor::new();
        send(&mut m, 0);
        assert!(!m.is_due(ms(9)), "packets of one instant stay together");
        assert!(m.is_due(ms(10)));
        send(&mut m, 10);
        for k in 0..10 {
            // 3 ms of RTT per 10 ms, and a kink that is worth nothing.
            let kink = if k == 0 || k == 9 { 1e-3 } else { 0.0 };
            m.note_delivered(ms(k), Some(0.05 + 0.3e-3 * k as f64 + kink), false);
            assert_eq!(finished(&mut m).is_some(), k == 9);
            if k == 8 {
                m.note_delivered(ms(12), None, false);
            }
        }
        let mut m2 = Monitor::new();
        send(&mut m2, 0);
        send(&mut m2, 10);
        (0..10).for_each(|k| m2.note_delivered(ms(k), Some(0.05 + 0.3e-3 * k as f64), false));
        let r = finished(&mut m2).unwrap();
        assert!((r.gradient - 0.3).abs() < 1e-9, "{}", r.gradient);
        assert!((r.mean_rtt_s - 0.05135).abs() < 1e-9);
        assert!((r.packets_per_s - 1000.0).abs() < 1e-6);
        assert_eq!((r.packets, r.lost, r.void), (10.0, 0.0, false));
    }

    #[test]
    fn losses_settle_packets_and_late_arrivals_take_them_back() {
        let mut m = Monitor::new();
        send(&mut m, 0);
        send(&mut m, 10);
        (0..9).for_each(|k| m.note_delivered(ms(k), None, false));
        m.note_lost(ms(9));
        m.note_lost(ms(8));
        m.note_delivered(ms(8), None, true);
        assert_eq!(finished(&mut m).unwrap().lost, 1.0);
        m.note_delivered(ms(5), None, false);
        assert!(finished(&mut m).is_none());
    }

    #[test]
    fn packets_spared_after_a_spurious_timeout_count_once() {
        let mut m = Monitor::new();
        send(&mut m, 0);
        send(&mut m, 10);
        (0..10).for_each(|k| m.note_lost(ms(k)));
        (0..10).for_each(|k| m.note_spared(ms(k)));
        assert!(finished(&mut m).is_none());
        (0..9).for_each(|k| m.note_delivered(ms(k), None, false));
        m.note_lost(ms(9));
        let report = finished(&mut m).unwrap();
        assert_eq!((report.packets, report.lost), (10.0, 1.0));
    }

    #[test]
    fn a_packet_whose_fate_stays_unknown_does_not_hold_up_the_others() {
        let mut m = Monitor::new();
        send(&mut m, 0);
        send(&mut m, 10);
        send(&mut m, 20);
        (1..20).for_each(|k| m.note_delivered(ms(k), None, false));
        assert_eq!(finished(&mut m).unwrap().packets, 9.0);
        assert_eq!(finished(&mut m).unwrap().packets, 10.0);
    }

    #[test]
    fn a_full_ring_lets_the_last_interval_grow() {
        let mut m = Monitor::new();
        for k in 0..RING as u64 {
            assert!(m.is_due(ms(10 * k)));
            send(&mut m, 10 * k);
        }
        assert!(!m.is_due(ms(10_000)));
        (0..10).for_each(|k| m.note_delivered(ms(k), None, false));
        assert!(finished(&mut m).is_some() && m.is_due(ms(10_000)));
    }
}
