"""The pipes between a Spark task and the process that runs its arrows."""

from __future__ import annotations

import json
import os
import select
import struct
import time
from collections.abc import Callable
from typing import IO, Any

_SIZE = struct.Struct(">Q")
_TICK = 0.02


def job_text(job: bytes) -> bytes:
    """Return a job as :meth:`TaskLine.read_job` reads it."""
    return _SIZE.pack(len(job)) + job


class TaskLine:
    """The host's end: a job comes first, then lines of JSON go both ways.

    Args:
        words: what the task says; its end is the end of the task.
        answers: what the host says.
    """

    def __init__(self, words: IO[bytes], answers: IO[bytes]) -> None:
        self._words, self._answers = words, answers
        self._text = b""
        self._gone = False
        self._documents: list[dict[str, Any]] = []

    def read_job(self) -> bytes:
        """Return the job; it waits for it."""
        (size,) = _SIZE.unpack(self._exactly(_SIZE.size))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            data = os.read(self._words.fileno(), size - len(found))
            if not data:
                raise EOFError("the task ended before it said what to do")
            found += data
        return found

    def say(self, **document: Any) -> None:
        """Tell the task something; one that is gone is told nothing."""
        try:
            self._answers.write(json.dumps(document).encode() + b"\n")
            self._answers.flush()
        except OSError:
            self._gone = True

    def gone(self) -> bool:
        """Say whether the task has ended. Does not wait."""
        while not self._gone and select.select([self._words], [], [], 0)[0]:
            data = os.read(self._words.fileno(), 1 << 16)
            self._gone = not data
            *lines, self._text = (self._text + data).split(b"\n")
            self._documents += [json.loads(line) for line in lines]
        return self._gone

    def wait(self, name: str, go_on: Callable[[], bool]) -> dict[str, Any] | None:
        """Return the document that the task says of ``name``; None if it ends or gives up.

        Args:
            name: its key.
            go_on: called again and again; what waits gives up once it is false.
        """
        while True:
            gone = self.gone()
            for document in self._documents:
                if name in document:
                    found: dict[str, Any] | None = document[name]
                    return found
            if gone or not go_on():
                return None
            time.sleep(_TICK)
