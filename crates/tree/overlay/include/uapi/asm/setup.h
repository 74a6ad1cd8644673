/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
#define COMMAND_LINE_SIZE 256
