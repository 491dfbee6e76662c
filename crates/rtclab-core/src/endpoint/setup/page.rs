//! Set-up as a plain page and Chromium 156 do it: offer, answer and candidates through a signalling
//! server, connectivity checks as soon as a candidate is known, and DTLS 1.3.
//!
//! The side that comes to the signalling server later calls. The other one answers, and is the DTLS client
//! (RFC 8842, section 5.2).
//!
//! SFUs are lite agents of ICE: they make no checks. To such an agent a browser says only in its first check after an
//! answer which pair it uses, and before that the SFU neither begins a handshake nor answers one.

use super::Step;
use super::checks::{Checks, MAX_PENDING};
use super::handshake::Handshake;
use super::handshake12::{Handshake12, Part};
use super::reflexive::Reflexive;
use super::work::Work;
use crate::endpoint::config::{ServerKind, ServerSetup};
use crate::endpoint::outbox::Outbox;
use crate::endpoint::turn::{ADDRESS_STEPS, ALLOCATION_STEPS, Allocating};
use crate::packet::{Allocation, Described, Dtls13, DtlsFlight, SignalKind, Stun, StunForm};
use crate::units::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Number of answers to checks that may wait for the work of this side: what the far end's checks wait for (see
/// [`Checks`]).
const MAX_REPLIES: usize = MAX_PENDING;

/// Requests to Janus before the page publishes: create a session, attach to the plugin, join the room. Before Janus
/// offers a subscription they are: attach, and join as a subscriber.
const JANUS_REQUESTS: (u8, u8) = (3, 2);

enum Security {
    Tls13(Handshake),
    Tls12(Handshake12),
}

impl Security {
    fn is_connected(&self) -> bool {
        match self {
            Security::Tls13(handshake) => handshake.is_connected,
            Security::Tls12(handshake) => handshake.is_connected,
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        match self {
            Security::Tls13(handshake) => handshake.poll_timeout(),
            Security::Tls12(handshake) => handshake.poll_timeout(),
        }
    }

    fn begin(&mut self, now: Time, rtt: Option<Time>, work: &Work) {
        match self {
            Security::Tls13(handshake) => handshake.begin(now, rtt, work),
            Security::Tls12(handshake) => handshake.begin(now, rtt, work),
        }
    }

    fn poll(&mut self, now: Time, outbox: &mut Outbox) {
        match self {
            Security::Tls13(handshake) => {
                for datagram in handshake.poll(now) {
                    outbox.send_dtls13(now, datagram);
                }
            }
            Security::Tls12(handshake) => {
                for part in handshake.poll(now) {
                    match part {
                        Part::Hello(datagram) => outbox.send_dtls13(now, datagram),
                        Part::Flight(flight) => outbox.send_dtls(now, flight),
                    }
                }
            }
        }
    }
}

/// What is to be done when its work is finished.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Task {
    /// Send the offer.
    Offer,
    /// Send the answer.
    Answer,
    /// Send a candidate.
    Candidate,
    /// Send the candidate that is gathered last.
    TcpCandidate,
    /// Both descriptions are in effect.
    Apply,
    /// Answer the far end's first check.
    Reply(Stun),
    /// Begin to check.
    Check,
    /// Tell the page that a check was answered.
    Report,
}

pub(super) struct PageSetup {
    work: Work,
    described: Described,
    /// Whether the connection has started.
    begun: bool,
    /// Whether the far end waits for a call.
    present: bool,
    /// Whether this side calls, once that is known.
    calls: Option<bool>,
    /// Whether the own description is in effect, so that the far end's checks can be understood.
    listens: bool,
    signalled: bool,
    /// Whether both descriptions are in effect.
    applied: bool,
    /// Whether the work of a browser takes time, and the browser checks candidates that it cannot reach.
    browser: bool,
    /// Whether a candidate of the far end is known.
    located: bool,
    /// Whether one is known that this end can reach. Checks to others do not leave the network of this end.
    reachable: bool,
    /// Whether the page knows that a check was answered.
    reported: bool,
    /// When the first check of the far end is answered; `None` before it arrives.
    replies: Option<Time>,
    allocating: Option<Allocating>,
    /// What an end behind a NAT asks a STUN server.
    reflexive: Option<Reflexive>,
    checks: Checks,
    security: Option<Security>,
    /// How an SFU sets the connection up, at either of its ends.
    server: Option<ServerSetup>,
    /// Requests that the page has yet to make.
    requests: u8,
    /// Whether the answer to one of them is missing.
    waits: bool,
    /// Whether the far end has said which pair of candidates it uses.
    nominated: bool,
    tasks: Vec<(Time, Task)>,
}

impl PageSetup {
    pub(super) fn new(
        (seed, pace): (u64, u64),
        browser: bool,
        described: Described,
        relayed: bool,
    ) -> Self {
        let seed = seed ^ 0x7365_7475;
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let grid = rng.random();
        PageSetup {
            work: if browser { Work::of_browser(!seed, pace) } else { Work::default() },
            described,
            browser,
            begun: false,
            present: false,
            calls: None,
            listens: false,
            signalled: false,
            applied: false,
            located: false,
            reachable: false,
            reported: false,
            replies: None,
            allocating: relayed.then(|| Allocating::new(ADDRESS_STEPS)),
            reflexive: None,
            checks: Checks::new(grid),
            security: None,
            server: None,
            requests: 0,
            waits: false,
            nominated: false,
            tasks: Vec::new(),
        }
    }

    /// The same behind a NAT, with a candidate in the network there and one outside.
    pub(super) fn behind_nat(self, is_behind: bool) -> Self {
        PageSetup { reflexive: is_behind.then(Reflexive::new), ..self }
    }

    /// The same if one end is an SFU.
    pub(super) fn with_server(self, server: Option<ServerSetup>) -> Self {
        let requests = match server {
            Some(ServerSetup { kind: ServerKind::Janus, subscribes }) => {
                if subscribes {
                    JANUS_REQUESTS.1
                } else {
                    JANUS_REQUESTS.0
                }
            }
            _ => 0,
        };
        PageSetup { server, requests, ..self }
    }

    /// Whether this end is an SFU.
    fn is_lite(&self) -> bool {
        self.server.is_some() && !self.browser
    }

    /// The step at which others may subscribe to what this end receives.
    pub(super) fn publishes_at(&self) -> Option<Step> {
        let server = self.server.filter(|server| !server.subscribes && !self.browser);
        Some(match server?.kind {
            ServerKind::Janus => Step::DtlsConnected,
            ServerKind::Str0m => Step::Signalled,
        })
    }

    pub(super) fn on_published(&mut self, outbox: &mut Outbox) {
        if self.is_lite() {
            outbox.send_signal(SignalKind::Published);
        }
    }

    pub(super) fn offered(&self) -> bool {
        self.calls == Some(true)
    }

    pub(super) fn step(&self) -> Step {
        let connected = self.security.as_ref().is_some_and(Security::is_connected);
        match (self.signalled, self.reported || connected, connected) {
            (true, true, true) => Step::DtlsConnected,
            (true, true, false) => Step::IceConnected,
            (true, false, _) => Step::Signalled,
            (false, ..) => Step::New,
        }
    }

    /// Whether the connection is there, and nothing is left to be done for it.
    pub(super) fn is_over(&self) -> bool {
        self.step() == Step::DtlsConnected && self.tasks.is_empty() && self.reflexive.is_none()
    }

    pub(super) fn check_rtt(&self) -> Option<Time> {
        self.checks.rtt
    }

    /// How long after the handshake the encoder takes pictures.
    pub(super) fn encoder_start(&self) -> Time {
        self.work.start
    }

    /// How long after it was decoded the page hears of the first picture.
    pub(super) fn show_delay(&self) -> Time {
        self.work.show
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let task = self.tasks.iter().map(|(at, _)| *at).min();
        let allocating = self.allocating.as_ref().and_then(Allocating::poll_timeout);
        let reflexive = self.reflexive.as_ref().and_then(Reflexive::poll_timeout);
        let security = self.security.as_ref().and_then(Security::poll_timeout);
        let timers = [task, allocating, reflexive, security, self.checks.poll_timeout()];
        timers.into_iter().flatten().min()
    }

    pub(super) fn handle_timeout(&mut self, now: Time, outbox: &mut Outbox) {
        self.begun = true;
        self.call(now, outbox);
        while let Some(task) = self.take_task(now) {
            self.finish(now, task, outbox);
        }
        if let Some(allocating) = &mut self.allocating {
            allocating.handle_timeout(now, outbox);
        }
        if let Some(reflexive) = &mut self.reflexive {
            reflexive.handle_timeout(now, outbox);
        }
        if let Some(check) = self.checks.poll(now).filter(|_| self.reachable) {
            let nominates = match self.server {
                Some(_) => self.checks.is_answered(),
                None => self.calls == Some(true),
            };
            let form = if nominates { StunForm::Nominating } else { StunForm::Full };
            outbox.send_stun(now, Stun { success: false, check, form });
        }
        if let Some(security) = &mut self.security {
            security.poll(now, outbox);
        }
    }

    pub(super) fn on_present(&mut self, now: Time, outbox: &mut Outbox) {
        // A subscription begins when there is something to receive.
        if self.server.is_none_or(|server| self.browser && !server.subscribes) {
            self.present = true;
            self.call(now, outbox);
        }
    }

    pub(super) fn on_signal(&mut self, now: Time, kind: SignalKind, outbox: &mut Outbox) {
        match kind {
            SignalKind::Offer(_) if self.calls.is_none() => {
                self.calls = Some(false);
                self.security = Some(self.security(true));
                self.tasks.push((now + self.work.answer, Task::Answer));
            }
            SignalKind::Answer(_) if self.calls == Some(true) && !self.signalled => {
                self.signalled = true;
                self.tasks.push((now + self.work.apply_answer, Task::Apply));
            }
            SignalKind::Candidate => {
                self.reach();
                self.check(now, self.work.apply_answer, outbox);
            }
            SignalKind::Published => {
                self.present = true;
                self.call(now, outbox);
            }
            SignalKind::Reply => {
                self.waits = false;
                self.call(now, outbox);
            }
            SignalKind::Request { wants_offer: true } if self.calls.is_none() => self.offer(now),
            SignalKind::Request { wants_offer: false } => outbox.send_signal(SignalKind::Reply),
            // A server waits for the checks of the browser behind the NAT.
            SignalKind::PrivateCandidate if self.browser => {
                self.located = true;
                self.check(now, self.work.apply_answer, outbox);
            }
            _ => {}
        }
    }

    pub(super) fn on_stun(&mut self, now: Time, stun: Stun, outbox: &mut Outbox) {
        if stun.success {
            if self.checks.on_answer(now, stun.check) {
                self.tasks.push((now + self.work.report, Task::Report));
                self.secure(now);
            }
            return;
        }
        // RFC 8656, section 9: a relay drops packets from peers without a permission.
        if stun.form == StunForm::Nominating {
            self.nominated = true;
        }
        let permitted = self.allocating.as_ref().is_none_or(|with| with.has(ALLOCATION_STEPS));
        if !self.listens || !permitted {
            return;
        }
        let answer = Stun { success: true, form: StunForm::Full, ..stun };
        let replies = *self.replies.get_or_insert(now + self.work.reply);
        match now < replies {
            true if self.replies_waiting() < MAX_REPLIES => {
                self.tasks.push((replies, Task::Reply(answer)));
            }
            true => {}
            false => outbox.send_stun(now, answer),
        }
        // RFC 8445, 7.3.1.3: the check tells where the far end is.
        self.reach();
        self.check(now, self.work.apply_answer, outbox);
        self.secure(now);
    }

    fn replies_waiting(&self) -> usize {
        self.tasks.iter().filter(|(_, task)| matches!(task, Task::Reply(_))).count()
    }

    /// A candidate of the far end is known that this end can reach.
    fn reach(&mut self) {
        self.located = true;
        if !std::mem::replace(&mut self.reachable, true) {
            self.checks.redirect();
        }
    }

    pub(super) fn on_binding(&mut self, outbox: &mut Outbox) {
        if self.reflexive.as_mut().is_some_and(Reflexive::on_answer) {
            outbox.send_signal(SignalKind::Candidate);
        }
    }

    pub(super) fn on_dtls(&mut self, now: Time, datagram: Dtls13, outbox: &mut Outbox) {
        match &mut self.security {
            Some(Security::Tls13(handshake)) => {
                if let Some(answer) = handshake.on_datagram(now, datagram, &self.work) {
                    outbox.send_dtls13(now, answer);
                }
            }
            Some(Security::Tls12(handshake)) => handshake.on_hello(now, datagram, &self.work),
            None => {}
        }
    }

    pub(super) fn on_flight(&mut self, now: Time, flight: DtlsFlight) {
        if let Some(Security::Tls12(handshake)) = &mut self.security {
            handshake.on_flight(now, flight, &self.work);
        }
    }

    pub(super) fn on_allocation(&mut self, now: Time, answer: Allocation, outbox: &mut Outbox) {
        let Some(allocating) = &mut self.allocating else { return };
        if !allocating.on_answer(now, answer, outbox) {
            return;
        }
        if allocating.has(ALLOCATION_STEPS) {
            self.checks.begin(now);
        } else {
            self.tasks.push((now, Task::Candidate));
            self.check(now, Time::ZERO, outbox);
        }
    }

    /// Calls the far end if it waits for that, or makes the next request that must come before.
    fn call(&mut self, now: Time, outbox: &mut Outbox) {
        if !self.begun || !self.present || self.waits || self.calls.is_some() {
            return;
        }
        match self.requests {
            0 => self.offer(now),
            left => {
                (self.requests, self.waits) = (left - 1, true);
                let subscribes = self.server.is_some_and(|server| server.subscribes);
                let wants_offer = left == 1 && subscribes;
                outbox.send_signal(SignalKind::Request { wants_offer });
            }
        }
    }

    fn offer(&mut self, now: Time) {
        self.calls = Some(true);
        self.security = Some(self.security(false));
        self.tasks.push((now + self.work.offer, Task::Offer));
    }

    /// Whoever answers is the client, but rtclab's SFU is always the server.
    fn security(&self, answers: bool) -> Security {
        let Some(ServerSetup { kind, .. }) = self.server else {
            return Security::Tls13(Handshake::new(answers));
        };
        let is_client = if kind == ServerKind::Str0m { self.browser } else { answers };
        Security::Tls12(Handshake12::new(is_client, Some(kind).filter(|_| !self.browser)))
    }

    fn take_task(&mut self, now: Time) -> Option<Task> {
        let due = self.tasks.iter().enumerate().filter(|(_, (at, _))| *at <= now);
        let (first, _) = due.min_by_key(|(_, (at, _))| *at)?;
        Some(self.tasks.remove(first).1)
    }

    fn finish(&mut self, now: Time, task: Task, outbox: &mut Outbox) {
        match task {
            Task::Offer => {
                outbox.send_signal(SignalKind::Offer(self.described));
                self.gather(now, self.work.candidate, outbox);
            }
            Task::Answer => {
                outbox.send_signal(SignalKind::Answer(self.described));
                self.signalled = true;
                self.gather(now, self.work.own_candidate, outbox);
                self.tasks.push((now + self.work.apply_own, Task::Apply));
            }
            Task::Candidate => match &mut self.reflexive {
                Some(reflexive) => {
                    outbox.send_signal(SignalKind::PrivateCandidate);
                    reflexive.request(now, outbox);
                }
                None => outbox.send_signal(SignalKind::Candidate),
            },
            // Gathering ends when the checks have succeeded.
            Task::TcpCandidate if !self.checks.is_answered() => {
                outbox.send_signal(SignalKind::TcpCandidate);
            }
            Task::TcpCandidate => {}
            Task::Apply => {
                self.applied = true;
                self.check(now, Time::ZERO, outbox);
                self.secure(now);
            }
            Task::Reply(answer) => outbox.send_stun(now, answer),
            Task::Check => self.checks.begin(now),
            Task::Report => self.reported = true,
        }
    }

    /// The own description is in effect: candidates are gathered.
    fn gather(&mut self, now: Time, work: Time, outbox: &mut Outbox) {
        self.listens = true;
        match &mut self.allocating {
            Some(allocating) => allocating.begin(now, outbox),
            None => {
                self.tasks.push((now + work, Task::Candidate));
                self.tasks.push((now + self.work.tcp_candidate, Task::TcpCandidate));
            }
        }
    }

    /// Begins to check when both descriptions and a candidate of the far end are known, after this much work, and not
    /// before the far end's first check was answered.
    fn check(&mut self, now: Time, work: Time, outbox: &mut Outbox) {
        if !(self.applied && self.located) || self.is_lite() {
            return;
        }
        match &mut self.allocating {
            Some(allocating) => allocating.extend(now, ALLOCATION_STEPS, outbox),
            None => match (now + work).max(self.replies.unwrap_or(now)) {
                at if at <= now => self.checks.begin(now),
                at => self.check_at(at),
            },
        }
    }

    /// Begins to check at a time, or before.
    fn check_at(&mut self, at: Time) {
        match self.tasks.iter_mut().find(|(_, task)| *task == Task::Check) {
            Some((begin, _)) => *begin = at.min(*begin),
            None => self.tasks.push((at, Task::Check)),
        }
    }

    /// Begins the handshake when a check was answered, or at an SFU when the browser has chosen its candidates, and the
    /// far end's fingerprint is known.
    fn secure(&mut self, now: Time) {
        let is_found = if self.is_lite() { self.nominated } else { self.checks.is_answered() };
        if self.applied && is_found {
            if let Some(security) = &mut self.security {
                security.begin(now, self.checks.rtt, &self.work);
            }
        }
    }
}
