//! FlowQueue-CoDel (RFC 8290) as Linux's sch_fq_codel: a queue per flow, served round-robin by bytes, new flows
//! first, each under CoDel.

use std::cmp::Reverse;
use std::collections::VecDeque;

use crate::rng::{Purpose, Stream};
use crate::spec::FqCodelSpec;
use crate::time::Nanos;

use super::super::Entry;
use super::codel::{Controller, Law};
use super::{Drops, Fifo};

const UNSEEN: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Bucket {
    /// What flows hash to.
    number: u64,
    queue: Fifo,
    /// Bytes it may still send in this round.
    deficit: i64,
    /// On one of the two lists of buckets with a turn.
    listed: bool,
    controller: Controller,
}

#[derive(Clone, Debug)]
pub struct FqCodel {
    pub(super) spec: FqCodelSpec,
    /// Key of the hash.
    salt: u64,
    /// Place in `buckets` of each flow, by its number.
    bucket_of: Vec<u32>,
    /// Buckets that some flow has used.
    buckets: Vec<Bucket>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    packets: usize,
    backlog: u64,
    memory: u64,
}

impl FqCodel {
    pub fn new(spec: FqCodelSpec, salt: u64) -> FqCodel {
        FqCodel {
            spec,
            salt,
            bucket_of: Vec::new(),
            buckets: Vec::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            packets: 0,
            backlog: 0,
            memory: 0,
        }
    }

    pub fn enqueue(&mut self, flow: u32, entry: Entry, drops: &mut Drops) {
        let place = self.place_of(flow);
        let bucket = &mut self.buckets[place as usize];
        self.memory -= bucket.queue.memory;
        bucket.queue.push(entry);
        self.memory += bucket.queue.memory;
        if !bucket.listed {
            bucket.listed = true;
            bucket.deficit = self.spec.quantum as i64;
            self.new.push_back(place);
        }
        self.packets += 1;
        self.backlog += u64::from(entry.size);
        if self.packets as u64 > self.spec.limit || self.memory > self.spec.memory_limit {
            self.drop_from_fattest(drops);
        }
    }

    pub fn dequeue(&mut self, now: Nanos, drops: &mut Drops) -> Option<Entry> {
        let FqCodelSpec { target, interval, ecn, ce_threshold, .. } = self.spec;
        let law = Law { target, interval, ecn, ce_threshold };
        loop {
            let is_new = !self.new.is_empty();
            let place = *if is_new { self.new.front() } else { self.old.front() }?;
            let bucket = &mut self.buckets[place as usize];
            let list = if is_new { &mut self.new } else { &mut self.old };
            if bucket.deficit <= 0 {
                bucket.deficit += self.spec.quantum as i64;
                list.pop_front();
                self.old.push_back(place);
                continue;
            }
            self.packets -= bucket.queue.len();
            self.memory -= bucket.queue.memory;
            let entry = bucket.controller.dequeue(now, law, &mut bucket.queue, &mut self.backlog, drops);
            self.packets += bucket.queue.len();
            self.memory += bucket.queue.memory;
            if let Some(entry) = entry {
                bucket.deficit -= i64::from(entry.size);
                return Some(entry);
            }
            list.pop_front();
            // An empty new queue takes a turn among the old ones, lest it be new again at once and starve them.
            if is_new && !self.old.is_empty() {
                self.old.push_back(place);
            } else {
                bucket.listed = false;
            }
        }
    }

    pub fn flush(&mut self, drops: &mut Drops) {
        for bucket in &mut self.buckets {
            bucket.queue.flush(drops);
            bucket.listed = false;
            bucket.controller = Controller::default();
        }
        self.new.clear();
        self.old.clear();
        (self.packets, self.backlog, self.memory) = (0, 0, 0);
    }

    pub fn holding(&self) -> usize {
        self.packets
    }

    pub fn bytes(&self) -> u64 {
        self.buckets.iter().map(|b| b.queue.bytes).sum()
    }

    /// Make room: drop half of the longest queue's bytes, at most a batch of packets, from its head.
    fn drop_from_fattest(&mut self, drops: &mut Drops) {
        let fattest = self.buckets.iter_mut().max_by_key(|b| (b.queue.bytes, Reverse(b.number)));
        let Some(bucket) = fattest else {
            return;
        };
        let enough = bucket.queue.bytes / 2;
        let (bytes, memory) = (bucket.queue.bytes, bucket.queue.memory);
        let mut dropped = 0;
        while let Some(entry) = bucket.queue.pop() {
            drops.take(entry);
            dropped += 1;
            if dropped >= self.spec.drop_batch || bytes - bucket.queue.bytes >= enough {
                break;
            }
        }
        // CoDel shall press on this queue as if it had dropped them.
        bucket.controller.count += dropped;
        self.packets -= dropped as usize;
        self.backlog -= bytes - bucket.queue.bytes;
        self.memory -= memory - bucket.queue.memory;
    }

    /// Where `flow` has its bucket.
    fn place_of(&mut self, flow: u32) -> u32 {
        let flow = flow as usize;
        if flow >= self.bucket_of.len() {
            self.bucket_of.resize(flow + 1, UNSEEN);
        }
        if self.bucket_of[flow] == UNSEEN {
            let hash = Stream::new(self.salt, Purpose::Queue, flow as u64).next_u64();
            let number = ((u128::from(hash) * u128::from(self.spec.flows)) >> 64) as u64;
            let known = self.buckets.iter().position(|b| b.number == number);
            let place = known.unwrap_or_else(|| {
                let (queue, controller) = (Fifo::default(), Controller::default());
                self.buckets.push(Bucket { number, queue, deficit: 0, listed: false, controller });
                self.buckets.len() - 1
            });
            self.bucket_of[flow] = place as u32;
        }
        self.bucket_of[flow]
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::packet;
    use super::*;
    use crate::packet::truesize;
    use crate::pool::Pool;

    const SPEC: FqCodelSpec = FqCodelSpec {
        limit: 10_240,
        memory_limit: 32 << 20,
        flows: 1024,
        quantum: 1514,
        drop_batch: 64,
        target: Nanos::from_millis(5),
        interval: Nanos::from_millis(100),
        ecn: true,
        ce_threshold: None,
    };

    struct Bench {
        queue: FqCodel,
        pool: Pool,
    }

    impl Bench {
        fn new(spec: FqCodelSpec) -> Bench {
            Bench { queue: FqCodel::new(spec, 1), pool: Pool::default() }
        }

        fn enqueue(&mut self, flow: u32, size: u32, packets: usize) {
            for _ in 0..packets {
                let entry = packet(&mut self.pool, Nanos::ZERO, size);
                self.pool.get_mut(entry.id).flow = flow;
                self.queue.enqueue(flow, entry, &mut Drops::new(&mut self.pool));
            }
        }

        /// The flow whose packet is served next.
        fn dequeue(&mut self) -> Option<u32> {
            let entry = self.queue.dequeue(Nanos::ZERO, &mut Drops::new(&mut self.pool))?;
            let flow = self.pool.get(entry.id).flow;
            self.pool.release(entry.id);
            Some(flow)
        }

        fn serve(&mut self, packets: usize) -> Vec<u32> {
            (0..packets).filter_map(|_| self.dequeue()).collect()
        }
    }

    #[test]
    fn backlogged_flows_take_turns_by_bytes() {
        let mut bench = Bench::new(SPEC);
        bench.enqueue(0, 1514, 100);
        bench.enqueue(1, 757, 100);
        assert_eq!(bench.serve(9), [0, 1, 1, 0, 1, 1, 0, 1, 1]);
    }

    #[test]
    fn a_new_flow_is_served_before_old_ones_but_only_for_a_quantum() {
        let mut bench = Bench::new(SPEC);
        bench.enqueue(0, 1514, 50);
        bench.enqueue(1, 1514, 50);
        bench.serve(10);
        bench.enqueue(2, 500, 10);
        // Four packets of 500 bytes exhaust its first quantum. From then on it takes turns: with what is left of the
        // next quantum, three.
        assert_eq!(bench.serve(10), [2, 2, 2, 2, 0, 2, 2, 2, 1, 0]);
    }

    #[test]
    fn a_flow_that_comes_back_at_once_must_wait_its_turn() {
        let mut bench = Bench::new(SPEC);
        bench.enqueue(0, 100, 60);
        bench.serve(17);
        bench.enqueue(1, 100, 1);
        assert_eq!(bench.serve(2), [1, 0]);
        // Its queue was found empty while flow 0 waited: it is among the old ones, and not new again.
        bench.enqueue(1, 100, 1);
        assert_eq!(bench.serve(14), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn a_full_queue_drops_half_of_the_fattest_flow_but_64_packets_at_most() {
        let mut bench = Bench::new(FqCodelSpec { limit: 300, ..SPEC });
        bench.enqueue(0, 1000, 60);
        bench.enqueue(1, 1000, 240);
        assert_eq!(bench.queue.holding(), 300);
        bench.enqueue(0, 1000, 1);
        assert_eq!(bench.queue.holding(), 301 - 64);
        let bytes_of =
            |bench: &Bench, flow: usize| bench.queue.buckets[bench.queue.bucket_of[flow] as usize].queue.bytes;
        assert_eq!((bytes_of(&bench, 0), bytes_of(&bench, 1)), (61_000, 176_000));
        let mut bench = Bench::new(FqCodelSpec { limit: 30, ..SPEC });
        bench.enqueue(0, 1000, 11);
        bench.enqueue(1, 1000, 20);
        assert_eq!((bytes_of(&bench, 0), bytes_of(&bench, 1)), (11_000, 10_000));
        assert_eq!(bench.pool.in_network(), 21);
    }

    #[test]
    fn memory_is_limited_by_what_the_kernel_takes_for_a_packet() {
        assert_eq!((truesize(1514), truesize(66)), (2304, 768));
        let mut bench = Bench::new(FqCodelSpec { memory_limit: 100 * 2304, ..SPEC });
        bench.enqueue(0, 1514, 100);
        assert_eq!(bench.queue.holding(), 100);
        bench.enqueue(0, 1514, 1);
        assert_eq!(bench.queue.holding(), 101 - 51);
    }

    #[test]
    fn flows_share_a_bucket_when_there_is_but_one() {
        let mut bench = Bench::new(FqCodelSpec { flows: 1, ..SPEC });
        bench.enqueue(0, 1514, 2);
        bench.enqueue(1, 1514, 2);
        assert_eq!(bench.serve(5), [0, 0, 1, 1]);
    }

    #[test]
    fn the_hash_spreads_flows_over_all_buckets() {
        let mut queue = FqCodel::new(SPEC, 7);
        (0..4_096).for_each(|flow| {
            queue.place_of(flow);
        });
        // 1024 (1 - (1 - 1/1024)^4096) = 1005 are expected to be hit.
        assert!((990..1_020).contains(&queue.buckets.len()), "{}", queue.buckets.len());
    }
}
