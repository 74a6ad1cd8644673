# SPDX-License-Identifier: GPL-2.0-only
exec memcached -u nobody -l 127.0.0.1 -p "$PORT" -t 2 -m 256
