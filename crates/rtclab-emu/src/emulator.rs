//! The emulator: a loop over packet sockets in a thread.

use crate::capture::Capture;
use crate::config::EmulatorConfig;
use crate::engine::{Command, Counters, Engine, EngineError, Finished, PortFailure};
use crate::lateness::Lateness;
use crate::log_store::LogStore;
use crate::packet_log::PacketLog;
use crate::socket::{Clock, PacketDevice, Waker, prioritise_this_thread};
use crate::traffic::NodePair;
use rtclab_core::network::PathId;
use rtclab_core::path::PathConfig;
use rtclab_core::units::Time;
use std::env;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

/// Why the emulator could not start or continue.
#[derive(Debug)]
pub enum EmulatorError {
    /// The configuration of network or ports is inconsistent.
    Config(String),
    /// An interface cannot be opened.
    Port(String, io::Error),
    /// The capture file cannot be written.
    Capture(PathBuf, io::Error),
    /// The packets of the log that went to a file cannot be read.
    Log(io::Error),
    /// Waiting for the devices failed, or the thread could not be started.
    Device(io::Error),
    /// A thread of the emulator panicked, which is a defect.
    Panicked,
}

impl fmt::Display for EmulatorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EmulatorError::Config(text) => f.write_str(text),
            EmulatorError::Port(interface, error) => {
                write!(f, "emulator port `{interface}` cannot be opened: {error}")?;
                match error.kind() {
                    io::ErrorKind::PermissionDenied => write!(
                        f,
                        "\n  hint: raw packet sockets need a user namespace of their own; `rtclab link` creates one"
                    ),
                    _ => Ok(()),
                }
            }
            EmulatorError::Capture(path, error) => {
                write!(f, "capture file {}: {error}; the emulator has stopped", path.display())
            }
            EmulatorError::Log(error) => {
                write!(f, "the log of the packets cannot be read: {error}")
            }
            EmulatorError::Device(error) => write!(f, "the emulator has stopped: {error}"),
            EmulatorError::Panicked => f.write_str("the emulator has stopped: internal error"),
        }
    }
}

impl std::error::Error for EmulatorError {}

/// Result of a run.
#[derive(Debug)]
pub struct Summary {
    /// Log of all packets, if one was asked for and can be read.
    pub packets: Option<PacketLog>,
    /// Counts of packets, for each pair of nodes with a route.
    pub traffic: Vec<NodePair>,
    /// Lateness of the frames.
    pub lateness: Lateness,
    /// Counts of events that are not in the packet log.
    pub counters: Counters,
    /// Errors of single ports, oldest first.
    pub port_failures: Vec<PortFailure>,
    /// Why the emulator ended by itself, or why the capture file is incomplete.
    pub failure: Option<EmulatorError>,
    /// Time zero of the run, in nanoseconds since 1970 on the clock of the capture file.
    pub epoch_ns: u64,
}

/// A running emulator, which is stopped when it is dropped.
#[derive(Debug)]
pub struct Emulator {
    commands: Sender<Command>,
    waker: Waker,
    clock: Clock,
    paths: Vec<String>,
    threads: Option<Threads>,
}

#[derive(Debug)]
struct Threads {
    engine: JoinHandle<Finished>,
    capture: Option<(PathBuf, JoinHandle<io::Result<()>>)>,
}

impl Emulator {
    /// Opens the ports in the network namespace of the calling thread, and starts to carry packets.
    ///
    /// # Errors
    /// See [`EmulatorError`].
    pub fn start(config: EmulatorConfig) -> Result<Self, EmulatorError> {
        let clock = Clock::start();
        let waker = Waker::new().map_err(EmulatorError::Device)?;
        let interfaces: Vec<String> = config.ports.iter().map(|p| p.interface.clone()).collect();
        let device =
            PacketDevice::open(interfaces.iter().map(String::as_str), clock, waker.clone())
                .map_err(|(interface, error)| EmulatorError::Port(interface, error))?;
        let (capture, writer) = match &config.pcap {
            None => (None, None),
            Some(path) => {
                let epoch_ns = since_1970_ns(clock);
                // As in captures of simulated calls, an interface has the name of its node.
                let nodes: Vec<String> = config.ports.iter().map(|p| p.node.clone()).collect();
                let (capture, writer) = Capture::start(path, &nodes, config.snaplen, epoch_ns)
                    .map_err(|error| EmulatorError::Capture(path.clone(), error))?;
                (Some(capture), Some((path.clone(), writer)))
            }
        };
        let network = (config.network(), config.seed);
        // Beside the capture, which is as large.
        let folder = config.pcap.as_deref().and_then(Path::parent);
        let folder = folder.map_or_else(env::temp_dir, Path::to_path_buf);
        let packets = config.packet_log.then(|| LogStore::new(folder));
        let engine = Engine::new(device, network, config.ports, packets, capture)
            .map_err(EmulatorError::Config)?;
        let (commands, receiver) = channel();
        let engine = thread::Builder::new()
            .name("rtclab-emulator".into())
            .spawn(move || {
                prioritise_this_thread();
                engine.run(&receiver)
            })
            .map_err(EmulatorError::Device)?;
        Ok(Emulator {
            commands,
            waker,
            clock,
            paths: config.paths.into_iter().map(|path| path.name).collect(),
            threads: Some(Threads { engine, capture: writer }),
        })
    }

    /// Time since the start, on the clock of the packet log and of path changes.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Replaces the configuration of the path of the same name from now on.
    ///
    /// # Errors
    /// There is no path with this name, or a field breaks a rule.
    pub fn set_path(&self, config: PathConfig) -> Result<(), EmulatorError> {
        config.check().map_err(|error| EmulatorError::Config(error.to_string()))?;
        let index = self.paths.iter().position(|name| *name == config.name).ok_or_else(|| {
            EmulatorError::Config(format!(
                "no path `{}`; expected one of {:?}",
                config.name, self.paths
            ))
        })?;
        // If the loop has ended, `stop` reports why.
        let _ = self.commands.send(Command::SetPath(PathId(index as u32), Box::new(config)));
        self.waker.wake();
        Ok(())
    }

    /// Whether packets are being carried. Once this is false, [`Emulator::stop`] returns the reason.
    pub fn is_running(&self) -> bool {
        self.threads.as_ref().is_some_and(|threads| !threads.engine.is_finished())
    }

    /// Stops the emulator. Packets in the network are not delivered. If the emulator had ended by itself, the
    /// summary has what happened until then, and why it ended.
    ///
    /// # Errors
    /// [`EmulatorError::Panicked`].
    pub fn stop(mut self) -> Result<Summary, EmulatorError> {
        self.end()
    }

    fn end(&mut self) -> Result<Summary, EmulatorError> {
        let Threads { engine, capture } = self.threads.take().ok_or(EmulatorError::Panicked)?;
        let _ = self.commands.send(Command::Stop);
        self.waker.wake();
        let finished = engine.join().map_err(|_| EmulatorError::Panicked)?;
        let Finished { packets, traffic, lateness, counters, port_failures, failure } = finished;
        let captured = capture.and_then(|(path, writer)| match writer.join() {
            Ok(written) => Some(EmulatorError::Capture(path, written.err()?)),
            Err(_) => Some(EmulatorError::Panicked),
        });
        let failure = captured.or(failure.map(|error| match error {
            EngineError::Device(error) => EmulatorError::Device(error),
            EngineError::Capture => EmulatorError::Panicked,
        }));
        let (packets, unread) = match packets.map(LogStore::finish).transpose() {
            Ok(packets) => (packets, None),
            Err(error) => (None, Some(EmulatorError::Log(error))),
        };
        let failure = failure.or(unread);
        let epoch_ns = since_1970_ns(self.clock);
        Ok(Summary { packets, traffic, lateness, counters, port_failures, failure, epoch_ns })
    }
}

/// Time zero of a clock, in nanoseconds since 1970.
fn since_1970_ns(clock: Clock) -> u64 {
    clock.epoch.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

impl Drop for Emulator {
    fn drop(&mut self) {
        if self.threads.is_some() {
            let _ = self.end();
        }
    }
}
