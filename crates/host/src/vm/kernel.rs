//! Kernels to boot: which image file holds which kernel.
//!
//! A bzImage says what it holds: `HdrS` at 0x202, the place of its version's text, less 0x200, at
//! 0x20e. Debian's has `6.1.0-56-cloud-amd64 (…) #1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2
//! (2026-11-16)`: `uname -r` is `6.1.0-56-cloud-amd64`, and the stable kernel it was built from is
//! 6.1.192.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::{HostError, Result, io_error, unexpected};
use crate::topology::{config_hz, preempt_from_config};

/// Folders of kernel images before `/boot`, separated as in `$PATH`.
pub const KERNELS: &str = "SCHEDCAST_KERNELS";
const BOOT: &str = "/boot";
/// The header and what it points to lie within this many bytes.
const HEADER_BYTES: u64 = 1 << 16;

/// A kernel that can be booted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelImage {
    /// The file.
    pub path: PathBuf,
    /// As `uname -r` will print it.
    pub release: String,
    /// The version of the source it was built from, such as 6.1.192.
    pub version: String,
    /// Ticks a second, where a configuration lies beside it.
    pub hz: Option<u32>,
    /// "none", "voluntary", "full" or "lazy", where a configuration lies beside it.
    pub preempt: Option<&'static str>,
}

impl KernelImage {
    /// The newest image of a series such as `6.12`, in the folders of `$SCHEDCAST_KERNELS` and in
    /// `/boot`.
    ///
    /// # Errors
    /// None there; the message says how to get one.
    pub fn find(series: &str) -> Result<KernelImage> {
        let named = std::env::var_os(KERNELS).unwrap_or_default();
        // An empty word, and so an unset variable, is no folder.
        let folders: Vec<PathBuf> = std::env::split_paths(&named)
            .filter(|folder| !folder.as_os_str().is_empty())
            .chain([PathBuf::from(BOOT)])
            .collect();
        Self::newest(series, &folders)
    }

    fn newest(series: &str, folders: &[PathBuf]) -> Result<KernelImage> {
        let names = |folder: &PathBuf| {
            let entries = fs::read_dir(folder).into_iter().flatten();
            let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
            paths.filter(|path| is_image(path)).collect::<Vec<_>>()
        };
        let images = folders.iter().flat_map(names);
        let images = images.filter_map(|path| KernelImage::read(&path).ok());
        let prefix = format!("{series}.");
        images
            .filter(|image| image.version == series || image.version.starts_with(&prefix))
            .max_by_key(|image| (numbers(&image.version), image.release.clone()))
            .ok_or_else(|| missing(series, folders))
    }

    /// Reads the release of the kernel image at `path`.
    ///
    /// # Errors
    /// A file that cannot be read or is no bzImage.
    pub fn read(path: &Path) -> Result<KernelImage> {
        let mut header = Vec::new();
        File::open(path)
            .and_then(|file| file.take(HEADER_BYTES).read_to_end(&mut header))
            .map_err(|error| io_error("reading", path, error))?;
        let text = version_text(&header)
            .ok_or_else(|| unexpected(path, 0, "a bzImage", "something else"))?;
        let release = text
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned();
        let config = fs::read_to_string(path.with_file_name(format!("config-{release}")));
        let config = config.as_deref().unwrap_or_default();
        Ok(KernelImage {
            path: path.to_owned(),
            version: source_version(&text, &release),
            hz: config_hz(config),
            preempt: preempt_from_config(config),
            release,
        })
    }

    /// The configuration that lies beside it.
    pub(super) fn config(&self) -> PathBuf {
        self.path.with_file_name(format!("config-{}", self.release))
    }
}

fn is_image(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    name.is_some_and(|name| name.starts_with("vmlinuz-"))
}

fn version_text(header: &[u8]) -> Option<String> {
    if header.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let place = u16::from_le_bytes(header.get(0x20e..0x210)?.try_into().ok()?);
    let text = header.get(usize::from(place) + 0x200..)?;
    let end = text.iter().position(|&byte| byte == 0)?;
    Some(String::from_utf8_lossy(&text[..end]).into_owned())
}

/// The word behind `Debian`, up to its revision; else the release up to what a distribution added.
fn source_version(text: &str, release: &str) -> String {
    let version = |word: &str| {
        let end = word.find(|c: char| !c.is_ascii_digit() && c != '.');
        word[..end.unwrap_or(word.len())]
            .trim_end_matches('.')
            .to_owned()
    };
    let behind = text.split_once("Debian ").map(|(_, rest)| version(rest));
    match behind {
        Some(found) if found.contains('.') => found,
        _ => version(release),
    }
}

fn numbers(version: &str) -> Vec<u64> {
    let parts = version.split('.');
    parts.map(|part| part.parse().unwrap_or(0)).collect()
}

fn missing(series: &str, folders: &[PathBuf]) -> HostError {
    let looked: Vec<String> = folders.iter().map(|f| f.display().to_string()).collect();
    HostError::unavailable(
        "a kernel for the virtual machine",
        format!(
            "no vmlinuz of Linux {series} in {}. On Debian: apt-get download the package \
             linux-image-{series}…-cloud-amd64 (apt-cache search '^linux-image-{series}.*cloud-amd64$'), then \
             `dpkg-deb --fsys-tarfile FILE.deb | tar -x ./boot` and {KERNELS}=$PWD/boot",
            looked.join(", ")
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedcast_base::assert_contains;

    fn image(folder: &Path, name: &str, text: &str) {
        let mut bytes = vec![0; 0x400];
        bytes[0x202..0x206].copy_from_slice(b"HdrS");
        bytes[0x20e..0x210].copy_from_slice(&0x80u16.to_le_bytes());
        bytes[0x280..0x280 + text.len()].copy_from_slice(text.as_bytes());
        fs::write(folder.join(name), bytes).unwrap();
    }

    #[test]
    fn the_newest_of_a_series_is_found_by_what_it_says() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| image(folder.path(), name, text);
        put(
            "vmlinuz-a",
            "6.1.0-9-cloud-amd64 (x) #1 SMP Debian 6.1.99-1 (y)",
        );
        put(
            "vmlinuz-b",
            "6.1.0-56-cloud-amd64 (x) #1 Debian 6.1.192-2 (y)",
        );
        put(
            "vmlinuz-c",
            "6.12.117+deb12-cloud-amd64 (x) #1 Debian 6.12.117-1 (y)",
        );
        fs::write(folder.path().join("vmlinuz-d"), "no kernel").unwrap();
        let config = "CONFIG_HZ=250\nCONFIG_PREEMPT_VOLUNTARY=y\n";
        fs::write(folder.path().join("config-6.1.0-56-cloud-amd64"), config).unwrap();
        let folders = [folder.path().to_owned()];
        let found = KernelImage::newest("6.1", &folders).unwrap();
        assert_eq!(
            (&*found.release, &*found.version),
            ("6.1.0-56-cloud-amd64", "6.1.192")
        );
        assert_eq!((found.hz, found.preempt), (Some(250), Some("voluntary")));
        let found = KernelImage::newest("6.12", &folders).unwrap();
        assert_eq!((&*found.version, found.hz), ("6.12.117", None));
    }

    #[test]
    fn a_missing_kernel_says_how_to_get_one() {
        let message = KernelImage::newest("6.12", &["/nowhere".into()]).unwrap_err();
        let message = message.to_string();
        assert_contains(&message, "no vmlinuz of Linux 6.12 in /nowhere");
        assert_contains(&message, "linux-image-6.12…-cloud-amd64");
    }

    #[test]
    fn other_distributions_name_the_version_in_the_release() {
        assert_eq!(
            source_version("6.8.0-31-generic (x) #31-Ubuntu", "6.8.0-31-generic"),
            "6.8.0"
        );
    }
}
