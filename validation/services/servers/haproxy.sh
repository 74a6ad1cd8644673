# SPDX-License-Identifier: GPL-2.0-only
# HAProxy before two Node.js servers, all in one group.
node "$HERE/server.js" $((PORT + 1)) &
node "$HERE/server.js" $((PORT + 2)) &
cat > "$DIR/haproxy.cfg" <<END
global
	nbthread 2
defaults
	mode http
	timeout connect 30s
	timeout client 60s
	timeout server 60s
frontend in
	bind 127.0.0.1:$PORT
	default_backend out
backend out
	balance leastconn
	http-reuse always
	server a 127.0.0.1:$((PORT + 1))
	server b 127.0.0.1:$((PORT + 2))
END
sleep 1
exec haproxy -f "$DIR/haproxy.cfg"
