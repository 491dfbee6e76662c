//! Interface between the loop and the operating system: a clock and ports.

use crate::segments::{Frame, Outgoing};
use rtclab_core::units::Time;
use std::io;

/// Index of a port in [`crate::EmulatorConfig::ports`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortId(pub(crate) usize);

/// Takes what a port received, or why it cannot be read.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(PortId, io::Result<(Time, Frame)>);

/// Ports that carry Ethernet frames, and the clock of their time stamps.
pub(crate) trait Device {
    /// Time since the run began.
    fn now(&mut self) -> Time;

    /// Blocks until a frame may have arrived, until `until`, or until the loop is woken.
    ///
    /// # Errors
    /// Waiting for the devices failed.
    fn wait(&mut self, until: Option<Time>) -> io::Result<()>;

    /// Passes every frame received by `until` to `sink`, with its receive time, and the error of each port that
    /// cannot be read. The other ports go on.
    fn receive(&mut self, until: Time, sink: Sink<'_>);

    /// Writes a frame.
    ///
    /// # Errors
    /// The port did not accept the frame. The loop counts that and continues.
    fn send(&mut self, port: PortId, frame: &Outgoing<'_>) -> io::Result<()>;

    /// Number of frames lost since the run began because a buffer was full.
    fn overflows(&mut self) -> u64;
}
