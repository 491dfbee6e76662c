//! Which RTCP is sent when, and how the far end handles it when it is repeated or overtaken.

use super::control::{Control, Seen};
use super::*;
use crate::packet::Described;
use crate::rtp::rtcp::{ExtendedReport, NtpTime};

/// Length of a call in seconds.
const SECONDS: u64 = 30;

/// A call at 1 Mbit/s in which bob's receiver half requests these rates from alice.
fn call(name: &str, rembs: &[(Time, Bitrate)]) -> Pair {
    let streams = [vec![video(ALICE_VIDEO, Repair::Rtx)], vec![video(BOB_VIDEO, Repair::Rtx)]];
    let estimator = RecordingEstimator {
        rembs: rembs.iter().copied().collect(),
        ..RecordingEstimator::default()
    };
    let control = Box::new(Fixed::new(Bitrate::from_kbps(1_000)));
    let mut pair = Pair::with(name, streams, [fixed(1_000), (control, Some(Box::new(estimator)))]);
    pair.run(Time::from_secs(SECONDS));
    pair
}

/// Kinds of RTCP packets in a datagram: `SR1` is a sender report with one block.
fn names(sent: &Sent) -> String {
    let name = |packet: &RtcpPacket| match packet {
        RtcpPacket::SenderReport(report) => format!("SR{}", report.blocks.len()),
        RtcpPacket::ReceiverReport(report) => format!("RR{}", report.blocks.len()),
        RtcpPacket::SourceDescription(_) => "SDES".to_owned(),
        RtcpPacket::Remb(_) => "REMB".to_owned(),
        RtcpPacket::TransportFeedback(_) => "TWCC".to_owned(),
        RtcpPacket::CongestionFeedback(_) => "CCFB".to_owned(),
        other => format!("{other:?}"),
    };
    sent.rtcp().iter().map(name).collect::<Vec<_>>().join("+")
}

/// When bob sent RTCP made of these packets.
fn times(pair: &Pair, packets: &str) -> Vec<Time> {
    pair.sent_by(BOB).filter(|sent| names(sent) == packets).map(|sent| sent.at).collect()
}

/// All kinds of RTCP datagrams that bob sent once media had arrived in both directions.
fn kinds(pair: &Pair) -> Vec<String> {
    let late = pair.sent_by(BOB).filter(|sent| sent.at > Time::from_secs(2));
    let mut kinds: Vec<String> = late.map(names).filter(|names| !names.is_empty()).collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

/// Asserts that intervals lie between 0.5 and 1.5 times `nominal`, fill that range, and average `nominal`.
fn assert_varied(times: &[Time], nominal: Time) {
    let intervals: Vec<f64> = times
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).as_secs_f64() / nominal.as_secs_f64())
        .collect();
    let mean = intervals.iter().sum::<f64>() / intervals.len() as f64;
    // A uniform variable of width 1 has a standard deviation of 0.29: the bounds are three standard
    // deviations of the mean of 25.
    assert!((0.82..1.18).contains(&mean), "{mean} of {}", intervals.len());
    assert!(intervals.iter().all(|interval| (0.5..1.5).contains(interval)), "{intervals:?}");
    assert!(intervals.iter().any(|interval| *interval < 0.8), "{intervals:?}");
    assert!(intervals.iter().any(|interval| *interval > 1.2), "{intervals:?}");
}

/// Nominal interval of reports at 1 Mbit/s: 360 kbit/s over 1 Mbit/s, in seconds.
const AT_ONE_MBPS: Time = Time::from_millis(360);

#[test]
fn chrome_27_reports_on_what_it_receives_in_its_sender_report() {
    let pair = call("chrome-27", &[]);
    assert_eq!(kinds(&pair), ["SR1+SDES"]);
    assert_varied(&times(&pair, "SR1+SDES"), AT_ONE_MBPS);
}

#[test]
fn chrome_27_sends_a_remb_with_the_next_report() {
    let asked = Time::from_secs(10);
    let pair = call("chrome-27", &[(asked, Bitrate::from_kbps(700))]);
    let rembs = times(&pair, "SR1+SDES+REMB");
    let mut reports = times(&pair, "SR1+SDES");
    reports.extend(&rembs);
    reports.sort();
    assert_eq!(rembs, [*reports.iter().find(|at| **at > asked).expect("a report")]);
    // The schedule is the same as without a REMB.
    assert_varied(&reports, AT_ONE_MBPS);
}

#[test]
fn chrome_52_reports_on_what_it_receives_once_a_second_in_separate_receiver_reports() {
    let pair = call("chrome-52", &[]);
    assert_eq!(kinds(&pair), ["RR1+SDES", "SR0+SDES"]);
    assert_varied(&times(&pair, "SR0+SDES"), AT_ONE_MBPS);
    let late = Time::from_secs(1);
    let receiver: Vec<Time> = times(&pair, "RR1+SDES").into_iter().filter(|t| *t > late).collect();
    assert_varied(&receiver, late);
}

#[test]
fn chrome_52_sends_a_remb_at_once_in_a_sender_report_of_its_own() {
    let asked = [Time::from_secs(10), Time::from_millis(10_001)];
    let pair = call("chrome-52", &asked.map(|at| (at, Bitrate::from_kbps(700))));
    assert_eq!(times(&pair, "SR0+SDES+REMB"), asked);
}

/// Without video there is no sender report, so receiver reports take its place.
#[test]
fn a_peer_that_sends_no_video_sends_receiver_reports() {
    let separate = Time::from_secs(1);
    for (name, nominal) in
        [("chrome-27", AT_ONE_MBPS), ("chrome-52", AT_ONE_MBPS), ("chrome-156", separate)]
    {
        let streams = [vec![video(ALICE_VIDEO, Repair::Rtx)], vec![]];
        let mut pair = Pair::with(name, streams, [fixed(1_000), fixed(1_000)]);
        pair.run(Time::from_secs(SECONDS));
        assert_varied(&times(&pair, "RR1+SDES"), nominal);
        let others: Vec<String> = kinds(&pair).into_iter().filter(|kind| kind != "TWCC").collect();
        assert_eq!(others, ["RR1+SDES"], "{name}");
    }
}

/// A call with audio alone. It connects after six delays; the first report leaves 2.5 s later.
fn audio_call(name: &str, seconds: u64) -> Pair {
    let streams = [vec![audio(ALICE_AUDIO)], vec![audio(BOB_AUDIO)]];
    let mut pair = Pair::with(name, streams, [fixed(100), fixed(100)]);
    pair.run(Time::from_secs(seconds));
    pair
}

const ALICE_AUDIO: u32 = 1_003;
const BOB_AUDIO: u32 = 2_003;

#[test]
fn audio_alone_is_reported_every_five_seconds_in_every_era() {
    for (name, expected) in [
        ("chrome-27", ["SR1+SDES"].as_slice()),
        ("chrome-52", ["SR1+SDES"].as_slice()),
        ("chrome-156", ["RR1+SDES", "SR0+SDES"].as_slice()),
    ] {
        let pair = audio_call(name, 150);
        let found: Vec<String> = kinds(&pair).into_iter().filter(|kind| kind != "TWCC").collect();
        assert_eq!(found, expected, "{name}");
        for packets in expected {
            let times = times(&pair, packets);
            let first = times[0].saturating_sub(DELAY * 6);
            assert!(first.saturating_sub(Time::from_millis(2_500)) <= DELAY, "{name}: {first}");
            assert_varied(&times, Time::from_secs(5));
        }
    }
}

#[test]
fn a_call_with_audio_alone_measures_its_round_trip_in_every_era() {
    for profile in &crate::stack::PROFILES {
        let name = profile.name;
        let pair = audio_call(name, 20);
        let in_hosts = stack(name).socket_way * 4;
        for by in [ALICE, BOB] {
            let [remote] = &pair.statistics(by).remote_inbound[..] else { panic!("one stream") };
            let rtt = remote.round_trip_time.expect("a round trip");
            // Of 2 * 20 ms, in 1/65536 s or whole milliseconds.
            let expected = (DELAY * 2 + in_hosts).as_secs_f64();
            assert!((rtt - expected).abs() <= 1.1e-3, "{name}: {rtt}");
        }
    }
}

/// Without audio to send, a receiver report takes the place of the sender report.
#[test]
fn a_peer_that_only_receives_audio_reports_on_it_every_five_seconds() {
    for name in ["chrome-27", "chrome-52", "chrome-156"] {
        let streams = [vec![audio(ALICE_AUDIO)], vec![]];
        let mut pair = Pair::with(name, streams, [fixed(100), fixed(100)]);
        pair.run(Time::from_secs(150));
        assert_varied(&times(&pair, "RR1+SDES"), Time::from_secs(5));
        let others: Vec<String> = kinds(&pair).into_iter().filter(|kind| kind != "TWCC").collect();
        assert_eq!(others, ["RR1+SDES"], "{name}");
    }
}

/// RFC 3550, section 6.4.1: a block has the time of the last sender report of the source that it is about. That of
/// retransmissions, which have none, has the time of their video.
#[test]
fn a_report_block_echoes_the_sender_report_of_its_own_stream() {
    for name in ["chrome-27", "chrome-52", "chrome-156"] {
        let streams =
            |video_ssrc, audio_ssrc| vec![video(video_ssrc, Repair::Rtx), audio(audio_ssrc)];
        let streams = [streams(ALICE_VIDEO, ALICE_AUDIO), streams(BOB_VIDEO, BOB_AUDIO)];
        let mut pair = Pair::with(name, streams, [fixed(500), fixed(500)]);
        let mut count = 0;
        pair.lose(ALICE, move |sent| {
            count += usize::from(sent.is_kind(Kind::Video));
            sent.is_kind(Kind::Video) && count % 20 == 0
        });
        pair.run(Time::from_secs(30));
        let mut last = std::collections::HashMap::new();
        let mut echoed: std::collections::BTreeMap<u32, u32> = Default::default();
        let mut packets: Vec<_> = pair
            .sent
            .iter()
            .flat_map(|sent| {
                // A sender report counts from its arrival.
                let at = if sent.by == ALICE { sent.at + DELAY } else { sent.at };
                sent.rtcp().iter().map(move |packet| (at, sent.by, packet))
            })
            .collect();
        packets.sort_by_key(|(at, by, _)| (*at, *by));
        for (_, by, packet) in packets {
            let blocks = match packet {
                RtcpPacket::SenderReport(report) if by == ALICE => {
                    last.insert(report.ssrc, report.ntp.middle());
                    continue;
                }
                RtcpPacket::SenderReport(report) if by == BOB => &report.blocks,
                RtcpPacket::ReceiverReport(report) if by == BOB => &report.blocks,
                _ => continue,
            };
            for block in blocks {
                let of = if block.ssrc == ALICE_VIDEO + 1 { ALICE_VIDEO } else { block.ssrc };
                let expected = last.get(&of).copied().unwrap_or(0);
                assert_eq!(block.last_sender_report, expected, "{name}: {}", block.ssrc);
                *echoed.entry(block.ssrc).or_default() += u32::from(expected > 0);
            }
        }
        assert!(echoed[&ALICE_VIDEO] > 10 && echoed[&ALICE_AUDIO] > 2, "{name}: {echoed:?}");
        assert_eq!(echoed.contains_key(&(ALICE_VIDEO + 1)), name == "chrome-156");
    }
}

#[test]
fn below_360_kbps_reports_leave_once_a_second() {
    let mut pair = Pair::call("chrome-27", 100, Repair::Rtx);
    pair.run(Time::from_secs(SECONDS));
    let reports = times(&pair, "SR1+SDES");
    assert_varied(&reports[1..], Time::from_secs(1));
}

/// 68 bytes are 5 % of 1 Mbit/s for 10.9 ms and of 30 kbit/s for 363 ms, both outside 50 to 250 ms.
#[test]
fn chrome_156_sends_transport_wide_feedback_every_62_to_266_ms_and_receiver_reports_every_second() {
    let pair = call("chrome-156", &[]);
    assert_eq!(kinds(&pair), ["RR1+SDES", "SR0+SDES", "TWCC"]);
    assert_varied(&times(&pair, "SR0+SDES"), AT_ONE_MBPS);
    let late = Time::from_secs(1);
    let receiver: Vec<Time> = times(&pair, "RR1+SDES").into_iter().filter(|t| *t > late).collect();
    assert_varied(&receiver, late);
    // On a grid of 15.625 ms (250 ms are a multiple of it), so that the timer fires one point later.
    for (kbps, interval_us) in [(1_000, 62_500), (30, 265_625)] {
        let mut pair = Pair::call("chrome-156", kbps, Repair::Rtx);
        pair.run(Time::from_secs(5));
        let feedback = times(&pair, "TWCC");
        let intervals = feedback.windows(2).map(|pair| (pair[1] - pair[0]).as_micros());
        // The first report leaves at the first point that is 100 ms after the first packet, and the others at
        // regular intervals; a report is left out when nothing has arrived.
        let intervals: Vec<u64> = intervals.collect();
        assert!(intervals.len() >= 10, "{intervals:?}");
        assert!(intervals.iter().all(|us| us % interval_us == 0), "{intervals:?}");
        // At 30 kbit/s the encoder drops four of five frames or more, so that some intervals are empty.
        let full = intervals.iter().filter(|us| **us == interval_us).count();
        assert!(full > intervals.len() / 2 && (kbps < 100 || full > 70), "{full}: {intervals:?}");
    }
}

/// Requests for packets that each side of a call with chrome-156 sent, as kinds of packets. Every twentieth packet of
/// media is lost. Alice offers.
fn requests() -> [Vec<String>; 2] {
    let streams = [vec![video(ALICE_VIDEO, Repair::Rtx)], vec![video(BOB_VIDEO, Repair::Rtx)]];
    let mut pair = Pair::with("chrome-156", streams, [fixed(500), fixed(500)]);
    let mut count = 0;
    pair.fate = Box::new(move |sent| {
        count += usize::from(sent.is_kind(Kind::Video));
        if sent.is_kind(Kind::Video) && count % 20 == 0 { Vec::new() } else { vec![DELAY] }
    });
    pair.run(Time::from_secs(SECONDS));
    [ALICE, BOB].map(|who| {
        let requests = pair.sent_by(who).filter(|sent| sent.is_nack());
        requests.map(|sent| names(sent).split('(').next().unwrap_or("").to_owned()).collect()
    })
}

/// The first requests come before a retransmission does, so that their reports have one block.
#[test]
fn in_chrome_156_only_the_side_that_offered_puts_a_receiver_report_before_requests() {
    let [alice, bob] = requests();
    assert!(alice.len() > 20 && bob.len() > 20, "{} {}", alice.len(), bob.len());
    assert!(alice.iter().all(|names| names == "RR1+Nack" || names == "RR2+Nack"), "{alice:?}");
    assert!(alice.iter().filter(|names| *names == "RR2+Nack").count() > alice.len() / 2);
    assert!(bob.iter().all(|names| names == "Nack"), "{bob:?}");
}

/// What alice's control is told when datagrams have this fate, and how many RTP packets she sent.
fn heard(name: &str, fate: impl FnMut(&Sent) -> Vec<Time> + 'static) -> (Vec<Seen>, u64) {
    let streams = [vec![video(ALICE_VIDEO, Repair::Rtx)], vec![]];
    let control = Control::at(500);
    let seen = Arc::clone(&control.seen);
    let mut pair = Pair::with(name, streams, [(Box::new(control), None), fixed(500)]);
    pair.fate = Box::new(fate);
    pair.run(Time::from_secs(20));
    let sent = pair.sent_by(ALICE).filter(|sent| sent.rtp().is_some()).count() as u64;
    let seen = seen.lock().expect("no poison").clone();
    (seen, sent)
}

/// Packets lost and expected, summed over all receiver reports.
fn reported(seen: &[Seen]) -> (u64, u64) {
    seen.iter().fold((0, 0), |(lost, expected), seen| match seen {
        Seen::Report { lost: l, expected: e } => (lost + l, expected + e),
        _ => (lost, expected),
    })
}

/// Nothing is lost. The first report is the base, and the last one is still in transit.
#[test]
fn an_overtaken_receiver_report_is_ignored() {
    let (in_order, _) = heard("chrome-27", |_| vec![DELAY]);
    let mut count = 0;
    let (overtaken, sent) = heard("chrome-27", move |sent| {
        count += usize::from(sent.by == BOB && !sent.rtcp().is_empty());
        // Every fourth report takes three seconds: more than one and a half intervals.
        let late = sent.by == BOB && !sent.rtcp().is_empty() && count % 4 == 0;
        vec![if late { Time::from_secs(3) } else { DELAY }]
    });
    let (lost, expected) = reported(&overtaken);
    assert_eq!((lost, expected), reported(&in_order));
    assert!(expected < sent && expected > sent * 9 / 10, "{expected} of {sent}");
    assert!(overtaken.len() < in_order.len());
}

#[test]
fn a_repeated_receiver_report_does_not_count_packets_again() {
    let (once, _) = heard("chrome-27", |_| vec![DELAY]);
    let (twice, _) = heard("chrome-27", |_| vec![DELAY, DELAY + Time::from_millis(1)]);
    // Media arrives twice as well, which bob counts as received; negative losses count as none.
    assert_eq!(reported(&twice).1, reported(&once).1);
    assert_eq!(reported(&twice).0, 0);
}

/// Video and retransmissions share a report: one call of the control for both, with the losses of both.
#[test]
fn in_chrome_156_all_blocks_of_a_receiver_report_count_together() {
    let (mut videos, mut repairs) = (0, 0);
    let lost = Arc::new(Mutex::new([0, 0]));
    let counts = Arc::clone(&lost);
    let (seen, _) = heard("chrome-156", move |sent| {
        videos += usize::from(sent.is_kind(Kind::Video));
        repairs += usize::from(sent.is_kind(Kind::Rtx));
        let early = sent.at < Time::from_secs(15);
        let loses = [
            early && sent.is_kind(Kind::Video) && videos % 10 == 0,
            early && sent.is_kind(Kind::Rtx) && repairs % 4 == 0,
        ];
        let mut counts = counts.lock().expect("no poison");
        (0..2).for_each(|i| counts[i] += usize::from(loses[i]));
        if loses.contains(&true) { Vec::new() } else { vec![DELAY] }
    });
    let [video, repair] = *lost.lock().expect("no poison");
    assert!(video > 50 && repair > 10, "{video} {repair}");
    // What is lost before the first report of a stream is not in the difference between two reports.
    let sum = (video + repair) as u64;
    let (reported, _) = reported(&seen);
    assert!(reported <= sum && reported > sum - 10, "{reported} of {sum}");
    // Bob answers, and reports once a second whatever he requests.
    let reports = seen.iter().filter(|seen| matches!(seen, Seen::Report { .. })).count();
    assert!((13..=27).contains(&reports), "{reports}");
}

/// Transport-wide sequence numbers that were reported as arrived, in order of the reports.
fn arrived(seen: &[Seen]) -> Vec<i64> {
    let packets = seen.iter().filter_map(|seen| match seen {
        Seen::Packets { arrived, .. } => Some(arrived),
        _ => None,
    });
    packets.flatten().copied().collect()
}

#[test]
fn repeated_transport_wide_feedback_reports_each_arrival_once() {
    let (seen, sent) = heard("chrome-156", |sent| match sent.by {
        ALICE => vec![DELAY],
        _ => vec![DELAY, DELAY + Time::from_millis(5)],
    });
    let arrived = arrived(&seen);
    assert_eq!(arrived, (0..arrived.len() as i64).collect::<Vec<_>>());
    // At most a quarter of a second plus a round trip has not been reported yet.
    assert!(arrived.len() as u64 <= sent && arrived.len() as u64 > sent * 97 / 100);
}

/// Feedback is due every 50 ms (68 B are 5 % of 500 kbit/s for 22 ms); one in four arrives after the next.
#[test]
fn overtaken_transport_wide_feedback_reports_every_arrival_once() {
    let mut count = 0;
    let (seen, sent) = heard("chrome-156", move |sent| {
        count += usize::from(sent.by == BOB);
        let late = sent.by == BOB && count % 4 == 0 && sent.at > Time::from_secs(1);
        vec![if late { Time::from_millis(90) } else { DELAY }]
    });
    let mut arrived = arrived(&seen);
    assert!(!arrived.is_sorted());
    arrived.sort_unstable();
    // The last reports may have overtaken one that is still on its way.
    arrived.truncate(arrived.len() - 10);
    assert_eq!(arrived, (0..arrived.len() as i64).collect::<Vec<_>>());
    assert!(arrived.len() as u64 <= sent && arrived.len() as u64 > sent * 97 / 100);
}

/// Bob only receives. He sends his time with each report, and alice answers each of them once, with her next report.
#[test]
fn browsers_of_2026_tell_receivers_the_round_trip_and_servers_do_not() {
    for (browser, answers) in [(true, true), (false, false)] {
        let mut ends = configs("chrome-156", [vec![video(ALICE_VIDEO, Repair::Rtx)], vec![]]);
        for end in &mut ends {
            let described = Described::Video;
            end.session.negotiation =
                Negotiation::Page { seed: 1, pace: 1, browser, described, server: None };
        }
        let [a, b] = ends;
        let mut pair = Pair::of(Peer::new(a, fixed(500)), Peer::new(b, fixed(500)));
        pair.alice.handle_present(Time::ZERO);
        pair.run(Time::from_secs(20));
        let extended = |by: usize| -> Vec<(Time, ExtendedReport)> {
            let all = pair.sent_by(by).filter_map(|sent| match &sent.datagram.content {
                Content::Rtcp(rtcp) => Some((sent.at, rtcp)),
                _ => None,
            });
            let reports = all.flat_map(|(at, rtcp)| rtcp.packets.iter().map(move |one| (at, one)));
            let reports = reports.filter_map(|(at, packet)| match packet {
                RtcpPacket::ExtendedReport(report) => Some((at, report.clone())),
                _ => None,
            });
            reports.collect()
        };
        let (asked, answered) = (extended(BOB), extended(ALICE));
        assert_eq!(answers, !asked.is_empty());
        assert!(asked.iter().all(|(at, report)| {
            report.reference_time == Some(NtpTime::from_time(*at)) && report.delays.is_empty()
        }));
        if answers {
            assert!(answered.len() >= 10 && answered.len() <= asked.len(), "{answered:?}");
        }
        for (at, report) in answered {
            let rtt = report.delays[0].round_trip(NtpTime::from_time(at + DELAY));
            let off = rtt.as_secs_f64() - (DELAY * 2).as_secs_f64();
            // Three times are rounded to 1/65536 s.
            assert!(off.abs() < 3.0 / 65_536.0, "{off} s");
        }
    }
}
