//! The command `schedcast`.

use std::io::IsTerminal;
use std::process::ExitCode;

use schedcast_base::harmless::HarmlessWriter;
use schedcast_cli::paint::Painter;
use schedcast_host::sys::terminal_columns;
use schedcast_lab::context::Style;
use schedcast_lab::simulator::Simulator;

fn main() -> ExitCode {
    let simulator = Simulator::new().drawing();
    // Not locked: the threads that simulate draw the progress bar on standard error. Text from
    // files reaches a terminal through these two only, without its escape sequences.
    let style = style();
    let mut out = HarmlessWriter::new(Painter::new(std::io::stdout(), style.colour));
    let mut err = HarmlessWriter::new(std::io::stderr());
    let words = std::env::args_os();
    let code = schedcast_cli::run_in_style(style, words, &simulator, &mut out, &mut err);
    ExitCode::from(code)
}

/// How tables are set: to the width of the terminal, in colour unless `NO_COLOR`
/// (<https://no-color.org>) or a terminal without any says otherwise; a file or a pipe gets the
/// same bytes everywhere.
fn style() -> Style {
    if !std::io::stdout().is_terminal() {
        return Style::default();
    }
    let is = |name: &str, test: fn(&str) -> bool| {
        let value = std::env::var_os(name);
        value.is_some_and(|value| test(&value.to_string_lossy()))
    };
    let plain = is("NO_COLOR", |value| !value.is_empty()) || is("TERM", |value| value == "dumb");
    let columns = terminal_columns().unwrap_or(schedcast_base::columns::WIDTH);
    Style::of_terminal(columns, !plain)
}
