//! The edge: links that nobody but hosts feeds.
//!
//! A host's packets are announced when they are sent, with the time at which they will be on the link. The link meets
//! them late, all that have come by then, where that makes no difference: when its pipe runs empty, before a departure
//! or a change, and before anybody reads it. Only a packet that would be the link's next event is met in time: that is an
//! event of its flow. Of one instant, packets meet a link in the order of their flows.

use crate::pool::{PacketId, Pool};
use crate::time::Nanos;
use crate::units::BitRate;

use super::{Entry, Link, Offer};

/// A place in time: an instant, and the flow whose turn it is then.
pub type Turn = (Nanos, u32);

impl Link {
    pub fn is_edge(&self) -> bool {
        self.is_edge
    }

    /// From now on hosts announce packets, if the server always takes time for `least_bytes` and packets do not overtake
    /// each other. Nobody else may offer any.
    pub fn make_edge(&mut self, least_bytes: u64) -> bool {
        let takes_time = |rate: BitRate| !rate.is_unlimited() && rate.serialisation(least_bytes) > Nanos::ZERO;
        let in_order = !self.pipe.is_overtaking() && self.burst_bytes == 0;
        self.is_edge = !self.exact && in_order && self.rates.values().all(|rate| rate.0 == 0 || takes_time(rate));
        self.is_edge
    }

    /// Packets announced that have not met it yet.
    pub fn expecting(&self) -> u64 {
        self.announced.len() as u64
    }

    /// A packet will meet this edge at `at`. Says whether that changes when something happens here. `turn`: as of
    /// [`Link::meet`], where the world is.
    #[inline(always)]
    pub fn announce(&mut self, at: Nanos, id: PacketId, size: u32, route: u32, turn: Turn, pool: &mut Pool) -> bool {
        if at > self.latest_announced || self.comes_last(at, id, pool) {
            self.latest_announced = at;
            self.announced.push_back(Entry { at, id, size, route });
        } else {
            return self.announce_among_others(Entry { at, id, size, route }, turn, pool);
        }
        let sooner = at < self.next_meeting && !self.may_be_met_late(at);
        if sooner {
            self.next_meeting = at;
        }
        sooner
    }

    /// Does packet `id` come after all that have been announced?
    #[inline(never)]
    fn comes_last(&self, at: Nanos, id: PacketId, pool: &Pool) -> bool {
        self.announced.back().is_none_or(|other| pool.comes_before((other.at, other.id), (at, id)))
    }

    /// Not as the last. A packet of this instant comes after what has had its turn.
    #[cold]
    #[inline(never)]
    fn announce_among_others(&mut self, entry: Entry, turn: Turn, pool: &mut Pool) -> bool {
        let now = entry.at == turn.0;
        if now {
            self.meet(turn, pool);
        }
        self.announced.insert(entry, |other| pool.comes_before((other.at, other.id), (entry.at, entry.id)));
        now || self.announced.front().is_some_and(|first| first.id == entry.id)
    }

    /// Will a packet that comes at `at` change nothing about the link's next event? It waits for the server, or its
    /// departure is committed and it goes into the pipe behind others.
    #[inline(always)]
    fn may_be_met_late(&self, at: Nanos) -> bool {
        !self.departs_at.is_never() || (!self.next_arrival().is_never() && at < self.commits_before)
    }

    /// Meet the announced packets that come before time `turn.0`, and of that time those of flows before `turn.1`. Then
    /// [`Link::plan_meeting`] is due.
    #[inline]
    pub fn meet(&mut self, turn: Turn, pool: &mut Pool) {
        while let Some(&Entry { at, id, size, route }) = self.announced.front()
            && (at < turn.0 || (at == turn.0 && pool.get(id).flow < turn.1))
        {
            self.announced.pop_front();
            let outcome = self.offer(at, id, size, route, pool);
            debug_assert_ne!(outcome, Offer::Through, "an edge's server takes time: nothing is through at once");
            if outcome == Offer::Gone {
                pool.release(id);
            }
        }
    }

    /// When an announced packet has to be met in time, and of which flow it is.
    pub fn next_meeting(&self, pool: &Pool) -> Option<(Nanos, u32)> {
        let first = self.announced.front().filter(|_| !self.next_meeting.is_never())?;
        Some((first.at, pool.get(first.id).flow))
    }

    /// Something may have changed that decides which announced packet has to be met in time.
    pub fn plan_meeting(&mut self) {
        let first = self.announced.front().map_or(Nanos::MAX, |entry| entry.at);
        self.next_meeting = if self.may_be_met_late(first) { Nanos::MAX } else { first };
    }
}
