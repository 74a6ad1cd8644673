# SPDX-License-Identifier: GPL-2.0-only
exec python3 "$HERE/server.py" "$PORT"
