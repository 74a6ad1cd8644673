//! How far rt-app's calibration is off.
//!
//! rt-app times its loop before it starts, keeps the faster of two tries and cuts it to whole
//! nanoseconds (`pLoad`). Here it calibrates itself and then runs 20 ms at a time for a second
//! under SCHED_FIFO on an idle CPU: 22.7 ms where 20 were asked for are 1135 thousandths.

use std::process::Command;

use schedcast_base::quantile::median;

use crate::Outcome;

const ASKED_US: u32 = 20_000;

/// Calibrates and runs so many times and prints the ratios in thousandths.
#[expect(clippy::print_stdout, reason = "the figure is what was asked for")]
pub(crate) fn measure(runs: &str) -> Outcome<()> {
    let runs: usize = runs.parse()?;
    let folder = std::env::temp_dir().join(format!("rt-app-calibration-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("loop.json");
    std::fs::write(
        &file,
        format!(
            r#"{{"tasks": {{"loop": {{"cpus": [1], "policy": "SCHED_FIFO", "priority": 50, "loop": -1,
            "run": {ASKED_US}, "timer": {{"ref": "unique", "period": {}}}}}}},
            "global": {{"duration": 1, "calibration": "CPU1", "default_policy": "SCHED_OTHER",
            "logdir": "./", "log_basename": "calibration"}}}}"#,
            ASKED_US + 1000
        ),
    )?;
    let mut ratios = Vec::new();
    for _ in 0..runs {
        let output = Command::new("rt-app")
            .arg(&file)
            .current_dir(&folder)
            .output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("rt-app ended with {}: {said}", output.status).into());
        }
        let log = std::fs::read_to_string(folder.join("calibration-loop-0.log"))?;
        let run_us = log
            .lines()
            .filter_map(|line| line.split_whitespace().nth(2)?.parse().ok());
        let run_us = median(run_us.collect::<Vec<f64>>()).ok_or("rt-app logged no run")?;
        ratios.push(run_us * 1000.0 / f64::from(ASKED_US));
        println!("{:.0}", ratios[ratios.len() - 1]);
    }
    std::fs::remove_dir_all(&folder)?;
    println!("median {:.0}", median(ratios).unwrap_or(f64::NAN));
    Ok(())
}
