//! Set-up as a plain page and Chromium 156 do it: offer, answer and candidates through a signalling
//! server, connectivity checks as soon as a candidate is known, and DTLS 1.3.
//!
//! The side that comes to the signalling server later calls. The other one answers, and is the DTLS client
//! (RFC 8842, section 5.2).

use super::Step;
use super::checks::{Checks, MAX_PENDING};
use super::handshake::Handshake;
use super::reflexive::Reflexive;
use super::work::Work;
use crate::endpoint::outbox::Outbox;
use crate::endpoint::turn::{ADDRESS_STEPS, ALLOCATION_STEPS, Allocating};
use crate::packet::{Allocation, Described, Dtls13, SignalKind, Stun, StunForm};
use crate::units::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Number of answers to checks that may wait for the work of this side: what the far end's checks wait for (see
/// [`Checks`]).
const MAX_REPLIES: usize = MAX_PENDING;

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
    /// Which part of a picture interval passes until the camera's next picture, 0 to 1.
    camera_phase: f64,
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
    handshake: Option<Handshake>,
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
        let (grid, camera_phase) = (rng.random(), rng.random());
        PageSetup {
            work: if browser { Work::of_browser(!seed, pace) } else { Work::default() },
            camera_phase,
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
            handshake: None,
            tasks: Vec::new(),
        }
    }

    /// The same behind a NAT, with a candidate in the network there and one outside.
    pub(super) fn behind_nat(self, is_behind: bool) -> Self {
        PageSetup { reflexive: is_behind.then(Reflexive::new), ..self }
    }

    pub(super) fn offered(&self) -> bool {
        self.calls == Some(true)
    }

    pub(super) fn step(&self) -> Step {
        let connected = self.handshake.as_ref().is_some_and(|handshake| handshake.is_connected);
        match (self.signalled, self.reported || connected, connected) {
            (true, true, true) => Step::DtlsConnected,
            (true, true, false) => Step::IceConnected,
            (true, false, _) => Step::Signalled,
            (false, ..) => Step::New,
        }
    }

    pub(super) fn check_rtt(&self) -> Option<Time> {
        self.checks.rtt
    }

    /// A camera that was opened before the call has its pictures at its own times.
    pub(super) fn first_picture(&self, interval: Time) -> Time {
        self.work.start + Time::from_secs_f64(interval.as_secs_f64() * self.camera_phase)
    }

    /// How long after it was decoded the page hears of the first picture.
    pub(super) fn show_delay(&self) -> Time {
        self.work.show
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let task = self.tasks.iter().map(|(at, _)| *at).min();
        let allocating = self.allocating.as_ref().and_then(Allocating::poll_timeout);
        let reflexive = self.reflexive.as_ref().and_then(Reflexive::poll_timeout);
        let handshake = self.handshake.as_ref().and_then(Handshake::poll_timeout);
        let timers = [task, allocating, reflexive, handshake, self.checks.poll_timeout()];
        timers.into_iter().flatten().min()
    }

    pub(super) fn handle_timeout(&mut self, now: Time, outbox: &mut Outbox) {
        self.begun = true;
        self.call(now);
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
            let nominates = self.calls == Some(true);
            let form = if nominates { StunForm::Nominating } else { StunForm::Full };
            outbox.send_stun(now, Stun { success: false, check, form });
        }
        if let Some(handshake) = &mut self.handshake {
            for datagram in handshake.poll(now) {
                outbox.send_dtls13(now, datagram);
            }
        }
    }

    pub(super) fn on_present(&mut self, now: Time) {
        self.present = true;
        self.call(now);
    }

    pub(super) fn on_signal(&mut self, now: Time, kind: SignalKind, outbox: &mut Outbox) {
        match kind {
            SignalKind::Offer(_) if self.calls.is_none() => {
                self.calls = Some(false);
                self.handshake = Some(Handshake::new(true));
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
        let Some(handshake) = &mut self.handshake else { return };
        if let Some(answer) = handshake.on_datagram(now, datagram, &self.work) {
            outbox.send_dtls13(now, answer);
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

    /// Calls the far end if it waits for that.
    fn call(&mut self, now: Time) {
        if self.begun && self.present && self.calls.is_none() {
            self.calls = Some(true);
            self.handshake = Some(Handshake::new(false));
            self.tasks.push((now + self.work.offer, Task::Offer));
        }
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
        if !(self.applied && self.located) {
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

    /// Begins the handshake when a check was answered and the far end's fingerprint is known.
    fn secure(&mut self, now: Time) {
        if self.applied && self.checks.is_answered() {
            if let Some(handshake) = &mut self.handshake {
                handshake.begin(now, self.checks.rtt, &self.work);
            }
        }
    }
}
