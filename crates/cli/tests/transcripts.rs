//! The commands of the documentation print what the documentation says.
//!
//! A block marked `console` starts with `$ schedcast …`; the lines behind it are its output. With
//! `RENEW=1` in the environment the pages are rewritten instead: `make renew`.

use std::ffi::OsString;
use std::path::Path;

use schedcast_lab::experiment::units::split_words;
use schedcast_lab::simulator::Simulator;

const PAGES: [&str; 2] = ["docs/commands/explain.md", "docs/own-patch.md"];

fn output_of(command: &str) -> String {
    let words = split_words(command).expect("a command line");
    let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = schedcast_cli::run(words, &Simulator::new().drawing(), &mut out, &mut err);
    assert_eq!(
        (code, String::from_utf8(err).unwrap()),
        (0, String::new()),
        "{command}"
    );
    String::from_utf8(out).unwrap()
}

/// The page with the output of every command as it is today.
fn renewed(page: &str) -> String {
    let mut text = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        text += &format!("{line}\n");
        if line != "```console" {
            continue;
        }
        let command = lines.next().expect("a command behind ```console");
        text += &format!("{command}\n");
        text += &output_of(command.strip_prefix("$ ").expect("`$ ` before the command"));
        lines.by_ref().find(|line| *line == "```");
        text += "```\n";
    }
    text
}

#[test]
fn pages_show_what_the_commands_print() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for page in PAGES {
        let file = root.join(page).canonicalize().unwrap();
        // Files in a page's commands are named from the page's own folder.
        std::env::set_current_dir(file.parent().unwrap()).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let today = renewed(&text);
        if std::env::var_os("RENEW").is_some() {
            std::fs::write(&file, today).unwrap();
        } else {
            assert_eq!(text, today, "{page}: `make renew` writes it anew");
        }
    }
}
