//! The `profile` table of a `[[program]]`: a stationary service, as `schedcast profile` writes it.
//!
//! ```toml
//! [program.profile]
//! threads = 8                  # workers; the demand is split over them
//! rate = 39.7                  # requests a second
//! arrivals = "poisson"         # or "even", or quantiles of the gaps in units of the mean gap
//! work_us = [3200, 9600, 10400] # CPU time of a request: quantiles at equal steps of probability
//! client = "pgbench"           # who asks
//! ```
//!
//! Instead of `rate` and `arrivals` a service may have `clients` that each ask again `think_us`
//! after an answer.

use schedcast_workload::profile::{Arrivals, Client, Gaps, Io, Service};

use super::document::{Kind, Table, Value};
use super::keys::{self, Key, SWITCH, Takes, keys, names};
use crate::error::{Error, Result};

/// Keys of the table.
pub(crate) const KEYS: [Key; 15] = keys! {
    "threads" => Takes::Whole(1, 100_000, "workers"), "required", "The demand is split over them.";
    "rate" => Takes::Number(1e-3, 1e7, "requests a second"), "",
        "Open loop: requests arrive whatever becomes of them.";
    "arrivals" => Takes::Words("`poisson`, `even`, or quantiles of the gaps in units of the mean gap"),
        "`poisson`", "How the requests of `rate` are spaced.";
    "clients" => Takes::Whole(1, 100_000, "clients"), "",
        "Closed loop: each asks again `think_us` after its answer.";
    "think_us" => Takes::Words("µs, one number or quantiles"), "0", "Think time of `clients`.";
    "fan_out" => Takes::Whole(1, 1000, "pieces"), "1",
        "A request is split into pieces that run in parallel; needs a `client` or `clients`.";
    "work_us" => Takes::Words("µs, one number or quantiles, up to a day"), "required",
        "CPU time of a request.";
    "work_scale" => Takes::Number(0.0, 1e6, "times"), "1", "Factor on `work_us`.";
    "io_waits" => Takes::Number(0.0, 1000.0, "waits a request"), "0",
        "How often a request waits for a device; needs `io_wait_us`.";
    "io_wait_us" => Takes::Words("µs, one number or quantiles"), "none",
        "How long each of these waits is.";
    "client" => Takes::Words("a name without blanks"), "none",
        "A thread that sends the requests and waits for the answers.";
    "client_work_us" => Takes::Number(0.0, LONGEST_US, "µs"), "0",
        "CPU time of the client for each request.";
    "client_cgroup" => Takes::Words("path of a group"), "`/`", "Where the client runs.";
    "nice" => Takes::Whole(-20, 19, ""), "0", "Nice value of the workers.";
    "kernel" => SWITCH, "`false`", "Whether the workers are kernel threads.";
};

/// Longest time in a table, µs: a day.
const LONGEST_US: f64 = 86_400e6;
/// Most quantiles of one list.
const QUANTILES_MAX: usize = 10_000;

/// A service and the cgroup of its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profiled {
    /// Service that runs.
    pub service: Service,
    /// Path of the client's cgroup.
    pub client_cgroup: String,
}

/// Reads a `profile` table.
///
/// # Errors
/// Unknown keys, values out of range, quantiles that descend, both or neither of `rate` and
/// `clients`.
pub(crate) fn read(value: &Value) -> Result<Profiled> {
    let table = value.table("the numbers of a service")?;
    table.refuse_unknown(&names(&KEYS), "profile")?;
    let required = |key: &str| {
        table
            .get(key)
            .ok_or_else(|| Error::input(&value.place, format!("a profile needs `{key}`")))
    };
    let threads = keys::whole(&KEYS, "threads", required("threads")?)?;
    let work = required("work_us")?;
    let scale = number(table, "work_scale")?.unwrap_or(1.0);
    let work_ns = quantiles(work, 1000.0 * scale, LONGEST_US)?;
    let client = match table.get("client") {
        None => None,
        Some(name) => Some(Client {
            name: plain_name(name)?,
            work_ns: nanoseconds(number(table, "client_work_us")?.unwrap_or(0.0)),
        }),
    };
    if client.is_none()
        && let Some(entry) = table
            .entry("client_work_us")
            .or(table.entry("client_cgroup"))
    {
        return Err(Error::input(&entry.key_place, "this needs a `client`"));
    }
    let arrivals = arrivals(table, value)?;
    let fan_out = integer(table, "fan_out")?.unwrap_or(1) as u32;
    if let (Arrivals::Open { .. }, None, Some(entry)) = (&arrivals, &client, table.entry("fan_out"))
        && fan_out > 1
    {
        let message = "pieces need a `client` or `clients` to wait for the last of them";
        return Err(Error::input(&entry.key_place, message));
    }
    let client_cgroup = match table.get("client_cgroup") {
        Some(path) => path.text("a cgroup path")?.to_string(),
        None => "/".to_string(),
    };
    let service = Service {
        threads: threads as u32,
        arrivals,
        fan_out,
        work_ns,
        io: io(table)?,
        client,
        nice: integer(table, "nice")?.unwrap_or(0) as i32,
        kernel: table
            .get("kernel")
            .map_or(Ok(false), |on| on.boolean("kernel"))?,
    };
    Ok(Profiled {
        service,
        client_cgroup,
    })
}

fn arrivals(table: &Table, place: &Value) -> Result<Arrivals> {
    let rate = number(table, "rate")?;
    let clients = integer(table, "clients")?;
    match (rate, clients) {
        (Some(rate), None) => {
            if let Some(entry) = table.entry("think_us") {
                return Err(Error::input(&entry.key_place, "`think_us` goes with `clients`"));
            }
            Ok(Arrivals::Open {
                mean_gap_ns: nanoseconds(1e6 / rate).max(1),
                gaps: gaps(table.get("arrivals"))?,
            })
        }
        (None, Some(clients)) => {
            if let Some(entry) = table.entry("arrivals") {
                return Err(Error::input(&entry.key_place, "`arrivals` goes with `rate`"));
            }
            let think = table.get("think_us");
            Ok(Arrivals::Closed {
                clients: clients as u32,
                think_ns: think.map_or(Ok(vec![0]), |list| quantiles(list, 1000.0, LONGEST_US))?,
            })
        }
        _ => Err(Error::input(&place.place, "a profile has either `rate` or `clients`")
            .hint("rate = requests a second, whatever becomes of them; clients ask again after an answer")),
    }
}

fn gaps(value: Option<&Value>) -> Result<Gaps> {
    let Some(value) = value else {
        return Ok(Gaps::Poisson);
    };
    if let Kind::Array(_) = value.kind {
        return Ok(Gaps::Quantiles(quantiles(value, 1e6, 1e6)?));
    }
    match value.text("`poisson`, `even` or quantiles")? {
        "poisson" => Ok(Gaps::Poisson),
        "even" => Ok(Gaps::Even),
        other => {
            let message = format!("unknown arrivals `{other}`");
            let hint = crate::error::hint_for(other, &["poisson", "even"]);
            Err(Error::input(&value.place, message).hint(hint))
        }
    }
}

fn io(table: &Table) -> Result<Option<Io>> {
    let waits = number(table, "io_waits")?.unwrap_or(0.0);
    let lengths = table.get("io_wait_us");
    match lengths {
        Some(lengths) => Ok(Some(Io {
            per_million: (waits * 1e6).round() as u64,
            wait_ns: quantiles(lengths, 1000.0, LONGEST_US)?,
        })),
        None => match table.entry("io_waits") {
            Some(entry) => Err(Error::input(
                &entry.key_place,
                "`io_waits` needs `io_wait_us`",
            )),
            None => Ok(None),
        },
    }
}

/// A name that may stand before the slash of a metric.
fn plain_name(value: &Value) -> Result<String> {
    let text = value.text("a name")?;
    if text.is_empty() || text.contains(char::is_whitespace) {
        return Err(Error::input(&value.place, "expected a name without blanks"));
    }
    Ok(text.to_string())
}

fn nanoseconds(us: f64) -> u64 {
    (us * 1000.0).round() as u64
}

fn integer(table: &Table, key: &str) -> Result<Option<i64>> {
    let value = table.get(key);
    value
        .map(|value| keys::whole(&KEYS, key, value))
        .transpose()
}

/// A number in the range of its row.
fn number(table: &Table, key: &str) -> Result<Option<f64>> {
    let value = table.get(key);
    value
        .map(|value| keys::number(&KEYS, key, value))
        .transpose()
}

pub(super) fn number_of(value: &Value, what: &str, least: f64, most: f64) -> Result<f64> {
    let found = match &value.kind {
        Kind::Integer(number) => Some(*number as f64),
        Kind::Float(number) => Some(*number),
        Kind::Bare(text) => text.parse().ok(),
        _ => None,
    };
    found
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| value.expected(&format!("{what} from {least} to {most}")))
}

/// Ascending numbers, each times `factor`. One number is the same every time.
fn quantiles(value: &Value, factor: f64, most: f64) -> Result<Vec<u64>> {
    let one = [value.clone()];
    let values = match &value.kind {
        Kind::Array(values) => values.as_slice(),
        _ => &one,
    };
    if values.is_empty() || values.len() > QUANTILES_MAX {
        return Err(value.expected(&format!("1 to {QUANTILES_MAX} quantiles")));
    }
    let mut scaled: Vec<u64> = Vec::with_capacity(values.len());
    for value in values {
        let number = (number_of(value, "a quantile", 0.0, most)? * factor).round() as u64;
        if scaled.last().is_some_and(|before| *before > number) {
            return Err(Error::input(&value.place, "quantiles must ascend"));
        }
        scaled.push(number);
    }
    Ok(scaled)
}

#[cfg(test)]
mod tests {
    use schedcast_base::rows;

    use super::*;
    use crate::error::Source;
    use crate::experiment::document::parse;

    fn profile(text: &str) -> Result<Profiled> {
        let table = parse(&Source::new("p.toml", format!("[profile]\n{text}\n"))).unwrap();
        read(table.get("profile").unwrap())
    }

    const PLAIN: &str = "threads = 8\nrate = 40\nwork_us = [3000, 9000.5]\n";

    #[test]
    fn numbers_become_a_service() {
        let read = profile(PLAIN).unwrap();
        let expected = Service {
            threads: 8,
            arrivals: Arrivals::Open {
                mean_gap_ns: 25_000_000,
                gaps: Gaps::Poisson,
            },
            fan_out: 1,
            work_ns: vec![3_000_000, 9_000_500],
            io: None,
            client: None,
            nice: 0,
            kernel: false,
        };
        assert_eq!((read.service, read.client_cgroup.as_str()), (expected, "/"));
        let io = profile(&format!("{PLAIN}io_waits = 0.25\nio_wait_us = 100")).unwrap();
        let expected = Io {
            per_million: 250_000,
            wait_ns: vec![100_000],
        };
        assert_eq!(io.service.io, Some(expected));
        let half = profile(&format!("{PLAIN}work_scale = 0.5")).unwrap();
        assert_eq!(half.service.work_ns, [1_500_000, 4_500_250]);
        let closed = profile("threads = 1\nclients = 3\nthink_us = 10\nwork_us = 1").unwrap();
        let expected = Arrivals::Closed {
            clients: 3,
            think_ns: vec![10_000],
        };
        assert_eq!(closed.service.arrivals, expected);
        let gaps = profile(&format!("{PLAIN}arrivals = [0.5, 1.5]")).unwrap();
        let Arrivals::Open { gaps, .. } = gaps.service.arrivals else {
            panic!("a rate");
        };
        assert_eq!(gaps, Gaps::Quantiles(vec![500_000, 1_500_000]));
    }

    #[test]
    fn mistakes_are_refused_at_their_place() {
        for case in rows::lines(include_str!("service.txt")) {
            let [text, says] = rows::cells(case);
            let error = profile(&text.replace("\\n", "\n")).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
