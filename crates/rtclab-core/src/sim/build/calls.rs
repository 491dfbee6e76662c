//! The ends of calls.

use super::super::config::{ConnectionConfig, ParticipantConfig, SimConfig, SimError};
use super::super::world::{EndId, EndRecord};
use super::{EndPlace, Ends, Flows, JOIN_STREAM, Names, PACE_STREAM, SETUP_STREAM, Wire};
use crate::capture::Description;
use crate::catalogue::{Catalogue, Choice};
use crate::cc::Fixed;
use crate::endpoint::setup::work::join_delay;
use crate::endpoint::{
    Addresses, Direction, ForwardingMode, Media, Negotiation, Observe, Peer, PeerConfig,
    ServerSetup, Session, StreamConfig, Translator,
};
use crate::media::repair::Repair;
use crate::network::{NodeId, derive_seed};
use crate::node::End;
use crate::packet::{Address, Described};
use crate::record::{Detail, RecordSource, Recorder};
use crate::stack::{SetupProfile, StackProfile};
use crate::units::Time;
use std::collections::HashMap;

/// How servers repair losses, which have media of their own or forward it.
const SERVER_REPAIR: Repair = Repair::Rtx;

/// Two ends per connection, `a` before `b`. The port of an address is the number of its end.
pub(super) fn places(
    config: &SimConfig,
    names: &Names<'_>,
    flows: &mut Flows,
) -> Result<Vec<EndPlace>, SimError> {
    let mut places = Vec::new();
    for (index, connection) in config.connections.iter().enumerate() {
        let address = |name, offers| -> Result<Address, SimError> {
            Ok(Address { node: names.get(name)?, port: EndId::of(index, offers).0 })
        };
        let (a, b) = (address(&connection.a, true)?, address(&connection.b, false)?);
        let relay = connection.relay.as_deref().map(|name| names.get(name)).transpose()?;
        let end = end_of(config, connection);
        let [there, back] = connection.flow_names().map(|name| flows.get(name, end));
        if connection.forwards.is_some() {
            flows.set_forwarded(there);
        }
        places.push(EndPlace { local: a, remote: b, relay, flow: there });
        places.push(EndPlace { local: b, remote: a, relay, flow: back });
    }
    Ok(places)
}

/// When a connection ends: at its configured end, or earlier if a participant leaves.
fn end_of(config: &SimConfig, connection: &ConnectionConfig) -> Time {
    let of = |p: &&ParticipantConfig| p.name == connection.a || p.name == connection.b;
    config.participants.iter().filter(of).fold(connection.end_ns, |end, p| end.min(p.leave_ns))
}

/// Adds the ends of all calls.
pub(super) struct Calls<'a> {
    config: &'a SimConfig,
    catalogue: &'a Catalogue,
    participants: HashMap<&'a str, &'a ParticipantConfig>,
    mixers: HashMap<&'a str, &'a ParticipantConfig>,
    forwarders: HashMap<&'a str, &'a ParticipantConfig>,
    core: NodeId,
    places: &'a [EndPlace],
    pub(super) ends: Ends,
    pub(super) descriptions: Vec<Description>,
    /// Ends that meet over signalling.
    pub(super) meets: Vec<(EndId, Session)>,
}

/// One side of a connection: who is at its end, and whose media it is about.
struct Side<'a> {
    end: EndId,
    connection: &'a ConnectionConfig,
    here: &'a str,
    there: &'a str,
    /// The participant at this end; `None` at a server.
    own: Option<&'a ParticipantConfig>,
    /// The participant at the far end.
    other: Option<&'a ParticipantConfig>,
    /// The participant at this end, or the server that mixes.
    own_media: Option<&'a ParticipantConfig>,
    /// The same of the far end.
    other_media: Option<&'a ParticipantConfig>,
    /// The end of the original sender of what the connection carries from `a`.
    origin: EndId,
    /// That sender.
    sender: &'a ParticipantConfig,
    /// The server at `a`, if the connection forwards with a congestion control of its own.
    forwarder: Option<&'a ParticipantConfig>,
}

impl<'a> Side<'a> {
    /// Whose congestion control the end has.
    fn control_of(&self) -> &'a ParticipantConfig {
        match self.forwarding() {
            Some(_) => self.sends_from(),
            None => self.own_media.unwrap_or(self.sender),
        }
    }

    /// Whose stack sends what the connection carries from `a`.
    fn sends_from(&self) -> &'a ParticipantConfig {
        self.forwarder.unwrap_or(self.sender)
    }

    /// How the end forwards what another end of its node receives; `None` if it does not.
    fn forwarding(&self) -> Option<ForwardingMode> {
        let forwards = self.end.offers() && self.connection.forwards.is_some();
        let forwarding =
            self.forwarder.map_or(ForwardingMode::AtOnce, |_| ForwardingMode::Controlled);
        forwards.then_some(forwarding)
    }

    /// Whether the end passes on everything that another end of its node receives, unchanged.
    fn translates(&self) -> bool {
        let passes_on =
            if self.end.offers() { self.connection.forwards.is_some() } else { self.own.is_none() };
        self.connection.switching && passes_on
    }

    /// The end whose streams arrive here. Media from a forwarder has the SSRCs and the clock of its original sender.
    fn far_sender(&self) -> EndId {
        if self.end.offers() { self.end.far() } else { self.origin }
    }

    fn label(&self) -> String {
        let Side { here, there, .. } = self;
        format!("{here} on {here}->{there}")
    }
}

impl<'a> Calls<'a> {
    pub(super) fn new(
        config: &'a SimConfig,
        catalogue: &'a Catalogue,
        core: NodeId,
        places: &'a [EndPlace],
    ) -> Self {
        Calls {
            config,
            catalogue,
            participants: by_name(&config.participants),
            mixers: by_name(&config.mixers),
            forwarders: by_name(&config.forwarders),
            core,
            places,
            ends: Ends::default(),
            descriptions: Vec::new(),
            meets: Vec::new(),
        }
    }

    pub(super) fn add_all(&mut self, recorder: &mut Recorder) -> Result<(), SimError> {
        for connection in 0..self.config.connections.len() {
            self.add(EndId::of(connection, true), recorder)?;
            self.add(EndId::of(connection, false), recorder)?;
        }
        Ok(())
    }

    fn add(&mut self, end: EndId, recorder: &mut Recorder) -> Result<(), SimError> {
        let side = self.side(end)?;
        let session = self.session(&side)?;
        let place = self.places[end.0 as usize];
        let created = match side.translates() {
            true => self.translator(&side, session)?,
            false => self.peer(&side, session)?,
        };
        let is_silent = side.translates() || side.forwarding() == Some(ForwardingMode::AtOnce);
        let source = (!is_silent).then(|| self.source(&side, recorder));
        if session.negotiation != Negotiation::Bursts {
            self.meets.push((end, session));
        }
        if let Some(conference) = side.connection.conference.filter(|_| side.own.is_none()) {
            side.own_media.ok_or_else(|| unknown_sender(side.here))?;
            self.ends.wire(end.0, Wire::Room(conference));
        }
        if let Some(forwards) = side.connection.forwards.filter(|_| end.offers()) {
            self.ends.wire(end.0, Wire::Forward { source: EndId::of(forwards, false).0 });
        }
        let control = &side.control_of().congestion_control.name;
        let record = EndRecord {
            source,
            participant: side.here.to_owned(),
            control: format!("congestion control `{control}` of {}", side.label()),
            ..EndRecord::new(place.local.node, place.flow, side.label())
        };
        self.ends.add(created, record);
        Ok(())
    }

    fn side(&self, end: EndId) -> Result<Side<'a>, SimError> {
        let connection = &self.config.connections[end.connection()];
        let (here, there) = match end.offers() {
            true => (connection.a.as_str(), connection.b.as_str()),
            false => (connection.b.as_str(), connection.a.as_str()),
        };
        let origin = self.origin(end.connection())?;
        let first = &self.config.connections[origin];
        Ok(Side {
            end,
            connection,
            here,
            there,
            own: self.participants.get(here).copied(),
            other: self.participants.get(there).copied(),
            own_media: self.sender(connection, here),
            other_media: self.sender(connection, there),
            origin: EndId::of(origin, true),
            sender: self.sender(first, &first.a).ok_or_else(|| unknown_sender(&first.a))?,
            forwarder: connection
                .forwards
                .and_then(|_| self.forwarders.get(connection.a.as_str()))
                .copied(),
        })
    }

    fn translator(&mut self, side: &Side<'a>, session: Session) -> Result<End, SimError> {
        let sends = self.direction(side, Some(side.sender), side.origin, side.sender)?;
        self.describe(side.end, &sends);
        let addresses = self.addresses(side.end);
        Ok(End::Translator(Box::new(Translator::new(addresses, session))))
    }

    fn source(&self, side: &Side<'a>, recorder: &mut Recorder) -> RecordSource {
        RecordSource {
            participant: recorder.text(side.here),
            is_participant: side.own_media.is_some(),
            sends: self.places[side.end.0 as usize].flow,
            receives: self.places[side.end.far().0 as usize].flow,
            timestamp_offset: self.seed(side.far_sender()) as u32,
        }
    }

    fn peer(&mut self, side: &Side<'a>, session: Session) -> Result<End, SimError> {
        let &Side { end, connection, own, own_media, sender, .. } = side;
        let (control_of, forwards) = (side.control_of(), side.forwarding());
        let both_ways = !connection.one_way;
        let (sends, first) = match forwards {
            Some(_) => (Some(sender), side.origin),
            None => (own_media.filter(|_| end.offers() || both_ways), end),
        };
        let (receives, from) = match end.offers() {
            true => (side.other_media.filter(|_| both_ways), side.other_media),
            false => (Some(sender), Some(side.sends_from())),
        };
        let from = from.unwrap_or(control_of);
        let plays = own_media.is_some() && forwards.is_none();
        let config = PeerConfig {
            addresses: self.addresses(end),
            session,
            ssrc: ssrc_base(end) + 1,
            sends: self.direction(side, sends, first, control_of)?,
            receives: self.direction(side, receives, side.far_sender(), from)?,
            forwards,
            plays,
            encodes_slowly: plays && own_media.is_some_and(|own| own.host.is_some()),
            composes: plays && own.is_none(),
            pause: own_media.filter(|_| forwards.is_none()).and_then(|own| own.pause),
            observe: match self.config.record {
                Detail::Packets => Observe::EachChange,
                Detail::Seconds => Observe::EachSecond,
            },
            seed: self.seed(end),
        };
        self.describe(end, &config.sends);
        let create = |of: &ParticipantConfig, direction: &Direction| {
            self.control(of)?.create(direction.bounds()).map_err(SimError::CongestionControl)
        };
        let controller = match forwards {
            Some(ForwardingMode::AtOnce) => Box::new(Fixed::new(config.sends.bounds().max)),
            _ => create(control_of, &config.sends)?.0,
        };
        let (_, estimator) = create(from, &config.receives)?;
        Ok(End::Peer(Box::new(Peer::new(config, (controller, estimator)))))
    }

    /// What somebody sends first at an end, as the stack of somebody sends it here.
    fn direction(
        &self,
        side: &Side<'a>,
        of: Option<&'a ParticipantConfig>,
        first: EndId,
        by: &'a ParticipantConfig,
    ) -> Result<Direction, SimError> {
        let streams = match of {
            Some(of) => streams(of, first, self.repair(side, of)?),
            None => Vec::new(),
        };
        Ok(Direction { streams, stack: self.stack(by)? })
    }

    /// How losses of somebody's video are repaired on a connection: as both ends negotiate.
    ///
    /// Servers take no FEC: neither Janus, mediasoup, LiveKit nor str0m answers that it knows RED or ULPFEC. A server that
    /// only passes packets on is no end.
    fn repair(&self, side: &Side<'a>, of: &'a ParticipantConfig) -> Result<Repair, SimError> {
        let of_participant = |participant: &'a ParticipantConfig| -> Result<Repair, SimError> {
            Ok(participant.repair.unwrap_or(self.stack(participant)?.repair))
        };
        let own = of_participant(of)?;
        if side.connection.switching {
            return Ok(own);
        }
        [side.own, side.other].into_iter().try_fold(own, |repair, end| {
            let known = end.map_or(Ok(SERVER_REPAIR), of_participant)?;
            Ok(repair.negotiated(known))
        })
    }

    fn addresses(&self, end: EndId) -> Addresses {
        let EndPlace { local, remote, relay, .. } = self.places[end.0 as usize];
        Addresses { local, remote, relay, core: self.core }
    }

    fn describe(&mut self, end: EndId, sends: &Direction) {
        let side = usize::from(!end.offers());
        self.descriptions.push(Description {
            from: self.places[end.0 as usize].local,
            flow: self.config.connections[end.connection()].flow_names()[side].clone(),
            streams: sends.streams.clone(),
            feedback: sends.stack.feedback,
        });
    }

    fn control(&self, participant: &'a ParticipantConfig) -> Result<Choice<'a>, SimError> {
        let chosen = self.catalogue.choose(&participant.congestion_control);
        chosen.map_err(SimError::CongestionControl)
    }

    /// The stack profile of a participant.
    fn stack(&self, participant: &'a ParticipantConfig) -> Result<&'static StackProfile, SimError> {
        let of_control = self.control(participant)?.algorithm.stack;
        let Some(name) = &participant.stack else { return Ok(of_control) };
        self.catalogue.stack(name).ok_or_else(|| {
            let known = self.catalogue.stacks().join("`, `");
            SimError::Unknown(format!(
                "congestion_control.stack: unknown `{name}`; expected one of `{known}`"
            ))
        })
    }

    /// When the connection exists, and how its end negotiates.
    fn session(&self, side: &Side<'a>) -> Result<Session, SimError> {
        let mut session =
            Session { negotiation: self.negotiation(side)?, ..present(side.connection, side) };
        if side.own.is_some() && matches!(session.negotiation, Negotiation::Page { .. }) {
            let joins =
                |end: EndId| joins_after(self.config, self.places[end.0 as usize].local.node);
            let own_join = joins(side.end);
            // What somebody else sends cannot come before that page has joined.
            session.start += match side.connection.forwards {
                Some(_) => own_join.max(joins(side.origin)),
                None => own_join,
            };
        }
        Ok(session)
    }

    /// How the oldest stack in a connection negotiates.
    fn negotiation(&self, side: &Side<'a>) -> Result<Negotiation, SimError> {
        let participants = [side.own_media, side.other_media, Some(side.sender)];
        let mut oldest = SetupProfile::Page;
        for participant in participants.into_iter().flatten() {
            oldest = oldest.min(self.stack(participant)?.setup);
        }
        Ok(match oldest {
            SetupProfile::Bursts => Negotiation::Bursts,
            SetupProfile::Page => Negotiation::Page {
                seed: derive_seed(self.config.seed, SETUP_STREAM + u64::from(side.end.0)),
                pace: derive_seed(self.config.seed, PACE_STREAM),
                browser: side.own.is_some(),
                described: described(participants),
                server: self.server(side),
            },
        })
    }

    /// How an SFU at one end sets up a connection with the page of a participant at the other.
    fn server(&self, side: &Side<'_>) -> Option<ServerSetup> {
        let has_page = side.own.is_some() != side.other.is_some();
        let kind = side.connection.server.filter(|_| has_page)?;
        Some(ServerSetup { kind, subscribes: side.connection.forwards.is_some() })
    }

    fn seed(&self, end: EndId) -> u64 {
        derive_seed(self.config.seed, 1 + u64::from(end.0))
    }

    /// The participant of this name or, in a conference, the server that mixes.
    fn sender(&self, connection: &ConnectionConfig, name: &str) -> Option<&'a ParticipantConfig> {
        let mixer = || connection.conference.and_then(|_| self.mixers.get(name));
        self.participants.get(name).or_else(mixer).copied()
    }

    /// Index of the connection whose `a` is the original sender of what this one carries.
    fn origin(&self, mut index: usize) -> Result<usize, SimError> {
        while let Some(before) = self.config.connections[index].forwards {
            if before >= index {
                let what = format!(
                    "connection {index} forwards connection {before}; expected an earlier one"
                );
                return Err(SimError::Unknown(what));
            }
            index = before;
        }
        Ok(index)
    }
}

fn by_name(configs: &[ParticipantConfig]) -> HashMap<&str, &ParticipantConfig> {
    configs.iter().map(|config| (config.name.as_str(), config)).collect()
}

fn unknown_sender(name: &str) -> SimError {
    SimError::Unknown(format!(
        "connection names `{name}`, which is neither a participant nor a server that mixes"
    ))
}

/// The media in the descriptions of a connection between these participants.
fn described(participants: [Option<&ParticipantConfig>; 3]) -> Described {
    let mut all = participants.into_iter().flatten();
    let audio = all.clone().any(|participant| participant.audio.is_some());
    let video = all.any(|participant| participant.video.is_some());
    match (audio, video) {
        (true, true) => Described::Both,
        (true, false) => Described::Audio,
        (false, _) => Described::Video,
    }
}

/// How long the page at a node takes to join.
pub(super) fn joins_after(config: &SimConfig, node: NodeId) -> Time {
    join_delay(derive_seed(config.seed, JOIN_STREAM + u64::from(node.0)))
}

/// The time when both participants are present.
fn present(connection: &ConnectionConfig, side: &Side<'_>) -> Session {
    let present = || [side.own, side.other].into_iter().flatten();
    Session {
        offerer: side.end.offers(),
        negotiation: Negotiation::Bursts,
        behind_nat: side.own.is_some_and(|own| own.nat.is_some()),
        start: present().fold(connection.start_ns, |start, p| start.max(p.join_ns)),
        end: present().fold(connection.end_ns, |end, p| end.min(p.leave_ns)),
    }
}

/// One less than the first SSRC of an end.
fn ssrc_base(end: EndId) -> u32 {
    (end.0 + 1) * 1_000
}

/// Streams that a participant sends at an end.
fn streams(participant: &ParticipantConfig, end: EndId, repair: Repair) -> Vec<StreamConfig> {
    let video = participant.video.map(Media::Video);
    let audio = participant.audio.map(Media::Audio);
    let stream = |(number, media): (u32, Media)| StreamConfig {
        ssrc: ssrc_base(end) + 2 * number + 1,
        repair_ssrc: ssrc_base(end) + 2 * number + 2,
        media,
        repair,
    };
    (0..).zip([video, audio]).filter_map(|(n, media)| Some(stream((n, media?)))).collect()
}
