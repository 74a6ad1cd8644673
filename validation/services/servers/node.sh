# SPDX-License-Identifier: GPL-2.0-only
exec node "$HERE/server.js" "$PORT"
