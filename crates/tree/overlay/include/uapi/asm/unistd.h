/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
#include <asm-generic/unistd.h>
