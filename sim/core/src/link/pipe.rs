//! The propagation pipe: what has left the server, or is certain to leave it, sorted by arrival.

use crate::pool::PacketId;
use crate::ring::Ring;
use crate::rng::{Purpose, Stream};
use crate::spec::{DirectionSpec, LateSpec, Ordering};
use crate::time::Nanos;

use super::gate::Gate;
use super::jitter::Jitter;
use super::piecewise::Delay;
use super::{Entry, Offer};

#[derive(Clone, Debug)]
#[repr(C)]
pub struct Pipe {
    /// Arrival of the first of the entries.
    next_arrival: Nanos,
    entries: Ring<Entry>,
    last_arrival: Nanos,
    /// Apart, as most links have none.
    channel: Option<Box<Channel>>,
    /// As packets meet it that leave the server, maybe later than now; and as it is now.
    delay: Delay,
    delay_now: Delay,
    overtaking: bool,
}

/// What a link's medium adds to its propagation delay.
#[derive(Clone, Debug)]
struct Channel {
    /// As packets meet it that leave the server, maybe later than now; and as it is now.
    jitter: Option<[Jitter; 2]>,
    late: Option<Late>,
    gate: Option<Gate>,
}

/// Packets that take a detour, drawn one by one as they leave.
#[derive(Clone, Debug)]
struct Late {
    p: f64,
    delay: Nanos,
    random: Stream,
}

impl Channel {
    fn new(spec: &DirectionSpec, seed: u64, index: u64) -> Option<Channel> {
        let jitter = spec.jitter.map(|jitter| {
            let jitter = Jitter::new(jitter, seed, index);
            [jitter.clone(), jitter]
        });
        let late = spec.late.filter(|late| late.p > 0.0).map(|LateSpec { p, delay }| {
            let random = Stream::new(seed, Purpose::Late, index);
            Late { p, delay, random }
        });
        let gate = spec.gate.map(Gate::new);
        (jitter.is_some() || late.is_some() || gate.is_some()).then_some(Channel { jitter, late, gate })
    }

    /// When a packet arrives that leaves the server at `leaves` and would arrive at `at` without this channel.
    fn arrival(&mut self, leaves: Nanos, at: Nanos) -> Nanos {
        let mut at = self.jitter.as_mut().map_or(at, |[ahead, _]| at + ahead.at(leaves));
        if let Some(late) = &mut self.late
            && late.random.uniform() < late.p
        {
            at += late.delay;
        }
        self.gate.map_or(at, |gate| gate.opening(at))
    }

    /// The same of one that would leave `now`: asking changes nothing for those that do.
    fn arrival_now(&mut self, now: Nanos, at: Nanos) -> Nanos {
        let at = self.jitter.as_mut().map_or(at, |[_, present]| at + present.at(now));
        self.gate.map_or(at, |gate| gate.opening(at))
    }
}

impl Pipe {
    pub fn new(spec: &DirectionSpec, seed: u64, index: u64) -> Pipe {
        let delay = Delay::new(&spec.delay);
        Pipe {
            entries: Ring::default(),
            next_arrival: Nanos::MAX,
            last_arrival: Nanos::ZERO,
            delay_now: delay.clone(),
            delay,
            overtaking: spec.ordering == Ordering::Overtaking,
            channel: Channel::new(spec, seed, index).map(Box::new),
        }
    }

    #[inline]
    pub fn next_arrival(&self) -> Nanos {
        self.next_arrival
    }

    pub fn is_overtaking(&self) -> bool {
        self.overtaking
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// When a packet arrives that leaves the server at `leaves`.
    #[inline(always)]
    fn arrival(&mut self, leaves: Nanos) -> Nanos {
        let at = leaves + self.delay.at(leaves);
        self.channel.as_mut().map_or(at, |channel| channel.arrival(leaves, at))
    }

    /// A packet leaves the server at `leaves`, never before one that entered earlier.
    #[inline(always)]
    pub fn enter(&mut self, leaves: Nanos, id: PacketId, size: u32, route: u32) -> Offer {
        let at = self.arrival(leaves);
        self.join(at, id, size, route)
    }

    /// The same where there is no server: the packet is through at once if it needs no time and finds no other.
    #[inline(always)]
    pub fn pass(&mut self, now: Nanos, id: PacketId, size: u32, route: u32) -> Offer {
        let at = self.arrival(now);
        if at == now && self.entries.is_empty() {
            self.last_arrival = now;
            return Offer::Through;
        }
        self.join(at, id, size, route)
    }

    /// The entry is made where it is put: one that is copied would be read in wide loads over its fresh narrow stores.
    #[inline(always)]
    fn join(&mut self, mut at: Nanos, id: PacketId, size: u32, route: u32) -> Offer {
        if at < self.last_arrival {
            if self.overtaking {
                return self.overtake(Entry { at, id, size, route });
            }
            at = self.last_arrival;
        }
        self.last_arrival = at;
        let behind = !self.entries.is_empty();
        self.entries.push_back(Entry { at, id, size, route });
        if behind {
            return Offer::Joined;
        }
        self.next_arrival = at;
        Offer::Held
    }

    /// Into its midst: it stays sorted.
    #[inline(never)]
    fn overtake(&mut self, entry: Entry) -> Offer {
        self.next_arrival = self.next_arrival.min(entry.at);
        self.entries.insert(entry, |other| other.at <= entry.at);
        Offer::Held
    }

    /// The first arrives.
    #[inline]
    pub fn arrive(&mut self) -> Entry {
        let entry = self.entries.pop_front().expect("an arrival has a packet");
        match self.entries.front() {
            Some(next) => self.next_arrival = next.at,
            None => {
                self.next_arrival = Nanos::MAX;
                self.entries.clear();
            }
        }
        entry
    }

    /// All that is in it is lost.
    pub fn flush(&mut self, now: Nanos, lose: impl FnMut(&Entry)) {
        self.entries.iter().for_each(lose);
        self.entries.clear();
        self.next_arrival = Nanos::MAX;
        self.last_arrival = now;
    }

    /// Propagation delay now, which asking does not change for packets that leave later.
    pub fn delay_at(&mut self, now: Nanos) -> Nanos {
        self.delay_now.at(now)
    }

    /// When a packet would arrive that leaves after `wait`, were all as it is now.
    pub fn arrival_after(&mut self, now: Nanos, wait: Nanos) -> Nanos {
        let arrival = now + wait + self.delay_now.at(now);
        self.channel.as_mut().map_or(arrival, |channel| channel.arrival_now(now, arrival))
    }
}
