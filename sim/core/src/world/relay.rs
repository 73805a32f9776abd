//! A performance-enhancing proxy that splits a connection (RFC 3135, section 2.4): two flows, of which the second sends
//! what the first has delivered to the proxy.
//!
//! The proxy reads from the first connection while it holds less than its buffer; the second connection's send buffer is a
//! part of it. What the proxy does not read closes the first connection's receive window, as on any host.

use crate::flow::Life;
use crate::spec::RelaySpec;

use super::World;

impl World {
    /// Tell the flows of every proxy of each other.
    pub(crate) fn connect_relays(&mut self) {
        for i in 0..self.flows.len() {
            if let Some(relay) = self.flows[i].relays {
                let segments = self.segments_held(relay);
                self.has_relays = true;
                let first = &mut self.flows[relay.from];
                first.relayed_by = i as u32;
                first.receiver.limit_reading(segments);
            }
        }
    }

    fn segments_held(&self, relay: RelaySpec) -> u32 {
        (relay.buffer / self.flows[relay.from].sender.mss()).min(u64::from(u32::MAX / 2)) as u32
    }

    /// What a proxy at the end of flow `i` has read goes to its second connection, if that is open.
    #[cold]
    #[inline(never)]
    pub(crate) fn relay_data(&mut self, i: usize) {
        let (read, to) = (self.flows[i].receiver.read_so_far(), self.flows[i].relayed_by as usize);
        let Some(flow) = self.flows.get_mut(to) else { return };
        let fresh = read - flow.sender.write_seq();
        if flow.life == Life::Active && fresh > 0 {
            flow.sender.write(self.now, fresh);
            flow.sender.transmit_new(&mut self.pool);
            self.dispatch_data(to);
        }
    }

    /// If flow `i` is the second connection of a proxy, it has delivered data of its buffer: there is room to read more.
    #[cold]
    #[inline(never)]
    pub(crate) fn relay_room(&mut self, i: usize) {
        let Some(relay) = self.flows[i].relays else { return };
        let reads_to = self.flows[i].sender.conn.snd_una.saturating_add(self.segments_held(relay));
        let first = &mut self.flows[relay.from];
        if first.receiver.read_up_to(self.now, reads_to, relay.from as u32, &mut self.pool) {
            self.dispatch_acks();
            self.relay_data(relay.from);
        }
    }
}
