//! The answer as a page for a browser: one file, no script, nothing from elsewhere.

use std::fmt::Write;

use super::files::HEADER;
use super::{Fleet, Verdict};
use crate::svg::escape;

const STYLE: &str = "\
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .8rem; text-align: right; border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
th:first-child, td:first-child { text-align: left; overflow-wrap: anywhere; }
th { position: sticky; top: 0; background: Canvas; }
tr.raise td:nth-child(6) { font-weight: bold; color: light-dark(#a03000, #ff9d6e); }
tr.record td:nth-child(6) { font-weight: bold; color: light-dark(#7a4fb0, #c7a6ff); }
pre { white-space: pre-wrap; }
";
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

impl Fleet {
    /// A page with all containers; `source` is what the answer was read from.
    pub fn page(&self, source: &str) -> String {
        let mut text = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>Limits that hold back</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
             <h1>Limits that hold back</h1>\n<pre>{}</pre>\n<table>\n<thead><tr>",
            escape(&self.summary()),
        );
        for name in HEADER {
            let _ = write!(text, "<th scope=\"col\">{name}</th>");
        }
        text += "</tr></thead>\n<tbody>\n";
        for row in &self.rows {
            let class = match row.verdict {
                Verdict::Fine => "",
                verdict => verdict.word(),
            };
            let _ = write!(text, "<tr class=\"{class}\">");
            for cell in self.cells(row) {
                let _ = write!(text, "<td>{}</td>", escape(&cell));
            }
            text += "</tr>\n";
        }
        text += "</tbody>\n</table>\n";
        for (name, why) in &self.silent {
            let _ = writeln!(text, "<p>{}: {}</p>", escape(name), escape(why));
        }
        let version = env!("CARGO_PKG_VERSION");
        let (legend, source) = (escape(&self.legend()), escape(source));
        text + &format!(
            "<pre>{legend}</pre>\n<p>schedcast {version} · {source} · tier counters</p>\n</body>\n</html>\n"
        )
    }
}
