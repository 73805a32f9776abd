//! The state of a link as a few numbers: read from a link that carries packets, and set on its copy in another process.

use crate::kernel_hosts::LinkReading;
use crate::time::Nanos;

use super::{Link, LinkCounters};

impl Link {
    /// The largest backlog starts anew.
    pub fn reading(&mut self, now: Nanos) -> LinkReading {
        // This also counts committed departures that were lost.
        let backlog_bytes = self.backlog_bytes(now);
        let LinkCounters { arrived, delivered, delivered_bytes, dropped, lost, marked } = self.counters;
        LinkReading {
            arrived,
            delivered,
            delivered_bytes,
            dropped,
            lost,
            marked,
            backlog_bytes,
            backlog_max: self.take_backlog_max(now),
            backlog_integral: self.backlog_integral(now),
        }
    }

    /// Be as the reading says, of a link that holds no packets itself.
    pub(crate) fn take_in(&mut self, now: Nanos, reading: &LinkReading) {
        let LinkReading { arrived, delivered, delivered_bytes, dropped, lost, marked, .. } = *reading;
        self.counters = LinkCounters { arrived, delivered, delivered_bytes, dropped, lost, marked };
        self.waiting_bytes = reading.backlog_bytes;
        self.backlog_max = self.backlog_max.max(reading.backlog_max);
        self.backlog_integral = reading.backlog_integral;
        self.waiting_since = now;
    }
}
