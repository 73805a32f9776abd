//! Where packets live while they travel: links and pipes pass numbers, not packets.

use crate::packet::Packet;

/// Number of a packet in its world's pool.
pub type PacketId = u32;

#[derive(Clone, Debug, Default)]
pub struct Pool {
    packets: Vec<Packet>,
    free: Vec<PacketId>,
    /// Packets made since the last `take_sent`, in order.
    sent: Vec<PacketId>,
}

impl Pool {
    /// Make a packet and note it as sent.
    #[inline]
    pub fn send(&mut self, packet: Packet) {
        let id = match self.free.pop() {
            Some(id) => {
                self.packets[id as usize] = packet;
                id
            }
            None => {
                self.packets.push(packet);
                (self.packets.len() - 1) as PacketId
            }
        };
        self.sent.push(id);
    }

    #[inline]
    pub fn get(&self, id: PacketId) -> &Packet {
        &self.packets[id as usize]
    }

    #[inline]
    pub fn get_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.packets[id as usize]
    }

    /// The packet has left the network.
    #[inline]
    pub fn release(&mut self, id: PacketId) {
        self.free.push(id);
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

    /// Packets travelling now.
    pub fn in_network(&self) -> usize {
        self.packets.len() - self.free.len()
    }
}
