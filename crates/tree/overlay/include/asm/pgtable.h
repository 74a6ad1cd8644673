/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_SCHEDCAST_PGTABLE_H
#define _ASM_SCHEDCAST_PGTABLE_H
#include <asm-generic/pgtable-nopud.h>
#define VMALLOC_START 0
#define VMALLOC_END (~0UL)
#define PAGE_NONE __pgprot(0)
#define PAGE_SHARED __pgprot(0)
#define PAGE_COPY __pgprot(0)
#define PAGE_READONLY __pgprot(0)
#define PAGE_KERNEL __pgprot(0)
#define ZERO_PAGE(address) ((struct page *)0)
#define swapper_pg_dir ((pgd_t *)0)
#endif
