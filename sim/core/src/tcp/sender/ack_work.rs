//! What the parts of a sender tell each other about the ACK in hand.

use crate::time::Nanos;

/// What is learnt while one ACK is processed.
#[derive(Default)]
pub(super) struct AckWork {
    pub una_advanced: bool,
    pub window_moved: bool,
    pub data_sacked: bool,
    /// A never-retransmitted segment below `high_seq` was delivered.
    pub original_delivered: bool,
    pub retrans_acked: bool,
    pub dsack: bool,
    pub dsack_of_probe: bool,
    pub lost_retrans: bool,
    /// The ACK reports a mark (FLAG_ECE).
    pub ece: bool,
    pub set_timer: bool,
    pub ts_echo: Nanos,
    /// Send times of the first and last never-retransmitted segment newly SACKed or ACKed.
    pub first_sacked: Option<Nanos>,
    pub last_sacked: Nanos,
    pub first_acked: Option<Nanos>,
    pub last_acked: Nanos,
    pub reordered: u32,
    /// Last transmission and number of the newest segment delivered: rates are sampled over its flight.
    pub newest: Option<(Nanos, u32)>,
}

impl AckWork {
    /// Nothing but the repetition of the last acknowledgement.
    pub fn is_duplicate(&self) -> bool {
        !self.una_advanced && !self.window_moved
    }
}
