/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
#define __BITS_PER_LONG 64
#include <asm-generic/bitsperlong.h>
