/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_SCHEDCAST_PAGE_H
#define _ASM_SCHEDCAST_PAGE_H
/* Memory management is not built; its headers want these to exist. */
#if __has_include(<vdso/page.h>)
#include <vdso/page.h>
#else
#define PAGE_SHIFT 12
#define PAGE_SIZE (1UL << PAGE_SHIFT)
#define PAGE_MASK (~(PAGE_SIZE - 1))
#endif
#ifndef __ASSEMBLY__
typedef struct { unsigned long pte; } pte_t;
typedef struct { unsigned long pmd; } pmd_t;
typedef struct { unsigned long pgd; } pgd_t;
typedef struct { unsigned long pgprot; } pgprot_t;
typedef struct page *pgtable_t;
#define pte_val(x) ((x).pte)
#define pmd_val(x) ((x).pmd)
#define pgd_val(x) ((x).pgd)
#define pgprot_val(x) ((x).pgprot)
#define __pte(x) ((pte_t) { (x) })
#define __pmd(x) ((pmd_t) { (x) })
#define __pgd(x) ((pgd_t) { (x) })
#define __pgprot(x) ((pgprot_t) { (x) })
#define clear_page(page) memset((page), 0, PAGE_SIZE)
#define copy_page(to, from) memcpy((to), (from), PAGE_SIZE)
#define clear_user_page(page, address, pg) clear_page(page)
#define copy_user_page(to, from, address, pg) copy_page(to, from)
#define ARCH_PFN_OFFSET 0UL
#define __pa(x) ((unsigned long)(x))
#define __va(x) ((void *)((unsigned long)(x)))
#define virt_to_pfn(address) (__pa(address) >> PAGE_SHIFT)
#define pfn_to_virt(pfn) __va((pfn) << PAGE_SHIFT)
#define virt_to_page(address) pfn_to_page(virt_to_pfn(address))
#define page_to_virt(page) pfn_to_virt(page_to_pfn(page))
#define virt_addr_valid(address) 1
#include <asm-generic/memory_model.h>
#ifndef __pfn_to_page		/* a configuration without a memory model */
#define __pfn_to_page(pfn) ((struct page *)0 + (pfn))
#define __page_to_pfn(of) ((unsigned long)((of) - (struct page *)0))
#endif
#if !defined(pfn_valid) && !defined(CONFIG_SPARSEMEM)
#define pfn_valid(pfn) ((void)(pfn), 1)
#endif
#ifndef page_to_phys
#define page_to_phys(of) ((phys_addr_t)page_to_pfn(of) << PAGE_SHIFT)
#endif
#include <asm-generic/getorder.h>
#endif
#endif
