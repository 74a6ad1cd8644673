#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# probe.sh FOLDER ERRORS TREE: from the compiler's complaints about probe.c, and from the text where
# types say nothing, to definitions.
refused() { sed -n "s|^.*$1:\([0-9]*\):[0-9]*: error:.*|\1|p" "$2" | sort -un; }
kept() { refused "$1" "$3" | awk -v list="$2/$1" 'FILENAME == "-" { no[$1] = 1; next } /^SC_/ && !(FNR in no)' - "$2/$1"; }
if ! grep -q 'asks.h:\|fields.h:' "$2" && grep -q 'error:' "$2"; then
	cat "$2" >&2
	exit 1
fi
if grep 'error:' "$2" | grep -v 'asks.h:\|fields.h:' >&2; then
	exit 1
fi
echo '/* What this tree has. */'
kept asks.h "$1" "$2" | sed 's/^SC_ASK(\([A-Z_]*\),.*/#define \1 1/'
# Limits are passed in ns or in us, by numbers of one type.
tr -s '\t\n ' ' ' < "$3/kernel/sched/core.c" | grep -q 'int tg_set_cfs_bandwidth([^)]*period_us' && echo '#define SC_LIMIT_UNIT 1000'
echo '#ifdef SC_FIELD'
kept fields.h "$1" "$2"
echo '#endif'
