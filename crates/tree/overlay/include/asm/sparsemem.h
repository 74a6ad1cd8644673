/* SPDX-License-Identifier: GPL-2.0-only */
/* NUMA headers want this file; there is no memory model here. */
