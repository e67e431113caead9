"""A tailer that is interrupted while it looks for files."""

from __future__ import annotations

from pathlib import Path

import pytest

from quiver_fast.queuefile import tailer
from quiver_fast.queuefile.appender import Appender


def interrupt(_directory: Path, _roll: object) -> list[int]:
    raise KeyboardInterrupt


def read_on(one: tailer.Tailer) -> None:
    """Read at the end of a queue. Ten times a second that is a look for later files."""
    while one.read() is None:
        pass


def test_an_interruption_is_raised_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither reading nor seeking may lose a Ctrl-C: it would have to be pressed again."""
    with Appender(tmp_path) as appender:
        appender.append_text("x")
    one = tailer.Tailer(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(tailer, "cycles_in", interrupt)
        with pytest.raises(KeyboardInterrupt):
            one.move_to(1 << 40)
    one.move_to(0)
    found = one.read()
    assert found is not None
    with monkeypatch.context() as patch:
        patch.setattr(tailer, "cycles_in", interrupt)
        with pytest.raises(KeyboardInterrupt):
            read_on(one)
    assert one.read() is None
