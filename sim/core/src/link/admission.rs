//! Which packets the queue of a link takes, and what a managed queue drops.

use crate::pool::Pool;
use crate::time::Nanos;

use super::queue::{Discipline, Drops, Managed};
use super::{Entry, Link};

impl Link {
    /// Does the drop-tail queue take a packet of `size` bytes, if none waits but those whose departure is committed?
    #[inline(always)]
    pub(super) fn admit(&mut self, now: Nanos, size: u32) -> bool {
        debug_assert!(self.queue.is_empty() && self.waiting_bytes == 0, "departures are committed in order");
        if now >= self.busy_until {
            // Every committed departure has taken place.
            self.counters.lost += self.committed.clear();
        }
        // The count may still include packets that have left. If there is room even so, and the backlog is not a new
        // maximum, they need not be removed yet.
        self.surely_admits(size) || self.admit_settled(now, size)
    }

    #[inline(always)]
    fn surely_admits(&self, size: u32) -> bool {
        let (bytes, packets) = self.sure_room;
        self.committed.bytes() + u64::from(size) <= bytes && self.committed.len() < packets as usize
    }

    /// Without those that have left.
    #[inline(never)]
    fn admit_settled(&mut self, now: Nanos, size: u32) -> bool {
        self.settle(now + Nanos(1));
        self.surely_admits(size) || self.admit_exactly(now, size)
    }

    #[inline(never)]
    pub(super) fn admit_exactly(&mut self, now: Nanos, size: u32) -> bool {
        let backlog = self.backlog_bytes(now);
        let packets = self.packets();
        let Discipline::DropTail(rule) = &mut self.discipline else {
            return false;
        };
        if !rule.admits(backlog, packets, u64::from(size)) {
            self.counters.dropped += 1;
            return false;
        }
        self.backlog_max = self.backlog_max.max(backlog + u64::from(size));
        self.committed.make_room();
        self.find_sure_room();
        true
    }

    /// A queue that drops from the front gives up packets for one of `size` bytes that comes: those that have waited
    /// longest, but not the one in service. False if that one leaves no room; then the one that comes is dropped.
    #[inline(never)]
    pub(super) fn make_room(&mut self, now: Nanos, size: u32, pool: &mut Pool) -> bool {
        self.integrate_waiting(now);
        let Discipline::DropFront(rule) = &self.discipline else {
            return false;
        };
        let served = self.queue.front().map_or((0, 0), |entry| (u64::from(entry.size), 1));
        if !rule.has_room(served.0, served.1, u64::from(size)) {
            self.counters.dropped += 1;
            return false;
        }
        while !rule.has_room(self.waiting_bytes, self.queue.len() as u64, u64::from(size)) {
            let oldest = self.queue.remove(1).expect("one waits behind the one in service");
            self.waiting_bytes -= u64::from(oldest.size);
            self.counters.dropped += 1;
            pool.release(oldest.id);
        }
        self.backlog_max = self.backlog_max.max(self.waiting_bytes + u64::from(size));
        true
    }

    /// A packet may join as long as the backlog is no record, the rule takes it for certain, and its departure can be
    /// kept without more memory.
    pub(super) fn find_sure_room(&mut self) {
        if let Discipline::DropTail(rule) = &self.discipline {
            let (bytes, packets) = rule.sure_room();
            self.sure_room = (bytes.min(self.backlog_max), packets.min(self.committed.capacity() as u64));
        }
    }

    /// Packets waiting or in service, as far as those that left are taken off.
    fn packets(&self) -> u64 {
        (self.queue.len() + self.committed.len()) as u64
    }

    /// Into a managed queue.
    #[inline(never)]
    pub(super) fn enqueue(&mut self, now: Nanos, entry: Entry, pool: &mut Pool) {
        self.integrate_waiting(now);
        let flow = pool.get(entry.id).flow;
        self.waiting_bytes += u64::from(entry.size);
        let rate = self.rate;
        self.manage(pool, |queue, drops| queue.enqueue(now, rate, flow, entry, drops));
        self.backlog_max = self.backlog_max.max(self.waiting_bytes);
        if self.queue.is_empty() {
            self.serve_managed(now, pool);
        }
    }

    /// The free server gets the packet that a managed queue gives it.
    #[inline(never)]
    pub(super) fn serve_managed(&mut self, now: Nanos, pool: &mut Pool) {
        let next = self.manage(pool, |queue, drops| queue.dequeue(now, drops));
        self.queue.extend(next.flatten());
        if !self.queue.is_empty() && self.outage.is_none() {
            self.serve(now);
        }
    }

    /// Let a managed queue act, and account for what it drops.
    fn manage<T>(&mut self, pool: &mut Pool, act: impl FnOnce(&mut Managed, &mut Drops) -> T) -> Option<T> {
        let Discipline::Managed(queue) = &mut self.discipline else {
            return None;
        };
        let mut drops = Drops::new(pool);
        let result = act(queue, &mut drops);
        self.counters.dropped += drops.packets;
        self.counters.marked += drops.marked;
        self.waiting_bytes -= drops.bytes;
        Some(result)
    }
}
