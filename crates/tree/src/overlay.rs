//! The architecture that is laid over a tree, embedded in the program.

/// Names and contents of all files of `overlay/`.
macro_rules! files {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../overlay/", $name)))),*]
    };
}

/// Path below `arch/schedcast` and text of each file.
pub(crate) const FILES: &[(&str, &str)] = files![
    "Kconfig"
    "Kconfig.debug"
    "Makefile"
    "base.config"
    "core/Makefile"
    "core/asks.h"
    "core/fields.h"
    "core/hooks.sed"
    "core/host.h"
    "core/internal.h"
    "core/machine.c"
    "core/names.sed"
    "core/object.lds.S"
    "core/probe.c"
    "core/probe.sh"
    "core/readable.h"
    "core/sched_core.c"
    "core/sched_fair.c"
    "core/services.c"
    "include/asm/Kbuild"
    "include/asm/atomic.h"
    "include/asm/barrier.h"
    "include/asm/bitops.h"
    "include/asm/cmpxchg.h"
    "include/asm/current.h"
    "include/asm/elf.h"
    "include/asm/hidden.h"
    "include/asm/irq_work.h"
    "include/asm/irqflags.h"
    "include/asm/jump_label.h"
    "include/asm/mmu_context.h"
    "include/asm/mmzone.h"
    "include/asm/page.h"
    "include/asm/paravirt.h"
    "include/asm/paravirt_api_clock.h"
    "include/asm/percpu.h"
    "include/asm/pgtable.h"
    "include/asm/processor.h"
    "include/asm/ptrace.h"
    "include/asm/smp.h"
    "include/asm/sparsemem.h"
    "include/asm/spinlock.h"
    "include/asm/spinlock_types.h"
    "include/asm/string.h"
    "include/asm/switch_to.h"
    "include/asm/syscall.h"
    "include/asm/thread_info.h"
    "include/asm/topology.h"
    "include/asm/vmalloc.h"
    "include/uapi/asm/Kbuild"
    "include/uapi/asm/bitsperlong.h"
    "include/uapi/asm/byteorder.h"
    "include/uapi/asm/ptrace.h"
    "include/uapi/asm/setup.h"
    "include/uapi/asm/sigcontext.h"
    "include/uapi/asm/unistd.h"
    "kernel/Makefile"
    "kernel/asm-offsets.c"
    "kernel/vmlinux.lds.S"
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn count(folder: &Path) -> usize {
        let entries = std::fs::read_dir(folder).unwrap().flatten();
        entries
            .map(|entry| match entry.path() {
                path if path.is_dir() => count(&path),
                _ => 1,
            })
            .sum()
    }

    /// Output of `sed` for `text` by a script of the overlay.
    fn edited(arguments: &[&str], script: &str, text: &str) -> String {
        let script = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("overlay/core")
            .join(script);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut sed = std::process::Command::new("sed");
        let output = sed.args(arguments).arg("-f").args([&script, file.path()]);
        String::from_utf8(output.output().unwrap().stdout).unwrap()
    }

    #[test]
    fn a_copy_has_the_lines_of_its_source() {
        let text = "static struct {\n\tcpumask_var_t idle_cpus_mask;\n\tint has_blocked_load;\t/* idle */\n\
                    \tint needs_update;\n} nohz ____cacheline_aligned;\n\tcfs_rq->throttled = 1;\n";
        let hooked = edited(&[], "hooks.sed", text);
        let throttled = hooked.lines().nth(5).unwrap();
        assert_eq!(
            throttled,
            "\tcfs_rq->throttled = 1; sc_throttled(cfs_rq, 1);"
        );
        assert_eq!(hooked.lines().count(), text.lines().count());
        let names = "#define sc_has_blocked nohz.has_blocked_load\n\
                     #define sc_needs_update nohz.needs_update\n";
        assert_eq!(edited(&["-n"], "names.sed", text), names);
    }

    #[test]
    fn every_file_of_the_folder_is_embedded() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("overlay");
        assert_eq!(count(&folder), FILES.len());
    }
}
