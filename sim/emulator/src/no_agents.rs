//! Built without agents.

use orbitcc_core::tcp::acks::Acks;

use crate::setup::Agent;

pub const BUILT_IN: bool = false;

pub enum Agents {}

impl Agents {
    pub fn load(_agents: &[Agent]) -> Result<Agents, String> {
        Err("agents: this emulator was built without them; `make emulator` where libelf and zlib can be had".into())
    }

    pub fn controller(&self, _slot: usize) -> &str {
        match *self {}
    }

    pub fn set_window(&mut self, _slot: usize, _cwnd: u32, _pacing: Option<u64>) {
        match *self {}
    }

    pub fn start(&mut self, _slot: usize, _clock_ns: u64) {
        match *self {}
    }

    pub fn take(&mut self, _slot: usize, _zero_ns: u64) -> (Acks, u64) {
        match *self {}
    }
}
