//! Kernel releases, and from which of them on something holds.
//!
//! A mechanism usually arrives with a release and is sometimes carried back to stable series. Worked
//! example: the 0.70 ms base slice came with 6.15 and with the stable kernels 6.12.31 and 6.14.9. So
//! `6.14` and `6.12.30` have 0.75 ms, `6.12.31` and `6.15` have 0.70.

use std::fmt;
use std::str::FromStr;

/// A kernel release, e.g. 6.12 or the stable 6.12.117.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Version {
    /// First number.
    pub major: u16,
    /// Second number.
    pub minor: u16,
    /// Stable patch level; 0 is the release as tagged.
    pub patch: u16,
}

/// The oldest release whose rules are known.
pub const OLDEST: Version = Version::new(4, 5);
/// The newest release whose rules are known.
pub const NEWEST: Version = Version::new(6, 18);
/// Last release of each finished major number.
const LAST_OF_MAJOR: [Version; 2] = [Version::new(4, 20), Version::new(5, 19)];

impl Version {
    /// The release `major.minor` as tagged.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self::stable(major, minor, 0)
    }

    /// The stable release `major.minor.patch`.
    pub const fn stable(major: u16, minor: u16, patch: u16) -> Self {
        Self {
            major,
            minor,
            patch,
        }
    }

    /// Whether this is `major.minor` or later.
    pub const fn since(self, major: u16, minor: u16) -> bool {
        self.major > major || (self.major == major && self.minor >= minor)
    }

    /// Whether this is `major.minor` or later, or a stable release that got the change too: one of
    /// the series in `backports`, from that patch level on.
    pub fn has(self, major: u16, minor: u16, backports: &[(u16, u16, u16)]) -> bool {
        self.since(major, minor)
            || backports.iter().any(|&(major, minor, patch)| {
                (self.major, self.minor) == (major, minor) && self.patch >= patch
            })
    }

    /// All releases as tagged, oldest first.
    pub fn releases() -> impl Iterator<Item = Version> {
        let last = |major| {
            LAST_OF_MAJOR
                .iter()
                .find(|version| version.major == major)
                .unwrap_or(&NEWEST)
                .minor
        };
        (OLDEST.major..=NEWEST.major).flat_map(move |major| {
            let first = if major == OLDEST.major {
                OLDEST.minor
            } else {
                0
            };
            (first..=last(major)).map(move |minor| Version::new(major, minor))
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        if self.patch > 0 {
            write!(f, ".{}", self.patch)?;
        }
        Ok(())
    }
}

/// Why a text is not a known kernel version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VersionError {
    /// Not of the form `6.12` or `6.12.117`.
    Form(String),
    /// Older or newer than what is known.
    Unknown(Version),
    /// Never released; the second is the last of its major number.
    NeverReleased(Version, Version),
}

impl fmt::Display for VersionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VersionError::Form(text) => {
                write!(
                    f,
                    "`{text}` is not a kernel version such as 5.14 or 6.12.117"
                )
            }
            VersionError::Unknown(version) => {
                write!(
                    f,
                    "kernel {version} is outside the known {OLDEST} to {NEWEST}"
                )
            }
            VersionError::NeverReleased(version, last) => {
                let major = last.major;
                write!(
                    f,
                    "there is no kernel {version}: {last} was the last {major}.x"
                )
            }
        }
    }
}

impl std::error::Error for VersionError {}

impl FromStr for Version {
    type Err = VersionError;

    /// Reads `5.14` or `6.12.117`.
    fn from_str(text: &str) -> Result<Self, VersionError> {
        // `u16::from_str` would take a plus sign.
        let digits = |part: &str| {
            part.bytes()
                .all(|byte| byte.is_ascii_digit())
                .then(|| part.parse::<u16>().ok())
                .flatten()
        };
        let numbers: Option<Vec<u16>> = text.split('.').map(digits).collect();
        let version = match numbers.as_deref() {
            Some(&[major, minor]) => Version::new(major, minor),
            Some(&[major, minor, patch]) => Version::stable(major, minor, patch),
            _ => return Err(VersionError::Form(text.to_string())),
        };
        let release = Version::new(version.major, version.minor);
        if !(OLDEST..=NEWEST).contains(&release) {
            return Err(VersionError::Unknown(version));
        }
        match LAST_OF_MAJOR
            .iter()
            .find(|last| last.major == version.major)
        {
            Some(last) if release > *last => Err(VersionError::NeverReleased(version, *last)),
            _ => Ok(version),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Result<String, String> {
        text.parse::<Version>()
            .map(|version| version.to_string())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn versions_are_those_that_were_released() {
        for text in ["4.5", "4.20", "5.19", "6.12.117", "6.18.44"] {
            assert_eq!(version(text), Ok(text.to_string()));
        }
        assert_eq!(version("6.12.0"), Ok("6.12".to_string()));
        for text in ["", "6", "6.1.2.3", "v6.1", "6.x", "6.+1", "6.", "6.99999"] {
            assert_eq!(
                version(text),
                Err(format!(
                    "`{text}` is not a kernel version such as 5.14 or 6.12.117"
                ))
            );
        }
        assert_eq!(
            version("6.19.1"),
            Err("kernel 6.19.1 is outside the known 4.5 to 6.18".to_string())
        );
        assert!(version("4.4").is_err() && version("3.10").is_err());
        assert_eq!(
            version("5.20"),
            Err("there is no kernel 5.20: 5.19 was the last 5.x".to_string())
        );
    }

    #[test]
    fn releases_are_in_order_and_readable() {
        let releases: Vec<Version> = Version::releases().collect();
        assert_eq!(releases.len(), 16 + 20 + 19);
        assert!(releases.is_sorted());
        for release in releases {
            assert_eq!(release.to_string().parse(), Ok(release));
        }
    }

    #[test]
    fn backports_hold_within_their_series() {
        let has = |text: &str| {
            let version: Version = text.parse().unwrap();
            version.has(6, 15, &[(6, 12, 31), (6, 14, 9)])
        };
        for text in ["6.15", "6.18", "6.12.31", "6.12.117", "6.14.9"] {
            assert!(has(text), "{text}");
        }
        for text in ["6.14", "6.12.30", "6.13.99", "5.15.200"] {
            assert!(!has(text), "{text}");
        }
    }
}
