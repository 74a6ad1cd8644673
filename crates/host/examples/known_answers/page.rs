//! The Markdown page: one marked part for each section, replaced one at a time.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use schedcast_base::date::today;
use schedcast_host::measure::Spread;
use schedcast_host::{KernelInfo, Topology};

/// A section with its heading and the line that says where and when it was measured.
pub(crate) fn section(title: &str, steal_ratio: f64, body: &str) -> Result<String, Box<dyn Error>> {
    let mut text = format!("## {title}\n\n");
    writeln!(
        text,
        "Measured {} on {}; steal {:.2} %.\n",
        today(),
        machine()?,
        steal_ratio * 100.0
    )?;
    text.push_str(body.trim_end());
    text.push('\n');
    Ok(text)
}

/// Kernel and machine in one line.
fn machine() -> Result<String, Box<dyn Error>> {
    let kernel = KernelInfo::read()?;
    let topology = Topology::read()?;
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo")?;
    let field = |key: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let flags = field("flags").unwrap_or_default();
    let guest = flags.split(' ').any(|flag| flag == "hypervisor");
    Ok(format!(
        "Linux {} (HZ {}, preempt {}), {} CPUs of {}{}, idle governor {}",
        kernel.release,
        kernel.hz.map_or("unknown".to_owned(), |hz| hz.to_string()),
        kernel.preempt.unwrap_or("unknown"),
        topology.cpus.len(),
        field("model name").unwrap_or_default(),
        if guest { " (virtual machine)" } else { "" },
        topology.idle_governor,
    ))
}

/// Replaces the part `name` of the page, or puts it in the place that the order of `names` gives
/// it.
pub(crate) fn replace(
    file: &Path,
    name: &str,
    names: &[&str],
    text: &str,
) -> Result<(), Box<dyn Error>> {
    let old = std::fs::read_to_string(file).unwrap_or_else(|_| preface());
    let (head, mut parts) = split(&old);
    parts.retain(|(known, _)| known != name);
    parts.push((name.to_owned(), text.to_owned()));
    parts.sort_by_key(|(known, _)| names.iter().position(|n| n == known));
    let mut page = head.trim_end().to_owned();
    for (known, body) in &parts {
        let body = body.trim();
        write!(
            page,
            "\n\n<!-- begin {known} -->\n{body}\n<!-- end {known} -->"
        )?;
    }
    page.push('\n');
    std::fs::write(file, page)?;
    Ok(())
}

fn preface() -> String {
    "# Known answers on a live 6.18 kernel\n\n\
     What the real kernel did, for comparison with what the simulated one does. Each part is written by\n\
     `cargo run --release -p schedcast-host --example known_answers PART --into THIS_FILE` (as root, on an\n\
     otherwise idle machine); its raw samples stand below its table.\n"
        .to_owned()
}

/// The text before the first part, and the parts.
fn split(page: &str) -> (String, Vec<(String, String)>) {
    let mut pieces = page.split("<!-- begin ");
    let head = pieces.next().unwrap_or("").to_owned();
    let parts = pieces.filter_map(|piece| {
        let (name, rest) = piece.split_once(" -->\n")?;
        let (body, _) = rest.split_once(&format!("\n<!-- end {name} -->"))?;
        Some((name.to_owned(), body.to_owned()))
    });
    (head, parts.collect())
}

/// Median and spread with a number of digits after the point, in the unit the samples have.
pub(crate) fn spread_cells(samples: &[f64], digits: usize) -> String {
    Spread::of(samples).map_or("– | – | – | – | –".to_owned(), |s| {
        format!(
            "{:.digits$} | {:.digits$} | {:.digits$} | {:.digits$} | {}",
            s.median, s.p10, s.p90, s.max, s.count
        )
    })
}

/// Header that fits `spread_cells` behind one first column.
pub(crate) fn spread_header(first: &str) -> String {
    format!("| {first} | median | p10 | p90 | max | samples |\n|---|---|---|---|---|---|\n")
}

/// Raw values in a folded block.
pub(crate) fn raw(what: &str, lines: &[String]) -> String {
    format!(
        "\n<details><summary>{what}</summary>\n\n```text\n{}\n```\n\n</details>\n",
        lines.join("\n")
    )
}

/// Values as one line.
pub(crate) fn list(values: impl IntoIterator<Item = f64>, digits: usize) -> String {
    let words: Vec<String> = values
        .into_iter()
        .map(|v| format!("{v:.digits$}"))
        .collect();
    words.join(" ")
}
