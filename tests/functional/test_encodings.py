"""Names that are no UTF-8, and locales that have no UTF-8: the exit code stays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

BAD = b"d\xff\xc3\xbc\xe2\x82\xac"
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
LATIN = {"PYTHONIOENCODING": "latin-1"}
LOCALES = pytest.mark.parametrize(
    "variables", [{}, ASCII, LATIN], ids=["UTF-8", "ASCII", "Latin-1"]
)
COMMANDS = ("", "-arrow", "-server", "-bench", "-analyze", "-queue", "-fleet")


def run(
    words: Sequence[str | bytes], code: int, variables: dict[str, str], typed: bytes = b""
) -> tuple[bytes, bytes]:
    """Run an installed command; return its output and its errors."""
    program = Path(sys.executable).with_name(str(words[0]))
    ended = subprocess.run(
        [program, *words[1:]], env=os.environ | variables, input=typed, capture_output=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == code, ended.stderr
    assert b"Traceback" not in ended.stderr
    return ended.stdout, ended.stderr


@LOCALES
def test_runs_and_their_analysis(tmp_path: Path, variables: dict[str, str]) -> None:
    folder = os.fsencode(tmp_path) + b"/" + BAD
    words = ["quiver", "-c", "20", "--runs", "2", "--fail-if", "count>1", "--output", folder]
    words += ["--markdown", folder + b".md", "--junit", folder + b".xml"]
    run(words, 99, variables)
    run([*words, "--force", "--json"], 99, variables)
    assert (tmp_path / os.fsdecode(BAD + b".xml")).stat().st_size
    outputs = ["--html", folder + b".html", "--hgrm", folder + b".hgrm"]
    run(["quiver-analyze", folder + b"/run-01", *outputs, "--fail-if", "count>1"], 99, variables)
    run(["quiver-analyze", folder + b"/run-01", folder + b"/run-02"], 0, variables)
    _, errors = run(["quiver-analyze", folder + b"-none"], 2, variables)
    assert errors.count(b"\n") == 1
    assert b"d\\udcff" in errors


@LOCALES
def test_a_bench(tmp_path: Path, variables: dict[str, str]) -> None:
    folder = os.fsencode(tmp_path) + b"/" + BAD
    words = ["quiver-bench", "-c", "10", "--output", folder, "--peer-to-peer"]
    words += ["--include-senders", "pyfast", "--include-receivers", "pyfast"]
    run(words, 0, variables)


@LOCALES
@pytest.mark.parametrize("command", COMMANDS)
def test_help(command: str, variables: dict[str, str]) -> None:
    shown, errors = run([f"quiver{command}", "--help"], 0, variables)
    assert shown.startswith(b"usage: ")
    assert errors == b""


@LOCALES
def test_values_of_a_queue(tmp_path: Path, variables: dict[str, str]) -> None:
    queue = os.fsencode(tmp_path) + b"/" + BAD
    run(["quiver-queue", "append", queue, "grün €".encode()], 0, variables)
    if variables != LATIN:
        run(["quiver-queue", "append", queue], 0, variables, "grün €\n".encode())
        _, errors = run(["quiver-queue", "append", queue], 2, variables, b"\xff\n")
        assert errors.count(b"\n") == 1
    shown, _ = run(["quiver-queue", "dump", queue, "--json"], 0, variables)
    assert {json.loads(line)["text"] for line in shown.splitlines()} == {"grün €"}
    run(["quiver-queue", "dump", queue], 0, variables)
    run(["quiver-queue", "verify", queue], 0, variables)


@pytest.mark.parametrize(
    ("option", "code"), [("--subject", 1), ("--group-id", 1), ("--properties", 2)]
)
def test_a_text_of_a_message_is_utf_8(option: str, code: int) -> None:
    _, errors = run(["quiver", "-c", "1", option, BAD + b"=1"], code, {})
    (line,) = errors.decode().splitlines()
    assert f"{option[2:]} is UTF-8, and " in line
