/* SPDX-License-Identifier: GPL-2.0-only */
/* Nobody asks this machine about system calls. */
