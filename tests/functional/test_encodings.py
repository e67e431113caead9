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
    "variables",
    [pytest.param({}, marks=pytest.mark.slow), ASCII, LATIN],
    ids=["UTF-8", "ASCII", "Latin-1"],
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


def refused(words: Sequence[str | bytes]) -> str:
    """Return the one line of a usage error, without the command."""
    _, errors = run(words, 2, {})
    (line,) = errors.decode().splitlines()
    return line.partition(" error: ")[2]


TEXTS = ["--subject", "--group-id", "--properties", "--address", "--username", "--sasl-mechanisms"]


@pytest.mark.parametrize("option", TEXTS)
def test_a_text_of_a_pair_is_utf_8(option: str) -> None:
    line = refused(["quiver", "-c", "1", "//localhost:1/q", option, BAD + b"=1"])
    assert line.startswith(f"{option} is UTF-8, and '")


@pytest.mark.parametrize("option", ["--id", "--filter", *TEXTS])
def test_a_text_of_an_arrow_is_utf_8(option: str) -> None:
    operation = "receive" if option == "--filter" else "send"
    line = refused(["quiver-arrow", operation, "-c", "1", "//localhost:1/q", option, BAD + b"=1"])
    assert line.startswith(f"{option} is UTF-8, and '")


def test_a_text_of_a_bench_is_utf_8(tmp_path: Path) -> None:
    words: list[str | bytes] = ["quiver-bench", "--output", str(tmp_path), "--subject", BAD]
    assert refused(words).startswith("--subject is UTF-8, and '")


@pytest.mark.parametrize(
    "words", [["quiver"], ["quiver-arrow", "send"], ["quiver-server"]], ids=" ".join
)
@pytest.mark.parametrize("url", [b"//localhost:1/", b"", b"amqps://localhost/", b"//h"])
def test_a_url_is_utf_8(words: list[str], url: bytes) -> None:
    more = ["--declare", "-c", "1"] if words == ["quiver"] else []
    assert refused([*words, url + BAD, *more]).startswith("a URL is UTF-8, and '")


@pytest.mark.parametrize(
    "words", [["quiver"], ["quiver-arrow", "send"], ["quiver-server"]], ids=" ".join
)
@pytest.mark.parametrize("user", [b"u\xff:p\xff", b"u:p\xff", b"u\xff"])
def test_a_user_in_a_url_is_utf_8(words: list[str], user: bytes) -> None:
    line = refused([*words, b"//" + user + b"@localhost:1/q"])
    assert line == "the user's name or password in the URL is not percent-encoded UTF-8"


def test_a_url_of_csp_is_utf_8() -> None:
    line = refused(["quiver-queue", "dump", b"csp://localhost:1/" + BAD])
    assert line.startswith("a URL is UTF-8, and '")


@pytest.mark.parametrize("option", ["--user", "--password", "--container-id", "--connect-user"])
def test_a_text_of_a_server_is_utf_8(option: str) -> None:
    """The message does not show a password."""
    words = ["quiver-server", "//localhost:1/q", "--user", "u", "--password", "p"]
    line = refused([*words, option, BAD])
    assert " is UTF-8, and " in line
    assert option in line
    assert ("d\\" in line) == (option != "--password")


def test_a_text_of_a_contract_is_utf_8() -> None:
    """A message does not show a password."""
    words: list[str | bytes] = ["host=localhost", "path=q", "connection-mode=client"]
    words += ["channel-mode=active", "operation=send", b"password=" + BAD]
    expected = "password is UTF-8, and the one given is not"
    assert refused(["quiver-arrow-pyfast", *words]) == expected
