//! The ticket block of an advice, the patches below it, and the table of a gate.
//!
//! A ticket is at most 25 lines: what was simulated and how well it fits, one column a limit, what is
//! recommended, what doing nothing costs, how to get it again and how to apply it.

use super::text::{Cell, Row, body, header, separated, words};
use super::{Context, Scale, reproduce, scale_for, wrap};
use crate::advise::gate::{Gate, Judged};
use crate::advise::judge::Forecast;
use crate::advise::slo::Slo;
use crate::advise::{Advice, Candidate};
use crate::comparison::Comparison;
use crate::metrics;

/// The whole answer: ticket, an empty line, patches.
pub fn render(advice: &Advice) -> String {
    let mut text = ticket(advice);
    if let Some(patches) = &advice.patches {
        text.push('\n');
        text += &block(advice, patches);
    }
    text
}

/// The ticket alone.
pub fn ticket(advice: &Advice) -> String {
    let mut text = heading(&advice.comparison, &advice.context, &advice.promises);
    let mut rows: Vec<Row> = Vec::new();
    for (index, slo) in advice.promises.iter().enumerate() {
        let forecasts = advice.options.iter().map(|option| &option.forecasts[index]);
        rows.push(promise_row(slo, &forecasts.collect::<Vec<_>>()));
    }
    let percent = |label: &str, of: fn(&Candidate) -> f64| Row {
        label: format!("{label} (%)"),
        cells: advice
            .options
            .iter()
            .map(|option| plain(format!("{:.1}", of(option) * 100.0)))
            .collect(),
    };
    rows.push(percent("time lost to throttling", |option| {
        option.time_lost
    }));
    rows.push(percent("periods throttled", |option| {
        option.periods_throttled
    }));
    rows.extend(price_row(&advice.options));
    rows.push(Row {
        label: "suits".to_string(),
        cells: advice
            .options
            .iter()
            .map(|one| suits(advice, one))
            .collect(),
    });
    text += &body(&advice.comparison, &rows);
    let misfit = match advice.context.part {
        None => "with the misfit",
        Some(_) => "the misfit not known",
    };
    text += &format!("≤ (≥): worse end of the 95 % interval of one run, {misfit}; * recommended\n");
    text += &verdict(advice);
    text += &nothing(advice);
    text += &reproduce(&advice.context);
    text
}

/// Header with the fit of the promised metrics alone, and what is promised.
fn heading(comparison: &Comparison, context: &Context, promises: &[Slo]) -> String {
    let mut context = context.clone();
    context.fit.retain(|fit| {
        let promised = promises.iter().any(|slo| slo.metric == fit.metric);
        promised || fit.metric.ends_with("/nr_throttled")
    });
    let mut text = header(comparison, &context);
    let all: Vec<String> = promises.iter().map(Slo::describe).collect();
    text += &wrap("promised:", &separated(&all, ","), 10);
    text.push('\n');
    text
}

fn plain(value: String) -> Cell {
    Cell {
        value,
        ..Cell::default()
    }
}

fn promise_row(slo: &Slo, forecasts: &[&Forecast]) -> Row {
    let means = forecasts.iter().filter_map(|one| one.mean);
    let largest = means.fold(0.0, f64::max);
    let scale = metrics::parse(&slo.metric).map(|metric| scale_for(&metric, largest));
    let scale = scale.unwrap_or(Scale {
        divisor: 1.0,
        unit: "",
        digits: 1,
    });
    let unit = match scale.unit {
        "" => String::new(),
        unit => format!(" ({unit})"),
    };
    let name = slo.metric.rsplit('/').next().unwrap_or("");
    Row {
        label: format!("{name}{unit}"),
        cells: forecasts
            .iter()
            .map(|one| forecast_cell(slo, one, &scale))
            .collect(),
    }
}

fn forecast_cell(slo: &Slo, forecast: &Forecast, scale: &Scale) -> Cell {
    let (Some(mean), Some([low, high])) = (forecast.mean, forecast.interval) else {
        return plain("-".to_string());
    };
    let spread = match slo.bound.from_above() {
        true => format!("≤{}", scale.number(high)),
        false => format!("≥{}", scale.number(low)),
    };
    Cell {
        value: scale.number(mean),
        spread,
        star: false,
    }
}

/// The price of every option but the recorded one; nothing without neighbours.
fn price_row(options: &[Candidate]) -> Option<Row> {
    let first = options.iter().find_map(|option| option.price.as_ref())?;
    let same = |option: &Candidate| {
        let price = option.price.as_ref();
        price.is_none_or(|price| price.threads == first.threads)
    };
    let alone = options.iter().all(same);
    let label = match alone {
        true => {
            let short = first.metric.rsplit("latency.").next().unwrap_or("");
            format!("neighbour {} {short} (%)", first.threads)
        }
        false => "neighbour that pays most (%)".to_string(),
    };
    let cell = |option: &Candidate| {
        let Some(price) = &option.price else {
            return plain("0".to_string());
        };
        Cell {
            value: format!("{:+.1}", price.growth * 100.0),
            spread: match alone {
                true => format!("≤{:+.1}", price.growth_at_most * 100.0),
                false => price.threads.clone(),
            },
            star: false,
        }
    };
    Some(Row {
        label,
        cells: options.iter().map(cell).collect(),
    })
}

fn suits(advice: &Advice, option: &Candidate) -> Cell {
    Cell {
        value: if option.suits { "yes" } else { "no" }.to_string(),
        spread: String::new(),
        star: advice.recommended.as_ref() == Some(&option.name),
    }
}

fn describe(option: &Candidate) -> String {
    let quota = option
        .quota_us
        .map_or("max".to_string(), |us| us.to_string());
    format!(
        "cpu.max \"{quota} {}\", burst {}",
        option.period_us, option.burst_us
    )
}

fn verdict(advice: &Advice) -> String {
    let line = match advice.recommendation() {
        Some(option) if option.name == advice.options[0].name => {
            "advice: leave it as it is: no smaller limit suits".to_string()
        }
        Some(option) => {
            let price = match &option.price {
                None => String::new(),
                Some(price) if price.growth_at_most <= 0.0 => "; no neighbour pays".to_string(),
                Some(price) => format!(
                    "; {} pays {:+.1} %, at most {:+.1} %",
                    price.threads,
                    price.growth * 100.0,
                    price.growth_at_most * 100.0
                ),
            };
            format!("advice: {}: {}{price}", option.name, describe(option))
        }
        None if advice.options.iter().any(kept) => {
            "advice: none: what keeps the promise costs the neighbours more than allowed"
                .to_string()
        }
        None => "advice: none: not even without a limit is the promise kept".to_string(),
    };
    wrap("", &words(&line), 8)
}

fn kept(option: &Candidate) -> bool {
    option.forecasts.iter().all(|forecast| forecast.met)
}

/// What the recorded limit costs if it stays.
fn nothing(advice: &Advice) -> String {
    let recorded = &advice.options[0];
    let mut parts = Vec::new();
    for (slo, forecast) in advice.promises.iter().zip(&recorded.forecasts) {
        let name = slo.metric.rsplit('/').next().unwrap_or("");
        let Some(mean) = forecast.mean else {
            continue;
        };
        let part = match (slo.limit > 0.0, forecast.met) {
            (_, true) => format!("{name} keeps its promise"),
            (true, _) => format!("{name} is {:.2} times what is promised", mean / slo.limit),
            (false, _) => format!("{name} breaks its promise"),
        };
        parts.push(part);
    }
    let lost = recorded.time_lost * 100.0;
    parts.push(format!(
        "{lost:.1} % of the time its threads want to run is lost"
    ));
    wrap("doing nothing:", &separated(&parts, ","), 15)
}

/// The recommended limit for every tool.
fn block(advice: &Advice, patches: &crate::advise::patches::Patches) -> String {
    let joined = |commands: &[String]| match commands {
        [] => "nothing to change".to_string(),
        commands => commands.join("; "),
    };
    let weight = patches.weight;
    let mut text = format!("cd to the directory of {}, then\n", advice.target);
    text += &format!("cgroup v1   {}\n", joined(&patches.cgroup_v1));
    text += &format!("cgroup v2   {}\n", joined(&patches.cgroup_v2));
    text += &format!("systemd     {}\n", patches.systemd);
    text += &format!("OCI         {}\n", patches.oci);
    text += &format!("Kubernetes  {}\n", patches.kubernetes);
    text += &format!(
        "weight      unchanged: cpu.shares {} is cpu.weight {} (linear: kubelet, runc < 1.3.2)\n            \
         or {} (quadratic: runc 1.3.2, crun 1.23)\n",
        weight.shares, weight.linear, weight.quadratic
    );
    for note in &patches.notes {
        text += &wrap("note        ", &words(note), 12);
    }
    text
}

/// A gate: one line a promise and column, and the verdict.
pub fn render_gate(gate: &Gate) -> String {
    let mut text = heading(&gate.comparison, &gate.context, &gate.promises);
    let cells = |of: &dyn Fn(&Judged) -> Cell| gate.judged.iter().map(of).collect::<Vec<_>>();
    let mut rows = Vec::new();
    for (index, slo) in gate.promises.iter().enumerate() {
        let forecasts: Vec<&Forecast> = gate
            .judged
            .iter()
            .map(|one| &one.forecasts[index])
            .collect();
        rows.push(promise_row(slo, &forecasts));
        rows.push(Row {
            label: format!("  {} {}", slo.bound.sign(), slo.shown),
            cells: cells(&|one| {
                plain(
                    if one.forecasts[index].met {
                        "kept"
                    } else {
                        "broken"
                    }
                    .to_string(),
                )
            }),
        });
    }
    let mut judged = gate.comparison.clone();
    let names: Vec<&str> = gate.judged.iter().map(|one| one.name.as_str()).collect();
    judged
        .variants
        .retain(|variant| names.contains(&variant.name.as_str()));
    text += &body(&judged, &rows);
    text += match gate.passes() {
        true => "passed\n",
        false => "failed: a promise is kept only if the worse end of its interval keeps it\n",
    };
    text += &reproduce(&gate.context);
    text
}
