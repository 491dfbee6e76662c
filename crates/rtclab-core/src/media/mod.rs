//! Media without pixels: encoder model, pacer, loss repair and playout.

pub mod codec;
pub mod encoder;
pub mod fec;
pub mod grid;
pub mod host;
pub mod lip_sync;
pub mod load;
pub mod microphone;
pub mod nack;
pub mod neteq;
mod overshoot;
pub mod pacer;
pub mod playout;
pub mod protection;
pub mod repair;
