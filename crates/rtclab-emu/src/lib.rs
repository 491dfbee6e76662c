//! Runs the network model in real time between Linux network devices.
//!
//! [`Emulator`] runs a loop in a thread: wait for the next event of the network or for a frame, read the
//! clock, drain the network, write frames. A packet enters the model at the time at which the kernel
//! received it, and leaves at its logical time. Lateness is how much later its frame was really written.
//! It does not add up over packets or hops, because the model does not see it.
#![allow(unsafe_code)] // for system calls; each block states why it is sound

mod capture;
mod classify;
mod config;
mod device;
mod emulator;
mod engine;
mod frame;
mod histogram;
mod lateness;
mod listener;
mod log_store;
mod packet_log;
mod segments;
mod socket;
mod traffic;

pub use classify::LoggedProtocol;
pub use config::{EmulatorConfig, MacAddress, PortConfig};
pub use emulator::{Emulator, EmulatorError, Summary};
pub use engine::{Counters, PortFailure};
pub use histogram::Histogram;
pub use lateness::Lateness;
pub use listener::Listener;
pub use packet_log::{HopLog, PacketLog};
pub use traffic::{NodePair, Traffic};
