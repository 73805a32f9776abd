//! One direction of a link: a queue with a server, then a propagation pipe.
//!
//! The server finishes one packet at a time; the pipe holds packets sorted by arrival. Only the server and the pipe's
//! head are event sources. A packet that joins a drop-tail queue whose service will be over before anything about the
//! link changes goes into the pipe at once: its departure is certain, is kept for the sake of the backlog, and needs
//! no event. All others wait for an explicit departure, so that rate changes, outages and managed queues have one
//! meaning.
//!
//! A server with a token bucket sends up to `burst` bytes before its rate binds: it departs that much earlier than the
//! exact server would finish, which is Linux's tbf (net/sched/sch_tbf.c: a packet goes when there are tokens for all of
//! it, kept as time at the present rate). The bucket is full at first, and fills while the link is down.

mod edge;
pub mod gate;
pub mod jitter;
pub mod loss;
pub mod piecewise;
pub mod queue;
mod reading;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::pool::{PacketId, Pool};
use crate::ring::Ring;
use crate::spec::{DirectionSpec, Flush, LossPosition, LossSpec, Ordering, OutageMode};
use crate::time::Nanos;
use crate::units::BitRate;

use gate::Gate;
use jitter::Jitter;
use loss::Loss;
use piecewise::{Delay, Steps};
use queue::{Discipline, Drops, Managed};

/// What a link's medium adds to its propagation delay.
#[derive(Clone, Debug)]
struct Channel {
    jitter: Option<Jitter>,
    gate: Option<Gate>,
}

impl Channel {
    fn new(spec: &DirectionSpec, seed: u64, index: u64) -> Option<Channel> {
        let jitter = spec.jitter.map(|jitter| Jitter::new(jitter, seed, index));
        let gate = spec.gate.map(Gate::new);
        (jitter.is_some() || gate.is_some()).then_some(Channel { jitter, gate })
    }

    /// When a packet arrives that leaves the server at `leaves` and would arrive at `at` without this channel.
    fn arrival(&mut self, leaves: Nanos, at: Nanos) -> Nanos {
        let at = self.jitter.as_mut().map_or(at, |jitter| at + jitter.at(leaves));
        self.gate.map_or(at, |gate| gate.opening(at))
    }
}

/// A packet's place in a queue or pipe.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry {
    /// In a pipe: when it arrives. In a queue: when it was enqueued.
    at: Nanos,
    id: PacketId,
    /// Bytes on the wire.
    size: u32,
}

/// What became of a packet offered to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// It is through at once (no rate, no delay).
    Through,
    /// The link took it, or a managed queue dropped it.
    Held,
    /// The link took it, behind others in its pipe: the link's next event is what it was.
    Joined,
    /// Dropped or lost; the packet is gone.
    Gone,
}

/// What a link has done with the packets given to it.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkCounters {
    pub arrived: u64,
    pub delivered: u64,
    pub delivered_bytes: u64,
    /// Refused by the queue discipline.
    pub dropped: u64,
    /// Random loss and outages.
    pub lost: u64,
}

#[derive(Clone, Debug)]
pub struct Link {
    rate: BitRate,
    rates: Steps<BitRate>,
    /// Departures of packets that are in the pipe already and still count as waiting or in service, with their bytes.
    certain: Ring<(Nanos, u32)>,
    /// The last certain departure; with a token bucket, when the exact server would be done with what has departed: from
    /// then on the bucket is full.
    busy_until: Nanos,
    /// Depth of the token bucket, in bytes and at the present rate; 0 without one.
    burst_bytes: u64,
    burst: Nanos,
    /// Departures before this are certain: the link's next change, or zero when packets wait or a managed queue must see
    /// every packet.
    certain_before: Nanos,
    /// Behind those, packets whose departure is not certain: the one in service, and those in a drop-tail queue.
    queue: VecDeque<Entry>,
    /// Bytes of `certain`; of `queue` and of a managed queue.
    certain_bytes: u64,
    waiting_bytes: u64,
    discipline: Discipline,
    /// Service time of a packet of `.0` bytes at the present rate: most have the same size.
    service: (u32, Nanos),
    /// End of the current service; never while idle or stopped.
    departs_at: Nanos,
    /// Bits left of a service interrupted by a held outage or a zero rate.
    unserved_bits: u64,
    /// Times at which the service of packets or their loss changes, and the next of them.
    changes: Vec<Nanos>,
    changes_passed: u32,
    next_change: Nanos,
    /// Packets on their way from hosts, by the time at which they meet this link; only of an edge.
    announced: Ring<Entry>,
    /// The first of them that has to be met in time; the others are met when something else happens here.
    next_meeting: Nanos,
    is_edge: bool,
    pipe: Ring<Entry>,
    /// Arrival of the pipe's head.
    next_arrival: Nanos,
    last_arrival: Nanos,
    /// As packets meet it that leave the server, maybe later than now; and as it is now.
    delay: Delay,
    delay_now: Delay,
    overtaking: bool,
    /// Apart, as most links have none.
    channel: Option<Box<Channel>>,
    loss: Loss,
    /// Where packets may be lost at random; None on a lossless link.
    loss_at: Option<LossPosition>,
    outage: Option<OutageMode>,
    /// An outage, or random loss before the queue.
    may_lose_arrivals: bool,
    pub counters: LinkCounters,
    /// Bytes times nanoseconds: of waiting packets up to `waiting_since`, of certain ones up to their departure.
    backlog_integral: u128,
    waiting_since: Nanos,
    /// Since the last call of `take_backlog_max`.
    backlog_max: u64,
}

impl Link {
    /// `outages`: when any of its outages starts.
    pub fn new(spec: &DirectionSpec, outages: impl Iterator<Item = Nanos>, seed: u64, index: u64) -> Link {
        let mut changes: Vec<Nanos> = outages.collect();
        changes.extend(spec.rate.iter().map(|p| p.0));
        changes.extend(spec.loss.iter().map(|p| p.0));
        changes.sort_unstable();
        let discipline = Discipline::new(&spec.queue, seed, index);
        let delay = Delay::new(&spec.delay);
        let rates = if spec.rate.is_empty() { vec![(Nanos::ZERO, BitRate::UNLIMITED)] } else { spec.rate.clone() };
        let mut link = Link {
            rate: rates[0].1,
            queue: VecDeque::new(),
            certain_bytes: 0,
            waiting_bytes: 0,
            certain: Ring::default(),
            busy_until: Nanos::ZERO,
            burst_bytes: spec.burst,
            burst: burst(rates[0].1, spec.burst),
            rates: Steps::new(rates),
            certain_before: Nanos::ZERO,
            discipline,
            service: (0, Nanos::ZERO),
            departs_at: Nanos::MAX,
            unserved_bits: 0,
            next_change: Nanos::ZERO,
            changes_passed: 0,
            changes,
            announced: Ring::default(),
            next_meeting: Nanos::MAX,
            is_edge: false,
            pipe: Ring::default(),
            next_arrival: Nanos::MAX,
            last_arrival: Nanos::ZERO,
            delay_now: delay.clone(),
            delay,
            overtaking: spec.ordering == Ordering::Overtaking,
            channel: Channel::new(spec, seed, index).map(Box::new),
            loss: Loss::new(&spec.loss, seed, index),
            loss_at: spec.loss.iter().any(|l| !matches!(l.1, LossSpec::None)).then_some(spec.loss_at),
            outage: None,
            may_lose_arrivals: false,
            counters: LinkCounters::default(),
            backlog_integral: 0,
            waiting_since: Nanos::ZERO,
            backlog_max: 0,
        };
        link.set_outage(None);
        link
    }

    pub fn departs_at(&self) -> Nanos {
        self.departs_at
    }

    /// When something happens here next.
    #[inline]
    pub fn next_event(&self) -> Nanos {
        self.departs_at.min(self.next_arrival).min(self.next_meeting)
    }

    pub fn next_arrival(&self) -> Nanos {
        self.next_arrival
    }

    /// Times at which the rate changes after 0.
    pub fn rate_changes(&self) -> impl Iterator<Item = Nanos> + '_ {
        self.rates.times().skip(1)
    }

    pub fn rate(&self) -> BitRate {
        self.rate
    }

    pub fn delay_at(&mut self, now: Nanos) -> Nanos {
        self.delay_now.at(now)
    }

    pub fn expected_loss(&mut self, now: Nanos) -> f64 {
        self.loss.expected(now)
    }

    pub fn backlog_bytes(&mut self, now: Nanos) -> u64 {
        self.settle(now);
        self.certain_bytes + self.waiting_bytes
    }

    /// The queue's capacity in bytes (packets counted at `packet_bytes`); infinite for an unlimited link.
    pub fn buffer_bytes(&self, packet_bytes: u64) -> f64 {
        self.discipline.capacity_bytes(packet_bytes)
    }

    pub fn in_outage(&self) -> bool {
        self.outage.is_some()
    }

    /// Packets inside: queue, server and pipe.
    pub fn holding(&self) -> u64 {
        (self.queue.len() + self.discipline.holding() + self.pipe.len()) as u64
    }

    /// The sums it keeps are those of the packets it holds.
    pub fn check_backlog(&self) -> Result<(), String> {
        let certain = self.certain.iter().map(|c| u64::from(c.1)).sum::<u64>();
        let waiting = self.queue.iter().map(|e| u64::from(e.size)).sum::<u64>() + self.discipline.bytes();
        let idle = self.queue.is_empty() && self.discipline.holding() > 0;
        let counted = (self.certain_bytes, self.waiting_bytes);
        if (certain, waiting) == counted && !idle {
            return Ok(());
        }
        Err(format!("{certain} + {waiting} bytes held, {counted:?} counted; idle with packets waiting: {idle}"))
    }

    /// How long a packet would wait and travel that enters `later`, were all as it is now.
    pub fn latency(&mut self, now: Nanos, later: Nanos) -> Nanos {
        let wait = if self.rate.is_unlimited() || self.rate.0 == 0 {
            Nanos::ZERO
        } else if self.burst_bytes == 0 {
            self.rate.serialisation(self.backlog_bytes(now))
        } else {
            let owed = self.busy_until.saturating_sub(now) + self.rate.serialisation(self.waiting_bytes);
            owed.saturating_sub(self.burst)
        };
        let arrival = now + later + wait + self.delay_now.at(now);
        self.channel.as_mut().map_or(arrival, |channel| channel.arrival(now, arrival)) - now - later
    }

    #[inline(always)]
    pub fn offer(&mut self, now: Nanos, id: PacketId, size: u32, pool: &mut Pool) -> Offer {
        self.counters.arrived += 1;
        if self.may_lose_arrivals && self.loses_arrival(now) {
            self.counters.lost += 1;
            return Offer::Gone;
        }
        if now < self.certain_before || self.look_ahead(now) {
            let (done, finish) = self.due(now, size);
            if done < self.certain_before {
                if !self.admit(now, size) {
                    return Offer::Gone;
                }
                self.busy_until = finish;
                return self.depart_at(now, done, id, size);
            }
        }
        self.wait(now, id, size, pool)
    }

    /// In an outage, or at random before the queue.
    #[inline(never)]
    fn loses_arrival(&mut self, now: Nanos) -> bool {
        let random = self.loss_at == Some(LossPosition::Ingress);
        self.outage == Some(OutageMode::Drop) || (random && self.loss.strikes(now))
    }

    /// May departures be certain now, and up to when?
    #[inline(never)]
    fn look_ahead(&mut self, now: Nanos) -> bool {
        let drop_tail = matches!(self.discipline, Discipline::DropTail(_));
        let served = self.outage.is_none() && self.rate.0 > 0 && !self.rate.is_unlimited();
        let certain = drop_tail && served && self.queue.is_empty();
        self.certain_before = if certain { self.change_after(now) } else { Nanos::ZERO };
        certain
    }

    /// A packet whose departure is not certain, or takes no time.
    #[inline(never)]
    fn wait(&mut self, now: Nanos, id: PacketId, size: u32, pool: &mut Pool) -> Offer {
        if self.outage.is_none() && self.rate.is_unlimited() {
            return self.propagate(now, now, id, size);
        }
        let entry = Entry { at: now, id, size };
        if let Discipline::Managed(_) = self.discipline {
            self.enqueue(now, entry, pool);
            return Offer::Held;
        }
        if !self.admit(now, size) {
            return Offer::Gone;
        }
        self.integrate_waiting(now);
        self.waiting_bytes += u64::from(size);
        self.certain_before = Nanos::ZERO;
        self.queue.push_back(entry);
        if self.queue.len() == 1 && self.outage.is_none() {
            self.serve(now);
        }
        Offer::Held
    }

    /// Does the drop-tail queue take a packet of `size` bytes?
    #[inline(always)]
    fn admit(&mut self, now: Nanos, size: u32) -> bool {
        if now >= self.busy_until {
            // Every certain departure has taken place.
            self.certain.clear();
            self.certain_bytes = 0;
        }
        // Others that have left by now may still be counted: where even so there is room, and the backlog no record,
        // they need not be taken off yet.
        let most = self.certain_bytes + self.waiting_bytes;
        if most + u64::from(size) <= self.backlog_max
            && !self.certain.is_full()
            && let Discipline::DropTail(rule) = &self.discipline
            && rule.has_room(most, self.packets(), u64::from(size))
        {
            return true;
        }
        self.admit_exactly(now, size)
    }

    #[inline(never)]
    fn admit_exactly(&mut self, now: Nanos, size: u32) -> bool {
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
        true
    }

    /// Packets waiting or in service, as far as those that left are taken off.
    fn packets(&self) -> u64 {
        (self.queue.len() + self.certain.len()) as u64
    }

    /// Into a managed queue.
    #[inline(never)]
    fn enqueue(&mut self, now: Nanos, entry: Entry, pool: &mut Pool) {
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
    fn serve_managed(&mut self, now: Nanos, pool: &mut Pool) {
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
        self.waiting_bytes -= drops.bytes;
        Some(result)
    }

    /// The server is done with its packet.
    pub fn depart(&mut self, now: Nanos, pool: &mut Pool) -> (PacketId, Offer) {
        let entry = self.queue.pop_front().expect("a departure has a packet");
        self.integrate_waiting(now);
        self.waiting_bytes -= u64::from(entry.size);
        self.departs_at = Nanos::MAX;
        let outcome = self.propagate(now, now, entry.id, entry.size);
        self.busy_until = if self.burst_bytes == 0 { now } else { self.due(now, entry.size).1 };
        if let Discipline::Managed(_) = self.discipline
            && self.queue.is_empty()
        {
            self.serve_managed(now, pool);
        } else {
            self.commit_departures(now, pool);
        }
        (entry.id, outcome)
    }

    /// The server turns to what waits: departures that are certain now need no event, up to the first that is not.
    fn commit_departures(&mut self, now: Nanos, pool: &mut Pool) {
        let certain_before = self.change_after(now);
        while let Some(&Entry { id, size, .. }) = self.queue.front() {
            let (done, finish) = self.due(now, size);
            if done >= certain_before || done == now {
                return self.serve(now);
            }
            self.queue.pop_front();
            self.waiting_bytes -= u64::from(size);
            self.busy_until = finish;
            if self.depart_at(now, done, id, size) == Offer::Gone {
                pool.release(id);
            }
        }
    }

    /// A departure that is certain.
    #[inline(always)]
    fn depart_at(&mut self, now: Nanos, done: Nanos, id: PacketId, size: u32) -> Offer {
        self.certain.push_back((done, size));
        self.certain_bytes += u64::from(size);
        self.backlog_integral += u128::from((done - now).0) * u128::from(size);
        self.propagate(now, done, id, size)
    }

    /// The head of the pipe arrives.
    pub fn arrive(&mut self) -> PacketId {
        let entry = self.pipe.pop_front().expect("an arrival has a packet");
        self.next_arrival = self.pipe.front().map_or(Nanos::MAX, |p| p.at);
        self.count_delivered(entry.size);
        entry.id
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
        self.certain_before = Nanos::ZERO;
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
            self.pipe.iter().for_each(|entry| pool.release(entry.id));
            self.pipe.clear();
            self.next_arrival = Nanos::MAX;
            self.last_arrival = now;
        }
    }

    fn set_outage(&mut self, outage: Option<OutageMode>) {
        self.outage = outage;
        self.may_lose_arrivals = outage.is_some() || self.loss_at == Some(LossPosition::Ingress);
        self.certain_before = Nanos::ZERO;
    }

    pub fn end_outage(&mut self, now: Nanos) {
        self.set_outage(None);
        self.resume(now);
    }

    /// Mean backlog in bytes over [0, now].
    pub fn backlog_mean(&mut self, now: Nanos) -> f64 {
        if now.0 == 0 { 0.0 } else { self.backlog_integral(now) as f64 / now.0 as f64 }
    }

    /// Bytes times nanoseconds of backlog over [0, now].
    pub fn backlog_integral(&mut self, now: Nanos) -> u128 {
        self.settle(now);
        self.integrate_waiting(now);
        let to_come = |c: &(Nanos, u32)| u128::from((c.0 - now).0) * u128::from(c.1);
        self.backlog_integral - self.certain.iter().map(to_come).sum::<u128>()
    }

    /// Largest backlog since the last `take_backlog_max`.
    pub fn backlog_max(&self) -> u64 {
        self.backlog_max
    }

    pub fn take_backlog_max(&mut self, now: Nanos) -> u64 {
        let backlog = self.backlog_bytes(now);
        std::mem::replace(&mut self.backlog_max, backlog)
    }

    /// Integral of the rate schedule over [0, end] in bits; infinite without a rate.
    pub fn capacity_bits(&self, end: Nanos) -> f64 {
        self.rates.integral(end, |r| if r.is_unlimited() { f64::INFINITY } else { r.0 as f64 * 1e-9 })
    }

    fn serve(&mut self, now: Nanos) {
        let size = self.queue[0].size;
        if self.rate.0 == 0 {
            self.unserved_bits = u64::from(size) * 8;
            return;
        }
        self.departs_at = self.due(now, size).0;
    }

    /// When the packet that is next departs, of `size` bytes, and what that makes of `busy_until`.
    #[inline(always)]
    fn due(&mut self, now: Nanos, size: u32) -> (Nanos, Nanos) {
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

    /// When something about the link changes next.
    fn change_after(&mut self, now: Nanos) -> Nanos {
        while self.next_change <= now {
            self.next_change = self.changes.get(self.changes_passed as usize).copied().unwrap_or(Nanos::MAX);
            self.changes_passed += 1;
        }
        self.next_change
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

    /// Into the pipe at `leaves`, which is not before `now`.
    #[inline(always)]
    fn propagate(&mut self, now: Nanos, leaves: Nanos, id: PacketId, size: u32) -> Offer {
        if self.loss_at == Some(LossPosition::Egress) && self.loss.strikes(leaves) {
            self.counters.lost += 1;
            return Offer::Gone;
        }
        let mut at = leaves + self.delay.at(leaves);
        if let Some(channel) = &mut self.channel {
            at = channel.arrival(leaves, at);
        }
        if at < self.last_arrival {
            if self.overtaking {
                return self.overtake(Entry { at, id, size });
            }
            at = self.last_arrival;
        }
        self.last_arrival = at;
        if !self.pipe.is_empty() {
            self.pipe.push_back(Entry { at, id, size });
            return Offer::Joined;
        }
        if at == now {
            self.count_delivered(size);
            return Offer::Through;
        }
        self.next_arrival = at;
        self.pipe.push_back(Entry { at, id, size });
        Offer::Held
    }

    /// Into the midst of the pipe, which stays sorted.
    #[inline(never)]
    fn overtake(&mut self, entry: Entry) -> Offer {
        self.next_arrival = self.next_arrival.min(entry.at);
        self.pipe.insert(entry, |other| other.at <= entry.at);
        Offer::Held
    }

    fn count_delivered(&mut self, size: u32) {
        self.counters.delivered += 1;
        self.counters.delivered_bytes += u64::from(size);
    }

    /// Certain departures up to now have taken place.
    #[inline]
    fn settle(&mut self, now: Nanos) {
        while let Some(&(departed, size)) = self.certain.front()
            && departed <= now
        {
            self.certain_bytes -= u64::from(size);
            self.certain.pop_front();
        }
    }

    fn integrate_waiting(&mut self, now: Nanos) {
        let span = (now - self.waiting_since).0;
        self.backlog_integral += u128::from(span) * u128::from(self.waiting_bytes);
        self.waiting_since = now;
    }
}

/// How long a bucket of `bytes` takes to fill.
fn burst(rate: BitRate, bytes: u64) -> Nanos {
    if bytes == 0 { Nanos::ZERO } else { rate.serialisation(bytes) }
}
