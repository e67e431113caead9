"""A peer of an arrow under the control of a test, frame by frame and write by write."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from types import TracebackType

from quiver_fast.conform.counterpart import Talk
from quiver_fast.conform.wire.codec import Value
from quiver_fast.conform.wire.frames import composite, encode_frame

SECONDS = 30.0


class FramePeer:
    """Listens on a port of its own, and speaks to one arrow by a script.

    Args:
        script: Runs on the connection; its failure fails the test.
    """

    def __init__(self, script: Callable[[Talk], None]) -> None:
        self.script = script
        self.error: BaseException | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> FramePeer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close()
        self.join()
        if self.error is not None:
            raise self.error

    def join(self) -> None:
        """Wait for the end of the script."""
        self._thread.join(SECONDS)

    def _run(self) -> None:
        try:
            self._listener.settimeout(SECONDS)
            with Talk(self._listener.accept()[0]) as talk:
                self.script(talk)
        except BaseException as error:
            self.error = error


def failure(name: str) -> Value:
    """Return an error with a condition and description that name its origin."""
    return composite("error", condition=f"test:{name}", description=f"by {name}")


def ended(*names: str) -> bytes:
    """Return the frames that end link, session and connection, each with an error of its own."""
    frames = {
        "detach": lambda: encode_frame("detach", handle=0, closed=True, error=failure("detach")),
        "end": lambda: encode_frame("end", error=failure("end")),
        "close": lambda: encode_frame("close", error=failure("close")),
    }
    return b"".join(frames[name]() for name in names)
