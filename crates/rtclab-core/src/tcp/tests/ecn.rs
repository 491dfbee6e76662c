//! Marks: what is negotiated, who repeats them, and what they do to the window.

use super::*;

/// A pair over a path without capacity limit, whose round trip is always 100 ms.
fn unlimited(algorithm: Algorithm) -> Pair {
    Pair::new(algorithm, None, link(None, 0, HALF), HALF)
}

/// Marks what is ECN-capable if `is_marked` says so.
fn marking(mut is_marked: impl FnMut(Time) -> bool + 'static) -> Box<dyn FnMut(Ecn, Time) -> Ecn> {
    Box::new(move |ecn, queued| match ecn {
        Ecn::Ect0 | Ecn::Ect1 if is_marked(queued) => Ecn::CongestionExperienced,
        other => other,
    })
}

fn random(p: f64) -> Box<dyn FnMut(Ecn, Time) -> Ecn> {
    use rand::{RngExt, SeedableRng};
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(5);
    marking(move |_| rng.random::<f64>() < p)
}

/// Mean number of segments sent in a round trip.
fn mean_window(pair: &mut Pair, from: Time, to: Time, rtt: Time) -> f64 {
    pair.run(to);
    let sent = pair.sent.iter().filter(|(at, _)| (from..to).contains(at)).count();
    sent as f64 * rtt.as_secs_f64() / (to - from).as_secs_f64()
}

#[test]
fn explore() {
    use std::cell::RefCell;
    use std::rc::Rc;
    let s = Time::from_secs;
    for (a, p) in [(Algorithm::NewReno, 0.001), (Algorithm::NewReno, 0.01), (Algorithm::Dctcp, 0.05), (Algorithm::Dctcp, 0.02), (Algorithm::Dctcp, 0.2), (Algorithm::Prague, 0.05), (Algorithm::Prague, 0.02), (Algorithm::Prague, 0.2)] {
        let mut pair = unlimited(a);
        pair.remark = random(p);
        let w = mean_window(&mut pair, s(50), s(1000), HALF * 2);
        println!("{a:?} {p} W {w} Wp {} W sqrt p {} retr {}", w * p, w * p.sqrt(), pair.sender.retransmissions());
    }
    let mut pair = unlimited(Algorithm::NewReno);
    let mut n = 0;
    pair.remark = marking(move |_| { n += 1; n % 1000 == 0 });
    let w = mean_window(&mut pair, s(50), s(1000), HALF * 2);
    println!("periodic newreno {w} {}", w * 0.001f64.sqrt());
    for a in [Algorithm::Dctcp, Algorithm::Prague] {
        for (mbps, half_us, t_us) in [(10u64, 12_500u64, 2400u64), (10, 12_500, 1000), (50, 12_500, 1000), (2, 25_000, 12_000), (2, 25_000, 1000), (10, 5000, 2400), (100, 5000, 1000)] {
            let half = Time::from_micros(half_us);
            let mut pair = Pair::new(a, None, link(Some(mbps * 1_000_000), 10_000, half), half);
            let counts = Rc::new(RefCell::new((0u64, 0u64, 0u64)));
            let c = counts.clone();
            pair.remark = marking(move |q| { let mut c = c.borrow_mut(); c.0 += 1; c.2 += q.as_nanos(); let m = q > Time::from_micros(t_us); c.1 += u64::from(m); m });
            pair.run(s(20));
            *counts.borrow_mut() = (0, 0, 0);
            let rate0 = pair.receiver.next();
            pair.run(s(80));
            let rate = f64::from(pair.receiver.next() - rate0) * 12000.0 / 60e6;
            let (n, m, q) = *counts.borrow();
            println!("{a:?} {mbps} Mbit/s {} ms T {t_us}: rate {rate:.3} p {:.4} q {:.3} ms W {:?} srtt {:?} retr {}", half_us * 2 / 1000, m as f64 / n as f64, q as f64 / n as f64 / 1e6, pair.sender.window(), pair.sender.smoothed_rtt(), pair.sender.retransmissions());
        }
    }
}
