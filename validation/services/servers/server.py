# SPDX-License-Identifier: GPL-2.0-only
"""GET /w?n=N with a thread for each connection: N numbers hashed and sorted under the interpreter's one lock."""

import hashlib
import http.server
import sys


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        n = int(self.path.partition("=")[2])
        words = sorted(hashlib.md5(str(i).encode()).hexdigest() for i in range(n))
        body = "\n".join(words[:20]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True


Handler.wbufsize = -1
Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
