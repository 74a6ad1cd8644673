//! Pages of whole runs.

use super::*;
use crate::report::hardware;
use crate::report::scene::Scene;
use schedcast_base::{assert_contains, assert_in};
use schedcast_lab::experiment::{self, Experiment};
use schedcast_lab::question::{Question, Subject};
use schedcast_lab::simulator::Simulator;

/// The experiment that browsers are shown, with variants, and a title that tries to end what it
/// stands in.
fn text() -> String {
    let text = include_str!("experiment.toml");
    let text = text.replace("Burst under a limit", "Burst </script> & <b>");
    let text = text.replace("seeds = 2", "seeds = 3");
    let burst = "[variant.cgroup.\"/test\"]\n\"cpu.max.burst\" = 30000\n";
    format!("{text}[[variant]]\nname = \"no burst\"\n[[variant]]\nname = \"burst\"\n{burst}")
}

fn experiment(text: &str) -> Experiment {
    experiment::read_text("t.toml", text).unwrap()
}

/// The first variant's first seed, drawn within a budget.
fn scene(text: &str, budget: scene::Budget) -> Scene {
    let mut follow = crate::watch::Follow::new(scene::Sketch::new(budget));
    let mut finished = Simulator::new()
        .watch(&experiment(text).scenarios[0], 0, 1_000_000, &mut follow)
        .unwrap();
    follow.close(finished.world.now());
    follow.picture.finish(&mut finished.world)
}

fn gathered() -> (gather::Gathered, Experiment) {
    let experiment = experiment(&text());
    let question = Question::of(Subject::Command(Vec::new()));
    let gathered = gather(&question, &experiment, &Simulator::new(), None, &|| {}).unwrap();
    (gathered, experiment)
}

/// The integers behind a text of the page.
fn integers(text: &str) -> Vec<u64> {
    let place = |letter: u8| match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut bytes = Vec::new();
    for four in text.as_bytes().chunks(4) {
        let bits = four
            .iter()
            .fold(0u32, |bits, letter| bits << 6 | u32::from(place(*letter)));
        let padding = four.iter().filter(|letter| **letter == b'=').count();
        bytes.extend_from_slice(&bits.to_be_bytes()[1..4 - padding]);
    }
    let mut integers = Vec::new();
    let (mut value, mut shift) = (0, 0);
    for byte in bytes {
        value |= u64::from(byte & 127) << shift;
        shift += 7;
        if byte & 128 == 0 {
            integers.push(value);
            (value, shift) = (0, 0);
        }
    }
    integers
}

/// Time of all runs on all CPUs, ns.
fn run_ns(scene: &Scene) -> u64 {
    let of = |text: &String| -> u64 {
        let all = integers(text);
        all.chunks(3).map(|run| run[1] * scene.tick_ns).sum()
    };
    scene.slices.iter().map(of).sum()
}

#[test]
fn a_scene_agrees_with_the_counters() {
    let (gathered, _) = gathered();
    for (scene, variant) in gathered
        .scenes
        .iter()
        .zip(&gathered.answer.comparison.variants)
    {
        assert!(scene.complete);
        assert_eq!(scene.length_ms, 4000.0);
        let first_seed = |metric: &str| variant.get(metric).unwrap().samples[0].unwrap();
        let used_s = first_seed("schbench-classic/cpu_time");
        let drawn_s = run_ns(scene) as f64 / 1e9;
        assert!((drawn_s / used_s - 1.0).abs() < 0.01, "{drawn_s} {used_s}");
        let group = scene
            .groups
            .iter()
            .position(|path| path == "/test")
            .unwrap();
        let load = |kind: usize| -> f64 {
            let sum: f32 = scene.group_load[group][kind].iter().sum();
            f64::from(sum) * scene.bucket_ms / 1e3
        };
        let throttled_s = first_seed("schbench-classic/wait.throttled");
        assert!((load(0) / used_s - 1.0).abs() < 0.01);
        // The counter has only waits that are over.
        let more_s = load(2) - throttled_s;
        assert!((-0.01..0.4).contains(&more_s), "{more_s} {throttled_s}");
        let periods = scene.periods.iter().find(|one| one.group == group).unwrap();
        let counted = first_seed("cgroup:/test/nr_periods");
        let shown = periods.at_ms.len() as f64;
        assert_in!(shown, counted - 8.0..counted);
        let used: f64 = periods.used_ms.iter().sum();
        assert!(used <= used_s * 1e3 && used > used_s * 600.0, "{used}");
        // One that was entered.
        let state = &scene.hardware.as_ref().unwrap().idle_states[0];
        let column = format!("CPU%{state}");
        let [mean, most] = ["cstate", "cstate_max"].map(|metric| format!("{metric}.{state}"));
        for (name, mean, most, factor) in [
            ("Busy%", "awake_ratio", "awake_ratio_max", 100.0),
            ("Bzy_MHz", "frequency_mhz.mean", "frequency_mhz_max", 1.0),
            (column.as_str(), mean.as_str(), most.as_str(), 100.0),
            ("CorWatt", "core_watts", "core_watts_max", 1.0),
            ("PkgWatt", "package_watts", "package_watts_max", 1.0),
        ] {
            let columns = &scene.hardware.as_ref().unwrap().columns;
            let column = columns.iter().find(|column| column.name == name).unwrap();
            let counted = [mean, most].map(|name| factor * first_seed(&format!("machine/{name}")));
            assert_eq!([column.mean, column.most], counted, "{name}");
        }
    }
    let granted = |variant: usize| {
        let periods = &gathered.scenes[variant].periods[0];
        periods.granted_ms.iter().copied().fold(0.0, f64::max)
    };
    assert_eq!(granted(0), 30.0);
    assert!(granted(1) > 30.0 && granted(1) <= 60.0);
    assert!(!gathered.scenes[0].watts.is_empty());
    for hardware in gathered.scenes.iter().flat_map(|scene| &scene.hardware) {
        let shares = gathered.scenes.iter().flat_map(|scene| &scene.hardware);
        for (row, name) in hardware.idle_states.iter().enumerate() {
            assert!(shares.clone().any(|one| one.residency[row] > 0.0), "{name}");
        }
        let shown = |name: &String| {
            let name = format!("CPU%{name}");
            hardware.columns.iter().any(|column| column.name == name)
        };
        assert!(hardware.idle_states.iter().all(shown));
    }
}

/// The deepest state is left out if no CPU enters it, in any variant.
#[test]
fn idle_states_that_nobody_enters_are_left_out() {
    let budget = scene::Budget {
        slices: 10_000,
        buckets: 128,
        from_ns: 0,
        target: None,
    };
    let mut scenes = [text(), text()].map(|text| scene(&text, budget.clone()));
    let states = |scenes: &[Scene]| scenes[0].hardware.clone().unwrap().idle_states;
    let all = states(&scenes);
    let last = all.len() - 1;
    for scene in &mut scenes {
        let hardware = scene.hardware.as_mut().unwrap();
        hardware.residency = vec![0.25; all.len()];
        hardware.residency[last] = 0.0;
    }
    hardware::leave_out_unused_states(&mut scenes);
    assert_eq!(states(&scenes), all[..last]);
    for scene in &scenes {
        let hardware = scene.hardware.as_ref().unwrap();
        let unused = format!("CPU%{}", all[last]);
        assert!(hardware.columns.iter().all(|column| column.name != unused));
        assert_eq!(hardware.residency.len(), last);
    }
}

/// Demand does not depend on the limit, as long as the limit does not change when threads are
/// woken; usage does.
#[test]
fn demand_is_what_an_unlimited_group_uses() {
    let scene = |limit: &str| {
        let budget = scene::Budget {
            slices: 10_000,
            buckets: 128,
            from_ns: 0,
            target: None,
        };
        scene(&text().replace("30000 100000", limit), budget)
    };
    let (free, tight) = (scene("800000 100000"), scene("30000 100000"));
    let (free, tight) = (&free.periods[0], &tight.periods[0]);
    assert_eq!(free.wanted_ms.len(), free.at_ms.len());
    for (wanted, used) in free.wanted_ms.iter().zip(&free.used_ms) {
        assert!((wanted - used).abs() < 1.0, "{wanted} {used}");
    }
    let sum = |values: &[f64]| values.iter().sum::<f64>();
    let (wanted, used) = (sum(&tight.wanted_ms), sum(&tight.used_ms));
    // Up to one period's quota is used for what was wanted before the first row.
    assert_in!(wanted - used, -30.0..400.0);
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    assert!(most(&tight.wanted_ms) > 31.0, "more at once than the limit");
    assert!(
        most(&tight.used_ms) < 46.0,
        "never more than the limit and a slice"
    );
}

#[test]
fn runs_are_those_of_an_answer_without_a_page() {
    let (gathered, experiment) = gathered();
    let simulator = Simulator::new();
    let plain =
        schedcast_lab::simulate::run_all(&simulator, &experiment.scenarios, 3, &|| {}).unwrap();
    for (runs, variant) in plain.iter().zip(&gathered.answer.comparison.variants) {
        let hash = format!("{:016x}", schedcast_lab::outcome::combine_hashes(runs));
        assert_eq!(variant.event_hash, hash);
    }
    let of_all_seeds = &gathered.distributions[0]["schbench-classic/request_latency"];
    let counts = gathered.answer.comparison.variants[0]
        .get("schbench-classic/request_latency.count")
        .unwrap()
        .samples
        .clone();
    let count: f64 = counts.into_iter().flatten().sum();
    assert_eq!(of_all_seeds.count() as f64, count);
}

#[test]
fn a_page_is_one_file_that_fits_into_a_ticket() {
    let (gathered, experiment) = gathered();
    let page = page(&data::report(gathered, &experiment.scenarios), None);
    assert!(page.len() < 400_000, "{}", page.len());
    assert_eq!(
        page.matches("</script>").count(),
        2,
        "data cannot end its element"
    );
    assert!(page.contains("<title>Burst &lt;/script&gt; &amp; &lt;b&gt;</title>"));
    assert!(page.contains("Leon Sorokin"));
    for outside in ["src=\"http", "href=\"http", "@import", "url(http"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn the_sentence_names_the_variant_and_the_change() {
    let (gathered, experiment) = gathered();
    let report = serde_json::to_value(data::report(gathered, &experiment.scenarios)).unwrap();
    let sentence = report["sentences"][0].as_str().unwrap();
    assert_contains(
        sentence,
        ["schbench-classic/request_latency.p99", "“burst”"],
    );
}

#[test]
fn memory_for_a_scene_does_not_grow_with_the_run() {
    let size = |duration: &str| {
        let text = text().replace("duration = \"4s\"", &format!("duration = \"{duration}\""));
        let text = text.replace("-r 4 -c 60000 -R 4", "-r 60 -c 20000 -s 20000");
        let budget = scene::Budget {
            slices: 500,
            buckets: 128,
            from_ns: 0,
            target: None,
        };
        let scene = scene(&text, budget);
        assert!(!scene.complete);
        serde_json::to_string(&scene).unwrap().len()
    };
    let (short, long) = (size("5s"), size("50s"));
    assert!(long < short * 3, "{short} {long}");
}
