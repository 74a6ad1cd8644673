/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
struct sigcontext { unsigned long unused; };
