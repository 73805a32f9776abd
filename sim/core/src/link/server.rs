//! The server: one packet after the other, at a rate that changes, through outages.

use crate::pool::{PacketId, Pool};
use crate::spec::{Flush, LossPosition, OutageMode};
use crate::time::Nanos;
use crate::units::BitRate;

use super::committed::Departure;
use super::queue::{Discipline, Drops};
use super::{Entry, Link, Offer};

impl Link {
    /// The server is done with its packet.
    pub fn depart(&mut self, now: Nanos, pool: &mut Pool) {
        let entry = self.queue.pop_front().expect("a departure has a packet");
        self.integrate_waiting(now);
        self.waiting_bytes -= u64::from(entry.size);
        self.departs_at = Nanos::MAX;
        if self.propagate(now, entry.id, entry.size, entry.route) == Offer::Gone {
            self.counters.lost += 1;
            pool.release(entry.id);
        }
        self.busy_until = if self.burst_bytes == 0 { now } else { self.due(now, entry.size).1 };
        if let Discipline::Managed(_) = self.discipline
            && self.queue.is_empty()
        {
            self.serve_managed(now, pool);
        } else {
            self.commit_departures(now, pool);
        }
    }

    /// The server turns to what waits: departures that can be committed now need no event, up to the first that is not.
    fn commit_departures(&mut self, now: Nanos, pool: &mut Pool) {
        let commits_before = if self.commits { self.commits_until(now) } else { Nanos::ZERO };
        while let Some(&Entry { id, size, route, .. }) = self.queue.front() {
            let (done, finish) = self.due(now, size);
            if done >= commits_before || done == now {
                return self.serve(now);
            }
            self.queue.pop_front();
            self.waiting_bytes -= u64::from(size);
            self.busy_until = finish;
            self.committed.make_room();
            if self.commit(now, done, id, size, route) == Offer::Gone {
                pool.release(id);
            }
        }
    }

    /// Packet `id` departs at `done`, whatever happens.
    #[inline(always)]
    pub(super) fn commit(&mut self, now: Nanos, done: Nanos, id: PacketId, size: u32, route: u32) -> Offer {
        self.backlog_integral += u128::from((done - now).0) * u128::from(size);
        if self.is_lost(done, size) {
            self.committed.push_lost(done, size);
            return Offer::Gone;
        }
        self.committed.push(Departure { at: done, size, lost: false });
        self.pipe.enter(done, id, size, route)
    }

    /// Follow the rate schedule; the packet in service keeps the bits it has sent, a token bucket its bytes.
    pub fn change_rate(&mut self, now: Nanos) {
        self.interrupt(now);
        let before = std::mem::replace(&mut self.rate, self.rates.at(now));
        if self.burst_bytes > 0 {
            let owed = u128::from(self.busy_until.saturating_sub(now).0) * u128::from(before.0);
            self.busy_until = now + Nanos((owed / u128::from(self.rate.0)) as u64);
            self.burst = burst(self.rate, self.burst_bytes);
        }
        self.commits_before = Nanos::ZERO;
        self.service = (0, Nanos::ZERO);
        self.resume(now);
    }

    pub fn start_outage(&mut self, now: Nanos, mode: OutageMode, flush: Flush, pool: &mut Pool) {
        self.interrupt(now);
        self.set_outage(Some(mode));
        if flush != Flush::None {
            self.integrate_waiting(now);
            self.counters.lost += self.queue.len() as u64;
            self.queue.drain(..).for_each(|entry| pool.release(entry.id));
            if let Discipline::Managed(queue) = &mut self.discipline {
                let mut drops = Drops::new(pool);
                queue.flush(&mut drops);
                self.counters.lost += drops.packets;
            }
            self.waiting_bytes = 0;
            self.unserved_bits = 0;
        }
        if flush == Flush::All {
            self.counters.lost += self.pipe.len() as u64;
            self.pipe.flush(now, |entry| pool.release(entry.id));
        }
    }

    pub(super) fn set_outage(&mut self, outage: Option<OutageMode>) {
        self.outage = outage;
        let random = self.loss_at == Some(LossPosition::Ingress);
        self.inspects_arrivals = outage.is_some() || random || self.marking.is_some();
        self.commits_before = Nanos::ZERO;
    }

    pub fn end_outage(&mut self, now: Nanos) {
        self.set_outage(None);
        self.resume(now);
    }

    pub(super) fn serve(&mut self, now: Nanos) {
        let size = self.queue[0].size;
        if self.rate.0 == 0 {
            self.unserved_bits = u64::from(size) * 8;
            return;
        }
        self.departs_at = self.due(now, size).0;
    }

    /// When the packet that is next departs, of `size` bytes, and what that makes of `busy_until`.
    #[inline(always)]
    pub(super) fn due(&mut self, now: Nanos, size: u32) -> (Nanos, Nanos) {
        let finish = now.max(self.busy_until) + self.service_time(size);
        (now.max(finish.saturating_sub(self.burst)), finish)
    }

    fn service_time(&mut self, size: u32) -> Nanos {
        if self.service.0 != size {
            let time = if self.rate.is_unlimited() { Nanos::ZERO } else { self.rate.serialisation(u64::from(size)) };
            self.service = (size, time);
        }
        self.service.1
    }

    /// Stop the server, remembering what is left to send.
    fn interrupt(&mut self, now: Nanos) {
        if self.departs_at.is_never() {
            return;
        }
        let left = (self.departs_at - now).0 as u128;
        // At least one bit: zero would stand for a service that has not begun.
        let bits = if self.rate.is_unlimited() { 0 } else { (left * self.rate.0 as u128 / 1_000_000_000) as u64 };
        self.unserved_bits = bits.max(1);
        self.departs_at = Nanos::MAX;
    }

    fn resume(&mut self, now: Nanos) {
        if self.queue.is_empty() || self.outage.is_some() || self.rate.0 == 0 || !self.departs_at.is_never() {
            return;
        }
        if self.burst_bytes > 0 {
            return self.serve(now);
        }
        if self.unserved_bits == 0 {
            self.unserved_bits = u64::from(self.queue[0].size) * 8;
        }
        let left = if self.rate.is_unlimited() {
            0
        } else {
            (self.unserved_bits as u128 * 1_000_000_000 / self.rate.0 as u128) as u64
        };
        self.unserved_bits = 0;
        self.departs_at = now + Nanos(left);
    }
}

/// How long a bucket of `bytes` takes to fill.
pub(super) fn burst(rate: BitRate, bytes: u64) -> Nanos {
    if bytes == 0 { Nanos::ZERO } else { rate.serialisation(bytes) }
}
