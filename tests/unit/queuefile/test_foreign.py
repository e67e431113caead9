"""Queues of a form that is not ours: each command refuses them by name, and touches nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.remote import failure, request

from quiver_fast.cli.queue.command import main
from quiver_fast.errors import OutputError
from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.directory import QueueDirectory
from quiver_fast.queuefile.tailer import Tailer
from quiver_fast.remote.serve.exchange import Exchange
from quiver_fast.remote.serve.store import Store

# As Java begins a file of FIELDLESS_BINARY, up to the words of its index.
FIELDLESS = bytes.fromhex(
    "76000040b906686561646572b608534351 53746f7265825f0000008f8f8f8f8d"
    "0200000000000000 0200000000000000 c000010000000000 00000000c0000100"
    "b60c534351 53496e646578696e6782 25000000a50010a500018e0100000000a7"
    "7c00000000000000 8e0200000000a7 0001000000000000 a1010000 20800040"
)
# Java begins the others, and fails before the first entry.
HEADS = {
    "wire type FIELDLESS_BINARY": FIELDLESS,
    "wire type TEXT": b"\0\0\0\x80header: !SCQStore {\n  writePosition: ",
    "wire type JSON": b'\0\0\0\x80"header":{"writePosition":',
    "wire type RAW": b"\0\0\0\x80\x06header\x08SCQStore",
}
OLD = "written by a Chronicle Queue before 5.19.11"


def snapshot(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def foreign_queue(directory: Path, form: str, *, with_table: bool = True) -> Path:
    """Make a queue with a file of ours, and a later one of another form; return the later one."""
    Appender(directory).close()
    (ours,) = directory.glob("*.cq4")
    content = ours.read_bytes()
    theirs = directory / "20991231F.cq4"
    if form == OLD:
        theirs.write_bytes(content.replace(b"dataFormat\xa1\x01", b"dataFormat\xa1\x00"))
    else:
        theirs.write_bytes(HEADS[form].ljust(65812, b"\0"))
    (directory / ".quiver.lock").unlink()
    if not with_table:
        (directory / "metadata.cq4t").unlink()
    return theirs


@pytest.mark.parametrize("with_table", [True, False])
@pytest.mark.parametrize("words", ["dump", "verify", "append x", "tail"])
@pytest.mark.parametrize("form", [*HEADS, OLD])
def test_commands_refuse_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, words: str, with_table: bool
) -> None:
    theirs = foreign_queue(tmp_path, form, with_table=with_table)
    before = snapshot(tmp_path)
    operation, *values = words.split()
    assert main([operation, str(tmp_path), *values, "--quiet"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"quiver-queue: error: {theirs}: {form}")
    assert captured.err.count("\n") == 1
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("asked", ["submit: x", "hasNext: { index: 0 }", "createTailer:"])
@pytest.mark.parametrize("form", [*HEADS, OLD])
def test_a_server_refuses_it(tmp_path: Path, form: str, asked: str) -> None:
    theirs = foreign_queue(tmp_path / "q", form)
    before = snapshot(tmp_path / "q")
    store = Store(QueueDirectory(tmp_path))
    kind = {"s": "appender", "h": "tailer", "c": "Queue"}[asked[0]]
    said = failure(Exchange(store).send(request(asked, csp=f"//h/q#{kind}", tid=1)))
    assert said[:2] == (1, "java.io.IOException")
    assert said[2].startswith(f"{theirs}: {form}")
    # Other queues go on.
    store.files.appender("other").append_text("x")
    store.files.close()
    assert snapshot(tmp_path / "q") == before


def test_a_reader_meets_it_on_its_way(tmp_path: Path) -> None:
    """A file that comes while a tailer reads is refused in the same words."""
    with Appender(tmp_path / "q") as appender:
        appender.append_text("ours")
        tailer = Tailer(tmp_path / "q")
        foreign_queue(tmp_path / "other", OLD).rename(tmp_path / "q" / "20991231F.cq4")
        assert tailer.read() is not None
        with pytest.raises(OutputError, match=r"20991231F\.cq4: written by a Chronicle Queue"):
            tailer.read()
