"""The standard streams of a process: always open, and written whatever the text and the locale."""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from typing import TextIO


class _Errors(io.TextIOWrapper):
    """Standard error. Where it cannot be written there is nobody to tell: the text is dropped."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError:
            discard(self)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            discard(self)


class _Missing(io.TextIOWrapper):
    """Stands for a standard output that was closed when the process began; drops the text."""


def prepare_streams() -> None:
    """Open a closed standard stream, and have texts escaped that the locale does not have.

    A process that was started without a standard stream would give its number to the next file or
    socket, which would get the texts. Input that is not of the locale's encoding is as in
    arguments (PEP 383). A stream that the caller replaced stays as it is.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # All lower numbers are in use, so this one is given out.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, closefd=False)
    if sys.stdin is sys.__stdin__ and isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")
    if sys.stdout is sys.__stdout__:
        sys.stdout = sys.stdout or _Missing(os.fdopen(1, "wb", closefd=False))
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
    if sys.stderr is sys.__stderr__:
        encoding = None if sys.stderr is None else sys.stderr.encoding
        binary = os.fdopen(2, "wb", closefd=False)
        sys.stderr = _Errors(binary, encoding, "backslashreplace", line_buffering=True)


def flush_output() -> OSError | None:
    """Flush standard output and return why it cannot be written; None if it can.

    It is a BrokenPipeError if the reader is gone, as with ``head``. Later output is discarded.
    """
    failed: OSError | None = None
    try:
        sys.stdout.flush()
        if _is_unread(sys.stdout.fileno()):
            failed = BrokenPipeError()
    except io.UnsupportedOperation:  # not a file
        return None
    except OSError as error:
        failed = error
    if failed is not None:
        discard(sys.stdout)
    return failed


def missing_output() -> OSError | None:
    """Return why a text that is asked for is lost; None unless standard output was closed."""
    if isinstance(sys.stdout, _Missing):
        return OSError(errno.EBADF, os.strerror(errno.EBADF))
    return None


def lost_output(failed: OSError | None) -> str | None:
    """Return in words that standard output cannot be written; None if its reader is only gone."""
    if failed is None or isinstance(failed, BrokenPipeError):
        return None
    return f"the standard output cannot be written: {failed.strerror}"


def discard(stream: TextIO) -> None:
    """Discard the text of a stream that cannot be written, and all later text."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
    with suppress(OSError):
        stream.flush()


def _is_unread(descriptor: int) -> bool:
    # Imported late, because most arrows do not need it.
    import select

    poller = select.poll()
    poller.register(descriptor, 0)
    return any(event & select.POLLERR for _, event in poller.poll(0))
