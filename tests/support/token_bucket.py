"""A relay in front of a server that forwards a known number of bytes per second.

The bytes of each connection to the server have a bucket of their own, those back have none. So
with messages of one size the capacity of a sender's connection is known exactly.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time

_READ = 4096
_BUFFER = 16 * 1024
# What a relay that woke late makes up for.
_BURST_SECONDS = 0.02


class TokenBucket:
    """Relays connections to a port, in a thread of its own.

    Args:
        port: where the server listens.
        bytes_per_second: to the server, for each connection; None for no limit.
    """

    def __init__(self, port: int, bytes_per_second: float | None = None) -> None:
        self._target, self._rate = port, bytes_per_second
        self.forwarded: list[int] = []
        """The bytes of each connection to the server."""
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        self._listener.bind(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> TokenBucket:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        starting = asyncio.start_server(self._relay, sock=self._listener, limit=_READ)
        self._loop.run_until_complete(starting)
        self._loop.run_forever()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            target_reader, target = await asyncio.open_connection("127.0.0.1", self._target)
            await asyncio.gather(
                self._forward(reader, target, self._rate),
                self._forward(target_reader, writer, None),
            )

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rate: float | None
    ) -> None:
        """Forward all bytes; those ahead of the rate wait."""
        free, number = time.monotonic(), len(self.forwarded)
        if rate is not None:
            self.forwarded.append(0)
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(_READ):
                if rate is not None:
                    now = time.monotonic()
                    free = max(free, now - _BURST_SECONDS) + len(data) / rate
                    await asyncio.sleep(max(free - now, 0))
                    self.forwarded[number] += len(data)
                writer.write(data)
                await writer.drain()
        writer.close()
