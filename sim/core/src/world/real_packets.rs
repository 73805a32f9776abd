//! A world that carries other people's packets: its links, routes and schedules are those of a simulation, its hosts stay
//! silent. Whoever owns it says what arrives and when, and is told what comes out and when.

use std::collections::VecDeque;

use crate::link::reading::LinkReading;
use crate::packet::{Kind, Marks, Packet};
use crate::pool::PacketId;
use crate::spec::{NetworkSpec, NoiseSpec, SpecError};
use crate::time::Nanos;

use super::{Policies, World};

/// Packets that came out: when, and which.
pub(crate) type Carried = VecDeque<(Nanos, PacketId)>;

impl World {
    /// The links of a network, for others' packets. Noise is left to the real hosts.
    pub fn carrying(spec: &NetworkSpec) -> Result<World, SpecError> {
        let spec = NetworkSpec { noise: NoiseSpec { send_jitter: Nanos::ZERO, ..spec.noise }, ..spec.clone() };
        let mut world = World::new(&spec, &Policies::new(), Nanos::ZERO)?;
        world.carried = Some(Carried::default());
        world.flows.iter_mut().for_each(|flow| flow.hosted = true);
        Ok(world)
    }

    /// When something happens next inside.
    pub fn next_event(&mut self) -> Nanos {
        self.schedule.next().0.min(self.next_change())
    }

    /// A packet of `size` bytes on the wire, with ECN field `ecn` in its IP header, meets the path of flow `flow` now, that of its acknowledgements if `back`.
    /// `label` tells flows apart in queues that do. The number stands for the packet until it is dropped, or taken with
    /// [`World::take_carried`].
    pub fn inject(&mut self, flow: usize, back: bool, label: u32, size: u32, ecn: u8) -> PacketId {
        let sender = &self.flows[flow];
        let route = if back { sender.receiver.route } else { sender.sender.route };
        let size = size.min(u32::from(u16::MAX)) as u16;
        let marks = Marks::of_ip(ecn);
        *self.pool.send() = Packet { flow: label, route, size, kind: Kind::Carried, marks, ..Packet::default() };
        let id = self.pool.sent_id(0);
        if back {
            self.pool.clear_sent();
            self.enter_route(id);
        } else {
            self.dispatch_data(flow);
        }
        id
    }

    /// The next packet that has come out, when, and its ECN field now. Its number may be given to another one from the
    /// next injection on.
    pub fn take_carried(&mut self) -> Option<(Nanos, PacketId, u8)> {
        let (at, id) = self.carried.as_mut()?.pop_front()?;
        let ecn = self.pool.get(id).marks.ip();
        self.pool.release(id);
        Some((at, id, ecn))
    }

    /// How much room numbers of packets take: they are all below this.
    pub fn packet_numbers(&self) -> usize {
        self.pool.capacity()
    }

    /// Numbers that no packet has now: packets that had them were taken, dropped or lost.
    pub fn free_numbers(&self) -> impl Iterator<Item = PacketId> + '_ {
        self.pool.free()
    }

    /// What every link's forward direction has done by now.
    pub fn read_links(&mut self) -> impl Iterator<Item = LinkReading> + '_ {
        let now = self.now;
        self.links.iter_mut().step_by(2).map(move |link| link.reading(now))
    }
}
