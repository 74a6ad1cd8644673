# SPDX-License-Identifier: GPL-2.0-only
# Two workers; text files that are compressed for every request.
mkdir -p "$DIR/www"
for i in 0 1 2 3 4 5 6 7 8 9; do
	seq $((i * 1000 + 1)) $((i * 1000 + 5000 + i * 700)) > "$DIR/www/$i.txt"
done
chmod -R a+rX "$DIR"
cat > "$DIR/nginx.conf" <<END
worker_processes 2;
pid $DIR/nginx.pid;
error_log $DIR/error.log;
events { worker_connections 256; }
http {
	types { text/plain txt; }
	access_log $DIR/access.log;
	gzip on;
	gzip_types text/plain;
	server { listen 127.0.0.1:$PORT; root $DIR/www; keepalive_requests 1000000; }
}
END
exec nginx -p "$DIR" -c "$DIR/nginx.conf" -g 'daemon off;'
