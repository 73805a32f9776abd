//! Policies in fixed point beside those in floating point: [`compile`] makes one of the other, [`simulated`] runs it in
//! the simulator.

pub mod compile;
pub mod simulated;
