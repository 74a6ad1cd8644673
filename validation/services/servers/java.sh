# SPDX-License-Identifier: GPL-2.0-only
javac -d "$DIR" "$HERE/Server.java"
exec java -Xmx64m -Dsun.net.httpserver.nodelay=true -cp "$DIR" Server "$PORT"
