//! The first fifty drawn worlds that run end as they did before: with the same events and the same
//! metrics to the byte. Kernels from 4.5 to 7.3, all machines, limits, changes while they run.
//!
//! After a change that is meant to move some, `make renew` writes `hashes.txt` anew: a seed, the
//! hash of its events and that of its metrics as JSON a line. The commit says which moved and why.

use std::path::Path;

use schedcast_lab::experiment;
use schedcast_lab::simulate::Simulate;
use schedcast_lab::simulator::Simulator;
use schedcast_sim::random::Fnv;
use schedcast_verify::swarm::draw::draw;

const WORLDS: usize = 50;

/// `None` if the world is refused.
fn end_of(seed: u64) -> Option<String> {
    let (drawn, _) = draw(seed);
    let outcome = || {
        let experiment = experiment::read_text("world.toml", drawn.text())?;
        let simulator = Simulator::new();
        let simulator = if drawn.chance {
            simulator.drawing()
        } else {
            simulator
        };
        simulator.run(&experiment.scenarios[0], seed)
    };
    let outcome = outcome().ok()?;
    let metrics = Fnv::of(serde_json::to_string(&outcome.metrics).unwrap().as_bytes());
    Some(format!("{seed} {:016x} {metrics:016x}", outcome.event_hash))
}

#[test]
fn drawn_worlds_end_as_before() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hashes.txt");
    let today: Vec<String> = (1..).filter_map(end_of).take(WORLDS).collect();
    if std::env::var_os("RENEW").is_some() {
        std::fs::write(&file, today.join("\n") + "\n").unwrap();
    }
    let before = std::fs::read_to_string(&file).unwrap();
    let before: Vec<&str> = before.lines().collect();
    assert_eq!(
        today, before,
        "`make renew` writes down what is meant to move"
    );
}
