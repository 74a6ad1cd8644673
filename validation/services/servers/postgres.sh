# SPDX-License-Identifier: GPL-2.0-only
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
chown postgres "$DIR"
cd "$DIR"
as() { setpriv --reuid postgres --regid postgres --clear-groups "$@"; }
as "$bin/initdb" -D "$DIR/db" -A trust -U bench > "$DIR/initdb.log"
cat >> "$DIR/db/postgresql.conf" <<END
port = $PORT
unix_socket_directories = '$DIR'
max_parallel_workers_per_gather = 0
END
as "$bin/pg_ctl" -D "$DIR/db" -l "$DIR/log" -o "-c listen_addresses=''" -w start > /dev/null
psql -q -h "$DIR" -p "$PORT" -U bench -d postgres <<END
create database bench;
\c bench
create table t (id int primary key, a int not null, b text not null);
insert into t select i, i * 7919 % 100003, repeat('x', 50) from generate_series(0, 99999) i;
vacuum analyze t;
END
as "$bin/pg_ctl" -D "$DIR/db" -m fast -w stop > /dev/null
exec setpriv --reuid postgres --regid postgres --clear-groups "$bin/postgres" -D "$DIR/db" -c listen_addresses=127.0.0.1
