//! Notes on names of kernels that say less than a table of changes asks for.
//!
//! Worked example: Debian's `6.1.0-35-amd64` is a stable release of the series 6.1, and the 35
//! counts what may break modules. It is simulated as 6.1, which lacks the fixes of its stable
//! level. `6.12.117+deb13-amd64` has its level in its name.

use schedcast_host::KernelInfo;
use schedcast_kernel::rules::Version;
use schedcast_kernel::rules::changes::newest_read;

use super::HOST;

/// The note on a kernel asked for by the name of a vendor's build, or as that of the host.
pub(crate) fn note_of_build(name: &str) -> Option<String> {
    if name == HOST {
        return note_of_build(&KernelInfo::read().ok()?.release);
    }
    let (version, _) = Version::modelled(name).ok()?;
    let of_release = |letter: char| "v.".contains(letter) || letter.is_ascii_digit();
    let is_build = name.contains(|letter| !of_release(letter));
    let note = format!("{name} is simulated as {version}: what its builder changed is not known");
    if !Version::lacks_level(name) {
        return is_build.then_some(note);
    }
    let follows_none = name.contains(".el") && !name.contains("uek");
    let level = match follows_none {
        true => {
            "Enterprise Linux follows none. Write another release if its scheduler is nearer".into()
        }
        false => format!(
            "write {version}.NNN, as `uname -v` (Debian) or /proc/version_signature (Ubuntu) has it"
        ),
    };
    Some(format!(
        "{note}, nor is its stable level, which is not in the name: {level}"
    ))
}

/// The note on the kernel that a recording was made on, if its name has no stable level.
pub(crate) fn note_of_recorded(name: &str) -> Option<String> {
    let (version, _) = Version::modelled(name).ok()?;
    Version::lacks_level(name).then(|| {
        format!(
            "the recording's kernel {name} is taken for {version}: no stable level is in its name"
        )
    })
}

/// The note on a patch level later than the last of its series that was looked at.
pub fn note_of_level(version: Version) -> Option<String> {
    let read = newest_read(version).filter(|read| version > *read)?;
    Some(format!(
        "kernel {version} is later than {read}, the newest of its series whose fixes of the \
         scheduler were all looked at"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedcast_base::assert_contains;

    #[test]
    fn a_name_without_its_stable_level_says_so() {
        for (name, told) in [
            ("6.1.0-35-amd64", "write 6.1.NNN, as `uname -v`"),
            ("6.8.0-49-generic", "write 6.8.NNN, as"),
            ("5.14.0-503.el9", "Enterprise Linux follows none"),
            ("5.15.0-307.178.5.el9uek", "write 5.15.NNN, as"),
        ] {
            let note = note_of_build(name).unwrap();
            assert_contains(
                &note,
                [told, "nor is its stable level, which is not in the name"],
            );
            assert!(note_of_recorded(name).unwrap().contains(name));
        }
        for name in ["6.12.117+deb13-amd64", "6.18-foo", "6.11.0-63.fc41.x86_64"] {
            let note = note_of_build(name).unwrap();
            assert!(
                note.ends_with("what its builder changed is not known"),
                "{note}"
            );
            assert_eq!(note_of_recorded(name), None);
        }
        for name in ["6.12", "v6.12.117", "6.1.0", "nonsense"] {
            assert_eq!(note_of_build(name), None, "{name}");
        }
    }

    #[test]
    fn a_level_behind_the_changelogs_says_so() {
        let note = |text: &str| note_of_level(text.parse().unwrap());
        let told = "kernel 6.12.999 is later than 6.12.117, the newest of its series";
        assert_contains(note("6.12.999").unwrap(), told);
        // Nothing is known of how far 6.13 was looked at, and a release is no patch level.
        for text in ["6.12", "6.12.117", "6.13.12", "7.3"] {
            assert_eq!(note(text), None, "{text}");
        }
    }
}
