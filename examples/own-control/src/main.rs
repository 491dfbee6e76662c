//! Simulates a call with a congestion control of its own, and replays the log of a browser into it.
//!
//! `own-control CONFIG.json [LOG]`: `rtclab` writes no such file by itself; in Python
//! `json.dumps(scenario.native(seed=1))` is one. The participants whose control is to be `aimd` name it there.
//! Prints the mean target of the simulated sender and, with a log, the last target of the replay, in kbit/s.

mod aimd;

use aimd::{Aimd, OPTIONS};
use rtclab_core::catalogue::{Algorithm, Catalogue};
use rtclab_core::cc::{CongestionControlConfig, RateBounds};
use rtclab_core::event_log::EventLog;
use rtclab_core::record::Column;
use rtclab_core::replay::replay_log;
use rtclab_core::sim::{SimConfig, simulate_with};
use rtclab_core::stack::StackProfile;
use rtclab_core::table::Table;
use rtclab_core::units::Bitrate;
use std::error::Error;
use std::sync::LazyLock;

/// Chromium of 2026, but it repairs losses by retransmission only.
static STACK: LazyLock<StackProfile> = LazyLock::new(|| {
    let chromium = StackProfile::named("chrome-156").expect("a profile of rtclab");
    StackProfile {
        name: "aimd-client",
        repair: rtclab_core::media::repair::Repair::Rtx,
        ..*chromium
    }
});

/// The controls of rtclab, and `aimd`.
fn catalogue() -> Result<Catalogue, Box<dyn Error>> {
    let mut catalogue = Catalogue::ours().clone();
    let create = |bounds, options: rtclab_core::cc::Options<'_>| -> rtclab_core::cc::Halves {
        (Box::new(Aimd::new(bounds, options)), None)
    };
    catalogue.add(Algorithm::new("aimd", &STACK, create).with_options(OPTIONS))?;
    Ok(catalogue)
}

fn ints<'a>(tables: &'a [Table], table: &str, column: &str) -> Result<&'a [i64], Box<dyn Error>> {
    let table = tables.iter().find(|known| known.name == table).ok_or("no such table")?;
    match table.columns.iter().find(|(name, _)| *name == column) {
        Some((_, Column::Int(values))) => Ok(values),
        _ => Err("no such column".into()),
    }
}

fn main() {
    if let Err(error) = run() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("usage: own-control CONFIG.json [LOG]")?;
    let config: SimConfig = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    let catalogue = catalogue()?;
    let run = simulate_with(&config, &catalogue)?;
    let sizes = ints(&run.tables, "packets", "size_bytes")?;
    let seconds = config.duration_ns.as_secs_f64();
    println!("sent {:.0} kbit/s", sizes.iter().sum::<i64>() as f64 * 8e-3 / seconds);
    if let Some(log) = arguments.next() {
        let log = EventLog::read(&std::fs::read(log)?)?;
        let options = [("step_kbps".to_owned(), 10.0)].into();
        let chosen = CongestionControlConfig { name: "aimd".to_owned(), options };
        let kbps = Bitrate::from_kbps;
        let bounds = RateBounds {
            start: kbps(300),
            min: kbps(30),
            max: kbps(2_500),
            audio: Bitrate::ZERO,
            has_video: true,
        };
        let replayed = replay_log(&log, &[], &catalogue.choose(&chosen)?, bounds)?;
        let targets = ints(&replayed.tables, "target", "target_bps")?;
        println!(
            "replayed {} targets, the last {} bit/s",
            targets.len(),
            targets[targets.len() - 1]
        );
    }
    Ok(())
}
