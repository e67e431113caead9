"""The examples of docs/streaming.md, as they stand there, against our arrows and server."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from support.arrows import arguments, pyfast
from support.judgement import assert_clean
from support.processes import REPOSITORY, Running, free_port, wait_until
from support.server import running_server

SIZE = 20_000_000


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """Return a folder with the programs, under the names in their first lines."""
    text = (REPOSITORY / "docs" / "streaming.md").read_text()
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        name = re.match(r'"""(\S+\.py)', code)
        assert name is not None
        (tmp_path / name[1]).write_text(code)
    return tmp_path


def test_sender_and_receiver_through_our_server(examples: Path) -> None:
    # The server's log tells when the receiver is attached: a stream without one is released.
    log = {"PN_LOG": "frame"}
    with running_server(examples, environment=log, says="@attach") as server:
        place = f"127.0.0.1:{server.port}"
        receive = [sys.executable, str(examples / "stream_receive.py"), place, "queue0"]
        send = [sys.executable, str(examples / "stream_send.py"), f"{place}/queue0", str(SIZE)]
        with Running(receive) as receiver:
            wait_until(lambda: "@flow" in server.running.stderr_so_far(), "it gives credit")
            with Running(send) as sender:
                ends = [sender.wait(40), receiver.wait(40)]
    for end in ends:
        assert_clean(end)
    assert int(ends[1].stdout.split()[0]) > SIZE


def test_sender_to_our_arrow(examples: Path) -> None:
    port = free_port()
    words = arguments(
        "receive", port, connection_mode="server", channel_mode="passive", count=1, streaming=1
    )
    with Running(pyfast(*words)) as arrow:
        arrow.wait_until_listening(port)
        send = [sys.executable, str(examples / "stream_send.py"), f"127.0.0.1:{port}/q", str(SIZE)]
        with Running(send) as sender:
            for end in (sender.wait(40), arrow.wait(40)):
                assert_clean(end)
