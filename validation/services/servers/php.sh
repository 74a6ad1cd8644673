# SPDX-License-Identifier: GPL-2.0-only
# nginx hands every request to one of four php-fpm processes over a socket.
fpm=$(command -v php-fpm || ls /usr/sbin/php-fpm[0-9]* | tail -n 1)
mkdir -p "$DIR/www"
cp "$HERE/work.php" "$DIR/www/"
chmod -R a+rX "$DIR"
cat > "$DIR/fpm.conf" <<END
[global]
error_log = $DIR/fpm.log
[bench]
user = nobody
group = nogroup
listen = $DIR/fpm.sock
listen.mode = 0666
pm = static
pm.max_children = 4
END
cat > "$DIR/nginx.conf" <<END
worker_processes 1;
pid $DIR/nginx.pid;
error_log $DIR/error.log;
events { worker_connections 256; }
http {
	access_log $DIR/access.log;
	server {
		listen 127.0.0.1:$PORT;
		keepalive_requests 1000000;
		location / {
			fastcgi_pass unix:$DIR/fpm.sock;
			fastcgi_param SCRIPT_FILENAME $DIR/www/work.php;
			fastcgi_param REQUEST_METHOD \$request_method;
			fastcgi_param QUERY_STRING \$query_string;
		}
	}
}
END
"$fpm" -F -y "$DIR/fpm.conf" &
while [ ! -S "$DIR/fpm.sock" ]; do sleep 0.1; done
exec nginx -p "$DIR" -c "$DIR/nginx.conf" -g 'daemon off;'
