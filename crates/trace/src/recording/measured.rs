//! `measured.json`: what really happened under other settings of the same group.
//!
//! Each [`Setting`] has [`Figure`]s by name, each with the samples of its repeats: `nr_throttled`
//! of 82, 78, 208 and 102 has median 92, and a prediction from 78 to 208 is inside what the machine
//! itself shows.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use schedcast_base::limits::CpuLimits;
use schedcast_base::rows;

use crate::error::unknown_name;

/// The whole file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredSettings {
    /// Kernel release on which it was measured.
    pub kernel: String,
    /// Length of one repeat.
    pub seconds: f64,
    /// How it was measured, for people.
    pub how: String,
    /// One entry a setting, in the file's order.
    pub settings: Vec<Setting>,
}

/// One setting and what happened under it.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Its name, e.g. `quota 60 ms`.
    pub name: String,
    /// Its limit; no quota is -1 in the file.
    pub limits: CpuLimits,
    /// Figures by name; all names are in [`FIGURES`].
    pub figures: BTreeMap<String, Figure>,
}

/// Names of figures. Their unit is their ending (`_ms`), a ratio, or a count.
///
/// `p50_ms` and its like run from sending to reply, `request_p95_ms` and its like from the
/// scheduled start to the reply.
pub(crate) static FIGURES: LazyLock<Vec<&str>> =
    LazyLock::new(|| rows::lines(include_str!("figures.txt")).collect());

/// One figure over all repeats.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Middle of the samples (mean of the middle two).
    pub median: f64,
    /// Smallest sample.
    pub min: f64,
    /// Largest sample.
    pub max: f64,
    /// One value a repeat, in the order they were run.
    pub samples: Vec<f64>,
}

impl<'de> Deserialize<'de> for Figure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Figure, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Raw {
            median: f64,
            min: f64,
            max: f64,
            samples: Vec<f64>,
        }
        let Raw {
            median,
            min,
            max,
            samples,
        } = Raw::deserialize(deserializer)?;
        let smallest = samples.iter().copied().fold(f64::INFINITY, f64::min);
        let largest = samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // Written by a tool that rounds, so bounds are compared with a tolerance of the last
        // written digit.
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-3;
        if samples.is_empty()
            || !near(min, smallest)
            || !near(max, largest)
            || !(min..=max).contains(&median)
        {
            let message =
                "expected `min` and `max` to be those of the samples, and `median` between them";
            return Err(D::Error::custom(message));
        }
        Ok(Figure {
            median,
            min,
            max,
            samples,
        })
    }
}

impl<'de> Deserialize<'de> for Setting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Setting, D::Error> {
        deserializer.deserialize_map(SettingVisitor)
    }
}

struct SettingVisitor;

impl<'de> Visitor<'de> for SettingVisitor {
    type Value = Setting;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a setting: `name`, `quota_us`, `period_us`, `burst_us` and figures")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Setting, A::Error> {
        let (mut name, mut quota_us, mut period_us, mut burst_us) = (None, None, None, None);
        let mut figures = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            let is_new = match key.as_str() {
                "name" => name.replace(map.next_value::<String>()?).is_none(),
                "quota_us" => quota_us.replace(quota(map.next_value()?)?).is_none(),
                "period_us" => period_us.replace(map.next_value::<u64>()?).is_none(),
                "burst_us" => burst_us.replace(map.next_value::<u64>()?).is_none(),
                figure if FIGURES.contains(&figure) => figures
                    .insert(figure.to_owned(), map.next_value::<Figure>()?)
                    .is_none(),
                _ => {
                    let known: Vec<&str> = ["name", "quota_us", "period_us", "burst_us"]
                        .into_iter()
                        .chain(FIGURES.iter().copied())
                        .collect();
                    return Err(A::Error::custom(unknown_name("key", &key, &known)));
                }
            };
            if !is_new {
                return Err(A::Error::custom(format!("`{key}` is there twice")));
            }
        }
        Ok(Setting {
            name: name.ok_or_else(|| A::Error::missing_field("name"))?,
            limits: CpuLimits {
                quota_us: quota_us.ok_or_else(|| A::Error::missing_field("quota_us"))?,
                period_us: period_us.ok_or_else(|| A::Error::missing_field("period_us"))?,
                burst_us: burst_us.ok_or_else(|| A::Error::missing_field("burst_us"))?,
            },
            figures,
        })
    }
}

fn quota<E: Error>(value: i64) -> Result<Option<u64>, E> {
    if value == -1 {
        return Ok(None);
    }
    let quota_us = u64::try_from(value).map_err(|_| {
        E::custom(format!(
            "expected a quota in µs, or -1 for none, found {value}"
        ))
    })?;
    Ok(Some(quota_us))
}
