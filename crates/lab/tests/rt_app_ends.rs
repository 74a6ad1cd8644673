//! An rt-app file's `duration` ends its own threads: other programs go on, and so does a longer
//! run.
use schedcast_base::assert_in;
use schedcast_lab::experiment;
use schedcast_lab::outcome::MetricMap;
use schedcast_lab::simulate::Simulate;
use schedcast_lab::simulator::Simulator;

/// A thread that works 2 of every 10 ms for ever, for as many seconds as the file says.
fn beat(folder: &std::path::Path, name: &str, seconds: u32) -> String {
    let file = folder.join(format!("{name}.json"));
    let text = format!(
        r#"{{"tasks": {{"{name}": {{"loop": -1, "run": 2000,
            "timer": {{"ref": "unique", "period": 10000}}}}}}, "global": {{"duration": {seconds}}}}}"#
    );
    std::fs::write(&file, text).unwrap();
    format!(
        "[[program]]\nrun = \"rt-app {}\"\nname = \"{name}\"\n",
        file.display()
    )
}

fn metrics(text: &str) -> MetricMap {
    let text = format!("[machine]\npreset = \"generic-8\"\ncpus = 4\n{text}");
    let experiment = experiment::read_text("a.toml", text).unwrap();
    let outcome = Simulator::new().run(&experiment.scenarios[0], 0).unwrap();
    outcome.metrics
}

#[test]
fn a_duration_ends_its_own_file_only() {
    let folder = tempfile::tempdir().unwrap();
    let short = beat(folder.path(), "short", 1);
    let long = beat(folder.path(), "long", 2);
    let hog = "[[program]]\nrun = \"stress-ng --cpu 1 -t 3\"\nname = \"hog\"\n";
    let has = |metrics: &MetricMap, name: &str, seconds: f64| {
        let used = metrics[&format!("{name}/cpu_time")];
        assert_in!(used / seconds, 0.97..1.03, "{name}: {used} s");
    };
    // Beside a program that lasts longer, and under a run that does.
    let all = metrics(&format!("{short}{long}{hog}"));
    has(&all, "short", 0.2);
    has(&all, "long", 0.4);
    has(&all, "hog", 3.0);
    let all = metrics(&format!("{short}[run]\nduration = \"3s\"\n"));
    has(&all, "short", 0.2);
    // Files alone end the run when the last of them does.
    let all = metrics(&format!("{short}{long}"));
    has(&all, "short", 0.2);
    has(&all, "long", 0.4);
}
