//! Queue disciplines: which packets may wait before a link's server, and which of them is served next.
//!
//! A drop-tail queue only admits or refuses; the link keeps its packets. So it does for a queue that drops from the front,
//! which gives up the packets that have waited longest for one that comes (Linux's pfifo_head_drop). A managed queue keeps
//! them itself and may change its mind: it drops packets that it has taken in, or lets one overtake another. A packet is dequeued when it
//! becomes the server's; from then on it is no longer the queue's, as a packet that a Linux qdisc has handed to the
//! device. With `ecn`, packets of transports that understand it are marked where others are dropped.
//!
//! Managed queues that drop on arrival can drop from the front as well (`front`): Lakshman, Neidhardt and Ott ("The drop from
//! front strategy in TCP and in TCP over ATM", INFOCOM 1996) propose it for full buffers, ns-2's RED has it for them and
//! above the upper threshold (`drop_front_`). Here it holds for all drops that an arrival causes, early ones, too: they are
//! what a managed queue signals by, and the signal is to leave early. Marks stay with the packet that arrives, as in ns-2.

pub mod codel;
pub mod drop_tail;
pub mod dual_pi2;
pub mod fq_codel;
pub mod pie;
pub mod red;

use std::collections::VecDeque;

use crate::packet::truesize;
use crate::pool::Pool;
use crate::rng::{Purpose, Stream};
use crate::spec::QueueSpec;
use crate::tick::Tick;
use crate::time::Nanos;
use crate::units::BitRate;

use super::Entry;
use codel::Codel;
use drop_tail::DropTail;
use dual_pi2::DualPi2;
use fq_codel::FqCodel;
use pie::Pie;
use red::Red;

/// A full Ethernet frame as Linux's qdiscs count it (psched_mtu); CoDel and PIE spare queues of so few bytes.
pub const MTU_BYTES: u64 = 1514;

#[derive(Clone, Debug)]
pub enum Discipline {
    DropTail(DropTail),
    /// The same limits; but the packets that have waited longest make room.
    DropFront(DropTail),
    /// Apart, so that links without one stay small.
    Managed(Box<Managed>),
}

/// A queue that manages itself.
#[derive(Clone, Debug)]
pub enum Managed {
    Codel(Codel),
    FqCodel(FqCodel),
    Pie(Pie),
    Red(Red),
    DualPi2(DualPi2),
}

impl Discipline {
    /// `index` numbers the link direction, for its random stream.
    pub fn new(spec: &QueueSpec, tick: Tick, seed: u64, index: u64) -> Discipline {
        let mut random = Stream::new(seed, Purpose::Queue, index);
        let managed = match *spec {
            QueueSpec::DropTailBytes { limit } => return Discipline::DropTail(DropTail::Bytes { limit }),
            QueueSpec::DropTailPackets { limit } => return Discipline::DropTail(DropTail::Packets { limit }),
            QueueSpec::DropFrontBytes { limit } => return Discipline::DropFront(DropTail::Bytes { limit }),
            QueueSpec::DropFrontPackets { limit } => return Discipline::DropFront(DropTail::Packets { limit }),
            QueueSpec::Viasat { limit, threshold, drop_probability } => {
                return Discipline::DropTail(DropTail::Viasat { limit, threshold, drop_probability, random });
            }
            QueueSpec::Codel(spec) => Managed::Codel(Codel::new(spec)),
            QueueSpec::FqCodel(spec) => Managed::FqCodel(FqCodel::new(spec, random.next_u64())),
            QueueSpec::Pie(spec) => Managed::Pie(Pie::new(spec, tick, random)),
            QueueSpec::Red(spec) => Managed::Red(Red::new(spec, tick, random)),
            QueueSpec::DualPi2(spec) => Managed::DualPi2(DualPi2::new(spec, random)),
        };
        Discipline::Managed(Box::new(managed))
    }

    /// What it has room for, packets counted at `packet_bytes`; infinite when unlimited.
    pub fn capacity_bytes(&self, packet_bytes: u64) -> f64 {
        let of = |packets: u64| if packets == u64::MAX { f64::INFINITY } else { packets as f64 * packet_bytes as f64 };
        match self {
            Discipline::DropTail(rule) | Discipline::DropFront(rule) => match rule {
                DropTail::Bytes { limit } | DropTail::Viasat { limit, .. } => *limit as f64,
                DropTail::Packets { limit } => of(*limit),
            },
            Discipline::Managed(managed) => match &**managed {
                Managed::Codel(queue) => of(queue.spec.limit),
                Managed::FqCodel(queue) => {
                    of(queue.spec.limit.min(queue.spec.memory_limit / truesize(packet_bytes as u32)))
                }
                Managed::Pie(queue) => of(queue.spec.limit),
                Managed::Red(queue) => queue.spec.limit as f64,
                Managed::DualPi2(queue) => of(queue.spec.limit),
            },
        }
    }

    /// Packets it keeps.
    pub fn holding(&self) -> usize {
        match self {
            Discipline::DropTail(_) | Discipline::DropFront(_) => 0,
            Discipline::Managed(managed) => managed.holding(),
        }
    }

    /// Their bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Discipline::DropTail(_) | Discipline::DropFront(_) => 0,
            Discipline::Managed(managed) => managed.bytes(),
        }
    }
}

impl Managed {
    /// A packet of `flow` arrives; `rate` is the link's. Packets that are dropped, this one or others, go to `drops`.
    pub fn enqueue(&mut self, now: Nanos, rate: BitRate, flow: u32, entry: Entry, drops: &mut Drops) {
        match self {
            Managed::Codel(queue) => queue.enqueue(entry, drops),
            Managed::FqCodel(queue) => queue.enqueue(flow, entry, drops),
            Managed::Pie(queue) => queue.enqueue(now, entry, drops),
            Managed::Red(queue) => queue.enqueue(now, rate, entry, drops),
            Managed::DualPi2(queue) => queue.enqueue(now, entry, drops),
        }
    }

    /// The server is free: the packet it gets, if there is one.
    pub fn dequeue(&mut self, now: Nanos, drops: &mut Drops) -> Option<Entry> {
        match self {
            Managed::Codel(queue) => queue.dequeue(now, drops),
            Managed::FqCodel(queue) => queue.dequeue(now, drops),
            Managed::Pie(queue) => queue.dequeue(now),
            Managed::Red(queue) => queue.dequeue(now),
            Managed::DualPi2(queue) => queue.dequeue(now, drops),
        }
    }

    /// Lose all packets, and what a Linux qdisc forgets when its interface goes down.
    pub fn flush(&mut self, drops: &mut Drops) {
        match self {
            Managed::Codel(queue) => queue.flush(drops),
            Managed::FqCodel(queue) => queue.flush(drops),
            Managed::Pie(queue) => queue.flush(drops),
            Managed::Red(queue) => queue.flush(drops),
            Managed::DualPi2(queue) => queue.flush(drops),
        }
    }

    pub fn holding(&self) -> usize {
        match self {
            Managed::Codel(queue) => queue.holding(),
            Managed::FqCodel(queue) => queue.holding(),
            Managed::Pie(queue) => queue.holding(),
            Managed::Red(queue) => queue.holding(),
            Managed::DualPi2(queue) => queue.holding(),
        }
    }

    pub fn bytes(&self) -> u64 {
        match self {
            Managed::Codel(queue) => queue.bytes(),
            Managed::FqCodel(queue) => queue.bytes(),
            Managed::Pie(queue) => queue.bytes(),
            Managed::Red(queue) => queue.bytes(),
            Managed::DualPi2(queue) => queue.bytes(),
        }
    }
}

/// Packets in order of arrival, with the sums of their bytes and of their memory.
#[derive(Clone, Debug, Default)]
pub struct Fifo {
    packets: VecDeque<Entry>,
    bytes: u64,
    memory: u64,
}

impl Fifo {
    fn push(&mut self, entry: Entry) {
        self.bytes += u64::from(entry.size);
        self.memory += truesize(entry.size);
        self.packets.push_back(entry);
    }

    fn pop(&mut self) -> Option<Entry> {
        let entry = self.packets.pop_front()?;
        self.bytes -= u64::from(entry.size);
        self.memory -= truesize(entry.size);
        Some(entry)
    }

    /// Drop what has waited longest.
    fn drop_front(&mut self, drops: &mut Drops) {
        if let Some(entry) = self.pop() {
            drops.take(entry);
        }
    }

    fn flush(&mut self, drops: &mut Drops) {
        self.packets.drain(..).for_each(|entry| drops.take(entry));
        (self.bytes, self.memory) = (0, 0);
    }

    fn len(&self) -> usize {
        self.packets.len()
    }
}

/// Where a managed queue's dropped packets go, and where it marks others.
pub struct Drops<'a> {
    pool: &'a mut Pool,
    pub packets: u64,
    pub bytes: u64,
    pub marked: u64,
}

impl Drops<'_> {
    pub fn new(pool: &mut Pool) -> Drops<'_> {
        Drops { pool, packets: 0, bytes: 0, marked: 0 }
    }

    fn take(&mut self, entry: Entry) {
        self.packets += 1;
        self.bytes += u64::from(entry.size);
        self.pool.release(entry.id);
    }

    /// The ECN field of a packet.
    fn field(&self, entry: Entry) -> u8 {
        self.pool.get(entry.id).marks.ip()
    }

    /// Set CE, if the packet is of a transport that understands it. False if not.
    fn mark(&mut self, entry: Entry) -> bool {
        let set = self.pool.get_mut(entry.id).marks.set_ce();
        self.marked += u64::from(set);
        set
    }
}

#[cfg(test)]
mod testing {
    use super::*;
    use crate::packet::{Marks, Packet};

    /// A packet in `pool`, enqueued at `at`.
    pub fn packet(pool: &mut Pool, at: Nanos, size: u32) -> Entry {
        packet_with(Marks::NONE, pool, at, size)
    }

    /// The same with an ECN field.
    pub fn packet_with(marks: Marks, pool: &mut Pool, at: Nanos, size: u32) -> Entry {
        *pool.send() = Packet { size: size as u16, marks, ..Packet::default() };
        let id = pool.sent_id(pool.sent_len() - 1);
        Entry { at, id, size, route: 0 }
    }
}
