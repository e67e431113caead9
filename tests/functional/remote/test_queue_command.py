"""`quiver-queue`: directories and servers show the same."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.documents import parsed
from support.processes import Finished, Running, free_port, run, wait_until
from support.remote import serving

VALUES = ["{ a: b }", "!!binary AQID/w==", "hello, world", '!!binary ""', "é"]
SHOWN = ["{ a: b }", "!!binary AQID/w==", '"hello, world"', '!!binary ""', "é"]


def queue(*words: str | Path) -> Finished:
    return run([sys.executable, "-m", "quiver_fast.cli.queue.command", *map(str, words)])


def test_a_server_and_its_directory_show_the_same(tmp_path: Path) -> None:
    with serving(tmp_path) as port:
        url = f"csp://127.0.0.1:{port}/a/b"
        appended = queue("append", url, *VALUES)
        assert appended.code == 0, appended.stderr
        remote = queue("dump", url)
        locally = queue("dump", tmp_path / "a" / "b")
    assert [line.split("\t") for line in remote.lines] == [
        list(pair) for pair in zip(appended.lines, SHOWN, strict=True)
    ]
    assert locally.lines == remote.lines


@pytest.mark.parametrize("operation", ["dump", "tail"])
def test_a_reader_makes_no_queue(operation: str, tmp_path: Path) -> None:
    with serving(tmp_path) as port:
        place = f"127.0.0.1:{port}"
        looked = queue(operation, f"csp://{place}/a/nope")
    assert (looked.code, looked.stdout) == (1, "")
    [line] = looked.stderr.splitlines()
    assert line.startswith("quiver-queue: error: ")
    assert "there is no queue a/nope" in line
    assert not (tmp_path / "a").exists()


def test_a_directory_without_a_server(tmp_path: Path) -> None:
    appended = queue("append", tmp_path / "q", *VALUES)
    assert appended.code == 0, appended.stderr
    shown = queue("dump", "--json", tmp_path / "q", "--from", appended.lines[1])
    assert [parsed(line) for line in shown.lines[:2]] == [
        {"index": int(appended.lines[1]), "base64": "AQID/w=="},
        {"index": int(appended.lines[2]), "text": '"hello, world"'},
    ]
    checked = queue("verify", "--json", tmp_path / "q")
    assert checked.code == 0
    found = parsed(checked.stdout)
    assert (found["entries"], found["faults"]) == (5, [])
    (file,) = found["files"]
    assert (file["entries"], file["ended"], file["faults"]) == (5, False, [])


def test_lines_of_another_editor(tmp_path: Path) -> None:
    """The first begins with a byte-order mark, and all end in CR LF: neither is of the value."""
    command = [sys.executable, "-m", "quiver_fast.cli.queue.command", "append", tmp_path / "q"]
    subprocess.run(command, input="\ufeffa\r\n\ufeffb\r\n".encode(), check=True, timeout=60)
    shown = queue("dump", tmp_path / "q")
    assert [line.split("\t")[1] for line in shown.lines] == ["a", "\ufeffb"]


def damage(path: Path, at: int, content: bytes) -> None:
    with path.open("r+b") as stream:
        stream.seek(at)
        stream.write(content)


def test_verify_finds_damage_and_changes_nothing(tmp_path: Path) -> None:
    assert queue("append", tmp_path / "q", *map(str, range(600))).code == 0
    (path,) = (tmp_path / "q").glob("*.cq4")
    whole = path.read_bytes()
    checked = queue("verify", tmp_path / "q")
    assert (checked.code, checked.stdout) == (0, "600 entries in 1 file, 0 faults\n")
    assert path.read_bytes() == whole
    # The specification's offsets: writePosition, the slot of entry 256, the first entry.
    faults = {
        (0x40, b"\x08"): "writePosition",
        (33008 + 32 + 8, b"\x08"): "index of entry 256 is 67848, not 67856",
        (65808 + 3, b"\x80"): "not ready",
        (65808 + 5, b"x"): "pad that is not zero",
        (0, b"\0"): "no !SCQStore",
    }
    for (at, content), expected in faults.items():
        damage(path, at, content)
        checked = queue("verify", tmp_path / "q")
        assert checked.code == 1
        assert expected in checked.stdout
        path.write_bytes(whole)


def test_tail_follows(tmp_path: Path) -> None:
    with serving(tmp_path) as port:
        url = f"csp://127.0.0.1:{port}/q"
        queue("append", url, "before")
        commands = [["tail", url], ["tail", str(tmp_path / "q")]]
        python = [sys.executable, "-m", "quiver_fast.cli.queue.command"]
        with Running([*python, *commands[0]]) as remote, Running([*python, *commands[1]]) as local:
            seen = 0

            def both_follow() -> bool:
                nonlocal seen
                seen += 1
                queue("append", url, f"new{seen}")
                return all("\tnew" in each.stdout_so_far() for each in (remote, local))

            wait_until(both_follow, "both print the new entry")
            assert "before" not in remote.stdout_so_far() + local.stdout_so_far()


@pytest.mark.parametrize(
    "words",
    [
        ("append", "x", "{"), ("append", "x", "!!binary A"), ("dump", "/nowhere"),
        ("verify", "csp://h/q"), ("dump", "x", "value"), ("other", "x"), ("dump",),
        ("verify", "x", "--from", "5"), ("dump", "x", "--from", "y"), ("dump", "csp:///q"),
        ("tail", "x", "--reconnect", "5"), ("dump", "csp://h/q", "--reconnect", "5"),
        ("tail", "csp://h/q", "--reconnect", "soon"), ("append", "x", "a", "--from", "5"),
        ("dump", "csp://h:99999/q"), ("append", "csp://h:x/q", "a"),
    ],
)  # fmt: skip
def test_usage_errors_are_one_line(words: tuple[str, ...], tmp_path: Path) -> None:
    words = tuple(str(tmp_path / "x") if word == "x" else word for word in words)
    ended = queue(*words)
    assert (ended.code, ended.stdout, len(ended.stderr.splitlines())) == (2, "", 1)


def test_a_queue_in_use_is_not_written_to(tmp_path: Path) -> None:
    with serving(tmp_path) as port:
        queue("append", f"csp://127.0.0.1:{port}/q", "a")
        ended = queue("append", tmp_path / "q", "b")
        assert (ended.code, len(ended.stderr.splitlines())) == (1, 1)


def test_help_names_every_operation_and_option() -> None:
    shown = queue("--help")
    assert (shown.code, shown.stderr) == (0, "")
    for word in ("dump", "tail", "verify", "append", "DIR", "csp://HOST", "--from", "--reconnect",
                 "--json", "--quiet", "--version", "exit codes"):  # fmt: skip
        assert word in shown.stdout
    assert max(map(len, shown.lines)) <= 90


def test_values_come_from_standard_input(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "quiver_fast.cli.queue.command",
        "append",
        "--json",
        str(tmp_path),
    ]
    ended = subprocess.run(
        command, input="one\n{ two: 2 }\n", capture_output=True, text=True, timeout=20, check=True
    )
    indexes = [parsed(line)["index"] for line in ended.stdout.splitlines()]
    assert queue("dump", tmp_path).lines == [f"{indexes[0]}\tone", f"{indexes[1]}\t{{ two: 2 }}"]


@pytest.mark.parametrize("where", ["server", "directory"])
def test_an_interrupted_tail_ends_quietly(tmp_path: Path, where: str) -> None:
    with serving(tmp_path) as port:
        url = f"csp://127.0.0.1:{port}/q"
        assert queue("append", url, "a").code == 0
        name = url if where == "server" else str(tmp_path / "q")
        command = [
            sys.executable,
            "-m",
            "quiver_fast.cli.queue.command",
            "tail",
            "--from",
            "0",
            name,
        ]
        with Running(command) as tail:
            wait_until(lambda: "\ta\n" in tail.stdout_so_far(), "the entry is printed")
            tail.send_signal(signal.SIGINT)
            ended = tail.wait()
            assert (ended.code, ended.stderr) == (130, "")


def test_a_tail_goes_on_over_a_restart_and_ends_without_one(tmp_path: Path) -> None:
    port = free_port()
    url = f"csp://127.0.0.1:{port}/q"
    with serving(tmp_path, port=port):
        assert queue("append", url, "one").code == 0
        python = [sys.executable, "-m", "quiver_fast.cli.queue.command", "tail", "--from", "0", url]
        patient, other = Running([*python, "--reconnect", "1m"]), Running(python)
        for tail in (patient, other):
            wait_until(lambda tail=tail: "\tone\n" in tail.stdout_so_far(), "one is printed")
    with patient, other:
        ended = other.wait()
        assert (ended.code, len(ended.stderr.splitlines())) == (1, 1)
        with serving(tmp_path, port=port):
            assert queue("append", url, "two").code == 0
            wait_until(lambda: "\ttwo\n" in patient.stdout_so_far(), "two is printed")
        assert patient.stdout_so_far().count("\n") == 2


def test_a_dump_whose_reader_is_gone_ends(tmp_path: Path) -> None:
    assert queue("append", "--quiet", tmp_path, *map(str, range(1000))).code == 0
    command = f"{sys.executable} -m quiver_fast.cli.queue.command dump {tmp_path} | head -n 1"
    ended = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=20)
    assert (ended.stdout.count("\n"), ended.stderr) == (1, "")


def test_a_server_that_is_not_there_is_one_line() -> None:
    for operation in ("dump", "tail", "append"):
        ended = queue(operation, f"csp://127.0.0.1:{free_port()}/q")
        assert (ended.code, ended.stdout, len(ended.stderr.splitlines())) == (1, "", 1)
        assert "cannot connect" in ended.stderr
