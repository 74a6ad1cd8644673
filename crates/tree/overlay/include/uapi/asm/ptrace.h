/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/* The machine has no registers to trace. */
