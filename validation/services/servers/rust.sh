# SPDX-License-Identifier: GPL-2.0-only
rustc --edition 2021 -O -o "$DIR/pool" "$HERE/pool.rs"
exec "$DIR/pool" "$PORT"
