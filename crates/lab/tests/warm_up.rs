//! The counters of groups begin after the warm-up, as all other statistics do.
use schedcast_lab::experiment;
use schedcast_lab::outcome::MetricMap;
use schedcast_lab::simulate::Simulate;
use schedcast_lab::simulator::Simulator;

/// A hog under half a CPU for one second.
fn metrics(warmup: &str) -> MetricMap {
    let text = format!(
        "[machine]\npreset = \"generic-8\"\ncpus = 1\n[cgroup.\"/pg\"]\n\"cpu.max\" = \"50000 100000\"\n\
         [[program]]\nrun = \"stress-ng --cpu 1 -t 9\"\ncgroup = \"/pg\"\n\
         [run]\nduration = \"1s\"\nwarmup = \"{warmup}\"\n"
    );
    let experiment = experiment::read_text("a.toml", text).unwrap();
    let outcome = Simulator::new().run(&experiment.scenarios[0], 0).unwrap();
    outcome.metrics
}

#[test]
fn counters_of_groups_begin_after_the_warm_up() {
    let (whole, rest) = (metrics("0s"), metrics("600ms"));
    let both = |name: &str| [&whole, &rest].map(|all| all[&format!("cgroup:/pg/{name}")]);
    for name in ["nr_periods", "nr_throttled"] {
        let [all, counted] = both(name);
        assert!((9.0..=10.0).contains(&all), "{name}: {all}");
        assert!((3.0..=5.0).contains(&counted), "{name}: {counted}");
    }
    let [all, counted] = both("usage_usec");
    assert!((480_000.0..=550_000.0).contains(&all), "{all}");
    assert!((150_000.0..=250_000.0).contains(&counted), "{counted}");
}
