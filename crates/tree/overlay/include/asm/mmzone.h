/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_SCHEDCAST_MMZONE_H
#define _ASM_SCHEDCAST_MMZONE_H
#ifndef NODE_DATA
struct pglist_data;
extern struct pglist_data *node_data[];
#define NODE_DATA(node) (node_data[node])
#endif
#endif
