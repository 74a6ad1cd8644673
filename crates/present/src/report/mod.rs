//! One page that shows an answer: a file that needs nothing else, not even a network.
//!
//! ```text
//! Question ──► gather ──► Gathered ──► data ──► Report (JSON) ──► page: HTML with script and style inside
//!                runs, one more of          sentence
//!                each first seed, watched
//! ```
//!
//! The script is written in TypeScript (`crates/lab/report`) and built by hand with
//! `npm run build`; what it builds is committed, so that building schedcast needs no node. Plots of
//! lines are drawn by uPlot (MIT licence, its notice is in the script).

pub mod data;
mod demand;
pub mod gather;
mod hardware;
mod memory;
mod pack;
pub(crate) mod scene;
mod sentence;

pub use data::Report;
pub use gather::gather;
pub use memory::Memory;

use crate::svg::escape;
use schedcast_base::harmless::{harmless, is_harmless};

const SCRIPT: &str = include_str!("page/report.js");
const STYLE: &str = include_str!("page/report.css");

/// The licence of uPlot, which goes where its code goes.
const NOTICE: &str = include_str!("page/uPlot.LICENSE");

/// Nothing is loaded from anywhere; a served page may talk to its own server.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'";

/// The page as a file. `served` is what controls the page has, as JSON; `None` for a page that only
/// shows.
pub fn page(report: &Report, served: Option<&str>) -> String {
    let data = serde_json::to_string(report).unwrap_or_default();
    let title = serde_json::to_value(report)
        .ok()
        .and_then(|report| Some(report.get("title")?.as_str()?.to_string()))
        .filter(|title| !title.is_empty())
        .unwrap_or_else(|| "schedcast".to_string());
    let controls = served.map_or(String::new(), |served| {
        let served = inside_script(served);
        format!("<script type=\"application/json\" id=\"controls\">{served}</script>\n")
    });
    let head = head(&title, &format!("<!-- Contains uPlot.\n{NOTICE}-->\n"));
    format!(
        "{head}<noscript>This page draws itself with JavaScript.</noscript>\n<div id=\"page\"></div>\n\
         <script type=\"application/json\" id=\"data\">{}</script>\n{controls}\
         <script>{SCRIPT}</script>\n</body>\n</html>\n",
        inside_script(&data),
    )
}

/// How every page begins, up to its first content: it fits any screen, is light or dark as its
/// reader wants, and loads nothing. `notice` stands above all of it.
pub fn head(title: &str, notice: &str) -> String {
    format!(
        "<!doctype html>\n{notice}<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n",
        escape(title),
    )
}

/// JSON that cannot end the script element it stands in, and whose strings show the codes of
/// characters that would reorder what stands beside them.
fn inside_script(json: &str) -> String {
    let mut inside = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<' => inside += "\\u003c",
            _ if is_harmless(character) => inside.push(character),
            // `\\u202e` in JSON is a backslash and five letters.
            _ => inside += &harmless(character.encode_utf8(&mut [0; 4])).replace('\\', "\\\\"),
        }
    }
    inside
}

#[cfg(test)]
mod palette;
#[cfg(test)]
mod tests;
