"""A bucket of as many objects as are asked for, made by arithmetic: a server of a process of its own that answers what
boto3 asks of a listing, page by page, and gives each object."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

PAGE = 1000
ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def large_bucket(objects: int, ending: str) -> Iterator[str]:
    """The address of a server with these objects, all in the bucket `large`."""
    command = [sys.executable, "-m", "tests.support.large_bucket", str(objects), ending]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert server.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def _page(first: int, objects: int, ending: str) -> bytes:
    last = min(first + PAGE, objects)
    found = "".join(
        f"<Contents><Key>folder-{number // 1000:05}/object-{number:08}{ending}</Key><Size>{30}</Size>"
        f"<LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>&quot;{number:032x}&quot;</ETag>"
        "<StorageClass>STANDARD</StorageClass></Contents>"
        for number in range(first, last)
    )
    more = f"<NextContinuationToken>{last}</NextContinuationToken>" if last < objects else ""
    return (
        '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>large</Name><KeyCount>{last - first}</KeyCount><MaxKeys>{PAGE}</MaxKeys>"
        f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>{more}{found}</ListBucketResult>"
    ).encode()


def _handler(objects: int, ending: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            asked = parse_qs(parts.query)
            if "list-type" in asked:
                body, headers = _page(int(asked.get("continuation-token", ["0"])[0]), objects, ending), {}
            else:
                number = int(parts.path.removesuffix(ending)[-8:])
                body, headers = f"# Object {number:020}\n".encode(), {"ETag": f'"{number:032x}"'}
            self.send_response(200)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()

        def log_message(self, *arguments: object) -> None:
            """Nobody reads it."""

    return Handler


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(int(sys.argv[1]), sys.argv[2])) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()
