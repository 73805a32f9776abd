//! What an application offers to its connection, and when.

use crate::rng::{Purpose, Stream};
use crate::spec::TrafficSpec;
use crate::time::Nanos;

/// Far beyond what a simulated run can carry, far below where segment numbers end.
const LARGEST_OBJECT_BYTES: u64 = 100_000_000_000;

/// What the application does when its timer fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Nothing,
    /// Offer one more segment.
    Write,
    /// Offer an object of so many bytes.
    Object(u64),
    /// Send a probe of the path.
    Probe,
    /// Begin and end an unlimited on-period.
    StartBulk,
    StopBulk,
}

#[derive(Clone, Debug)]
pub struct Traffic {
    pub spec: TrafficSpec,
    /// Nanoseconds times bit/s of one segment: the gap at a rate is this over the rate, without rounding drift.
    segment_work: u128,
    rate: u64,
    random: Stream,
    /// When constant-rate writing would have begun without pauses, and segments offered since then.
    since: Nanos,
    offered: u64,
    /// How long the on-periods before this off-period were, together.
    written: Nanos,
    on: bool,
    probe_interval: Nanos,
    next_write: Nanos,
    next_switch: Nanos,
    next_probe: Nanos,
    /// The earliest of the three.
    next: Nanos,
}

impl Traffic {
    /// `wire_bytes`: a full segment with headers. `probe_interval`: between probes of the path; zero = none.
    pub fn new(spec: TrafficSpec, probe_interval: Nanos, wire_bytes: u32, seed: u64, flow: u64) -> Traffic {
        Traffic {
            spec,
            segment_work: u128::from(wire_bytes) * 8_000_000_000,
            rate: match spec {
                TrafficSpec::Cbr { rate, .. } | TrafficSpec::OnOff { rate: Some(rate), .. } => rate.0,
                _ => 0,
            },
            random: Stream::new(seed, Purpose::Traffic, flow),
            since: Nanos::ZERO,
            offered: 0,
            written: Nanos::ZERO,
            on: false,
            probe_interval,
            next_write: Nanos::MAX,
            next_switch: Nanos::MAX,
            next_probe: Nanos::MAX,
            next: Nanos::MAX,
        }
    }

    /// The flow starts; timers of rate-limited traffic begin now.
    pub fn start(&mut self, now: Nanos) {
        match self.spec {
            TrafficSpec::Bulk | TrafficSpec::Bytes { .. } => {}
            TrafficSpec::Cbr { .. } => (self.since, self.next_write) = (now, now),
            TrafficSpec::OnOff { .. } => (self.since, self.written, self.next_switch) = (now, Nanos::ZERO, now),
            TrafficSpec::Objects { per_s, .. } => self.next_write = now + self.gap(per_s),
        }
        if self.probe_interval > Nanos::ZERO {
            self.next_probe = now;
        }
        self.find_next();
    }

    pub fn stop(&mut self) {
        self.next_write = Nanos::MAX;
        self.next_switch = Nanos::MAX;
        self.next_probe = Nanos::MAX;
        self.find_next();
    }

    #[inline]
    pub fn next_event(&self) -> Nanos {
        self.next
    }

    fn find_next(&mut self) {
        self.next = self.next_write.min(self.next_switch).min(self.next_probe);
    }

    /// What to do at `now`; one thing at a time.
    pub fn on_timer(&mut self, now: Nanos) -> Action {
        let action = self.take_due(now);
        self.find_next();
        action
    }

    fn take_due(&mut self, now: Nanos) -> Action {
        if self.next_switch <= now {
            let TrafficSpec::OnOff { rate, on, off } = self.spec else {
                return Action::Nothing;
            };
            self.on = !self.on;
            let mean = if self.on { on } else { off };
            self.next_switch = now + Nanos(self.random.exponential(mean.0 as f64) as u64 + 1);
            if rate.is_none() {
                return if self.on { Action::StartBulk } else { Action::StopBulk };
            }
            // A segment is offered when its bits have accrued in on-periods, the first at once.
            if self.on {
                self.since = now - self.written;
                self.next_write = self.next_segment();
            } else {
                self.written = now - self.since;
                self.next_write = Nanos::MAX;
            }
            return Action::Nothing;
        }
        if self.next_write <= now {
            if let TrafficSpec::Objects { per_s, mean_bytes, sigma } = self.spec {
                self.next_write = now + self.gap(per_s);
                // The mean of a lognormal variable is exp(mu + sigma^2 / 2).
                let log = libm::log(mean_bytes) - sigma * sigma / 2.0 + sigma * self.random.normal();
                return Action::Object((libm::exp(log) as u64).clamp(1, LARGEST_OBJECT_BYTES));
            }
            self.offered += 1;
            self.next_write = self.next_segment();
            return Action::Write;
        }
        if self.next_probe <= now {
            self.next_probe = now + self.probe_interval;
            return Action::Probe;
        }
        Action::Nothing
    }

    /// Until the next request of a Poisson process.
    fn gap(&mut self, per_s: f64) -> Nanos {
        Nanos((self.random.exponential(1.0 / per_s) * 1e9) as u64 + 1)
    }

    fn next_segment(&self) -> Nanos {
        self.since + Nanos((self.segment_work * u128::from(self.offered) / u128::from(self.rate)) as u64)
    }
}
