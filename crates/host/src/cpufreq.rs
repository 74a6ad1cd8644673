//! How clocks are managed here: driver, governor and range of the first CPU, from `cpufreq` in
//! sysfs.
//!
//! `scaling_driver` says `intel_pstate`, `cpuinfo_min_freq` 800000 and `cpuinfo_max_freq` 5000000:
//! from 800 to 5000 MHz.

use std::path::Path;

/// State of a CPU in `cpufreq`'s files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuFrequency {
    /// `scaling_driver`.
    pub driver: String,
    /// `scaling_governor`.
    pub governor: String,
    /// Lowest clock, kHz.
    pub min_khz: u64,
    /// Highest, turbo included, kHz.
    pub max_khz: u64,
    /// Highest guaranteed one, kHz, where it is told.
    pub base_khz: Option<u64>,
    /// CPUs of one policy.
    pub policy_cpus: usize,
    /// Transition latency that the driver announces, ns; 0 where it is unknown.
    pub transition_ns: u64,
    /// `energy_performance_preference`; present when the hardware chooses P-states.
    pub preference: Option<String>,
}

impl CpuFrequency {
    /// That of the first CPU; `None` where nothing manages clocks, as in most virtual machines.
    pub fn read() -> Option<Self> {
        Self::read_from(Path::new("/sys/devices/system/cpu/cpu0/cpufreq"))
    }

    /// Reads a directory laid out like `cpufreq` of a CPU.
    pub(crate) fn read_from(directory: &Path) -> Option<Self> {
        let word = |file: &str| {
            let text = std::fs::read_to_string(directory.join(file)).ok()?;
            Some(text.trim().to_owned())
        };
        let number = |file: &str| word(file)?.parse::<u64>().ok();
        Some(Self {
            driver: word("scaling_driver")?,
            governor: word("scaling_governor")?,
            min_khz: number("cpuinfo_min_freq")?,
            max_khz: number("cpuinfo_max_freq")?,
            base_khz: number("base_frequency"),
            policy_cpus: word("related_cpus").map_or(1, |cpus| cpus.split_whitespace().count()),
            // 4294967295 is the kernel's "eternal": unknown.
            transition_ns: number("cpuinfo_transition_latency")
                .filter(|ns| *ns < u64::from(u32::MAX))
                .unwrap_or(0),
            preference: word("energy_performance_preference"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read_and_its_absence_is_no_error() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(CpuFrequency::read_from(directory.path()), None);
        for (file, text) in [
            ("scaling_driver", "intel_pstate\n"),
            ("scaling_governor", "powersave\n"),
            ("cpuinfo_min_freq", "800000\n"),
            ("cpuinfo_max_freq", "5000000\n"),
            ("base_frequency", "3600000\n"),
            ("cpuinfo_transition_latency", "4294967295\n"),
            ("related_cpus", "0\n"),
            ("energy_performance_preference", "balance_performance\n"),
        ] {
            std::fs::write(directory.path().join(file), text).unwrap();
        }
        let read = CpuFrequency::read_from(directory.path()).unwrap();
        assert_eq!((read.min_khz, read.max_khz), (800_000, 5_000_000));
        assert_eq!(read.base_khz, Some(3_600_000));
        assert_eq!((read.policy_cpus, read.transition_ns), (1, 0));
        assert_eq!(read.preference.as_deref(), Some("balance_performance"));
    }
}
