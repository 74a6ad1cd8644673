//! Names that are escapes, markup or formulas, through every writer of an experiment's answer: each
//! shows them as text. The SVG of a frontier and the rules for Prometheus have tests of their own.

mod command;

use std::fs;
use std::path::Path;

use command::{schedcast, text};
use schedcast_base::assert_contains;
use schedcast_base::harmless::is_harmless;
use serde_json::Value;

const TITLE: &str = "T \u{1b}[31m <script>alert(1)</script> \u{202e}eltit [l](javascript:x)";
const PROGRAM: &str = "=p<script>\u{1b}[31m\u{202e}\"|";
const VARIANTS: [&str; 5] = [
    "<script>alert(1)</script>",
    "=1+1",
    "a\"b",
    "\u{202e}desrever",
    "|[x](javascript:alert(1))",
];

/// The experiment with these names, which TOML writes as JSON does.
fn experiment(title: &str, program: &str, variants: [&str; 5]) -> String {
    let quoted = |name: &str| Value::from(name).to_string();
    let group = quoted(&format!("/{program}"));
    let mut text = format!(
        "title = {}\n[machine]\npreset = \"generic-8\"\ncpus = 1\n[cgroup.{group}]\n\
         \"cpu.max\" = \"30000 100000\"\n[[program]]\nname = {}\ncgroup = {group}\n\
         run = \"schbench-classic -m 1 -t 2 -r 1 -c 2000 -s 2000\"\n\
         [run]\nseeds = 1\nduration = \"50ms\"\n",
        quoted(title),
        quoted(program)
    );
    for variant in variants {
        text += &format!("[[variant]]\nname = {}\n", quoted(variant));
    }
    text
}

/// Runs a verb on the hostile experiment; what it printed.
fn answer(folder: &Path, words: &[&str], outputs: &[(&str, &str)]) -> String {
    let file = folder.join("hostile.toml");
    let mut hostile = experiment(TITLE, PROGRAM, VARIANTS);
    if words[0] == "sweep" {
        hostile += "[sweep]\n\"kernel.hz\" = [250, 1000]\n";
    }
    fs::write(&file, hostile).unwrap();
    let mut all = vec![words[0], file.to_str().unwrap()];
    all.extend(&words[1..]);
    let paths: Vec<_> = outputs.iter().map(|(_, name)| folder.join(name)).collect();
    for ((option, _), path) in outputs.iter().zip(&paths) {
        all.extend([*option, path.to_str().unwrap()]);
    }
    let output = schedcast(&all);
    let printed = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{printed}");
    assert!(printed.chars().all(is_harmless), "{printed:?}");
    printed
}

#[test]
fn a_terminal_and_markdown_show_hostile_names_as_text() {
    let folder = tempfile::tempdir().unwrap();
    let table = answer(folder.path(), &["compare"], &[]);
    assert!(table.contains(r"=p<script>\u001b[31m\u202e"), "{table}");
    let page = answer(folder.path(), &["compare", "--format", "markdown"], &[]);
    let bare = page
        .replace(r"\\", "")
        .replace(r"\<", "")
        .replace(r"\[", "");
    let outside = bare.split("```").step_by(2).collect::<String>();
    assert!(!outside.contains('<') && !outside.contains('['), "{page}");
    // Every row has a label and five cells.
    let rows = bare.lines().filter(|line| line.starts_with('|'));
    let widths: Vec<usize> = rows
        .map(|row| row.replace(r"\|", "").matches('|').count())
        .collect();
    assert!(
        widths.len() > 10 && widths.iter().all(|width| *width == 7),
        "{page}"
    );
}

#[test]
fn json_a_page_and_a_trace_keep_hostile_names_as_text() {
    let folder = tempfile::tempdir().unwrap();
    let outputs = [
        ("--json", "out.json"),
        ("--report", "out.html"),
        ("--trace", "out.pftrace"),
    ];
    answer(folder.path(), &["compare"], &outputs);
    let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
    let json: Value = serde_json::from_slice(&read("out.json")).unwrap();
    assert_eq!(json["title"], TITLE);
    let names = json["variants"].as_array().unwrap().iter();
    assert!(names.map(|one| one["name"].as_str().unwrap()).eq(VARIANTS));

    let page = text(&read("out.html"));
    assert!(page.chars().all(is_harmless));
    // The data and the program; a name would begin a third.
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script").count(), 2);
    assert!(!page.contains("<script>alert"));

    // A string of protocol buffers begins with its length and has no other end.
    let trace = read("out.pftrace");
    let places = trace.windows(PROGRAM.len());
    let mut found = 0;
    for (place, _) in places
        .enumerate()
        .filter(|(_, one)| *one == PROGRAM.as_bytes())
    {
        found += usize::from(usize::from(trace[place - 1]) >= PROGRAM.len());
    }
    assert!(found > 0);
}

#[test]
fn a_spreadsheet_of_hostile_names_calculates_and_obeys_nothing() {
    let folder = tempfile::tempdir().unwrap();
    answer(folder.path(), &["sweep", "-q"], &[("-o", "swept")]);
    let csv = fs::read_to_string(folder.path().join("swept/results.csv")).unwrap();
    assert!(csv.chars().all(is_harmless), "{csv:?}");
    assert_contains(
        &csv,
        ["\n'=1+1,250,", ",\"'=p<script>", "\n\"a\"\"b\",250,"],
    );
    for field in csv.split([',', '\n']) {
        let first = field.trim_start_matches('"');
        let formula = first.starts_with(['=', '+', '-', '@']);
        assert!(!formula || first.parse::<f64>().is_ok(), "{field}");
    }
}
