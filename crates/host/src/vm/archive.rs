//! The archive that a kernel unpacks into its first file system: cpio, format `newc`.
//!
//! Each entry is a header of 110 characters, `070701` and thirteen numbers of eight hexadecimal
//! digits, then the name with a closing zero, then the content; name and content are filled up to a
//! multiple of four. The file `/a` with the content `hi` takes 110 + 2 bytes, which is a multiple
//! of four already, and 2 + 2 bytes.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path};

use crate::error::{Result, io_error};

const DIRECTORY: u32 = 0o040_755;
const REGULAR: u32 = 0o100_000;
const CHARACTER_DEVICE: u32 = 0o020_600;
/// Name of the entry behind the last one.
const TRAILER: &str = "TRAILER!!!";

/// An archive while it is filled.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    /// Paths that are in it.
    known: BTreeSet<String>,
}

impl Archive {
    /// Adds an empty folder and those above it.
    pub(super) fn folder(&mut self, path: &Path) {
        let mut whole = String::new();
        for part in parts(path) {
            if !whole.is_empty() {
                whole.push('/');
            }
            whole += &part;
            if self.known.insert(whole.clone()) {
                self.entry(&whole, DIRECTORY, (0, 0), &[]);
            }
        }
    }

    /// Adds a file with its content and permissions.
    pub(super) fn file(&mut self, path: &Path, content: &[u8], permissions: u32) {
        self.node(path, REGULAR | (permissions & 0o7777), (0, 0), content);
    }

    /// Adds an entry of this mode, and the folders above it.
    fn node(&mut self, path: &Path, mode: u32, number: (u32, u32), content: &[u8]) {
        if let Some(parent) = path.parent() {
            self.folder(parent);
        }
        let name = parts(path).collect::<Vec<_>>().join("/");
        if self.known.insert(name.clone()) {
            self.entry(&name, mode, number, content);
        }
    }

    /// Adds the file that `from` leads to on this host as `path`.
    pub(super) fn copy(&mut self, from: &Path, path: &Path) -> Result<()> {
        let content = fs::read(from).map_err(|error| io_error("reading", from, error))?;
        let meta = fs::metadata(from).map_err(|error| io_error("reading", from, error))?;
        self.file(path, &content, meta.permissions().mode());
        Ok(())
    }

    /// Adds a character device.
    pub(super) fn device(&mut self, path: &Path, number: (u32, u32)) {
        self.node(path, CHARACTER_DEVICE, number, &[]);
    }

    /// The whole archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry(TRAILER, 0, (0, 0), &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        let number = self.known.len() as u32;
        let links = 1;
        let sizes = (content.len() as u32, name.len() as u32 + 1);
        let fields = [
            number, mode, 0, 0, links, 0, sizes.0, 0, 0, device.0, device.1, sizes.1, 0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.fill();
        self.bytes.extend_from_slice(content);
        self.fill();
    }

    fn fill(&mut self) {
        let filled = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(filled, 0);
    }
}

/// Names of the folders of an absolute path and of what it leads to; `/a/../b` is `/b`.
fn parts(path: &Path) -> impl Iterator<Item = String> {
    let mut names = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => names.push(name.to_string_lossy().into_owned()),
            Component::ParentDir => drop(names.pop()),
            _ => {}
        }
    }
    names.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_header_name_and_content() {
        let mut archive = Archive::default();
        archive.file(Path::new("/a"), b"hi", 0o644);
        let bytes = archive.finish();
        assert_eq!(&bytes[..6], b"070701");
        assert_eq!(&bytes[14..22], b"000081a4", "a regular file, 0644");
        assert_eq!(&bytes[54..62], b"00000002", "two bytes");
        assert_eq!(&bytes[110..116], b"a\0hi\0\0");
        assert_eq!(bytes.len() % 4, 0);
        assert!(bytes.windows(10).any(|window| window == b"TRAILER!!!"));
    }

    #[test]
    fn folders_come_first_and_once() {
        let mut archive = Archive::default();
        archive.file(Path::new("/usr/bin/x"), b"", 0o755);
        archive.file(Path::new("/usr/bin/y"), b"", 0o755);
        archive.file(Path::new("/usr/lib/../bin/y"), b"again", 0o755);
        let text = String::from_utf8_lossy(&archive.finish()).into_owned();
        assert_eq!(text.matches("070701").count(), 5);
        assert!(text.find("usr/bin\0").unwrap() < text.find("usr/bin/x\0").unwrap());
        assert!(!text.contains("again"));
    }

    #[test]
    fn cpio_itself_reads_it() {
        let mut archive = Archive::default();
        archive.folder(Path::new("/proc"));
        archive.file(Path::new("/etc/motd"), b"hello", 0o644);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("archive");
        fs::write(&path, archive.finish()).unwrap();
        let listed = std::process::Command::new("cpio")
            .args(["-it", "--quiet"])
            .stdin(fs::File::open(&path).unwrap())
            .output();
        match listed {
            Ok(listed) => assert_eq!(
                String::from_utf8_lossy(&listed.stdout),
                "proc\netc\netc/motd\n"
            ),
            Err(_) => eprintln!("skipped: no cpio here"),
        }
    }
}
