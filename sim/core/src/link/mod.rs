//! One direction of a link: a queue with a server, then a propagation pipe.
//!
//! The server ([`server`]) finishes one packet at a time; the pipe ([`pipe`]) holds packets sorted by arrival. Only the
//! server and the pipe's head are event sources. There is one rule for ties: a departure that is due comes before any
//! arrival.
//!
//! Two shortcuts lie over that. A packet that joins a drop-tail queue, and whose service will be over before anything
//! about the link changes, goes into the pipe at once: its departure is committed ([`committed`]), is kept for the sake
//! of the backlog, and needs no event. All others wait for an explicit departure, so that rate changes, outages and
//! managed queues have one meaning. And hosts' packets may be met late ([`edge`]). An exact link does without both;
//! nothing else about it differs.
//!
//! A server with a token bucket sends up to `burst` bytes before its rate binds: it departs that much earlier than the
//! exact server would finish, which is Linux's tbf (net/sched/sch_tbf.c: a packet goes when there are tokens for all of
//! it, kept as time at the present rate). The bucket is full at first, and fills while the link is down.

mod admission;
mod committed;
mod edge;
pub mod gate;
pub mod jitter;
pub mod loss;
pub mod marking;
pub mod piecewise;
mod pipe;
pub mod queue;
pub mod reading;
mod server;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::pool::{PacketId, Pool};
use crate::ring::Ring;
use crate::spec::{DirectionSpec, LossPosition, LossSpec, OutageMode};
use crate::tick::Tick;
use crate::time::Nanos;
use crate::units::BitRate;

use committed::Committed;
use loss::Loss;
use marking::Marking;
use piecewise::Steps;
use pipe::Pipe;
use queue::Discipline;
use server::burst;

/// How far ahead departures are committed at most: what is random in time is drawn no further ahead.
const FORESIGHT: Nanos = Nanos::from_secs(60);

/// A packet's place in a queue or pipe.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry {
    /// In a pipe: when it arrives. In a queue: when it was enqueued.
    at: Nanos,
    pub id: PacketId,
    /// Bytes on the wire.
    pub size: u32,
    /// Where it is on its route, an index into the world's routes: a packet that passes a link is not looked up.
    pub route: u32,
}

/// What became of a packet offered to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// It is through at once: the link has no rate, and no delay now.
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
    // Not beside each other, what counts the same packet: two additions are less than one of a vector.
    pub delivered: u64,
    pub arrived: u64,
    pub delivered_bytes: u64,
    /// Refused by the queue discipline.
    pub dropped: u64,
    /// Random loss and outages.
    pub lost: u64,
    /// Marked (CE) by the queue discipline, or on the path.
    pub marked: u64,
}

/// What every packet needs comes first, in few cache lines: in a large network they are rarely in the cache.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Link {
    /// End of the current service; never while idle or stopped.
    departs_at: Nanos,
    pub counters: LinkCounters,
    /// An outage, random loss before the queue, or marking.
    inspects_arrivals: bool,
    /// Where packets may be lost at random; None on a lossless link.
    loss_at: Option<LossPosition>,
    outage: Option<OutageMode>,
    is_edge: bool,
    /// Departures may be committed: the queue gives none of its packets up again.
    commits: bool,
    /// No departure is committed, no packet announced.
    exact: bool,
    pipe: Pipe,
    /// Departures before this may be committed: the link's next change, or zero when packets wait or a managed queue
    /// must see every packet.
    commits_before: Nanos,
    /// The last committed departure; with a token bucket, when the exact server would be done with what has departed:
    /// from then on the bucket is full.
    busy_until: Nanos,
    /// Service time of a packet of `.0` bytes at the present rate: most have the same size.
    service: (u32, Nanos),
    burst: Nanos,
    /// Committed bytes and packets up to which one that comes is taken without counting exactly: see `find_sure_room`.
    sure_room: (u64, u64),
    rate: BitRate,
    /// Departures to come of packets that are in the pipe already, or will be lost when they depart.
    committed: Committed,
    /// Bytes times nanoseconds: of waiting packets up to `waiting_since`, of committed ones up to their departure.
    backlog_integral: u128,
    /// Packets on their way from hosts, by the time at which they meet this link; only of an edge.
    announced: Ring<Entry>,
    /// The first of them that has to be met in time; the others are met when something else happens here.
    next_meeting: Nanos,
    /// The latest of those times, ever.
    latest_announced: Nanos,
    /// Behind the committed ones, packets whose departure is not committed: the one in service, and those in a drop-tail
    /// queue.
    queue: VecDeque<Entry>,
    rates: Steps<BitRate>,
    /// Depth of the token bucket, in bytes (`burst`: at the present rate); 0 without one.
    burst_bytes: u64,
    /// Bytes of `queue` and of a managed queue.
    waiting_bytes: u64,
    waiting_since: Nanos,
    discipline: Discipline,
    /// Bits left of a service interrupted by a held outage or a zero rate.
    unserved_bits: u64,
    /// Times at which the service of packets or their loss changes, and the next of them.
    changes: Vec<Nanos>,
    changes_passed: u32,
    next_change: Nanos,
    loss: Loss,
    /// What happens to the ECN fields of arrivals; None: nothing.
    marking: Option<Box<Marking>>,
    /// Since the last call of `take_backlog_max`.
    backlog_max: u64,
}

impl Link {
    /// `outages`: when any of its outages starts. `tick`: the clock of its host's timers.
    pub fn new(spec: &DirectionSpec, outages: impl Iterator<Item = Nanos>, tick: Tick, seed: u64, index: u64) -> Link {
        let mut changes: Vec<Nanos> = outages.collect();
        changes.extend(spec.rate.iter().map(|p| p.0));
        changes.extend(spec.loss.iter().map(|p| p.0));
        changes.sort_unstable();
        let discipline = Discipline::new(&spec.queue, tick, seed, index);
        let rates = if spec.rate.is_empty() { vec![(Nanos::ZERO, BitRate::UNLIMITED)] } else { spec.rate.clone() };
        let mut link = Link {
            rate: rates[0].1,
            queue: VecDeque::new(),
            waiting_bytes: 0,
            committed: Committed::default(),
            busy_until: Nanos::ZERO,
            burst_bytes: spec.burst,
            burst: burst(rates[0].1, spec.burst),
            rates: Steps::new(rates),
            commits_before: Nanos::ZERO,
            commits: matches!(discipline, Discipline::DropTail(_)),
            discipline,
            service: (0, Nanos::ZERO),
            departs_at: Nanos::MAX,
            unserved_bits: 0,
            next_change: Nanos::ZERO,
            changes_passed: 0,
            changes,
            announced: Ring::default(),
            latest_announced: Nanos::ZERO,
            next_meeting: Nanos::MAX,
            is_edge: false,
            exact: false,
            pipe: Pipe::new(spec, seed, index),
            loss: Loss::new(&spec.loss, seed, index),
            loss_at: spec.loss.iter().any(|l| !matches!(l.1, LossSpec::None)).then_some(spec.loss_at),
            outage: None,
            marking: Marking::new(spec, seed, index),
            inspects_arrivals: false,
            counters: LinkCounters::default(),
            backlog_integral: 0,
            waiting_since: Nanos::ZERO,
            backlog_max: 0,
            sure_room: (0, 0),
        };
        link.set_outage(None);
        link
    }

    /// From now on no shortcut is taken: every departure is an event. For tests and doubt, before the first packet.
    pub fn take_no_shortcuts(&mut self) {
        (self.exact, self.commits) = (true, false);
    }

    pub fn departs_at(&self) -> Nanos {
        self.departs_at
    }

    /// When something happens here next.
    #[inline]
    pub fn next_event(&self) -> Nanos {
        self.departs_at.min(self.pipe.next_arrival())
    }

    pub fn next_arrival(&self) -> Nanos {
        self.pipe.next_arrival()
    }

    /// Times at which the rate changes after 0.
    pub fn rate_changes(&self) -> impl Iterator<Item = Nanos> + '_ {
        self.rates.times().skip(1)
    }

    pub fn rate(&self) -> BitRate {
        self.rate
    }

    pub fn delay_at(&mut self, now: Nanos) -> Nanos {
        self.pipe.delay_at(now)
    }

    pub fn expected_loss(&mut self, now: Nanos) -> f64 {
        self.loss.expected(now)
    }

    /// Bytes waiting or in service, once the departures of `now` have taken place.
    pub fn backlog_bytes(&mut self, now: Nanos) -> u64 {
        self.backlog_before(now + Nanos(1))
    }

    /// The same before anything happens at `end`.
    pub fn backlog_before(&mut self, end: Nanos) -> u64 {
        self.settle(end);
        self.committed.bytes() + self.waiting_bytes
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
        (self.queue.len() + self.discipline.holding() + self.pipe.len()) as u64 + self.doomed()
    }

    /// Those of them that will be lost when they depart, and have no place in the pool any more.
    pub fn doomed(&self) -> u64 {
        self.committed.doomed()
    }

    /// The sums it keeps are those of the packets it holds.
    pub fn check_backlog(&self) -> Result<(), String> {
        let committed = self.committed.recount();
        let waiting = self.queue.iter().map(|e| u64::from(e.size)).sum::<u64>() + self.discipline.bytes();
        let idle = self.queue.is_empty() && self.discipline.holding() > 0;
        let counted = (self.committed.bytes(), self.waiting_bytes);
        if (committed, waiting) == counted && !idle {
            return Ok(());
        }
        Err(format!("{committed} + {waiting} bytes held, {counted:?} counted; idle with packets waiting: {idle}"))
    }

    /// How long a packet would wait and travel that enters `later`, were all as it is once the departures of now have
    /// taken place. The one that is an event may still be to come, and counts in the backlog.
    pub fn latency(&mut self, now: Nanos, later: Nanos) -> Nanos {
        let wait = if self.rate.is_unlimited() || self.rate.0 == 0 {
            Nanos::ZERO
        } else if self.burst_bytes == 0 {
            let leaves = self.queue.front().filter(|_| self.departs_at <= now).map_or(0, |entry| u64::from(entry.size));
            self.rate.serialisation(self.backlog_bytes(now) - leaves)
        } else {
            let rate = self.rate;
            let serve = |until: Nanos, e: &Entry| until.max(e.at) + rate.serialisation(u64::from(e.size));
            let owed_until =
                self.queue.iter().fold(self.busy_until, serve) + rate.serialisation(self.discipline.bytes());
            owed_until.saturating_sub(now).saturating_sub(self.burst)
        };
        self.pipe.arrival_after(now, later + wait) - now - later
    }

    #[inline(always)]
    pub fn offer(&mut self, now: Nanos, id: PacketId, size: u32, route: u32, pool: &mut Pool) -> Offer {
        self.counters.arrived += 1;
        if self.inspects_arrivals && self.loses_arrival(now, id, size, pool) {
            self.counters.lost += 1;
            return Offer::Gone;
        }
        if now < self.commits_before || self.look_ahead(now, pool) {
            let (done, finish) = self.due(now, size);
            if done < self.commits_before {
                if !self.admit(now, size) {
                    return Offer::Gone;
                }
                self.busy_until = finish;
                return self.commit(now, done, id, size, route);
            }
        }
        self.wait(now, id, size, route, pool)
    }

    /// In an outage, or at random before the queue. Those that are not may be marked.
    #[inline(never)]
    fn loses_arrival(&mut self, now: Nanos, id: PacketId, size: u32, pool: &mut Pool) -> bool {
        let random = self.loss_at == Some(LossPosition::Ingress);
        let lost = self.outage == Some(OutageMode::Drop) || (random && self.loss.strikes(now, size, self.rate));
        if let Some(marking) = &mut self.marking
            && !lost
        {
            self.counters.marked += u64::from(marking.meet(&mut pool.get_mut(id).marks));
        }
        lost
    }

    /// May departures be committed now, and up to when? What is due to depart has departed then.
    #[inline(never)]
    fn look_ahead(&mut self, now: Nanos, pool: &mut Pool) -> bool {
        while self.departs_at <= now {
            self.depart(now, pool);
        }
        let served = self.outage.is_none() && self.rate.0 > 0 && !self.rate.is_unlimited();
        let commits = self.commits && served && self.queue.is_empty();
        self.commits_before = if commits { self.commits_until(now) } else { Nanos::ZERO };
        commits
    }

    /// A packet whose departure is not committed, or takes no time.
    #[inline(never)]
    fn wait(&mut self, now: Nanos, id: PacketId, size: u32, route: u32, pool: &mut Pool) -> Offer {
        if self.outage.is_none() && self.rate.is_unlimited() {
            if self.is_lost(now, size) {
                self.counters.lost += 1;
                return Offer::Gone;
            }
            let outcome = self.pipe.pass(now, id, size, route);
            if outcome == Offer::Through {
                self.count_delivered(size);
            }
            return outcome;
        }
        self.join_queue(now, Entry { at: now, id, size, route }, pool)
    }

    #[inline(never)]
    fn join_queue(&mut self, now: Nanos, entry: Entry, pool: &mut Pool) -> Offer {
        let size = entry.size;
        let admitted = match self.discipline {
            Discipline::DropTail(_) => self.admit_exactly(now, size),
            Discipline::DropFront(_) => self.make_room(now, size, pool),
            Discipline::Managed(_) => {
                self.enqueue(now, entry, pool);
                return Offer::Held;
            }
        };
        if !admitted {
            return Offer::Gone;
        }
        self.integrate_waiting(now);
        self.waiting_bytes += u64::from(size);
        self.commits_before = Nanos::ZERO;
        self.queue.push_back(entry);
        if self.queue.len() == 1 && self.outage.is_none() {
            self.serve(now);
        }
        Offer::Held
    }

    /// The head of the pipe arrives.
    pub fn arrive(&mut self) -> Entry {
        let entry = self.pipe.arrive();
        self.count_delivered(entry.size);
        entry
    }

    /// Mean backlog in bytes over [0, now].
    pub fn backlog_mean(&mut self, now: Nanos) -> f64 {
        if now.0 == 0 { 0.0 } else { self.backlog_integral(now) as f64 / now.0 as f64 }
    }

    /// Bytes times nanoseconds of backlog over [0, now].
    pub fn backlog_integral(&mut self, now: Nanos) -> u128 {
        self.settle(now);
        self.integrate_waiting(now);
        self.backlog_integral - self.committed.integral_after(now)
    }

    /// Largest backlog since the last `take_backlog_max`.
    pub fn backlog_max(&self) -> u64 {
        self.backlog_max
    }

    /// The present backlog, before anything happens now, is the first of the next span.
    pub fn take_backlog_max(&mut self, now: Nanos) -> u64 {
        let backlog = self.backlog_before(now);
        let most = std::mem::replace(&mut self.backlog_max, backlog);
        self.find_sure_room();
        most
    }

    /// Integral of the rate schedule over [start, end] in bits; infinite without a rate.
    pub fn capacity_bits(&self, start: Nanos, end: Nanos) -> f64 {
        self.rates.integral(start, end, |r| if r.is_unlimited() { f64::INFINITY } else { r.0 as f64 * 1e-9 })
    }

    /// When something about the link changes next.
    fn change_after(&mut self, now: Nanos) -> Nanos {
        while self.next_change <= now {
            self.next_change = self.changes.get(self.changes_passed as usize).copied().unwrap_or(Nanos::MAX);
            self.changes_passed += 1;
        }
        self.next_change
    }

    /// Departures before this may be committed: those of before the link's next change, within reason.
    fn commits_until(&mut self, now: Nanos) -> Nanos {
        self.change_after(now).min(now + FORESIGHT)
    }

    /// Into the pipe at `leaves`, which may be later than now; lost there if [`Offer::Gone`].
    #[inline(always)]
    fn propagate(&mut self, leaves: Nanos, id: PacketId, size: u32, route: u32) -> Offer {
        if self.is_lost(leaves, size) { Offer::Gone } else { self.pipe.enter(leaves, id, size, route) }
    }

    /// At random, behind the server?
    #[inline(always)]
    pub(super) fn is_lost(&mut self, leaves: Nanos, size: u32) -> bool {
        self.loss_at == Some(LossPosition::Egress) && self.loss.strikes(leaves, size, self.rate)
    }

    fn count_delivered(&mut self, size: u32) {
        self.counters.delivered += 1;
        self.counters.delivered_bytes += u64::from(size);
    }

    /// Committed departures before `end` have taken place.
    #[inline]
    fn settle(&mut self, end: Nanos) {
        self.counters.lost += self.committed.settle(end);
    }

    fn integrate_waiting(&mut self, now: Nanos) {
        let span = (now - self.waiting_since).0;
        self.backlog_integral += u128::from(span) * u128::from(self.waiting_bytes);
        self.waiting_since = now;
    }
}
