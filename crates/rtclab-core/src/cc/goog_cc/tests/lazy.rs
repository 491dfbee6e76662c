//! A control whose timeouts are passed over decides what one decides that is called at each of them.

use super::*;
use std::collections::BTreeMap;

/// Two controls of one kind. The second one is called only at [`Controller::skip_until`].
struct Both {
    eager: Box<dyn Controller>,
    lazy: Box<dyn Controller>,
    /// A REMB comes with every receiver report, in turn one of these.
    rembs: Vec<Bitrate>,
    ticks: u64,
    skipped: u64,
    probes: VecDeque<Probe>,
}

impl Both {
    fn new(create: impl Fn() -> Halves) -> Self {
        let mut both = Both {
            eager: create().0,
            lazy: create().0,
            rembs: Vec::new(),
            ticks: 0,
            skipped: 0,
            probes: VecDeque::new(),
        };
        both.give(|control| control.on_timeout(Time::ZERO, &SenderState::default()));
        both
    }

    fn give(&mut self, input: impl Fn(&mut dyn Controller) -> Result<(), ControlError>) {
        for control in [&mut self.eager, &mut self.lazy] {
            input(control.as_mut()).expect("a controller that continues");
        }
        self.compare();
    }

    fn compare(&mut self) {
        assert_eq!(self.lazy.decision(), self.eager.decision());
        while let Some(probe) = self.eager.poll_probe() {
            assert_eq!(self.lazy.poll_probe(), Some(probe));
            self.probes.push_back(probe);
        }
        assert_eq!(self.lazy.poll_probe(), None);
    }

    /// All timeouts up to now, and then the state of both.
    fn advance(&mut self, now: Time) {
        while let Some(at) = self.eager.poll_timeout().filter(|at| *at <= now) {
            let state = SenderState::default();
            self.eager.on_timeout(at, &state).expect("a controller that continues");
            self.ticks += 1;
            if self.lazy.skip_until().is_some_and(|next| next <= at) {
                self.lazy.catch_up(at);
                self.lazy.on_timeout(at, &state).expect("a controller that continues");
            } else {
                self.skipped += 1;
            }
            self.compare();
        }
        self.lazy.catch_up(now + Time(1));
        let observed = [&self.eager, &self.lazy].map(|control| {
            let mut values = Vec::new();
            control.observe(&mut values);
            values
        });
        assert_eq!(observed[1], observed[0]);
    }
}

impl Controller for Both {
    fn on_sent(&mut self, packet: &SentPacket) -> Result<(), ControlError> {
        self.advance(packet.at);
        self.give(|control| control.on_sent(packet));
        Ok(())
    }

    fn on_feedback(&mut self, now: Time, feedback: Feedback<'_>) -> Result<(), ControlError> {
        self.advance(now);
        self.give(|control| control.on_feedback(now, feedback));
        if matches!(feedback, Feedback::ReceiverReport { .. }) {
            if let Some(rate) = self.rembs.first().copied() {
                self.rembs.rotate_left(1);
                self.give(|control| control.on_feedback(now, Feedback::Remb(rate)));
            }
        }
        Ok(())
    }

    fn poll_probe(&mut self) -> Option<Probe> {
        self.probes.pop_front()
    }

    fn decision(&self) -> Decision {
        self.eager.decision()
    }
}

/// Share of the timeouts that were passed over in 40 s. The link's own limits end after 15 s.
fn skipped(link: Link, rembs: &[Bitrate], create: impl Fn() -> Halves) -> f64 {
    let mut both = Both::new(create);
    both.rembs = rembs.to_vec();
    let link = Link { until: Time::from_secs(15), ..link };
    Loop::new(link, 5).run(&mut both, Time::from_secs(40), |_, _| {});
    both.skipped as f64 / both.ticks as f64
}

fn goog_cc(alr_probing: f64) -> impl Fn() -> Halves {
    let options = BTreeMap::from([("alr_probing".to_owned(), alr_probing)]);
    move || create(bounds(300, 1_700), Options(&options))
}

#[test]
fn most_timeouts_change_nothing_and_can_be_passed_over() {
    for (loss, delay_ms, least) in [(0.0, 25, 0.9), (0.02, 25, 0.9), (0.15, 50, 0.9)] {
        let share = skipped(link(1_000, delay_ms, loss), &[], goog_cc(0.0));
        assert!(share > least, "{loss} {delay_ms}: {share}");
    }
}

#[test]
fn probes_of_an_application_limited_sender_come_on_time() {
    let idle = Link { media: Bitrate::from_kbps(150), ..link(3_000, 20, 0.0) };
    let share = skipped(idle, &[], goog_cc(1.0));
    assert!(share > 0.9, "{share}");
}

/// Round trips of 4 s, and a queue that fills the congestion window.
#[test]
fn back_off_and_push_back_are_not_passed_over() {
    let slow = skipped(link(500, 2_000, 0.0), &[], goog_cc(0.0));
    let full = Link { queue: Time::from_secs(2), ..link(150, 20, 0.0) };
    let full = skipped(full, &[], goog_cc(0.0));
    assert!(slow < 0.9 && full < 0.95, "{slow} {full}");
}

#[test]
fn without_feedback_on_packets_timeouts_are_passed_over_while_the_receiver_limits_the_rate() {
    let rembs = [200, 900, 900, 400].map(Bitrate::from_kbps);
    for loss in [0.0, 0.05, 0.2] {
        let share = skipped(link(1_500, 25, loss), &rembs, || create_remb(bounds(300, 1_700)));
        assert!(share > 0.3, "{loss}: {share}");
    }
}

fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn reported(lost: u64) -> Feedback<'static> {
    Feedback::ReceiverReport { lost, expected: 100, fraction: 0, rtt: Some(ms(100)) }
}

/// Media and feedback stop while 200 kB are in flight, so that only updates move push-back and back-off.
#[test]
fn in_silence_the_rate_falls_in_time() {
    let mut both = Both::new(goog_cc(0.0));
    for start in (10..3_000).step_by(100) {
        let packet = sent(i64::try_from(start).expect("a number"), ms(start), 1_200);
        both.on_sent(&packet).expect("no error");
        let reports = [report(packet, Some(ms(start + 30)))];
        both.on_feedback(ms(start + 60), packets(&reports, Bytes::ZERO)).expect("no error");
    }
    let (full, skipped) = (both.decision(), both.skipped);
    assert!(full.drop_ratio == 0.0 && skipped > 80, "{skipped}");
    both.on_sent(&sent(3_010, ms(3_010), 200_000)).expect("no error");
    both.advance(ms(4_000));
    assert!(both.decision().drop_ratio > 0.5, "{:?}", both.decision());
    // Feedback stays away for more than three seconds.
    both.on_sent(&sent(3_011, ms(6_300), 1_200)).expect("no error");
    both.advance(ms(9_000));
    let left = both.decision().target.0 as f64 / full.target.0 as f64;
    assert!((0.5..0.52).contains(&left), "0.8 to the third: {left}");
}

/// 300 kbit/s for the round trip of 60 ms and 350 ms are 15 kB, 100 kbit/s are 5 kB. The window is halfway there after
/// one update, with 10 kB, and below the 8 kB in flight after two.
#[test]
fn a_window_that_shrinks_below_what_is_in_flight_pushes_the_rate_back() {
    let mut both = Both::new(goog_cc(0.0));
    let packet = sent(0, ms(10), 1_200);
    both.on_sent(&packet).expect("no error");
    let reports = [report(packet, Some(ms(40)))];
    both.on_feedback(ms(70), packets(&reports, Bytes::ZERO)).expect("no error");
    both.on_sent(&sent(1, ms(2_010), 8_000)).expect("no error");
    both.on_feedback(ms(2_020), Feedback::Remb(Bitrate::from_kbps(100))).expect("no error");
    both.advance(ms(2_030));
    assert_eq!(both.decision().drop_ratio, 0.0);
    both.advance(ms(2_500));
    assert!(both.decision().drop_ratio > 0.5, "{:?}", both.decision());
}

/// The second report comes too early after the first decrease.
#[test]
fn a_higher_remb_at_the_start_and_a_second_report_of_loss_take_effect_at_the_next_update_that_may_follow_them()
 {
    let mut both = Both::new(|| create_remb(bounds(300, 1_700)));
    both.on_feedback(ms(30), Feedback::Remb(Bitrate::from_kbps(900))).expect("no error");
    both.advance(ms(60));
    assert_eq!(both.decision().target, Bitrate::from_kbps(900));
    both.on_feedback(ms(4_000), reported(20)).expect("no error");
    both.on_feedback(ms(4_100), reported(20)).expect("no error");
    both.advance(ms(4_390));
    let once = both.decision().target;
    both.advance(ms(4_410));
    assert!(both.decision().target.0 < once.0, "{once:?}");
    let before = both.skipped;
    both.advance(ms(5_410));
    assert_eq!(both.skipped - before, 40);
}
