"""Names and passwords of URLs: no command shows them, wherever a URL may stand, however wrong."""

from __future__ import annotations

import contextlib
import importlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from quiver_fast import arguments
from quiver_fast.api import QuiverError, Server, UsageError, measure
from quiver_fast.cli.shared.credentials import read_password
from quiver_fast.remote.client import Queue

# Texts before the "@", of which no part may be shown.
USERS = [
    "zelda:12#hunter2", "zelda:12?hunter2", "zelda:12/hunter2", "zelda:12[hunter2",
    "zelda:12]hunter2", "zelda:[12]hunter2", "zelda:12 hunter2", "zelda:#hunter2",
    "zelda:hunter2/", "zelda:12/hunter2@12", "zelda:12%_hunter2", "zel#zelda:hunter2",
    "zelda:12,#hunter2", "zelda:12'#hunter2", "zelda:12//hunter2",
]  # fmt: skip
PARTS = ("zelda", "hunter2", "12")
URL, CSP = "amqp://{user}@host/q0", "csp://{user}@host/q0"

# Module, its words: each place where a URL may stand.
PLACES = [
    ("cli.pair.command", [URL]),
    ("cli.pair.command", ["//{user}@host:5672/q0"]),
    ("cli.pair.command", ["--init-only", URL.replace("amqp", "amqps")]),
    ("cli.pair.command", [URL, "--address", "q0", "--json"]),
    ("cli.pair.command", [URL, "--print-workload"]),
    ("cli.pair.command", [URL, "--unique-queue", "--find-rate", "p99<1s"]),
    ("cli.pair.command", [URL, "--sweep", "rate=1k,2k"]),
    ("cli.pair.command", [URL, "--senders", "2", "--receivers", "2"]),
    ("cli.pair.command", ["//h/q", "--runs", "2", "--baseline", f'"{URL}" --credit 5']),
    ("cli.pair.command", [URL, "--runs", "2", "--baseline=--durable"]),
    ("cli.pair.command", [URL, "--runs", "2", "--baseline", "true -x"]),
    ("cli.pair.command", [URL, "--impl", "qpid-proton-c", "--expose-password"]),
    ("cli.pair.command", [CSP]),
    ("cli.arrow.command", ["send", URL]),
    ("cli.arrow.command", ["receive", CSP, "--verbose"]),
    ("cli.arrow.command", ["receive", URL, "--server", "--passive"]),
    ("cli.server.command", [URL]),
    ("cli.server.command", [CSP]),
    ("cli.server.command", ["q0", "--connect", "amqp://{user}@host"]),
    ("cli.server.command", ["q0", "--connect", "h,amqps://{user}@host:5671"]),
    ("cli.conform.command", [URL]),
    ("cli.conform.command", ["//{user}@host:5672", "--address", "q0"]),
    ("cli.queue.command", ["dump", CSP]),
    ("cli.queue.command", ["tail", CSP, "--reconnect", "1s"]),
    ("cli.queue.command", ["append", CSP, "x"]),
    ("cli.fleet.command", ["--", URL, "--senders", "2"]),
    ("server.main", ["host=127.0.0.1", "path=q0", "connect=amqp://{user}@host"]),
]
# Where a URL has no business, and is a mistake that is quoted.
MISPLACED = [
    ("cli.pair.command", ["q0", URL]),
    ("cli.pair.command", ["--count", URL]),
    ("cli.pair.command", ["--impl", URL]),
    ("cli.pair.command", ["--password={user}"]),
    ("cli.pair.command", ["q0", "--password", "{user}"]),
    ("cli.arrow.command", [URL, "send"]),
    ("cli.server.command", ["q0", URL]),
    ("cli.bench.command", [URL]),
    ("cli.bench.command", ["--include-servers", "x" + URL]),
    ("cli.conform.command", ["--only", "2", "--jobs", URL]),
    ("cli.queue.command", ["dump", URL]),
    ("cli.queue.command", ["append", URL, "x"]),
    ("cli.queue.command", ["append", "//{user}@host/q0", "x"]),
    ("cli.queue.command", ["verify", CSP]),
    ("arrow.main", [URL, "path=q0"]),
    ("arrow.main", [
        "connection-mode=client", "channel-mode=active", "operation=send", "path=q0", "count=1",
        "host={user}@host",
    ]),
    ("arrow.main", ["out", "client", "send", "{user}@host", "5672", "q0", "1", "1", "1"]),
    ("server.main", ["host={user}@host", "path=q0"]),
    ("server.main", [URL]),
]  # fmt: skip


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in an empty folder, with no implementations but our own."""
    monkeypatch.chdir(tmp_path)
    for name in ("QUIVER_IMPL_PATH", "QUIVER_HOME"):
        monkeypatch.delenv(name, raising=False)


def refused(module: str, words: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    """Run a command that must refuse its words, and return its line."""
    main = importlib.import_module(f"quiver_fast.{module}").main
    assert main(words) == 2
    output, errors = capfd.readouterr()
    assert output == ""
    assert errors.count("\n") == 1, errors
    assert not any(part in errors for part in PARTS), errors
    assert list(Path().iterdir()) == []
    return errors


@pytest.mark.parametrize(("module", "words"), PLACES)
def test_a_character_to_encode_is_a_usage_error(
    module: str, words: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    for user in USERS:
        given = [word.format(user=user) for word in words]
        assert "percent-encode" in refused(module, given, capfd), given


@pytest.mark.parametrize(("module", "words"), MISPLACED)
def test_a_url_that_is_quoted_does_not_tell_its_user(
    module: str, words: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    # A comma ends the name of an implementation.
    users = [user for user in USERS if "," not in user or "--include-servers" not in words]
    for user in (*users, "zelda:hunter2"):
        refused(module, [word.format(user=user) for word in words], capfd)


@pytest.mark.parametrize("user", USERS)
def test_variables_and_workloads(
    user: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    file = tmp_path_factory.mktemp("workload") / "load.toml"
    file.write_text(f'url = "{URL.format(user=user)}"\n')
    line = refused("cli.pair.command", ["--workload", str(file)], capfd)
    assert "percent-encode" in line
    monkeypatch.setenv("QUIVER_URL", URL.format(user=user))
    assert "percent-encode" in refused("cli.pair.command", [], capfd)


@pytest.mark.parametrize("user", ["zelda:12#hunter2", "zelda:12/hunter2", "zelda:12[hunter2"])
def test_the_functions_of_python(user: str) -> None:
    with told():
        measure(URL.format(user=user), count=1)
    with told():
        Queue(CSP.format(user=user))


@contextlib.contextmanager
def told() -> Iterator[None]:
    with pytest.raises(UsageError, match="percent-encode") as caught:
        yield
    assert not any(part in str(caught.value) for part in PARTS)


def test_a_server_that_is_to_connect(capfd: pytest.CaptureFixture[str]) -> None:
    for url in ("zelda:hunter2@host", "h,zelda@host", "amqp://zelda:hunter2@host:5672"):
        words = ["host=127.0.0.1", "path=q0", f"connect={url}"]
        line = refused("server.main", words, capfd)
        assert "name the user by connect-user" in line or "lacks the '//'" in line


def test_remote_queues_have_no_users(capfd: pytest.CaptureFixture[str]) -> None:
    for url in ("csp://zelda:hunter2@host/q0", "csp://zelda@host/q0"):
        for words in (["dump", url], ["tail", url], ["append", url, "x"]):
            assert "does not go with a user" in refused("cli.queue.command", words, capfd)


def test_a_listening_arrow_has_no_user_without_password(capfd: pytest.CaptureFixture[str]) -> None:
    words = [
        "connection-mode=server", "channel-mode=passive", "operation=receive", "host=localhost",
        "path=q0", "count=1", "username=u",
    ]  # fmt: skip
    assert "username needs password" in refused("arrow.main", words, capfd)


@pytest.mark.parametrize("content", ["pass word", "\ufeffpass word", "\ufeffpass word\r\n"])
def test_a_byte_order_mark_is_no_part_of_a_password(
    content: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("password") / "password"
    file.write_bytes(content.encode())
    assert read_password(str(file), {}) == "pass word"
    with open(file, "rb", buffering=0) as stream:
        # The reader closes the descriptor that it is given.
        given = {"password-fd": str(os.dup(stream.fileno()))}
    assert arguments.password(given) == "pass word"


def test_passwords_are_on_no_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other users of the host can read those of the processes that Python's functions start."""
    with Server(user="zelda", password="hunter2") as server:
        lines = [each.cmdline() for each in psutil.Process().children(recursive=True)]
        assert "hunter2" not in str(lines)
        url = server.url.replace("//", "//zelda:hunter2@")
        started = watched(monkeypatch)
        assert measure(url, count=10).received == 10
        with pytest.raises(QuiverError):
            measure(server.url.replace("//", "//zelda:wrong@"), count=10)
    assert len(started) == 2
    assert "hunter2" not in str(started)


def watched(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the words of the commands that are started from now on."""
    started: list[list[str]] = []
    start = subprocess.Popen

    def watch(words: list[str], **options: object) -> object:
        started.append(words)
        return start(words, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", watch)
    return started


def test_a_user_without_password_is_not_anonymous_silently() -> None:
    with Server() as server:
        with pytest.raises(QuiverError, match="--password-file"):
            measure(server.url.replace("//", "//zelda@"), count=10)
        with pytest.raises(QuiverError, match="--password-file"):
            measure(server.url, username="zelda", count=10)
        anonymous = measure(server.url, username="zelda", sasl_mechanisms="ANONYMOUS", count=10)
        assert anonymous.received == 10
