//! What the loop needs from the world: a clock and ports.

use rtclab_core::units::Time;
use std::io;

/// Index of a port in [`crate::EmulatorConfig::ports`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortId(pub(crate) usize);

/// Ports that carry Ethernet frames, and the clock that they are stamped with.
pub(crate) trait Device {
    /// Time since the run began.
    fn now(&mut self) -> Time;

    /// Blocks until a frame may be there, `until` has come, or somebody woke the loop.
    ///
    /// # Errors
    /// The devices cannot be waited for.
    fn wait(&mut self, until: Option<Time>) -> io::Result<()>;

    /// Hands every frame received by `until` to `sink`, with the time at which it was received.
    ///
    /// # Errors
    /// A port cannot be read.
    fn receive(&mut self, until: Time, sink: &mut dyn FnMut(Time, PortId, &[u8]))
    -> io::Result<()>;

    /// Writes a frame.
    ///
    /// # Errors
    /// The port did not take it; the loop counts that and goes on.
    fn send(&mut self, port: PortId, frame: &[u8]) -> io::Result<()>;

    /// Frames that arrived while there was no room for them, since the run began.
    fn overflows(&mut self) -> u64;
}
