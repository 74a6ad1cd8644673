//! Version 6: everything in a fixed order.

use super::{Contents, CpuBuffer, option};
use crate::binary::{Bytes, Damage, Store};
use crate::merge::Pages;

/// No machine has more CPUs.
const CPUS_MAX: u32 = 65_536;

/// Reads on behind the page size, at `offset`.
pub(super) fn read(store: &Store, offset: u64, contents: &mut Contents) -> Result<(), Damage> {
    let head = head(store, offset)?;
    let mut bytes = Bytes::new(&head, offset, contents.endian);
    contents.header_info(&mut bytes)?;
    contents.formats(&mut bytes)?;
    contents.systems(&mut bytes)?;
    for what in ["the kernel's symbols", "the formats of printk"] {
        let size = u64::from(bytes.u32(what)?);
        bytes.take(size, what)?;
    }
    let size = bytes.u64("the names of tasks")?;
    bytes.take(size, "the names of tasks")?;
    let cpus_at = bytes.offset();
    let cpus = bytes.u32("a number of CPUs")?;
    if cpus > CPUS_MAX {
        let message = format!("expected at most {CPUS_MAX} CPUs, found {cpus}");
        return Err(Damage::malformed(cpus_at, message));
    }
    contents.cpus = Some(cpus);
    let mut instances = Vec::new();
    let mut kind_at = bytes.offset();
    let mut kind = bytes.take(10, "the kind of data")?;
    if kind == b"options  \0" {
        options(&mut bytes, contents, &mut instances)?;
        kind_at = bytes.offset();
        kind = bytes.take(10, "the kind of data")?;
    }
    if kind == b"latency  \0" {
        let message = "a trace.dat that holds text; use `trace-cmd report` and read its output";
        return Err(Damage::unsupported(kind_at, message));
    }
    if kind != b"flyrecord\0" {
        let found = kind.escape_ascii();
        let message = format!("expected `flyrecord` and a zero byte, found `{found}`");
        return Err(Damage::malformed(kind_at, message));
    }
    for cpu in 0..cpus {
        buffer(cpu, &mut bytes, contents)?;
    }
    for instance in instances {
        self::instance(store, instance, cpus, contents)?;
    }
    Ok(())
}

/// The bytes before the first page. Where they end stands at their end, so as much is read as can
/// belong to them.
fn head(store: &Store, offset: u64) -> Result<Vec<u8>, Damage> {
    // Symbols and formats take 12 MB on a large kernel.
    const HEAD_BYTES: u64 = 64 << 20;
    let length = store.len().saturating_sub(offset).min(HEAD_BYTES);
    store.read(offset, length, "the file's head")
}

fn options(
    bytes: &mut Bytes,
    contents: &mut Contents,
    instances: &mut Vec<(u64, u32)>,
) -> Result<(), Damage> {
    loop {
        let id = bytes.u16("an option")?;
        if id == option::DONE {
            return Ok(());
        }
        let size = u64::from(bytes.u32("the size of an option")?);
        let offset = bytes.offset();
        let mut data = Bytes::new(bytes.take(size, "an option")?, offset, contents.endian);
        if id == option::BUFFER {
            let place = data.u64("the place of a buffer")?;
            instances.push((place, 0));
            contents.has_instances = true;
        } else {
            let before = contents.cpus;
            contents.option(id, data)?;
            if id == option::CPUCOUNT {
                // In this version the option counts the CPUs of the instance before it.
                if let (Some(instance), Some(cpus)) = (instances.last_mut(), contents.cpus) {
                    instance.1 = cpus;
                    contents.cpus = before;
                }
            }
        }
    }
}

/// The place of one CPU's pages.
fn buffer(cpu: u32, bytes: &mut Bytes, contents: &mut Contents) -> Result<(), Damage> {
    let offset = bytes.u64("the place of a CPU's pages")?;
    let size = bytes.u64("the size of a CPU's pages")?;
    contents.buffers.push(CpuBuffer {
        cpu,
        page_bytes: contents.page_bytes,
        pages: Pages::Plain {
            offset,
            end: offset.saturating_add(size),
        },
    });
    Ok(())
}

/// The buffer of a trace instance: a table of its own elsewhere in the file.
fn instance(
    store: &Store,
    (offset, cpus): (u64, u32),
    top_cpus: u32,
    contents: &mut Contents,
) -> Result<(), Damage> {
    let cpus = if cpus == 0 {
        top_cpus
    } else {
        cpus.min(CPUS_MAX)
    };
    let table = store.read(
        offset,
        10 + 16 * u64::from(cpus),
        "the table of an instance",
    )?;
    let mut bytes = Bytes::new(&table, offset, contents.endian);
    bytes.expect(b"flyrecord\0")?;
    for cpu in 0..cpus {
        buffer(cpu, &mut bytes, contents)?;
    }
    Ok(())
}
