# SPDX-License-Identifier: GPL-2.0-only
chown mysql "$DIR"
mariadb-install-db --user=mysql --datadir="$DIR/db" --skip-test-db > "$DIR/install.log" 2>&1
cat > "$DIR/init.sql" <<END
create database bench;
create table bench.t (id int primary key, a int not null, b char(50) not null);
insert into bench.t select seq, seq * 7919 % 100003, repeat('x', 50) from seq_0_to_99999;
END
# The init file runs once the server is up; everybody may log in.
exec mariadbd --no-defaults --user=mysql --datadir="$DIR/db" --socket="$DIR/socket" --pid-file="$DIR/pid" \
	--bind-address=127.0.0.1 --port="$PORT" --skip-grant-tables --skip-networking=0 --init-file="$DIR/init.sql"
