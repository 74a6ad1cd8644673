//! Values of a metric with a unit and as many digits as a reader needs.
//!
//! Worked example: 178 900 us of a latency are `178.9` with the unit `ms`, and a ratio of 0.461 is
//! `46.10` with the unit `%`.

use super::Metric;

/// Subject and name, as in `machine/wakeups`.
pub fn full_name(metric: &Metric<'_>) -> String {
    format!("{}/{}", metric.subject, metric.name)
}

/// How the values of one row are scaled and named.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Values are divided by this.
    pub divisor: f64,
    /// Unit after division; empty for plain counts.
    pub unit: &'static str,
    /// Digits behind the point.
    pub digits: usize,
}

/// Digits behind the point so that `value` has about four significant ones.
fn digits_for(value: f64) -> usize {
    match value.abs() {
        value if value >= 1000.0 => 0,
        value if value >= 100.0 => 1,
        value if value >= 10.0 || value == 0.0 => 2,
        value if value >= 0.1 => 3,
        _ => 5,
    }
}

/// Whether its name has a unit, which a kernel's file gave it: whole microseconds.
pub fn names_unit(metric: &Metric<'_>) -> bool {
    metric.name.ends_with("usec")
}

/// The scale of values up to `largest`.
pub fn scale_for(metric: &Metric<'_>, largest: f64) -> Scale {
    let (divisor, unit) = match metric.unit() {
        "us" if largest >= 10_000_000.0 => (1_000_000.0, "s"),
        "us" if largest >= 10_000.0 => (1_000.0, "ms"),
        "ratio" => (0.01, "%"),
        "count" => (1.0, ""),
        unit => (1.0, unit),
    };
    let whole = unit.is_empty() && largest >= 100.0;
    let digits = match digits_for(largest / divisor) {
        _ if whole || (unit == "us" && names_unit(metric)) => 0,
        digits if unit.is_empty() => digits.min(1),
        digits => digits,
    };
    Scale {
        divisor,
        unit,
        digits,
    }
}

impl Scale {
    /// `value`, or that it is at least so much.
    pub fn bound(&self, value: f64, at_least: bool) -> String {
        let sign = if at_least { "≥" } else { "" };
        format!("{sign}{}", self.number(value))
    }

    /// The unit behind a name: ` (ms)`, nothing of plain counts.
    pub fn in_brackets(&self) -> String {
        match self.unit {
            "" => String::new(),
            unit => format!(" ({unit})"),
        }
    }

    /// The unit behind a value: ` ms`, nothing of plain counts.
    pub fn behind(&self) -> String {
        match self.unit {
            "" => String::new(),
            unit => format!(" {unit}"),
        }
    }

    /// `value` with at least two significant digits, to stand beside a much larger one.
    pub fn small_number(&self, value: f64) -> String {
        let size = (value / self.divisor).abs();
        let digits = match size > 0.0 && size < 1.0 {
            true => 1 - size.log10().floor() as i32,
            false => 0,
        };
        let digits = self.digits.max(digits as usize);
        format!("{:.*}", digits, value / self.divisor + 0.0)
    }

    /// `value` with the digits of the row.
    pub fn number(&self, value: f64) -> String {
        // Adding zero turns a negative zero into a plain one.
        format!("{:.*}", self.digits, value / self.divisor + 0.0)
    }
}
