//! Tables, pages, pictures and traces of results.
//!
//! | module | what it makes |
//! |---|---|
//! | [`tables`] | text, Markdown, mmtests and lkp tables of a comparison, advice as text, samples as files |
//! | [`report`] | the page of a comparison for a browser |
//! | [`serve`] | the same page, asked for over HTTP |
//! | [`frontier`] | plot, table and picture of a latency under every limit |
//! | [`fleet_page`] | the page of all containers of a dump |
//! | [`watch`] | one run as a Perfetto trace, and as what the page shows |
//! | [`views`] | the views of `perf sched` of a recording |
//! | [`lists`] | what `schedcast list` prints |
//!
//! Nothing in here decides a number. Worked example: a comparison in which the p99 of `schbench`
//! falls from 212.1 to 71.6 ms becomes the row `212.1   71.6 *` of [`tables::text`], the line
//! `-66.3%` of [`tables::lkp`] and a bar of [`report`].

pub mod fleet_page;
pub mod frontier;
pub mod lists;
pub mod report;
pub mod serve;
pub mod svg;
pub mod tables;
pub mod views;
pub mod watch;
