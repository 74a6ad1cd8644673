//! A trace of one format in another.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::write::GzEncoder;
use schedcast_base::fresh::Fresh;
use schedcast_trace::write::{WriteFormat, sink};
use schedcast_trace::{Counts, EventSource, open_trace, trace_of};

use schedcast_lab::error::{Error, Result};
use schedcast_lab::simulator::bad_input;

/// Endings that tell a format.
const ENDINGS: [(&str, WriteFormat); 5] = [
    ("pftrace", WriteFormat::Perfetto),
    ("perfetto-trace", WriteFormat::Perfetto),
    ("perfetto", WriteFormat::Perfetto),
    ("script", WriteFormat::PerfScript),
    ("txt", WriteFormat::FtraceText),
];

/// Writes the trace at `from` to the file `to`, or to `out` if that is `-`. Gives notes about what
/// was odd or left out.
///
/// # Errors
/// If the trace cannot be read, nothing says which format is wanted, or the output fails.
pub fn convert(
    from: &Path,
    to: &Path,
    format: Option<WriteFormat>,
    out: &mut impl Write,
) -> Result<Vec<String>> {
    let format = format.map_or_else(|| format_of(to), Ok)?;
    let mut source = open_trace(&trace_of(from).map_err(bad_input)?).map_err(bad_input)?;
    if to == Path::new("-") {
        let result = copy(source.as_mut(), format, &mut *out);
        let left_out = finish(result, "standard output", true)?;
        return Ok(notes(source.counts(), left_out));
    }
    if let (Ok(from), Ok(to)) = (from.canonicalize(), to.canonicalize())
        && from == to
    {
        return Err(Error::usage("a trace is not written over itself"));
    }
    let shown = to.display();
    let fails = |error: io::Error| Error::file("write", shown.to_string(), &error);
    let mut file = BufWriter::new(Fresh::create(to).map_err(fails)?);
    let result = if to.extension().is_some_and(|ending| ending == "gz") {
        let mut packer = GzEncoder::new(&mut file, flate2::Compression::default());
        let copied = copy(source.as_mut(), format, &mut packer);
        copied.and_then(|left_out| packer.finish().map(|_| left_out).map_err(Broken::Output))
    } else {
        copy(source.as_mut(), format, &mut file)
    };
    let left_out = finish(result, &shown.to_string(), false)?;
    let file = file
        .into_inner()
        .map_err(|error| fails(error.into_error()))?;
    file.keep().map_err(fails)?;
    Ok(notes(source.counts(), left_out))
}

fn format_of(to: &Path) -> Result<WriteFormat> {
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    let found = ENDINGS.iter().find(|(known, _)| Some(*known) == ending);
    found.map(|(_, format)| *format).ok_or_else(|| {
        let known: Vec<String> = ENDINGS
            .iter()
            .map(|(ending, _)| format!(".{ending}"))
            .collect();
        Error::usage(format!(
            "nothing says in which format to write `{}`",
            to.display()
        ))
        .hint(format!("add --to, or let it end in {}", known.join(", ")))
    })
}

/// Failure of the input or of the output.
enum Broken {
    Input(schedcast_trace::ReadError),
    Output(io::Error),
}

fn copy(
    source: &mut dyn EventSource,
    format: WriteFormat,
    out: impl Write,
) -> std::result::Result<u64, Broken> {
    // The facts in the head of the file are known before the first item.
    let mut item = source.next_item().map_err(Broken::Input)?;
    let mut to = sink(format, out, source.counts().cpus_declared);
    while let Some(one) = item {
        to.item(&one, source.comms()).map_err(Broken::Output)?;
        item = source.next_item().map_err(Broken::Input)?;
    }
    to.finish().map_err(Broken::Output)?;
    Ok(to.left_out())
}

fn finish(result: std::result::Result<u64, Broken>, shown: &str, may_close: bool) -> Result<u64> {
    match result {
        Ok(left_out) => Ok(left_out),
        Err(Broken::Input(error)) => Err(bad_input(error)),
        // A reader that went away (`… | head`) is no error.
        Err(Broken::Output(error)) if may_close && error.kind() == io::ErrorKind::BrokenPipe => {
            Ok(0)
        }
        Err(Broken::Output(error)) => Err(Error::file("write", shown, &error)),
    }
}

/// Notes on oddities of the trace, and on the number of events that the format cannot express.
fn notes(counts: &Counts, left_out: u64) -> Vec<String> {
    let mut notes = counts.notes();
    if left_out > 0 {
        notes.push(format!(
            "{left_out} events that the format has no words for were left out"
        ));
    }
    notes
}
