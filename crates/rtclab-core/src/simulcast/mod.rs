//! How a server forwards simulcast.
//!
//! A sender with simulcast sends one picture in several layers. A server forwards one of them to each receiver,
//! and the receiver must see a single continuous stream. [`layers`] says which layer that is, [`numbering`] how
//! its packets are numbered, and [`LayerSwitch`] puts both together for one receiver.

pub mod layers;
pub mod numbering;

use crate::units::Bitrate;
use numbering::{Numbering, Numbers, ReceivedNumbers};

/// Switches what one receiver gets between the layers of a stream.
///
/// `Layer` is the caller's name of a layer, such as a number. `None` is a stream without layers.
///
/// ```
/// use rtclab_core::simulcast::LayerSwitch;
/// use rtclab_core::simulcast::numbering::ReceivedNumbers;
/// use rtclab_core::units::Bitrate;
///
/// let mut switch = LayerSwitch::default();
/// let rates = [("low", Some(Bitrate::from_kbps(150))), ("high", Some(Bitrate::from_kbps(1200)))];
/// switch.choose(&rates, Bitrate::from_kbps(300));
/// assert_eq!(switch.target(), Some("low"));
///
/// let packet = ReceivedNumbers::default();
/// assert_eq!(switch.forward(Some("low"), false, &packet), None, "it waits for a key frame");
/// assert!(switch.forward(Some("low"), true, &packet).is_some());
/// ```
#[derive(Debug)]
pub struct LayerSwitch<Layer> {
    /// The layer that is forwarded.
    layer: Option<Layer>,
    /// The layer that will be forwarded from its next key frame.
    target: Option<Layer>,
    numbering: Option<Numbering>,
}

impl<Layer> Default for LayerSwitch<Layer> {
    fn default() -> Self {
        LayerSwitch { layer: None, target: None, numbering: None }
    }
}

impl<Layer: Copy + PartialEq> LayerSwitch<Layer> {
    /// The layer that is forwarded; `None` without layers, or before the first key frame.
    pub fn layer(&self) -> Option<Layer> {
        self.layer
    }

    /// The layer that is wanted; `None` without layers.
    pub fn target(&self) -> Option<Layer> {
        self.target
    }

    /// Whether it waits for a key frame in order to switch.
    pub fn is_switching(&self) -> bool {
        self.layer != self.target
    }

    /// Chooses among the layers of the sender, from the lowest to the highest, each with its rate if it is sent.
    /// Nothing changes if none is sent.
    pub fn choose(&mut self, layers: &[(Layer, Option<Bitrate>)], budget: Bitrate) {
        self.target = layers::choose(layers, self.layer, budget).or(self.target);
    }

    /// The numbers with which a received packet of `layer` is forwarded; `None` if the receiver does not get it.
    ///
    /// The stream changes to its target with the first packet of a key frame. From then on nothing of the old layer
    /// is forwarded, not even a packet that was sent before the change and comes late: the numbers after it are
    /// taken. The receiver sees a lost packet there, which no repair brings back.
    pub fn forward(
        &mut self,
        layer: Option<Layer>,
        starts_key_frame: bool,
        packet: &ReceivedNumbers,
    ) -> Option<Numbers> {
        if layer != self.layer {
            if layer != self.target || !starts_key_frame {
                return None;
            }
            self.layer = layer;
            if let Some(numbering) = &mut self.numbering {
                numbering.switch(packet);
            }
        }
        self.numbering.get_or_insert_with(|| Numbering::new(packet)).apply(packet)
    }
}

#[cfg(test)]
mod tests;
