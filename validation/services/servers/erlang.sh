# SPDX-License-Identifier: GPL-2.0-only
erlc -o "$DIR" "$HERE/bench_server.erl"
exec erl -noinput -pa "$DIR" -run bench_server start "$PORT"
