//! Where packets live while they travel: links and pipes pass numbers, not packets.

use crate::packet::Packet;
use crate::time::Nanos;

/// Number of a packet in its world's pool.
pub type PacketId = u32;

const NONE: PacketId = PacketId::MAX;

#[derive(Clone, Debug)]
pub struct Pool {
    packets: Vec<Packet>,
    /// First free place; each free place holds the next one in its `seq`. `NONE` ends the list.
    free: PacketId,
    /// Packets made since the last `take_sent`, in order.
    sent: Vec<PacketId>,
}

impl Default for Pool {
    fn default() -> Self {
        Pool { packets: Vec::new(), free: NONE, sent: Vec::new() }
    }
}

impl Pool {
    /// Room for a packet that is sent now. The caller writes it in place: a packet built elsewhere and copied would be
    /// read back in wide loads over fresh narrow stores, which stall.
    #[inline]
    pub fn send(&mut self) -> &mut Packet {
        if self.free == NONE {
            self.grow();
        }
        let id = self.free;
        self.sent.push(id);
        let packet = &mut self.packets[id as usize];
        self.free = packet.seq;
        packet
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.free = self.packets.len() as PacketId;
        self.packets.push(Packet { seq: NONE, ..Packet::default() });
    }

    #[inline]
    pub fn get(&self, id: PacketId) -> &Packet {
        &self.packets[id as usize]
    }

    #[inline]
    pub fn get_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.packets[id as usize]
    }

    /// Does packet `a.1` come before `b.1`, at these times? Ties go to the lowest flow, and of one flow to `a`.
    #[inline]
    pub fn comes_before(&self, a: (Nanos, PacketId), b: (Nanos, PacketId)) -> bool {
        a.0 < b.0 || (a.0 == b.0 && self.get(a.1).flow <= self.get(b.1).flow)
    }

    /// The packet has left the network.
    #[inline]
    pub fn release(&mut self, id: PacketId) {
        self.packets[id as usize].seq = self.free;
        self.free = id;
    }

    pub(crate) fn sent_len(&self) -> usize {
        self.sent.len()
    }

    pub(crate) fn sent_id(&self, i: usize) -> PacketId {
        self.sent[i]
    }

    pub(crate) fn clear_sent(&mut self) {
        self.sent.clear();
    }

    /// All numbers of packets are below this.
    pub fn capacity(&self) -> usize {
        self.packets.len()
    }

    /// The numbers that no packet has now.
    pub fn free(&self) -> impl Iterator<Item = PacketId> + '_ {
        let place = |id: PacketId| (id != NONE).then_some(id);
        std::iter::successors(place(self.free), move |id| place(self.packets[*id as usize].seq))
    }

    /// Packets travelling now, counted: those that have no free place. For tests.
    pub fn in_network(&self) -> usize {
        self.packets.len() - self.free().count()
    }
}
