/* SPDX-License-Identifier: GPL-2.0-only */
/* No code asks this machine about system calls. */
