/* SPDX-License-Identifier: GPL-2.0-only */
/* Older trees insist on this header. */
