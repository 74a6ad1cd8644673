//! Kernel releases, and from which of them on something holds.
//!
//! A mechanism usually arrives with a release and is sometimes carried back to stable series.
//! Worked example: the 0.70 ms base slice came with 6.15 and with the stable kernels 6.12.31 and
//! 6.14.9. So `6.14` and `6.12.30` have 0.75 ms, `6.12.31` and `6.15` have 0.70.

use std::fmt;
use std::str::FromStr;

/// A kernel release, e.g. 6.12 or the stable 6.12.117.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Version {
    /// First number.
    pub(crate) major: u16,
    /// Second number.
    pub(crate) minor: u16,
    /// Stable patch level; 0 is the release as tagged.
    pub(crate) patch: u16,
}

/// The oldest release whose rules are known.
pub const OLDEST: Version = Version::new(4, 5);
/// The newest release whose rules are known.
pub const NEWEST: Version = Version::new(7, 3);
/// The release that is simulated where none is named: the newest one that was held against
/// measurements.
pub const DEFAULT: Version = Version::new(6, 18);
/// Last release of each finished major number.
const LAST_OF_MAJOR: [Version; 3] = [
    Version::new(4, 20),
    Version::new(5, 19),
    Version::new(6, 19),
];

impl Version {
    /// The release `major.minor` as tagged.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self::stable(major, minor, 0)
    }

    /// The stable release `major.minor.patch`.
    pub(crate) const fn stable(major: u16, minor: u16, patch: u16) -> Self {
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

    /// The release whose rules are used for the kernel named by `text`, and the named release
    /// itself where it is newer than every known one: 7.9.2 is modelled with the rules of
    /// [`NEWEST`].
    ///
    /// # Errors
    /// As [`str::parse`], except that a kernel newer than every known one is no error.
    pub fn modelled(text: &str) -> Result<(Version, Option<Version>), VersionError> {
        Self::modelled_until(NEWEST, text)
    }

    /// The same if `newest` is the newest release whose rules are known.
    pub(super) fn modelled_until(
        newest: Version,
        text: &str,
    ) -> Result<(Version, Option<Version>), VersionError> {
        match Self::read(newest, text) {
            Err(VersionError::Unknown(newer)) if newer > newest => Ok((newest, Some(newer))),
            read => Ok((read?, None)),
        }
    }

    /// Whether `text` is the name of a distribution's build with a number of the distribution's
    /// own where others have the stable level: `6.1.0-35-amd64`. Fedora's names have the level.
    pub fn lacks_level(text: &str) -> bool {
        let end = text.find('-').unwrap_or(text.len());
        let (version, suffix) = text.split_at(end);
        let is_numbered =
            suffix[suffix.len().min(1)..].starts_with(|one: char| one.is_ascii_digit());
        version.split('.').nth(2) == Some("0") && is_numbered && !suffix.contains(".fc")
    }

    /// The release before a release as tagged.
    pub(crate) fn previous(self) -> Self {
        if self.minor > 0 {
            return Self::new(self.major, self.minor - 1);
        }
        let finished = LAST_OF_MAJOR
            .iter()
            .find(|last| last.major + 1 == self.major);
        finished.copied().unwrap_or(OLDEST)
    }

    /// All releases as tagged, oldest first.
    pub fn releases() -> impl Iterator<Item = Version> {
        Self::releases_until(NEWEST)
    }

    /// The same if `newest` is the newest release whose rules are known.
    pub(super) fn releases_until(newest: Version) -> impl Iterator<Item = Version> {
        let last = move |major| {
            let mut finished = LAST_OF_MAJOR.into_iter();
            let finished = finished.find(|last| last.major == major && major < newest.major);
            finished.unwrap_or(newest).minor
        };
        (OLDEST.major..=newest.major).flat_map(move |major| {
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
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VersionError {
    /// Not of the form `6.12` or `6.12.117`.
    #[error("`{0}` is not a kernel version such as 5.14 or 6.12.117")]
    Form(String),
    /// Older or newer than what is known.
    #[error("kernel {0} is outside the known {oldest} to {newest}", oldest = OLDEST, newest = NEWEST)]
    Unknown(Version),
    /// Never released; the second is the last of its major number.
    #[error("there is no kernel {0}: {1} was the last {major}.x", major = .1.major)]
    NeverReleased(Version, Version),
}

impl VersionError {
    /// The known release that is nearest; none where the text is no version at all.
    pub fn nearest(&self) -> Option<Version> {
        match self {
            VersionError::Form(_) => None,
            VersionError::Unknown(version) if *version < OLDEST => Some(OLDEST),
            VersionError::Unknown(_) => Some(NEWEST),
            VersionError::NeverReleased(_, last) => Some(*last),
        }
    }
}

impl FromStr for Version {
    type Err = VersionError;

    /// Reads `5.14` or `6.12.117`, the tag `v6.12`, and what `uname -r` says: `6.12.117+deb-amd64`
    /// is 6.12.117 with a vendor's changes, which are not known here.
    fn from_str(text: &str) -> Result<Self, VersionError> {
        Self::read(NEWEST, text)
    }
}

impl Version {
    /// Reads a version if `newest` is the newest release whose rules are known.
    pub(super) fn read(newest: Version, text: &str) -> Result<Self, VersionError> {
        let bad_form = || VersionError::Form(text.to_string());
        let version = text.strip_prefix('v').unwrap_or(text);
        let end = version.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
        let (version, suffix) = version.split_at(end.unwrap_or(version.len()));
        if !is_vendors(suffix) {
            return Err(bad_form());
        }
        let numbers: Option<Vec<u16>> = version.split('.').map(|part| part.parse().ok()).collect();
        let version = match numbers.as_deref() {
            Some(&[major, minor]) => Version::new(major, minor),
            Some(&[major, minor, patch]) => Version::stable(major, minor, patch),
            // `6.6.87.2-microsoft-standard-WSL2`: the fourth number is the vendor's.
            Some(&[major, minor, patch, _]) if !suffix.is_empty() => {
                Version::stable(major, minor, patch)
            }
            _ => return Err(bad_form()),
        };
        let release = Version::new(version.major, version.minor);
        let same_major = |last: &&Version| last.major == version.major;
        match LAST_OF_MAJOR.iter().find(same_major) {
            Some(last) if release > *last => Err(VersionError::NeverReleased(version, *last)),
            _ if (OLDEST..=newest).contains(&release) => Ok(version),
            _ => Err(VersionError::Unknown(version)),
        }
    }
}

/// Whether `suffix` is nothing, or what a build adds to its release: `+`, `-rc3`, `-fc-v595`,
/// `+deb-amd64`.
fn is_vendors(suffix: &str) -> bool {
    let is_of_a_name = |letter: char| letter.is_ascii_alphanumeric() || "-+._~".contains(letter);
    let has_letter = suffix.contains(|letter: char| letter.is_ascii_alphabetic());
    let begins = suffix.starts_with(['-', '+']);
    suffix.is_empty() || suffix == "+" || begins && has_letter && suffix.chars().all(is_of_a_name)
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
        for text in ["", "6", "6.1.2.3", "6.x", "6.+1", "6.", "6.99999"] {
            assert_eq!(
                version(text),
                Err(format!(
                    "`{text}` is not a kernel version such as 5.14 or 6.12.117"
                ))
            );
        }
        assert_eq!(
            version("4.4.1"),
            Err(format!("kernel 4.4.1 is outside the known 4.5 to {NEWEST}"))
        );
        assert!(version("4.4").is_err() && version("3.10").is_err());
        assert_eq!(
            version("5.20"),
            Err("there is no kernel 5.20: 5.19 was the last 5.x".to_string())
        );
    }

    #[test]
    fn tags_and_what_uname_says_are_versions() {
        for (text, found) in [
            ("v6.12", "6.12"),
            ("v6.18-rc3", "6.18"),
            ("6.12.117+deb-amd64", "6.12.117"),
            ("6.18.44-fc-v595", "6.18.44"),
            ("5.15.0-91-generic", "5.15"),
            ("4.18.0-553.el8_10.x86_64", "4.18"),
            ("6.6.87.2-microsoft-standard-WSL2", "6.6.87"),
            ("6.12.0+", "6.12"),
        ] {
            assert_eq!(version(text), Ok(found.to_string()), "{text}");
        }
        let nonsense = "vv6.12|v|V6.12|6.12-|6.1-6.2|6.12 amd64|6.12_x|6.12,117|6.12-ä|x6.12|6..12|\
            6.12.-generic|.6.12";
        for text in nonsense.split('|') {
            let error = text.parse::<Version>().unwrap_err();
            assert_eq!(error, VersionError::Form(text.to_string()));
        }
        assert!(version("v7.9-rc1").is_err() && version("2.6.32-754.el6.x86_64").is_err());
    }

    #[test]
    fn a_refused_version_has_a_nearest_one() {
        let nearest = |text: &str| {
            let error = text.parse::<Version>().unwrap_err();
            error.nearest().map(|version| version.to_string())
        };
        for (text, near) in [
            ("7.9.1", "7.3"),
            ("8.0", "7.3"),
            ("3.10", "4.5"),
            ("5.20", "5.19"),
            ("6.99", "6.19"),
        ] {
            assert_eq!(nearest(text).as_deref(), Some(near), "{text}");
        }
        assert_eq!(nearest("linux"), None);
    }

    #[test]
    fn a_newer_kernel_is_modelled_as_the_newest_known() {
        let modelled = |text: &str| {
            let (version, newer) = Version::modelled(text)?;
            Ok::<_, VersionError>((version.to_string(), newer.map(|newer| newer.to_string())))
        };
        for (text, asked) in [
            ("7.9.2", "7.9.2"),
            ("7.8.0-rc1+deb14-amd64", "7.8"),
            ("v8.0", "8.0"),
        ] {
            let newest = NEWEST.to_string();
            assert_eq!(modelled(text), Ok((newest, Some(asked.into()))), "{text}");
        }
        assert_eq!(modelled("6.12.117"), Ok(("6.12.117".to_string(), None)));
        for text in ["4.4", "6.20", "5.20", "linux"] {
            assert!(modelled(text).is_err(), "{text}");
        }
    }

    #[test]
    fn releases_are_in_order_and_readable() {
        let releases: Vec<Version> = Version::releases().collect();
        assert_eq!(releases.len(), 16 + 20 + 20 + usize::from(NEWEST.minor) + 1);
        assert!(releases.is_sorted());
        // Without its last release a finished major number would have a single one.
        let finished = LAST_OF_MAJOR.map(|last| last.major);
        assert_eq!(finished.to_vec(), (4..NEWEST.major).collect::<Vec<_>>());
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
