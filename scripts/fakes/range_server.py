"""range_server.py FOLDER LOG: serves a folder on a free port of 127.0.0.1, honours "Range: bytes=N-", logs each GET.

The first line of standard output is the port. Python's own http.server ignores ranges, so it cannot test a resumed
download.
"""

import http.server
import pathlib
import sys

folder, log = pathlib.Path(sys.argv[1]), sys.argv[2]


class Handler(http.server.BaseHTTPRequestHandler):
    def reply(self):
        file = folder / self.path.lstrip("/")
        if not file.is_file():
            self.send_error(404)
            return b""
        data, wanted = file.read_bytes(), self.headers.get("Range")
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        if start >= len(data):
            self.send_error(416)
            return b""
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(data) - start))
        if wanted:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        return data[start:]

    def do_HEAD(self):
        self.reply()

    def do_GET(self):
        with open(log, "a") as f:
            print(self.path, self.headers.get("Range", "whole"), file=f)
        self.wfile.write(self.reply())

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
