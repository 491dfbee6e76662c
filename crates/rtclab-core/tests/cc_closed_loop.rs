//! Each congestion control alone on a constant link: it converges, does not collapse, and queues no
//! more than its design allows.

use crate::support::call;
use rtclab_core::catalogue::Catalogue;
use rtclab_core::path::{Capacity, Loss};
use rtclab_core::record::{Column, Detail, Table};
use rtclab_core::sim::{SimConfig, simulate};
use rtclab_core::units::{Bitrate, Time};

/// Length of a call in seconds; figures are from the second half. The slowest growth, 4 % a second at a round
/// trip of 300 ms, takes 47 s from 300 kbit/s to 2 Mbit/s.
const SECONDS: usize = 120;
/// Limit of the queue, in ms.
const QUEUE_MS: f64 = 1_000.0;
/// Maximum rate of the encoder, in kbit/s, which bounds the rate on the fastest link.
const ENCODER_KBPS: u64 = 2_000;
/// The encoder's maximum with headers, as a share of the fastest link: 78 bytes for each packet of at most
/// 1200.
const SHARE_OF_FASTEST: (f64, f64) = (0.40, 0.44);
/// Capacities, in kbit/s.
const CAPACITIES_KBPS: [u64; 5] = [250, 500, 1_000, 2_000, 5_000];
/// One-way delays, in ms.
const DELAYS_MS: [u64; 3] = [10, 50, 150];
/// Largest acceptable mean delay in the queue, in ms. The rate grows beyond the capacity by at most 8 % a
/// second until over-use is detected and reported with a REMB 1.5 s later, so the queue rises to
/// 0.5 * 0.08 * 1.5^2 s = 90 ms.
const STANDING_MS: f64 = 100.0;

/// Figures of one direction over the second half of a call.
#[derive(Debug)]
struct Figures {
    /// Delivered rate, including headers, as a share of the capacity.
    share: f64,
    /// Delivered rate in the worst second, as a share of the capacity.
    worst_share: f64,
    /// Mean queuing and serialisation delay, in ms.
    queue_ms: f64,
    dropped: i64,
}

fn column<'a>(table: &'a Table, name: &str) -> &'a Column {
    &table.columns.iter().find(|column| column.0 == name).expect("the column").1
}

fn ints<'a>(table: &'a Table, name: &str) -> &'a [i64] {
    let Column::Int(values) = column(table, name) else { panic!("{name} is no integer") };
    values
}

fn run(name: &str, options: &[(&str, f64)], kbps: u64, delay_ms: u64) -> Figures {
    figures(&call_over(name, options, kbps, delay_ms), kbps, delay_ms)
}

/// A call whose participants have this congestion control, over links of this capacity and delay.
fn call_over(name: &str, options: &[(&str, f64)], kbps: u64, delay_ms: u64) -> SimConfig {
    let link = format!(
        r#""capacity": {{"kind": "constant", "bps": {}}}, "delay": {{"kind": "constant", "ns": {}}},
           "queue": {{"kind": "time", "limit": {}}}"#,
        kbps * 1_000,
        delay_ms * 1_000_000,
        QUEUE_MS * 1e6
    );
    let mut config = call(&link, SECONDS as u64, 1);
    config.record = Detail::Seconds;
    for participant in &mut config.participants {
        participant.congestion_control.name = name.to_owned();
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), *value));
        participant.congestion_control.options = options.collect();
        if let Some(video) = &mut participant.video {
            video.max_bps = Bitrate::from_kbps(ENCODER_KBPS);
        }
    }
    config
}

fn figures(config: &SimConfig, kbps: u64, delay_ms: u64) -> Figures {
    let result = simulate(config).expect("a run");
    let table = result.tables.iter().find(|t| t.name == "flow_seconds").expect("the table");
    let half = SECONDS / 2..SECONDS;
    let bits: Vec<i64> =
        ints(table, "delivered_bytes")[half.clone()].iter().map(|b| b * 8).collect();
    let Column::Float(delays) = column(table, "one_way_delay_mean_ms") else { panic!("floats") };
    let seconds = half.len() as f64;
    let capacity = kbps as f64 * 1e3;
    Figures {
        share: bits.iter().sum::<i64>() as f64 / seconds / capacity,
        worst_share: bits.iter().min().copied().unwrap_or(0) as f64 / capacity,
        queue_ms: delays[half.clone()].iter().sum::<f64>() / seconds - delay_ms as f64,
        dropped: ints(table, "dropped_packets")[half].iter().sum(),
    }
}

/// Asserts that a congestion control converges on links of these capacities. `beta` is the share of the
/// incoming rate that over-use leaves. Over-use twice in a row, before the queue has emptied, is acceptable;
/// half of that share in the worst second would be a collapse.
fn converges(name: &str, options: &[(&str, f64)], beta: f64, capacities_kbps: &[u64]) {
    for &kbps in capacities_kbps {
        for delay_ms in DELAYS_MS {
            let figures = run(name, options, kbps, delay_ms);
            let (least, most) = match kbps {
                5_000 => SHARE_OF_FASTEST,
                _ => (beta * beta, 1.0),
            };
            let case = format!("{name} {options:?}, {kbps} kbit/s, {delay_ms} ms: {figures:?}");
            assert!((least..most).contains(&figures.share), "{case}");
            assert!(figures.worst_share > least / 2.0 && figures.dropped == 0, "{case}");
            assert!((0.0..STANDING_MS).contains(&figures.queue_ms), "{case}");
        }
    }
}

#[test]
fn rrtcc_2013_converges_on_every_link() {
    converges("rrtcc-2013", &[], 0.9, &CAPACITIES_KBPS);
}

#[test]
fn dynamic_alpha_and_fixed_alpha_converge_on_every_link_but_that_of_2_mbps() {
    for name in ["dynamic-alpha", "fixed-alpha"] {
        converges(name, &[], 0.9, &[250, 500, 1_000, 5_000]);
    }
}

/// On a link of 2 Mbit/s the packets of a backlog arrive 4.8 ms apart, sooner than they were sent. Until 2018 they all
/// counted as one burst, however long it took, so over-use goes unseen while a backlog lasts.
#[test]
fn on_2_mbps_a_backlog_counts_as_one_burst_and_the_queue_grows() {
    let queues = DELAYS_MS.map(|delay_ms| run("fixed-alpha", &[], 2_000, delay_ms).queue_ms);
    let mean = queues.iter().sum::<f64>() / queues.len() as f64;
    assert!((STANDING_MS..QUEUE_MS).contains(&mean), "{queues:?}");
}

/// Over-use three times in a row, before the queue has emptied, leaves 0.85 to the third.
#[test]
fn gcc_2016_converges_on_every_link_but_the_slowest() {
    converges("gcc-2016", &[], libm::pow(0.85, 1.5), &CAPACITIES_KBPS[1..]);
}

/// AIMD with 0.85 again, behind libwebrtc's pacer and overshoot detector. Over-use takes another 5 kbit/s, which
/// is 2 % of the slowest link.
#[test]
fn goog_cc_converges_on_every_link() {
    converges("goog-cc", &[], 0.83, &CAPACITIES_KBPS[..1]);
    converges("goog-cc", &[], 0.85, &CAPACITIES_KBPS[1..]);
}

/// Virtual marks between 30 and 60 ms of queue swing around 20 ms; a packet takes up to 38 ms on the slowest link. Each
/// of them takes at most a quarter of the window, and a drain halves the rate for some round trips every 20 s.
#[test]
fn scream_converges_on_every_link() {
    for kbps in CAPACITIES_KBPS {
        for delay_ms in DELAYS_MS {
            let figures = run("scream", &[], kbps, delay_ms);
            let (least, most) = if kbps == 5_000 { SHARE_OF_FASTEST } else { (0.8, 1.0) };
            let case = format!("{kbps} kbit/s, {delay_ms} ms: {figures:?}");
            assert!((least..most).contains(&figures.share), "{case}");
            assert!(figures.worst_share > least / 2.0 && figures.dropped == 0, "{case}");
            assert!((0.0..40.0).contains(&figures.queue_ms), "{case}");
        }
    }
}

/// In equilibrium the queue is 10 ms times RMAX over the capacity, beside up to 1.2 kB on the link; frames of varying size
/// wait for each other. RMAX is the encoders' maximum, headers included, so a call on the fastest link stays below it.
/// The share of one call varies by up to 0.02 with its seed, so it is a mean of four.
#[test]
fn nada_converges_on_every_link() {
    for kbps in CAPACITIES_KBPS {
        for delay_ms in DELAYS_MS {
            let config = call_over("nada", &[], kbps, delay_ms);
            let shares = (1..=4)
                .map(|seed| figures(&SimConfig { seed, ..config.clone() }, kbps, delay_ms).share);
            let share = shares.sum::<f64>() / 4.0;
            let figures = figures(&config, kbps, delay_ms);
            let case = format!("{kbps} kbit/s, {delay_ms} ms: {share}, {figures:?}");
            let (least, most) = if kbps == 5_000 { (0.35, 0.41) } else { (0.88, 1.0) };
            assert!((least..most).contains(&share), "{case}");
            assert!(figures.worst_share > least / 2.0 && figures.dropped == 0, "{case}");
            let level = (10.0 * ENCODER_KBPS as f64 + 1_200.0 * 8.0) / kbps as f64;
            if kbps < 5_000 {
                assert!((0.8..1.6).contains(&(figures.queue_ms / level)), "{case}, {level} ms");
            }
        }
    }
}

/// The target of the queue is 100 ms. More than a second of the rate in the pacer, which a key frame can be on a slow link,
/// takes the whole rate of the media for some seconds, as RFC 8298 prints its rule.
#[test]
fn scream_rfc8298_converges_on_every_link_but_for_some_seconds() {
    for kbps in CAPACITIES_KBPS {
        for delay_ms in DELAYS_MS {
            let figures = run("scream-rfc8298", &[], kbps, delay_ms);
            let case = format!("{kbps} kbit/s, {delay_ms} ms: {figures:?}");
            let (least, most) = if kbps == 5_000 { (0.35, 0.41) } else { (0.7, 1.0) };
            assert!((least..most).contains(&figures.share) && figures.dropped == 0, "{case}");
            assert!((0.0..140.0).contains(&figures.queue_ms), "{case}");
        }
    }
}

/// The same rate control at the receiver, with headers and audio on top of its rate.
#[test]
fn remb_converges_on_every_link() {
    converges("remb", &[], 0.85, &CAPACITIES_KBPS);
}

/// Without feedback on packets the sender has the loss rules of 2014: below 2 % it grows, above 10 % each report,
/// once a second, takes half of the loss off the rate. Headers are no part of it: 30 kbit/s of media and 30 packets
/// a second with 78 B of headers are 49 kbit/s. Four fifths of that arrive.
#[test]
fn remb_keeps_its_rate_at_1_percent_of_loss_and_falls_to_its_minimum_at_20() {
    let share = |lost: f64| {
        let mut config = call_over("remb", &[], 1_000, 50);
        let up = config.network.paths.iter_mut().find(|path| path.name == "alice.up");
        up.expect("the path").loss = Some(Loss { p: 0.0, r: 1.0, h: 1.0 - lost, k: 1.0 - lost });
        figures(&config, 1_000, 50).share
    };
    let [low, high] = [share(0.01), share(0.2)];
    assert!((0.72..1.0).contains(&low), "{low}");
    assert!((0.02..0.06).contains(&high), "{high}");
}

/// Options select what papers and drafts say instead of what libwebrtc did. They change how fast the rate
/// converges, but not where to.
#[test]
fn options_converge_where_the_default_does() {
    converges("rrtcc-2013", &[("decrease", 0.85)], 0.85, &[500, 1_000]);
    // At 500 kbit/s what the next one adds on under-use keeps more than 100 ms in the queue.
    converges("rrtcc-2013", &[("under_use_factor", 1.5)], 0.9, &[1_000]);
    converges("rrtcc-2013", &[("low_loss_factor", 1.05)], 0.9, &[500, 1_000]);
    converges("rrtcc-2013", &[("tfrc_cap", 1.0)], 0.9, &[500, 1_000]);
    converges("dynamic-alpha", &[("divisor_by_threshold", 1.0)], 0.9, &[500, 1_000]);
    converges("dynamic-alpha", &[("max_alpha", 0.99)], 0.9, &[500, 1_000]);
    // Alpha in place of beta leaves more in the queue after over-use: 101 ms at 500 kbit/s.
    converges("dynamic-alpha", &[("replaces_beta", 1.0)], 0.9, &[1_000]);
    converges("dynamic-alpha", &[("one_divisor", 1.0)], 0.9, &[500, 1_000]);
    converges("dynamic-alpha", &[("lagged", 1.0)], 0.9, &[500, 1_000]);
    converges("dynamic-alpha", &[("low_loss_factor", 1.05)], 0.9, &[500, 1_000]);
    converges("fixed-alpha", &[("alpha", 0.85)], 0.85, &[500, 1_000]);
    converges("fixed-alpha", &[("alpha", 0.85), ("near_alpha", 0.95)], 0.85, &[500, 1_000]);
    converges("gcc-2016", &[("incoming_cap", 1.0)], 0.85, &[1_000, 2_000]);
    converges("gcc-2016", &[("low_loss_factor", 1.05)], 0.85, &[1_000, 2_000]);
    converges("gcc-2016", &[("window_ms", 500.0)], 0.85, &[1_000, 2_000]);
    converges("gcc-2016", &[("over_use_ms", 100.0)], 0.85, &[1_000, 2_000]);
}

/// At 250 kbit/s a frame is one packet that takes a whole frame's time on the link. Half a packet per
/// response time is growth of 5 to 8 % a second, and sources vary so much (RFC 8593: 21 %) that the filter
/// needs sqrt(70 / 1e-3) = 265 frames, or 9 s: growth continues beyond the capacity for seconds. The
/// threshold follows the offset up (k_up) and hardly falls before the next swing (k_down: 17 s), so that each
/// swing is detected later than the one before, until the queue is full.
#[test]
fn gcc_2016_fills_the_queue_of_the_slowest_link_but_not_with_the_gains_of_august_2016() {
    let figures = run("gcc-2016", &[], 250, 50);
    assert!((0.95..1.01).contains(&figures.share) && figures.worst_share > 0.7, "{figures:?}");
    assert!((STANDING_MS..QUEUE_MS).contains(&figures.queue_ms), "{figures:?}");
    converges("gcc-2016", &[("k_up", 0.0087), ("k_down", 0.039)], 0.85, &[250]);
}

/// Jansen et al., equation 1, prints growth by 5 % a second in every region: 50 or 100 kbit/s a second on these links.
/// In the code, growth near the maximum is half a packet, or 4.8 kbit/s, per update, and updates are 200 ms or more
/// apart: at most 24 kbit/s a second. The faster growth uses more of the link and waits longer in its queue.
#[test]
fn gcc_2016_uses_more_and_queues_longer_if_it_grows_by_5_percent_near_the_maximum_too() {
    for kbps in [1_000, 2_000] {
        for delay_ms in DELAYS_MS {
            let [code, printed] = [&[][..], &[("increase_factor", 1.05)]]
                .map(|options| run("gcc-2016", options, kbps, delay_ms));
            let case = format!("{kbps} kbit/s, {delay_ms} ms: {code:?}, {printed:?}");
            assert!(code.share < printed.share && printed.share < 1.01, "{case}");
            assert!(code.queue_ms < printed.queue_ms && printed.queue_ms < QUEUE_MS, "{case}");
        }
    }
}

/// The draft compares the offset itself, not sixty times it, with a threshold of at least 6 ms: 6 ms per
/// frame of 33 ms is 18 % above capacity. A smaller excess fills the queue until loss limits the rate.
#[test]
fn with_the_option_draft_the_queue_fills_until_packets_are_lost() {
    let figures = run("gcc-2016", &[("draft", 1.0)], 1_000, 50);
    // A reported loss of 10 to 20 % takes half as much off the rate.
    assert!((0.9..1.01).contains(&figures.share), "{figures:?}");
    assert!((QUEUE_MS * 0.4..QUEUE_MS).contains(&figures.queue_ms), "{figures:?}");
    assert!(figures.dropped > 0, "{figures:?}");
}

/// The paper's factor is closer to one than the fixed one for every over-use. Alone on a constant link, where
/// the rate soon grows back, the effect is smaller than the difference between runs: what is sent is the same to half
/// a per cent or a little more. Capped, over-use leaves less, and at least half of the difference is missing on
/// average, because the rate grows back evenly; a second over-use before the queue has emptied takes it twice.
#[test]
fn dynamic_alpha_sends_what_fixed_alpha_sends_and_less_the_more_over_use_takes() {
    let share = |name, options: &[(&str, f64)], kbps: &[u64]| -> f64 {
        let runs =
            kbps.iter().flat_map(|kbps| DELAYS_MS.map(|ms| run(name, options, *kbps, ms).share));
        runs.sum::<f64>() / (kbps.len() * DELAYS_MS.len()) as f64
    };
    let both = [1_000, 2_000];
    let ratio = share("dynamic-alpha", &[], &both) / share("fixed-alpha", &[], &both);
    assert!((0.995..1.03).contains(&ratio), "{ratio}");
    let capped = |max| share("dynamic-alpha", &[("max_alpha", max)], &[1_000]);
    let steps = [0.80, 0.85, 0.90].map(capped);
    for pair in steps.windows(2) {
        let step = pair[1] - pair[0];
        assert!((0.02..0.06).contains(&step), "{steps:?}");
    }
    assert!(share("dynamic-alpha", &[], &[1_000]) > steps[2] + 0.01, "{steps:?}");
}

/// The table of seconds of a run, as text, because NaN differs from itself.
fn seconds(config: &SimConfig) -> String {
    let result = simulate(config).expect("a run");
    let table = result.tables.iter().find(|t| t.name == "flow_seconds").expect("the table");
    format!("{table:?}")
}

/// The paper's factor is at least 0.9 for every over-use. Capped at one half, over-use mostly leaves half of
/// the incoming rate, which grows back until the next over-use: the mean lies between a half and all of it.
#[test]
fn dynamic_alpha_differs_from_fixed_alpha_and_sends_less_when_capped_at_one_half() {
    let config = |name, options: &[(&str, f64)]| call_over(name, options, 1_000, 50);
    assert_ne!(seconds(&config("dynamic-alpha", &[])), seconds(&config("fixed-alpha", &[])));
    let share = |options: &[(&str, f64)]| run("dynamic-alpha", options, 1_000, 50).share;
    let ratio = share(&[("max_alpha", 0.5)]) / share(&[]);
    assert!((0.5..0.95).contains(&ratio), "{ratio}");
}

/// The capacity falls and rises, a few packets are lost for a while, and in the end no feedback comes back,
/// so that each option has a chance to matter. A value that is not read changes nothing.
#[test]
fn every_option_changes_the_result() {
    let run = |name: &str, option: &str, value: f64| {
        let mut config = call_over(name, &[(option, value)], 1_000, 30);
        let at = Time::from_secs;
        let rate = Bitrate::from_kbps;
        for path in &mut config.network.paths {
            let steps = match path.name.as_str() {
                "alice.up" => {
                    vec![(at(0), rate(1_000)), (at(30), rate(400)), (at(50), rate(1_000))]
                }
                "bob.up" => vec![(at(0), rate(1_000)), (at(100), Bitrate::ZERO)],
                _ => continue,
            };
            path.capacity = Some(Capacity::Steps { steps });
            let loss = |lost: f64| Loss { p: 0.0, r: 1.0, h: 1.0 - lost, k: 1.0 - lost };
            path.loss_steps = vec![(at(70), loss(0.01)), (at(80), loss(0.15)), (at(90), loss(0.0))];
        }
        seconds(&config)
    };
    // Controls with feedback on packets have tests of their own, with the loops that they need.
    let has_own = |name| ["goog-cc", "scream", "scream-rfc8298", "nada"].contains(&name);
    for algorithm in Catalogue::ours().algorithms().iter().filter(|known| !has_own(&known.name)) {
        for option in algorithm.options {
            let [least, most] = [option.bounds.0, option.bounds.1]
                .map(|value| run(&algorithm.name, option.name, value));
            assert!(least != most, "{} of {} changes nothing", option.name, algorithm.name);
        }
    }
}

/// From a third of the call on nothing from bob arrives, not even reports.
#[test]
fn without_feedback_libwebrtc_of_2013_keeps_its_rate_and_the_draft_falls_to_the_minimum() {
    let share = |options| {
        let mut config = call_over("rrtcc-2013", options, 1_000, 25);
        let bob = config.network.paths.iter_mut().find(|p| p.name == "bob.up").expect("the path");
        let end = Time::from_secs(SECONDS as u64 / 3);
        bob.capacity = Some(Capacity::Steps {
            steps: vec![(Time::ZERO, Bitrate::from_mbps(1)), (end, Bitrate::ZERO)],
        });
        figures(&config, 1_000, 25).share
    };
    assert!((0.7..1.01).contains(&share(&[])), "{}", share(&[]));
    // 30 kbit/s of media, and headers of 30 packets a second
    let halved = share(&[("halve_without_feedback", 1.0)]);
    assert!((0.03..0.06).contains(&halved), "{halved}");
}

/// After two seconds without packets the receiver discards its measurements; in 2013 its estimate as well.
#[test]
fn every_algorithm_recovers_from_an_outage_of_five_seconds() {
    for name in ["rrtcc-2013", "gcc-2016", "dynamic-alpha", "fixed-alpha", "remb"] {
        let mut config = call_over(name, &[], 1_000, 25);
        for path in config.network.paths.iter_mut().filter(|path| path.capacity.is_some()) {
            let at = Time::from_secs;
            let rate = Bitrate::from_mbps(1);
            let steps = vec![(at(0), rate), (at(15), Bitrate::ZERO), (at(20), rate)];
            path.capacity = Some(Capacity::Steps { steps });
        }
        let figures = figures(&config, 1_000, 25);
        assert!((0.72..1.0).contains(&figures.share), "{name}: {figures:?}");
    }
}
