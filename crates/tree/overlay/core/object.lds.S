/* SPDX-License-Identifier: GPL-2.0-only */
#include <asm-generic/vmlinux.lds.h>
/* The sections that the kernel's own link script puts in an order. */
SECTIONS
{
  .sc_percpu ALIGN(4096) : {
    sc_percpu_start = .;
    *(.data..percpu..first)
    . = ALIGN(4096);
    *(.data..percpu..page_aligned)
    . = ALIGN(64);
    *(.data..percpu..read_mostly) *(.data..percpu) *(.data..percpu..shared_aligned) *(.data..percpu*)
    . = ALIGN(4096);
    sc_percpu_end = .;
  }
  .sc_initcalls ALIGN(8) : {
    sc_initcalls_start = .;
    KEEP(*(.initcallearly.init))
    sc_initcalls_0 = .;
    KEEP(*(.initcall0.init)) KEEP(*(.initcall0s.init))
    KEEP(*(.initcall1.init)) KEEP(*(.initcall1s.init))
    KEEP(*(.initcall2.init)) KEEP(*(.initcall2s.init))
    KEEP(*(.initcall3.init)) KEEP(*(.initcall3s.init))
    KEEP(*(.initcall4.init)) KEEP(*(.initcall4s.init))
    KEEP(*(.initcall5.init)) KEEP(*(.initcall5s.init))
    KEEP(*(.initcallrootfs.init)) KEEP(*(.initcallrootfss.init))
    KEEP(*(.initcall6.init)) KEEP(*(.initcall6s.init))
    KEEP(*(.initcall7.init)) KEEP(*(.initcall7s.init))
    sc_initcalls_end = .;
  }
  .sc_classes ALIGN(64) : {
    SCHED_DATA
  }
}
INSERT AFTER .data;
SECTIONS
{
  .sc_text : {
    __sched_text_start = .; *(.sched.text) __sched_text_end = .;
    __cpuidle_text_start = .; *(.cpuidle.text) __cpuidle_text_end = .;
  }
}
INSERT AFTER .text;
SECTIONS
{
  /DISCARD/ : { *(.export_symbol) *(.discard .discard.*) *(.modinfo) *(___ksymtab*) *(__ksymtab*) *(.note.GNU-stack) }
}
INSERT AFTER .comment;
