//! The ticket block of an advice, the patches below it, and the table of a gate.
//!
//! A ticket is at most 25 lines: what is promised, one column a limit, what doing nothing costs,
//! what is recommended, what was simulated and how well it fits, and how to get it again. How to
//! apply it follows.

use super::text::{
    Cell, Row, UNKNOWN, body, fitting_threads, header, labelled, provenance, separated, words,
};
use super::{Context, Scale, scale_for, wrap_to};
use schedcast_advise::gate::Gate;
use schedcast_advise::judge::Forecast;
use schedcast_advise::slo::Slo;
use schedcast_advise::{Advice, Candidate, Conclusion, Doubt};
use schedcast_base::columns::width;
use schedcast_lab::comparison::{Comparison, Variant};
use schedcast_lab::context::source_of;
use schedcast_lab::metrics;
use schedcast_lab::patches::Patches;
use schedcast_lab::recording::KeptOrder;
use schedcast_lab::verdict::at_most_throttled;

/// The whole answer: ticket, an empty line, patches.
pub fn render(advice: &Advice) -> String {
    let mut text = ticket(advice);
    if let Some(patches) = &advice.patches {
        text.push('\n');
        if needs_none(advice) {
            text += "to set it all the same, ";
        }
        text += &block(&advice.target, patches, advice.context.style.columns);
    }
    text
}

/// Whether no limit is in force and the promises are kept, so that the advice names only the
/// smallest limit that could be set.
fn needs_none(advice: &Advice) -> bool {
    let now = &advice.options[0];
    now.suits && now.limit.quota_us.is_none()
}

/// The ticket alone.
pub(crate) fn ticket(advice: &Advice) -> String {
    let mut text = heading(&advice.comparison, &advice.context, &advice.promises);
    let mut rows: Vec<Row> = Vec::new();
    for (index, slo) in advice.promises.iter().enumerate() {
        let forecasts = advice.options.iter().map(|option| &option.forecasts[index]);
        let forecasts: Vec<&Forecast> = forecasts.collect();
        rows.push(promise_row(slo, &forecasts, &advice.context));
        rows.extend(recorded_row(&advice.comparison, slo, &forecasts));
    }
    let row = |label: &str, cell: &dyn Fn(&Candidate) -> Cell| Row {
        label: label.to_string(),
        cells: advice.options.iter().map(cell).collect(),
    };
    let percent = |share: f64| Cell::of(format!("{:.1}", share * 100.0));
    let finished = |one: &Candidate| Cell::of(format!("{:.0}", one.finished));
    rows.push(row(&format!("{} finished", advice.counted), &finished));
    let lost = |one: &Candidate| percent(one.time_lost);
    rows.push(row("time lost to throttling (%)", &lost));
    let throttled = |one: &Candidate| percent(one.periods_throttled);
    rows.push(row("periods throttled (%)", &throttled));
    rows.extend(price_row(&advice.options, &advice.context));
    rows.push(row("suits", &|one| suits(advice, one)));
    text += &body(&advice.comparison, &rows, &advice.context.style);
    let star = match needs_none(advice) {
        true => "smallest limit that suits",
        false => "recommended",
    };
    let legend =
        format!("≤ (≥): worse end of the 95 % interval of one run, with the misfit; * {star}");
    text += &wrap_to(advice.context.style.columns, "", &words(&legend), 2);
    text += &behind(advice);
    text += &now(advice);
    text += &verdict(advice);
    text += &judged_from(&advice.comparison, &advice.context, &advice.promises);
    text
}

/// Provenance of the advice, with the fit of the promised metrics alone.
fn judged_from(comparison: &Comparison, context: &Context, promises: &[Slo]) -> String {
    let mut context = context.clone();
    context.fit.retain(|fit| {
        let promised = promises.iter().any(|slo| slo.metric == fit.metric);
        promised || fit.metric.ends_with("/nr_throttled")
    });
    context.verbose = true;
    provenance(comparison, &context)
}

/// Header, and what is promised.
fn heading(comparison: &Comparison, context: &Context, promises: &[Slo]) -> String {
    let mut text = header(comparison, context);
    let all = promises.iter().map(Slo::describe);
    let all: Vec<String> = all.map(|one| labelled(&one, context).join(" ")).collect();
    let pieces = separated(&all, ",");
    text += &wrap_to(context.style.columns, "promised:", &pieces, 10);
    text.push('\n');
    text
}

/// Recorded values of the promised metric, below the forecast for its limit.
fn recorded_row(comparison: &Comparison, slo: &Slo, forecasts: &[&Forecast]) -> Option<Row> {
    let summary = comparison.variants.first()?.get(&slo.metric)?;
    let scale = promise_scale(slo, forecasts);
    let mut cells = vec![Cell::default(); forecasts.len()];
    *cells.first_mut()? = Cell::of(scale.number(summary.recorded?));
    let label = format!("  {}", source_of(summary.inferred));
    Some(Row { label, cells })
}

/// A growth below this prints as nothing.
const NOTHING: f64 = 0.0005;

/// A growth in percent with its sign; nothing has none.
fn percent(growth: f64) -> String {
    match growth.abs() {
        size if size < NOTHING => "0.0".to_string(),
        size if !size.is_finite() => UNKNOWN.to_string(),
        _ => format!("{:+.1}", growth * 100.0),
    }
}

fn promise_scale(slo: &Slo, forecasts: &[&Forecast]) -> Scale {
    let means = forecasts.iter().filter_map(|one| one.mean);
    let largest = means.fold(0.0, f64::max);
    let scale = metrics::parse(&slo.metric).map(|metric| scale_for(&metric, largest));
    scale.unwrap_or(Scale {
        divisor: 1.0,
        unit: "",
        digits: 1,
    })
}

fn promise_row(slo: &Slo, forecasts: &[&Forecast], context: &Context) -> Row {
    let scale = promise_scale(slo, forecasts);
    let unit = scale.in_brackets();
    let name = fitting_threads(&context.names.of(&slo.metric), width(&unit), context);
    let label = format!("{name}{unit}");
    let cells = forecasts.iter().map(|one| forecast_cell(slo, one, &scale));
    let cells = cells.collect();
    Row { label, cells }
}

fn forecast_cell(slo: &Slo, forecast: &Forecast, scale: &Scale) -> Cell {
    let (Some(mean), Some([low, high])) = (forecast.mean, forecast.interval) else {
        return Cell::of("-".to_string());
    };
    let spread = match slo.bound.from_above() {
        _ if forecast.at_least => String::new(),
        true => format!("≤{}", scale.number(high)),
        false => format!("≥{}", scale.number(low)),
    };
    Cell::with_spread(scale.bound(mean, forecast.at_least), spread)
}

/// The price of every option but the recorded one; nothing without neighbours.
fn price_row(options: &[Candidate], context: &Context) -> Option<Row> {
    let first = options.iter().find_map(|option| option.price.as_ref())?;
    let same = |option: &Candidate| {
        let price = option.price.as_ref();
        price.is_none_or(|price| price.threads == first.threads)
    };
    let alone = options.iter().all(same);
    let label = match alone {
        true => {
            let short = first.metric.rsplit("latency.").next().unwrap_or("");
            let taken = width("neighbour  (%) ") + width(short);
            let threads = fitting_threads(&first.threads, taken, context);
            format!("neighbour {threads} {short} (%)")
        }
        false => "neighbour that pays most (%)".to_string(),
    };
    let cell = |(index, option): (usize, &Candidate)| {
        let Some(price) = &option.price else {
            // The recorded limit costs nothing more; of another one it is not known.
            return Cell::of(if index == 0 { "0" } else { "-" }.to_string());
        };
        let at_most = match price.growth_at_most.is_finite() {
            true => format!("≤{}", percent(price.growth_at_most)),
            false => UNKNOWN.to_string(),
        };
        match (alone, price.certain) {
            (true, _) => Cell::with_spread(percent(price.growth), at_most),
            (false, false) => Cell::with_spread("0".to_string(), at_most),
            // A cell has no room for more than a column's name.
            (false, true) => {
                let threads = fitting_threads(&price.threads, context.style.columns / 4, context);
                Cell::with_spread(percent(price.growth), threads)
            }
        }
    };
    Some(Row {
        label,
        cells: options.iter().enumerate().map(cell).collect(),
    })
}

fn suits(advice: &Advice, option: &Candidate) -> Cell {
    Cell {
        value: if option.suits { "yes" } else { "no" }.to_string(),
        star: advice.recommended.as_ref() == Some(&option.name),
        ..Cell::default()
    }
}

/// Why columns suit no promise.
fn behind(advice: &Advice) -> String {
    let line = |option: &Candidate| {
        let doubted = option.doubt.as_ref().map(|doubt| match doubt {
            Doubt::By(by) => {
                format!(
                    "“{by}” grants at least as much, and is not certain to keep what is promised"
                )
            }
            Doubt::Schedule => "it helps only if clients keep a schedule".to_string(),
        });
        let why = option.falls_behind.clone().or(doubted)?;
        let pieces = words(&format!("{} does not suit: {why}", option.name));
        Some(wrap_to(advice.context.style.columns, "", &pieces, 2))
    };
    advice.options.iter().filter_map(line).collect()
}

fn describe(option: &Candidate) -> String {
    let files = format!("cpu.max \"{}\"", option.limit.cpu_max());
    let burst = match option.limit.burst_us {
        0 => String::new(),
        burst_us => format!(", cpu.max.burst {burst_us}"),
    };
    format!("{} ({files}{burst})", option.limit.in_words())
}

fn verdict(advice: &Advice) -> String {
    let line = match advice.recommendation() {
        Some(option) if option.name == advice.options[0].name => {
            "advice: leave it as it is: no smaller limit suits".to_string()
        }
        Some(option) => {
            let price = match &option.price {
                None if advice.has_neighbours => "; no neighbour could be judged".to_string(),
                None => String::new(),
                Some(price) if price.growth_at_most < NOTHING => "; no neighbour pays".to_string(),
                Some(price) if !price.growth_at_most.is_finite() => {
                    format!("; how much {} may pay is not known", price.threads)
                }
                Some(price) if !price.certain => format!(
                    "; no neighbour pays for certain ({} at most {} %)",
                    price.threads,
                    percent(price.growth_at_most)
                ),
                Some(price) => format!(
                    "; {} pays {} %, at most {} %",
                    price.threads,
                    percent(price.growth),
                    percent(price.growth_at_most)
                ),
            };
            let brings: Vec<String> = brings(advice, option);
            let lost = 100.0 * option.periods_throttled;
            let [share, most] = [option.periods_throttled, option.periods_throttled_at_most];
            let at_most = match most - share < NOTHING {
                true => String::new(),
                false => at_most_throttled(share, most),
            };
            let healthy = match needs_none(advice) {
                true => "none is needed; the smallest limit that keeps what is promised is ",
                false => "",
            };
            format!(
                "advice: {healthy}{}: {}: {}; {lost:.1} % of its periods are still throttled{at_most}{price}",
                option.name,
                describe(option),
                brings.join(", ")
            )
        }
        None => none(advice),
    };
    let pieces = labelled(&line, &advice.context);
    let mut text = wrap_to(advice.context.style.columns, "", &pieces, 8);
    if !advice.bounded_by.is_empty() {
        let groups = advice.bounded_by.join(", ");
        let line = format!(
            "note: “no limit” lifts the limit of the target only; that of {groups} stays, and --cgroup \
             or --pod asks about one of them"
        );
        text += &wrap_to(advice.context.style.columns, "", &words(&line), 6);
    }
    text
}

/// Sentence of an advice that recommends nothing.
fn none(advice: &Advice) -> String {
    match advice.conclusion {
        Conclusion::Recommended | Conclusion::TooDear => {
            "advice: none: what keeps the promise costs the neighbours more than allowed"
                .to_string()
        }
        Conclusion::OnlyWithoutLimit => {
            "advice: none: the promise is kept only without a limit".to_string()
        }
        Conclusion::NotCertain if advice.options.iter().any(Candidate::needs_schedule) => {
            "advice: none for certain: the limits that keep the promise help only if clients keep a \
             schedule, which the recording does not show; `--client open` or `closed` says which"
                .to_string()
        }
        Conclusion::NotCertain => {
            let Some(option) = advice.kept_on_average() else {
                return "advice: none for certain: the promise is not kept on average, and some \
                        runs may keep it"
                    .to_string();
            };
            format!(
                "advice: none for certain: the promise is kept on average, not in 95 of 100 runs; {}: {}",
                option.name,
                brings(advice, option).join(", ")
            )
        }
        Conclusion::NotKept => {
            if let Some((parent, limit)) = &advice.parent {
                let limit = limit.in_words();
                return format!(
                    "advice: none: {parent} around it limits it to {limit}, and no limit of its own \
                     keeps the promise; --cgroup {parent} asks about that one"
                );
            }
            if let Some(why) = advice.behind_without_limit() {
                return format!(
                    "advice: none: the limit is not what breaks the promise: without one what \
                     finishes keeps it, but the service does not keep up: {why}"
                );
            }
            not_kept_without(advice)
        }
    }
}

/// The promises that are not kept without a limit either, with the interval of one run: where it
/// reaches to where they are kept, nothing is certain about the limit.
fn not_kept_without(advice: &Advice) -> String {
    let mut options = advice.options.iter();
    let unlimited = options.find(|one| one.limit.quota_us.is_none());
    let forecasts = unlimited.map_or(&[][..], |option| &option.forecasts);
    let mut is_certain = unlimited.is_none();
    let mut broken = Vec::new();
    for (slo, forecast) in advice.promises.iter().zip(forecasts) {
        let (Some(mean), Some(ends)) = (forecast.mean, forecast.interval) else {
            is_certain = true;
            continue;
        };
        if slo.keeps(mean) && !forecast.at_least {
            continue;
        }
        is_certain |= !ends.iter().any(|end| slo.keeps(*end));
        let name = advice.context.names.of(&slo.metric);
        let scale = promise_scale(slo, &[forecast]);
        let value = scale.bound(mean, forecast.at_least) + &scale.behind();
        let [low, high] = ends.map(|end| scale.number(end));
        broken.push(format!(
            "{name} is {value} without one, {low} to {high} in 95 of 100 runs"
        ));
    }
    let what = match broken.is_empty() {
        true => "without one it is not kept on average either".to_string(),
        false => broken.join(", and "),
    };
    let is_not = match is_certain && !advice.keeps_order {
        true => "is not",
        false => "may not be",
    };
    let order = match advice.keeps_order {
        true => format!("; {}", KeptOrder::IN_SHORT),
        false => String::new(),
    };
    format!("advice: none: the limit {is_not} what breaks the promise: {what}{order}")
}

/// Forecast of each promised metric under an option, in words.
fn brings(advice: &Advice, option: &Candidate) -> Vec<String> {
    let pairs = advice.promises.iter().zip(&option.forecasts);
    let told = pairs.filter_map(|(slo, forecast)| {
        let name = advice.context.names.of(&slo.metric);
        let scale = promise_scale(slo, &[forecast]);
        let (value, worst) = (forecast.mean?, at_worst(slo, forecast, &scale)?);
        let value = scale.number(value) + &scale.behind();
        Some(format!("{name} becomes {value}, {worst}"))
    });
    told.collect()
}

/// The end of a forecast's interval that is worse for `slo`, in words.
fn at_worst(slo: &Slo, forecast: &Forecast, scale: &Scale) -> Option<String> {
    let [low, high] = forecast.interval?;
    let (word, end) = match slo.bound.from_above() {
        true => ("most", high),
        false => ("least", low),
    };
    Some(format!("at {word} {} in 95 of 100 runs", scale.number(end)))
}

/// Cost of keeping the recorded limit.
fn now(advice: &Advice) -> String {
    let recorded = &advice.options[0];
    let mut others = advice.options.iter().skip(1);
    let unlimited = others.find(|one| one.limit.quota_us.is_none());
    let mut parts = Vec::new();
    for (index, (slo, forecast)) in advice.promises.iter().zip(&recorded.forecasts).enumerate() {
        let name = advice.context.names.of(&slo.metric);
        let scale = promise_scale(slo, &[forecast]);
        let shown = |one: &Forecast| Some(scale.bound(one.mean?, one.at_least) + &scale.behind());
        let (Some(mean), Some(value)) = (forecast.mean, shown(forecast)) else {
            continue;
        };
        let at_worst =
            at_worst(slo, forecast, &scale).filter(|_| slo.keeps(mean) && !forecast.at_least);
        let judged = match (at_worst, slo.limit > 0.0) {
            _ if forecast.met => " and keeps its promise".to_string(),
            (Some(worst), _) => format!(", {worst}, which breaks the promise"),
            (None, true) => format!(", {:.2} times what is promised", mean / slo.limit),
            (None, false) => " and breaks its promise".to_string(),
        };
        let without = unlimited.and_then(|option| shown(&option.forecasts[index]));
        let without = without.map_or(String::new(), |value| format!(" (without a limit {value})"));
        parts.push(format!("{name} is {value}{without}{judged}"));
    }
    let lost = recorded.time_lost * 100.0;
    parts.push(format!(
        "{lost:.1} % of the time its threads want to run is lost"
    ));
    let limit = format!("{}:", recorded.limit.in_words());
    let mut pieces = words(&limit);
    pieces.extend(words(&parts.join(", ")));
    wrap_to(advice.context.style.columns, "now:", &pieces, 5)
}

/// The recommended limit for every tool, in lines of `columns`.
pub(super) fn block(target: &str, patches: &Patches, columns: usize) -> String {
    let weight = patches.weight;
    let mut text = format!("cd to the directory of {target}, then\n");
    for (tool, line) in patches.lines() {
        text += &format!("{tool:<12}{line}\n");
    }
    text += &format!(
        "weight      unchanged: cpu.shares {} is cpu.weight {} (linear: kubelet, runc < 1.3.2)\n            \
         or {} (quadratic: runc 1.3.2, crun 1.23)\n",
        weight.shares, weight.linear, weight.quadratic
    );
    for note in &patches.notes {
        text += &wrap_to(columns, "note        ", &words(note), 12);
    }
    text
}

/// A gate: one line a promise and column, and the verdict.
pub fn render_gate(gate: &Gate) -> String {
    let mut text = heading(&gate.comparison, &gate.context, &gate.promises);
    let mut rows = Vec::new();
    for (index, slo) in gate.promises.iter().enumerate() {
        let forecasts = gate.judged.iter().map(|one| &one.forecasts[index]);
        let forecasts: Vec<&Forecast> = forecasts.collect();
        rows.push(promise_row(slo, &forecasts, &gate.context));
        if gate.judged.first().map(|one| &one.name) == Some(&gate.comparison.baseline) {
            rows.extend(recorded_row(&gate.comparison, slo, &forecasts));
        }
        let is_kept = forecasts
            .iter()
            .map(|one| if one.met { "kept" } else { "broken" });
        rows.push(Row {
            label: format!("  {} {}", slo.bound.name(), slo.shown),
            cells: is_kept.map(|word| Cell::of(word.to_string())).collect(),
        });
    }
    let mut judged = gate.comparison.clone();
    let names: Vec<&str> = gate.judged.iter().map(|one| one.name.as_str()).collect();
    let is_judged = |variant: &Variant| names.contains(&variant.name.as_str());
    judged.variants.retain(is_judged);
    text += &body(&judged, &rows, &gate.context.style);
    for one in &gate.judged {
        if let Some(why) = &one.falls_behind {
            let line = format!("{}: the service falls behind: {why}", one.name);
            text += &wrap_to(gate.context.style.columns, "", &words(&line), 2);
        }
    }
    text += match gate.passes() {
        true => "passed\n",
        false => "failed: a promise is kept only if the worse end of its interval keeps it\n",
    };
    text += &judged_from(&gate.comparison, &gate.context, &gate.promises);
    text
}

#[cfg(test)]
mod tests {
    use schedcast_advise::gate::Judged;
    use schedcast_advise::price::Price;
    use schedcast_advise::slo::Scope;
    use schedcast_base::assert_contains;
    use schedcast_base::limits::CpuLimits;
    use schedcast_lab::context::{Names, RefitFigure};
    use schedcast_lab::patches::patches;
    use schedcast_lab::samples::compared;

    use super::*;

    fn promise(metric: &str) -> Slo {
        Slo::parse(&format!("{metric}<90ms"), Scope::default()).unwrap()
    }

    fn told(metrics: &[&str]) -> String {
        let comparison = schedcast_lab::samples::example();
        let fit = metrics.iter().map(|one| RefitFigure::new(*one, 42e3, 42e3));
        let context = Context {
            names: Names {
                own: vec!["nginx".to_string()],
                promised: metrics.iter().map(ToString::to_string).collect(),
            },
            fit: fit.collect(),
            ..Context::default()
        };
        let forecasts = metrics.iter().map(|metric| Forecast {
            metric: metric.to_string(),
            mean: Some(42e3),
            interval: Some([30e3, 50e3]),
            met: true,
            ..Forecast::default()
        });
        render_gate(&Gate {
            judged: vec![Judged {
                name: comparison.baseline.clone(),
                forecasts: forecasts.collect(),
                falls_behind: None,
            }],
            promises: metrics.iter().map(|one| promise(one)).collect(),
            comparison,
            context,
        })
    }

    /// A service without a limit that keeps its promise, which a limit of 20 ms keeps, too. How
    /// much a neighbour pays for that has no bound.
    fn healthy() -> Advice {
        let metric = "web/request_latency.p95";
        let rows = [(metric.to_string(), [42e3; 4], [43e3; 4])];
        let forecast = |mean| Forecast {
            metric: metric.to_string(),
            unit: "us".to_string(),
            mean: Some(mean),
            interval: Some([0.9 * mean, 1.1 * mean]),
            met: true,
            ..Forecast::default()
        };
        let option = |name: &str, limit, mean, price| Candidate {
            name: name.to_string(),
            limit,
            suits: true,
            falls_behind: None,
            doubt: None,
            finished: 100.0,
            forecasts: vec![forecast(mean)],
            price,
            time_lost: 0.0,
            periods_throttled: 0.0,
            periods_throttled_at_most: 1.0,
        };
        let limit = CpuLimits::new(20_000, 100_000, 0);
        let none = CpuLimits {
            quota_us: None,
            ..limit
        };
        let price = Price {
            threads: "rustc".to_string(),
            metric: "cpu_time".to_string(),
            recorded: 1e6,
            now: 9e5,
            growth: 0.11,
            growth_at_most: f64::INFINITY,
            certain: false,
        };
        Advice {
            schema: String::new(),
            schedcast: String::new(),
            recording: String::new(),
            target: "/web".to_string(),
            slos: Vec::new(),
            counted: "requests",
            max_neighbour: None,
            recommended: Some("quota 20ms".to_string()),
            conclusion: Conclusion::Recommended,
            options: vec![
                option("as recorded", none, 42e3, None),
                option("quota 20ms", limit, 43e3, Some(price)),
            ],
            patches: Some(patches("/web", none, limit, 1024)),
            comparison: compared(&rows),
            context: Context::default(),
            promises: vec![promise(metric)],
            bounded_by: Vec::new(),
            has_neighbours: true,
            keeps_order: false,
            parent: None,
        }
    }

    #[test]
    fn what_is_not_needed_is_not_recommended_and_what_has_no_bound_not_known() {
        let told = render(&healthy());
        let words: Vec<&str> = told.split_whitespace().collect();
        let told = words.join(" ");
        for expected in [
            "advice: none is needed; the smallest limit that keeps what is promised is quota 20ms",
            "* smallest limit that suits",
            "to set it all the same, cd to the directory of /web",
            "still throttled, and how many at most is not known",
            "how much rustc may pay is not known",
        ] {
            assert_contains(&told, expected);
        }
        assert!(
            !told.contains("recommended") && !told.contains("inf"),
            "{told}"
        );
    }

    #[test]
    fn limits_that_help_only_schedules_are_not_called_no_limits() {
        let mut advice = healthy();
        advice.recommended = None;
        advice.conclusion = Conclusion::NotCertain;
        advice.options[1].suits = false;
        advice.options[1].doubt = Some(Doubt::Schedule);
        let told = render(&advice);
        let words: Vec<&str> = told.split_whitespace().collect();
        assert_contains(
            words.join(" "),
            [
                "quota 20ms does not suit: it helps only if clients keep a schedule",
                "advice: none for certain: the limits that keep the promise help only if",
            ],
        );
    }

    #[test]
    fn rows_and_fit_say_which_clients_are_promised_what() {
        let hey = "nginx from hey/request_latency.p95";
        let curl = "nginx from curl/request_latency.p95";
        for promised in [&[hey, curl][..], &[curl]] {
            let told = told(promised);
            for metric in promised {
                assert_contains(&told, format!("\n{metric} (ms) ").as_str());
                let fit = told.split_once("fit to recording: ").unwrap().1;
                let fit: Vec<&str> = fit.split_whitespace().collect();
                assert_contains(
                    fit.join(" "),
                    format!("{metric} 42.00 re-simulated").as_str(),
                );
            }
        }
        let told = told(&["nginx/request_latency.p95"]);
        assert_contains(&told, ["\nrequest_latency.p95 (ms) "]);
        assert_contains(&told, ["fit to recording: request_latency.p95 42.00"]);
    }
}
