"""The pipes between a Spark task and the process that runs its arrows, and their folder."""

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


def folder_name(token: str) -> str:
    """Return the name of the folder that a run has on each host."""
    return f"quiver-fleet-{token[:16]}"


def job_text(job: bytes) -> bytes:
    """Return a job as :meth:`TaskLine.read_job` reads it."""
    return _SIZE.pack(len(job)) + job


class TaskLine:
    """The host's end of the pipes: first a job, then lines of JSON both ways.

    Args:
        words: the pipe from the task; its end means the end of the task.
        answers: the pipe to the task.
    """

    def __init__(self, words: IO[bytes], answers: IO[bytes]) -> None:
        self._words, self._answers = words, answers
        self._text = b""
        self._gone = False
        self._documents: list[dict[str, Any]] = []

    def read_job(self) -> bytes:
        """Wait for the job and return it."""
        (size,) = _SIZE.unpack(self._exactly(_SIZE.size))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            data = os.read(self._words.fileno(), size - len(found))
            if not data:
                raise EOFError("the task ended before it gave its job")
            found += data
        return found

    def send(self, **document: Any) -> None:
        """Send the task a document, unless the task is gone."""
        try:
            self._answers.write(json.dumps(document).encode() + b"\n")
            self._answers.flush()
        except OSError:
            self._gone = True

    def has_ended(self) -> bool:
        """Say whether the task has ended, without waiting."""
        while not self._gone and select.select([self._words], [], [], 0)[0]:
            data = os.read(self._words.fileno(), 1 << 16)
            self._gone = not data
            *lines, self._text = (self._text + data).split(b"\n")
            self._documents += [json.loads(line) for line in lines]
        return self._gone

    def wait(self, name: str, go_on: Callable[[], bool]) -> dict[str, Any] | None:
        """Wait for the task's document called ``name``; return None if the task ends before.

        Args:
            name: its key.
            go_on: called again and again; the wait gives up when it returns False.
        """
        while True:
            gone = self.has_ended()
            for document in self._documents:
                if name in document:
                    found: dict[str, Any] | None = document[name]
                    return found
            if gone or not go_on():
                return None
            time.sleep(_TICK)
