//! The edge: links that nobody but hosts feeds.
//!
//! A host's packets are announced when they are sent, with the time at which they will be on the link. The link meets
//! them late, all that have come by then, where that makes no difference: when its pipe runs empty, before a departure
//! or a change, and before anybody reads it. Only a packet that would be the link's next event is met in time.

use crate::pool::{PacketId, Pool};
use crate::time::Nanos;
use crate::units::BitRate;

use super::{Entry, Link, Offer};

impl Link {
    pub fn is_edge(&self) -> bool {
        self.is_edge
    }

    /// From now on hosts announce packets, if the server always takes time for `least_bytes` and packets do not overtake
    /// each other. Nobody else may offer any.
    pub fn make_edge(&mut self, least_bytes: u64) -> bool {
        let takes_time = |rate: BitRate| !rate.is_unlimited() && rate.serialisation(least_bytes) > Nanos::ZERO;
        let in_order = !self.overtaking && self.burst_bytes == 0;
        self.is_edge = in_order && self.rates.values().all(|rate| rate.0 == 0 || takes_time(rate));
        self.is_edge
    }

    /// Packets announced that have not met it yet.
    pub fn expecting(&self) -> u64 {
        self.announced.len() as u64
    }

    /// A packet will meet this edge at `at`. Says whether the link's next event is sooner for it.
    #[inline(always)]
    pub fn announce(&mut self, at: Nanos, id: PacketId, size: u32, pool: &Pool) -> bool {
        // Ties go to the lowest flow, as everywhere.
        let comes_before =
            move |other: &Entry| other.at < at || (other.at == at && pool.get(other.id).flow <= pool.get(id).flow);
        if self.announced.back().is_none_or(comes_before) {
            self.announced.push_back(Entry { at, id, size });
        } else {
            self.announced.insert(Entry { at, id, size }, comes_before);
        }
        let sooner = at < self.next_meeting && !self.may_be_met_late(at);
        if sooner {
            self.next_meeting = at;
        }
        sooner
    }

    /// Will a packet that comes at `at` change nothing about the link's next event? It waits for the server, or its
    /// departure is certain and it goes into the pipe behind others.
    #[inline(always)]
    fn may_be_met_late(&self, at: Nanos) -> bool {
        !self.departs_at.is_never() || (!self.next_arrival.is_never() && at < self.certain_before)
    }

    /// Meet the announced packets that come before `end`.
    #[inline]
    pub fn meet(&mut self, end: Nanos, pool: &mut Pool) {
        while let Some(&Entry { at, id, size }) = self.announced.front()
            && at < end
        {
            self.announced.pop_front();
            if self.offer(at, id, size, pool) == Offer::Gone {
                pool.release(id);
            }
        }
        self.plan_meeting();
    }

    /// Something may have changed that decides which announced packet has to be met in time.
    pub fn plan_meeting(&mut self) {
        let first = self.announced.front().map_or(Nanos::MAX, |entry| entry.at);
        self.next_meeting = if self.may_be_met_late(first) { Nanos::MAX } else { first };
    }
}
