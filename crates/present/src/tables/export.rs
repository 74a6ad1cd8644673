//! Samples in the forms in which mmtests and lkp-tests keep theirs, one file a variant.
//!
//! * `mmtests.tsv`: a row a metric and seed, columns metric, two factors, interval, value and
//!   extra, as mmtests' own parsers print them. The program is the first factor, the second is
//!   empty, the seed is the interval.
//! * `matrix.json`: what lkp keeps beside a result: an object from `PROGRAM.METRIC` to the list of
//!   its samples.
//!
//! Worked example: two seeds with a p99 of 3 and 4 us are the rows
//! `request_latency.p99⇥schbench⇥⇥0⇥3⇥` and `…⇥1⇥4⇥`, and in lkp's form
//! `"schbench.request_latency.p99": [3, 4]`.

use std::path::{Path, PathBuf};

use schedcast_base::fresh;
use serde_json::{Map, Value};

use schedcast_lab::comparison::{Comparison, Variant};
use schedcast_lab::error::{Error, Result};
use schedcast_lab::metrics;

/// The rows of mmtests, every metric. Seeds without a value have no row.
pub(crate) fn mmtests_tsv(variant: &Variant) -> String {
    let mut text = String::new();
    for (name, summary) in &variant.metrics {
        let Some(metric) = metrics::parse(name) else {
            continue;
        };
        for (seed, value) in summary.samples.iter().enumerate() {
            if let Some(value) = value {
                text += &format!("{}\t{}\t\t{seed}\t{value}\t\n", metric.name, metric.subject);
            }
        }
    }
    text
}

/// lkp's object, every metric. Seeds without a value are 0, as lkp fills what a run did not report.
pub(crate) fn matrix_json(variant: &Variant) -> String {
    let row = |(name, summary): &(String, schedcast_lab::comparison::Summary)| {
        let metric = metrics::parse(name)?;
        let samples = summary.samples.iter().map(|value| value.unwrap_or(0.0));
        let name = format!("{}.{}", metric.subject, metric.name);
        Some((name, Value::from(samples.collect::<Vec<f64>>())))
    };
    let rows: Map<String, Value> = variant.metrics.iter().filter_map(row).collect();
    format!("{:#}\n", Value::Object(rows))
}

/// Writes both forms of every variant into `folder/VARIANT/`, and returns the files.
///
/// # Errors
/// A folder or file that cannot be written.
pub fn write(comparison: &Comparison, folder: &Path) -> Result<Vec<PathBuf>> {
    let names = file_names(comparison.variants.iter().map(|one| one.name.as_str()));
    let mut files = Vec::new();
    for (variant, name) in comparison.variants.iter().zip(names) {
        let place = folder.join(name);
        std::fs::create_dir_all(&place)
            .map_err(|error| Error::file("create", place.display(), &error))?;
        for (file, text) in [
            ("mmtests.tsv", mmtests_tsv(variant)),
            ("matrix.json", matrix_json(variant)),
        ] {
            let path = place.join(file);
            fresh::save(&path, text)?;
            files.push(path);
        }
    }
    Ok(files)
}

/// Names of variants as names of files: unlike one another, and without letters a shell or a path
/// takes otherwise.
pub(crate) fn file_names<'a>(variants: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for variant in variants {
        let harmless = |letter: char| letter.is_alphanumeric() || "-.".contains(letter);
        let name: String = variant
            .chars()
            .map(|letter| if harmless(letter) { letter } else { '_' })
            .collect();
        // `..` would lead out of the folder.
        let name = match name.trim_start_matches('.') {
            "" => "variant".to_string(),
            kept => kept.to_string(),
        };
        let mut candidate = name.clone();
        let mut number = 2;
        while names.contains(&candidate) {
            candidate = format!("{name}-{number}");
            number += 1;
        }
        names.push(candidate);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedcast_lab::samples::example;

    #[test]
    fn rows_of_mmtests() {
        let text = mmtests_tsv(&example().variants[1]);
        let p99: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("request_latency.p99"))
            .collect();
        let expected = [
            "request_latency.p99\tschbench\t\t0\t71000\t",
            "request_latency.p99\tschbench\t\t1\t70200\t",
            "request_latency.p99\tschbench\t\t2\t73500\t",
        ];
        assert_eq!(p99, expected, "seed 3 has no p99");
        assert!(text.contains("nr_throttled\tcgroup:/test\t\t3\t0\t\n"));
    }

    #[test]
    fn object_of_lkp() {
        let text = matrix_json(&example().variants[1]);
        let object: Value = serde_json::from_str(&text).unwrap();
        let p99 = &object["schbench.request_latency.p99"];
        assert_eq!(*p99, serde_json::json!([71000.0, 70200.0, 73500.0, 0.0]));
        assert_eq!(object["schbench.rps"].as_array().unwrap().len(), 4);
    }

    #[test]
    fn files_stay_in_their_folder() {
        let folder = tempfile::tempdir().unwrap();
        let mut comparison = example();
        comparison.variants[0].name = "../../x".to_string();
        let files = write(&comparison, folder.path()).unwrap();
        assert_eq!(files.len(), 4);
        assert!(files[0].starts_with(folder.path()));
        assert!(
            files[0].ends_with("_.._x/mmtests.tsv"),
            "{}",
            files[0].display()
        );
        assert!(files.iter().all(|file| file.metadata().unwrap().len() > 20));
    }

    #[test]
    fn names_of_files_are_unlike() {
        let names = file_names(["a b", "a/b", "..", "5.14"].into_iter());
        assert_eq!(names, ["a_b", "a_b-2", "variant", "5.14"]);
    }
}
