//! What streams contain: audio, video or repair, and their clock rates.
//!
//! A session description says it. Without one, repair is told by what it repeats or protects, and audio
//! and video by the steps of their timestamps: first of the stream alone, then of all streams between the
//! same hosts with its payload type, in both directions. Last comes the clock rate.

use super::sdp::{PayloadKind, Sdp};
use super::stream::Stream;
use super::stream::clock::JitterFigures;
use super::stream::steps::{RATES, Steps};
use super::watcher::Monitor;
use std::collections::HashMap;
use std::net::IpAddr;

/// Content of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Contains {
    /// Kind, and whether it is inferred.
    pub(crate) kind: Option<(PayloadKind, bool)>,
    /// Clock rate of the most frequent payload type.
    pub(crate) clock_rate: Option<u32>,
    /// Whether the clock rate is inferred instead of known from an SDP or RFC 3551.
    pub(crate) clock_is_inferred: bool,
    pub(crate) jitter: Option<JitterFigures>,
}

/// Two hosts and a payload type.
type Shared = ([IpAddr; 2], u8);

impl Monitor {
    /// What each stream contains.
    pub(crate) fn contents(&self) -> Vec<Contains> {
        let mut shared: HashMap<Shared, Steps> = HashMap::new();
        for stream in self.streams.iter().filter(|stream| stream.repair().is_none()) {
            shared.entry(self.shared(stream)).or_default().add_counts(&stream.steps);
        }
        let none = Steps::default();
        let contains = |stream: &Stream| {
            let others = shared.get(&self.shared(stream)).unwrap_or(&none);
            Contains::of(stream, &self.config.sdp, others)
        };
        self.streams.iter().map(contains).collect()
    }

    fn shared(&self, stream: &Stream) -> Shared {
        let flow = self.flow_of(stream);
        let mut hosts = [flow.source.ip(), flow.destination.ip()];
        hosts.sort_unstable();
        (hosts, stream.payload_type())
    }
}

impl Contains {
    fn of(stream: &Stream, sdp: &Sdp, others: &Steps) -> Self {
        let codec = sdp.codec(stream.payload_type());
        let steps = [&stream.steps, others];
        let by_steps = steps.iter().find_map(|steps| steps.kind_by_steps());
        let media = by_steps.or_else(|| steps.iter().find_map(|steps| steps.kind_by_rate()));
        let alike = steps.iter().filter(|steps| media.is_some() && steps.kind() == media);
        let rate = alike.filter_map(|steps| steps.rate_index()).next();
        let described = sdp.group_kind(stream.ssrc).or_else(|| codec.map(|codec| codec.kind));
        let inferred = stream.repair().or(media).map(|kind| (kind, true));
        Contains {
            kind: described.map(|kind| (kind, false)).or(inferred),
            clock_rate: codec.map(|codec| codec.clock_rate).or(rate.map(|index| RATES[index])),
            clock_is_inferred: codec.is_none(),
            jitter: stream.clock.jitter(rate),
        }
    }
}
