# SPDX-License-Identifier: GPL-2.0-only
exec redis-server --bind 127.0.0.1 --port "$PORT" --dir "$DIR" --save '' --appendonly yes
