//! Connectivity checks of libwebrtc in 2026 on the one pair of candidates of a call.
//!
//! Source: libwebrtc, `p2p/base/p2p_constants.h`, `basic_ice_controller.cc`, `connection.cc` (2026); Chromium,
//! `timer_based_tick_provider.h`.

use crate::media::grid::{Grid, PERIOD};
use crate::units::Time;
use std::collections::VecDeque;

/// How long after its point of the grid a task runs, so that a multiple of the grid waits one point more.
const LATENESS: Time = Time::from_micros(100);
/// Interval of checks while the pair is weak: not yet answered, or checked fewer than [`FAST_CHECKS`] times.
const WEAK_INTERVAL: Time = Time::from_millis(48);
/// Interval in which libwebrtc looks whether a check is due, when the pair is strong.
const LOOK_INTERVAL: Time = Time::from_millis(250);
/// Interval of checks while the round trip is not yet known well.
const STABILISING_INTERVAL: Time = Time::from_millis(900);
/// Interval of checks afterwards.
const STABLE_INTERVAL: Time = Time::from_millis(2_500);
/// Number of checks at the fast rate.
const FAST_CHECKS: u32 = 3;
/// Number of answers after which the round trip is known well.
const STABLE_ANSWERS: u32 = 5;
/// How long checks go on without any answer; then ICE has failed (`CONNECTION_WRITE_TIMEOUT`, since 2010). The page does
/// not hear of it: in calls of Chromium 156 checks ended after 15 s, and the state stayed as it was for 70 s.
pub(super) const UNANSWERED: Time = Time::from_secs(15);
/// Number of checks that may wait for an answer. Older ones are forgotten.
pub(super) const MAX_PENDING: usize = 64;

/// The checks that one side sends.
pub(super) struct Checks {
    /// The points at which the network thread runs its delayed tasks.
    grid: Grid,
    /// When libwebrtc looks next whether a check is due.
    look: Time,
    /// The first look that finds a check due, if no answer comes before.
    next: Option<Time>,
    sent: u32,
    answered: u32,
    last_sent: Time,
    /// Number and time of the checks that were not answered. Any of them may still be.
    pending: VecDeque<(u32, Time)>,
    /// When the first check since the last answer was sent.
    waiting_since: Option<Time>,
    /// Round trip of the last answered check.
    pub(super) rtt: Option<Time>,
}

impl Checks {
    /// Creates checks that have not begun. `phase` is where between 0 and 1 the grid lies.
    pub(super) fn new(phase: f64) -> Self {
        Checks {
            grid: Grid::through(Time::from_secs_f64(PERIOD.as_secs_f64() * phase)),
            look: Time::ZERO,
            next: None,
            sent: 0,
            answered: 0,
            last_sent: Time::ZERO,
            pending: VecDeque::new(),
            waiting_since: None,
            rtt: None,
        }
    }

    /// Begins, if it has not begun before.
    pub(super) fn begin(&mut self, now: Time) {
        if self.sent == 0 {
            self.next = self.next.or(Some(now));
        }
    }

    /// Begins to wait anew, because the checks go to another candidate from now on.
    pub(super) fn redirect(&mut self) {
        if !self.is_answered() {
            self.waiting_since = None;
        }
    }

    /// Whether a check was answered.
    pub(super) fn is_answered(&self) -> bool {
        self.answered > 0
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.next
    }

    /// The number of the check to send, if one is due. After they have ended, checks may begin again.
    pub(super) fn poll(&mut self, now: Time) -> Option<u32> {
        self.next.filter(|at| *at <= now)?;
        let overdue = self.waiting_since.is_some_and(|since| now >= since + UNANSWERED);
        if overdue && !self.is_answered() {
            (self.next, self.sent, self.waiting_since) = (None, 0, None);
            self.pending.clear();
            return None;
        }
        let wait = if self.is_weak() { WEAK_INTERVAL } else { LOOK_INTERVAL };
        self.look = self.grid.at_or_after(now + wait + LATENESS);
        self.sent += 1;
        self.last_sent = now;
        self.waiting_since = self.waiting_since.or(Some(now));
        self.pending.push_back((self.sent, now));
        if self.pending.len() > MAX_PENDING {
            self.pending.pop_front();
        }
        self.plan();
        Some(self.sent)
    }

    /// Whether the pair was not answered, or checked only a few times. Then each look finds a check due.
    fn is_weak(&self) -> bool {
        self.answered == 0 || self.sent < FAST_CHECKS
    }

    /// Finds the first look at which a check is due.
    fn plan(&mut self) {
        let mut look = self.look;
        while !self.is_weak() && look < self.last_sent + self.interval(look) {
            look = self.look_after(look);
        }
        self.next = Some(look);
    }

    fn look_after(&self, look: Time) -> Time {
        self.grid.at_or_after(look + LOOK_INTERVAL + LATENESS)
    }

    /// Handles the answer to a check; returns whether it is the first.
    pub(super) fn on_answer(&mut self, now: Time, check: u32) -> bool {
        let place = self.pending.iter().position(|(id, _)| *id == check);
        let Some((_, sent)) = place.and_then(|place| self.pending.remove(place)) else {
            return false;
        };
        self.waiting_since = None;
        self.rtt = Some(now.saturating_sub(sent));
        // The looks before the answer found nothing due.
        while !self.is_weak() && self.look < now {
            self.look = self.look_after(self.look);
        }
        self.answered += 1;
        if self.next.is_some() {
            self.plan();
        }
        self.answered == 1
    }

    /// Interval of checks on a pair that works. It is unstable while an answer is overdue by a round trip.
    fn interval(&self, now: Time) -> Time {
        let rtt = self.rtt.unwrap_or(Time::ZERO);
        let overdue = self.waiting_since.is_some_and(|since| now > since + rtt * 2);
        match self.answered >= STABLE_ANSWERS && !overdue {
            true => STABLE_INTERVAL,
            false => STABILISING_INTERVAL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When checks leave in milliseconds, if each is answered after `rtt`, during `seconds`.
    fn sent(phase: f64, begin: Time, rtt: Time, seconds: u64) -> Vec<f64> {
        let mut checks = Checks::new(phase);
        checks.begin(begin);
        let mut answers: VecDeque<(Time, u32)> = VecDeque::new();
        let mut times = Vec::new();
        loop {
            let due = checks.poll_timeout().expect("checks go on");
            let answer = answers.front().map_or(Time::MAX, |(at, _)| *at);
            if due.min(answer) > Time::from_secs(seconds) {
                return times;
            }
            if answer <= due {
                let (at, check) = answers.pop_front().expect("an answer");
                checks.on_answer(at, check);
            } else {
                let check = checks.poll(due).expect("a check whenever it asked to be called");
                answers.push_back((due + rtt, check));
                times.push(due.as_secs_f64() * 1e3);
            }
        }
    }

    /// As measured in a call of Chromium 156 at a round trip of 66 ms. Its first check left at 0.2162 s on the
    /// capture's clock and the second one at 0.2677 s, a point of the grid.
    #[test]
    fn checks_leave_when_those_of_chromium_leave() {
        let grid = 267.7 % 15.625;
        let times = sent(grid / 15.625, Time::from_micros(216_200), Time::from_millis(66), 14);
        let measured =
            [216.2, 267.7, 330.2, 1_455.5, 2_518.8, 5_175.0, 7_830.5, 10_486.7, 13_143.9];
        assert_eq!(times.len(), measured.len(), "{times:?}");
        for (time, measured) in times.iter().zip(measured) {
            assert!((time - measured).abs() < 2.0, "{times:?}");
        }
    }

    #[test]
    fn an_unanswered_check_is_repeated_every_62_5_ms() {
        let times = sent(0.0, Time::ZERO, Time::from_secs(100), 1);
        assert_eq!(times[..4], [0.0, 62.5, 125.0, 187.5]);
        assert_eq!(times.len(), 17);
    }

    /// A round trip longer than the interval: three checks and more are under way before the first answer.
    #[test]
    fn the_round_trip_is_that_of_the_check_that_was_answered() {
        let mut checks = Checks::new(0.0);
        checks.begin(Time::ZERO);
        for at in [0.0, 62.5, 125.0] {
            assert!(checks.poll(Time::from_secs_f64(at / 1e3)).is_some());
        }
        // The first is lost, the second answered.
        assert!(checks.on_answer(Time::from_millis(200), 2));
        assert_eq!(checks.rtt, Some(Time::from_micros(137_500)));
        // A copy of the answer is no answer.
        assert!(!checks.on_answer(Time::from_millis(210), 2));
        assert_eq!(checks.rtt, Some(Time::from_micros(137_500)));
        assert!(!checks.on_answer(Time::from_millis(250), 3));
        assert_eq!(checks.rtt, Some(Time::from_millis(125)));
    }

    /// 15 s are a multiple of 62.5 ms, the interval of checks: the check at 15 s would be the first one too late.
    /// Checks to another candidate have 15 s of their own.
    #[test]
    fn checks_without_an_answer_end_after_fifteen_seconds_and_may_begin_again() {
        for redirected in [false, true] {
            let mut checks = Checks::new(0.0);
            checks.begin(Time::ZERO);
            let mut left = Vec::new();
            while let Some(due) = checks.poll_timeout() {
                if redirected && due == Time::from_millis(62) + Time::from_micros(500) {
                    checks.redirect();
                }
                left.extend(checks.poll(due));
            }
            assert_eq!(left.len(), if redirected { 241 } else { 240 });
            checks.begin(Time::from_secs(20));
            assert_eq!(checks.poll_timeout(), Some(Time::from_secs(20)));
        }
    }

    #[test]
    fn checks_that_were_answered_once_do_not_end() {
        let mut checks = Checks::new(0.0);
        checks.begin(Time::ZERO);
        checks.poll(Time::ZERO);
        checks.on_answer(Time::from_millis(50), 1);
        let mut count = 0;
        while let Some(due) = checks.poll_timeout().filter(|due| *due < Time::from_secs(60)) {
            count += u32::from(checks.poll(due).is_some());
        }
        // With one answer the pair stays unstable: a check every 900 ms or at the next look.
        assert!((52..=67).contains(&count), "{count}");
    }
}
