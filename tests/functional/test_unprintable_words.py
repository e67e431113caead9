"""Control characters of peers and of file names: no output of ours has them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.frame_peer import FramePeer
from support.terminal import Terminal

from quiver_fast.conform.counterpart import Talk
from quiver_fast.conform.wire.codec import Value
from quiver_fast.conform.wire.frames import composite

EVIL = "a\x1b]0;title\x07b\x1b[2Jc\x9b2Jd\x7fe\u202ef"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")
# Sequences that a layout for terminals has: colours, and erasing of lines.
OURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r\n|\r")


def run(words: Sequence[str], code: int = 0) -> str:
    """Run a command, and return all that it printed."""
    program = Path(sys.executable).with_name(words[0])
    ended = subprocess.run([program, *words[1:]], capture_output=True, timeout=120, check=False)
    shown = (ended.stdout + ended.stderr).decode()
    assert ended.returncode == code, shown
    return shown


def terminal(words: Sequence[str]) -> str:
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    program = str(Path(sys.executable).with_name(words[0]))
    seen = Terminal(100).run([program, *words[1:]], kept | {"TERM": "xterm-256color"})
    return seen.raw.decode()


@pytest.fixture(name="folder", scope="module")
def a_run_of_others(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two runs whose peer has such names."""
    folder = tmp_path_factory.mktemp("runs") / EVIL
    run(["quiver", "-c", "20", "--output", str(folder), "--runs", "2"])
    for place in folder.rglob("*-summary.json"):
        summary = json.loads(place.read_text())
        summary |= {"complete": False, "reason": EVIL}
        summary["config"] |= {"impl": EVIL, "url": f"amqp://localhost/{EVIL}"}
        peer = {"product": EVIL, "version": EVIL, "container": EVIL, "address": EVIL, "port": 1}
        summary["arrow"] = (summary["arrow"] or {}) | {"peer": peer}
        summary["environment"] |= {"host": EVIL, "cpu": EVIL, "command": EVIL}
        place.write_text(json.dumps(summary))
    return folder


@pytest.mark.parametrize("runs", [["run-01"], ["run-01", "run-02"]], ids=["one", "two"])
def test_an_analysis(folder: Path, tmp_path: Path, runs: list[str]) -> None:
    files = {name: tmp_path / f"file.{name}" for name in ("html", "markdown", "junit")}
    words = ["quiver-analyze", *(str(folder / name) for name in runs)]
    words += ["--fail-if", "count<1"]
    outputs = [word for name, file in files.items() for word in (f"--{name}", str(file))]
    shown = run([*words, *outputs], 99)
    assert not CONTROLS.search(shown), shown
    assert "\\x1b]0;title" in shown
    for file in files.values():
        assert not CONTROLS.search(file.read_text()), file
    assert "\\x1b" in files["html"].read_text()
    for more in ([], ["--verbose"]):
        seen = OURS.sub("", terminal([*words, *more]).replace("\x1b[2Jc", "FAULT"))
        assert not CONTROLS.search(seen), seen
        assert "FAULT" not in seen


def test_a_run_against_such_a_peer(tmp_path: Path) -> None:
    def script(talk: Talk) -> None:
        names = [Value("symbol", name) for name in ("product", "version")]
        properties = Value("map", tuple((name, Value("string", EVIL)) for name in names))
        talk.answer_header()
        talk.expect("open")
        talk.send("open", container_id=EVIL, properties=properties)
        talk.expect("begin")
        error = composite("error", condition="test:\x1b[2J", description=EVIL)
        talk.send("close", error=error)
        talk.read_until("close")

    with FramePeer(script) as peer:
        url = f"//127.0.0.1:{peer.port}/{EVIL}"
        shown = run(["quiver-arrow", "send", url, "-c", "1", "--output", str(tmp_path / EVIL)], 1)
    assert not CONTROLS.search(shown), shown
    assert "\\x1b]0;title" in shown


def test_a_queue(tmp_path: Path) -> None:
    queue = str(tmp_path / EVIL)
    shown = run(["quiver-queue", "append", queue, "value"])
    (cycle,) = Path(queue).glob("*.cq4")
    os.rename(cycle, cycle.with_name(f"{EVIL}.cq4"))
    for operation in ("dump", "verify"):
        shown = run(["quiver-queue", operation, queue], 1 if operation == "verify" else 0)
        assert not CONTROLS.search(shown), shown


def test_words_of_a_foreign_program(tmp_path: Path) -> None:
    """What an implementation writes to its standard error is passed on."""
    program = tmp_path / "quiver-arrow-other"
    program.write_text(f"#!/bin/sh\nprintf '%s\\r\\n' '{EVIL}' >&2\nexit 1\n")
    program.chmod(0o755)
    command = Path(sys.executable).with_name("quiver-arrow")
    ended = subprocess.run(
        [command, "send", "//127.0.0.1:1/q", "--impl", "other", "-c", "1"],
        env=os.environ | {"QUIVER_IMPL_PATH": str(tmp_path)}, capture_output=True, check=False,
    )  # fmt: skip
    shown = ended.stderr.decode()
    assert shown.count("\\x1b]0;title") == 2
    assert not CONTROLS.search(shown), shown
