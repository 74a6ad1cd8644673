/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_SCHEDCAST_ELF_H
#define _ASM_SCHEDCAST_ELF_H
#define ELF_CLASS ELFCLASS64
#define ELF_DATA ELFDATA2LSB
#define ELF_ARCH EM_X86_64
#define elf_check_arch(header) 1
typedef unsigned long elf_greg_t;
typedef elf_greg_t elf_gregset_t[2];
typedef unsigned long elf_fpregset_t;
#endif
