//! How many of the stored measurements and published figures the shipped program forecasts: a
//! change after which it forecasts fewer fails here.
//!
//! `make truth-sample` takes a minute of CPU time; `make truth`, with two more studies, four. The
//! scores in `truth.toml` may only rise: with `RENEW=1` those that rose are written there. A score
//! that fell is lowered by hand, with its reason in the commit.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Experiments of `validation/` that were measured on this kernel.
const MEASURED: &str = "validate bursts.toml latencies.toml limits.toml messages.toml nested.toml \
                        periodic.toml servers.toml shares.toml --background \
                        ../recordings/dev-vm-idle --measured ../docs/validation/host-6.18.json";
/// Studies of the sample, and those that only the whole has.
const SAMPLE: [&str; 3] = ["burst", "recent-used-cpu", "cpu-limit"];
const REST: [&str; 2] = ["timer-interleave", "pstate-holdoff"];

/// Standard output of the program in `validation/`.
fn printed(line: &str) -> String {
    let binary = std::env::var("SCHEDCAST").expect("SCHEDCAST names the binary");
    let output = Command::new(binary)
        .args(line.split_whitespace())
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../validation"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    // A missed band is 1.
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 1)), "{line}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Figures that pass, of all kinds: the sum of N in `…; N of M figures pass`.
fn figures() -> u64 {
    let text = printed(MEASURED);
    let counts = text.lines().filter_map(|line| {
        let (count, _) = line.strip_suffix(" figures pass")?.rsplit_once(" of ")?;
        count.rsplit(' ').next()?.parse::<u64>().ok()
    });
    counts.sum()
}

/// Bands of a study that are met.
fn bands(study: &str) -> u64 {
    let text = printed(&format!("reproduce {study} --json /dev/stdout"));
    let json = &text[text.find("{\n").expect("a report")..];
    let mut reports = serde_json::Deserializer::from_str(json).into_iter::<Value>();
    let report = reports.next().unwrap().unwrap();
    let verdicts = report["studies"][0]["verdicts"].as_array().unwrap();
    let met = verdicts.iter().filter(|verdict| verdict["pass"] == true);
    met.count() as u64
}

fn hold(studies: &[&str]) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/truth.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut known: BTreeMap<String, u64> = toml::from_str(&text).unwrap();
    let mut today = BTreeMap::from([("host-6.18".to_string(), figures())]);
    today.extend(
        studies
            .iter()
            .map(|study| (study.to_string(), bands(study))),
    );
    eprintln!("{today:?}");
    let renews = std::env::var_os("RENEW").is_some();
    let fell = |(name, score): &(&String, &u64)| known.get(*name).is_some_and(|was| score < &was);
    let fell: Vec<_> = today.iter().filter(fell).collect();
    assert!(fell.is_empty(), "{fell:?}, after {known:?}");
    if renews {
        known.extend(today);
        std::fs::write(&file, toml::to_string(&known).unwrap()).unwrap();
    } else {
        let rose = today
            .iter()
            .find(|(name, score)| known.get(*name) != Some(score));
        assert_eq!(rose, None, "more than before: `make renew` writes it down");
    }
}

#[test]
#[ignore = "needs a release binary: make truth-sample"]
fn the_sample_is_forecast_no_worse() {
    hold(&SAMPLE);
}

#[test]
#[ignore = "needs a release binary: make truth"]
fn everything_is_forecast_no_worse() {
    hold(&[&SAMPLE[..], &REST[..]].concat());
}
