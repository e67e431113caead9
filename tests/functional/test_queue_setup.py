"""The queue of a run: addressed, declared, purged, new, and deleted however the run ends."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from support.arrows import arguments, run_pyfast
from support.documents import parsed
from support.judgement import assert_clean, assert_error
from support.management_node import ManagementNode
from support.processes import Finished, Running, run, wait_until
from support.scripted_peer import detach
from support.server import running_server

SECONDS = 60.0


def command(tool: str, *words: str) -> list[str]:
    return [sys.executable, "-m", f"quiver_fast.cli.{tool}.command", *words]


def quiver(*words: str) -> Finished:
    return run(command("pair", *words), SECONDS)


def document(end: Finished) -> dict[str, object]:
    read: dict[str, object] = parsed(end.stdout)
    return read


def fill(port: int, path: str, count: int) -> None:
    assert_clean(run_pyfast(*arguments("send", port, path=path, count=count)))


def test_purge_says_how_many(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        url = f"//127.0.0.1:{server.port}/left"
        fill(server.port, "left", 1234)
        end = quiver(url, "--count", "100", "--purge")
        assert end.code == 0, end
        assert end.stdout.splitlines()[0] == "Purged 1,234 messages from 'left'"
        fill(server.port, "left", 7)
        end = quiver(url, "--count", "100", "--purge", "--json")
        assert end.code == 0, end
        summary = document(end)
        assert summary["purged"] == 7
        assert summary["delivery"]["older"] == 0  # type: ignore[index]
        assert summary["delivery"]["received"] == 100  # type: ignore[index]


def test_nothing_is_purged_unasked(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        fill(server.port, "left", 50)
        end = quiver(f"//127.0.0.1:{server.port}/left", "--count", "100", "--json")
        assert end.code == 0, end
        assert document(end)["purged"] is None
        assert document(end)["delivery"]["older"] == 50  # type: ignore[index]


def test_one_arrow_purges_as_well(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        fill(server.port, "left", 30)
        words = ["send", f"//127.0.0.1:{server.port}/left", "-c", "10", "--purge", "--json"]
        end = run(command("arrow", *words), SECONDS)
        assert end.code == 0, end
        assert document(end)["purged"] == 30


def test_a_unique_queue_for_each_run(tmp_path: Path) -> None:
    """Our server deletes no queue by AMQP, and that is said; the messages left in it go."""
    with running_server(tmp_path) as server:
        url = f"//127.0.0.1:{server.port}/q0"
        paths = set()
        for _ in range(2):
            end = quiver(url, "--count", "100", "--unique-queue", "--json")
            assert end.code == 0, end
            summary = document(end)
            path = summary["sender"]["config"]["path"]  # type: ignore[index]
            assert path == f"q0-{summary['run_id']}"
            assert summary["receiver"]["config"]["path"] == path  # type: ignore[index]
            assert f"has no way to delete a queue over AMQP: '{path}' stays, empty" in end.stderr
            assert end.stderr.count("warning") == 1
            paths.add(path)
        assert len(paths) == 2


def test_a_unique_csp_queue_stays(tmp_path: Path) -> None:
    with running_server(tmp_path, scheme="csp", path="q0", store=tmp_path / "store") as server:
        end = quiver(f"csp://127.0.0.1:{server.port}/q0", "-c", "100", "--unique-queue", "--json")
        assert end.code == 0, end
        path = document(end)["sender"]["config"]["path"]  # type: ignore[index]
        assert f"csp has no way to delete a queue: '{path}' stays\n" in end.stderr


def test_declared_by_attach(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        end = quiver(f"//127.0.0.1:{server.port}/new", "--count", "100", "--declare")
        assert end.code == 0, end


def test_missing_dead_letters_fail_the_run(tmp_path: Path) -> None:
    """Our server drops rejected messages."""
    with running_server(tmp_path) as server:
        url, out = f"//127.0.0.1:{server.port}/q", tmp_path / "out"
        words = (url, "--count", "200", "--record-format", "v2", "--output", str(out))
        dead = ("--dead-letter-queue", "dead")
        end = quiver(*words, "--reject", "10%", *dead, "--json")
        reason = "20 of the 20 messages that receivers rejected are not in the dead-letter queue"
        assert end.code == 1
        assert reason in end.stderr.splitlines()[-1]
        found = document(end)
        assert found["complete"] is False
        assert found["delivery"]["dead_lettered"] == 0  # type: ignore[index]
        assert found["delivery"]["unreceived"] == 0  # type: ignore[index]
        analysed = run(command("analyze", str(out), "--json"), SECONDS)
        assert document(analysed)["delivery"] == found["delivery"]
        # None is due of those that come again.
        end = quiver(*words, "--force", "--modify", "10%:failed", *dead, "--fail-if", "modified<20")
        assert end.code == 0, end


def test_a_stream_is_not_purged() -> None:
    with ManagementNode() as node:
        url = f"//127.0.0.1:{node.port}/s"
        stream = ("--declare", "--queue-type", "stream", "--timeout", "5s")
        end = quiver(url, "--count", "10", *stream, "--purge")
        assert_error(end, "'/queues/s' on RabbitMQ 4.0.5: a stream cannot be", within=SECONDS)
        words = ["receive", url, *stream, "--exit-when", "empty"]
        end = run(command("arrow", *words), SECONDS)
        assert_error(end, "a receiver of a stream begins at its end", within=SECONDS)


@pytest.mark.parametrize("tool", ["pair", "arrow"])
def test_a_missing_queue_names_the_option(tmp_path: Path, tool: str) -> None:
    with running_server(tmp_path, path="q0", addresses="q0") as server:
        url = f"//127.0.0.1:{server.port}/none"
        words = ["send", url] if tool == "arrow" else [url]
        end = run(command(tool, *words, "--count", "10"), SECONDS)
        assert end.code == 1
        last = end.stderr.splitlines()[-1]
        assert "amqp:not-found" in last
        assert last.endswith(": create the queue first, or give --declare")
        end = run(command(tool, *words, "--count", "10", "--declare"), SECONDS)
        assert_error(end, "amqp:not-found", within=SECONDS)


def test_an_address_is_used_as_it_is(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        words = [f"//127.0.0.1:{server.port}", "--address", "/a b/c", "--count", "10", "--json"]
        end = quiver(*words)
        assert end.code == 0, end
        assert document(end)["sender"]["config"]["path"] == "/a b/c"  # type: ignore[index]
        assert document(end)["sender"]["arrow"]["address"] == "/a b/c"  # type: ignore[index]


@pytest.mark.parametrize(
    ("words", "address"),
    [
        (["q0"], "/queues/q0"),
        (["queues/q0"], "/queues/q0"),
        (["/queues/q0"], "/queues/q0"),
        (["x", "--address", "q0"], "q0"),
    ],
)
def test_what_a_path_means_to_rabbitmq_4(words: list[str], address: str) -> None:
    """Asked by the arrow itself, on its own connection."""
    with ManagementNode(["q0", "x"]) as node:
        url = f"//127.0.0.1:{node.port}/{words[0]}"
        end = run(command("arrow", "send", url, "-c", "5", "--json", *words[1:]), SECONDS)
        assert end.code == 0, end
        assert [target for _, target in node.links] == [address]
        assert document(end)["arrow"]["address"] == address  # type: ignore[index]
    assert node.requests == []


def deleted(node: ManagementNode) -> list[str]:
    return [path for method, path in node.requests if method == "DELETE"]


@pytest.mark.parametrize(("option", "path"), [("--unique-queue", "/queues/q0-"), ("--delete", "")])
def test_a_queue_goes_after_a_failure(option: str, path: str) -> None:
    with ManagementNode(["q0"], after=300, act=detach, to_send=0) as node:
        end = quiver(f"//127.0.0.1:{node.port}/q0", "--count", "1m", option)
        assert end.code == 1
        assert "the queue is full" in end.stderr
        (gone,) = deleted(node)
        assert gone.startswith(path or "/queues/q0")
        assert "q0" not in node.queues or path


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_queue_goes_after_a_signal(number: signal.Signals) -> None:
    # It sends nothing: a hundred thousand messages for the receiver would hold it up for seconds.
    with ManagementNode(to_send=0) as node:
        words = [f"//127.0.0.1:{node.port}/q0", "--duration", "1m", "--unique-queue"]
        with Running(command("pair", *words)) as running:
            wait_until(lambda: node.transferred > 100, "messages pass")
            running.send_signal(number)
            end = running.wait(SECONDS)
    assert end.code == 128 + number, end
    assert [method for method, _ in node.requests] == ["GET", "PUT", "DELETE"]
    assert node.queues == set()


def test_a_queue_that_cannot_be_declared_starts_nothing() -> None:
    with ManagementNode(status="403") as node:
        end = quiver(f"//127.0.0.1:{node.port}/q0", "--count", "10", "--declare")
        assert_error(end, "cannot look at '/queues/q0': not today")
    assert {target for _, target in node.links} == {"/management"}


def test_a_queue_that_cannot_be_deleted_is_a_warning() -> None:
    class Stubborn(ManagementNode):
        def serve(self, request: object) -> tuple[str, object]:
            method = request.subject  # type: ignore[attr-defined]
            return ("403", "not yours") if method == "DELETE" else super().serve(request)

    with Stubborn(["q0"]) as node:
        url = f"//127.0.0.1:{node.port}/q0"
        end = run(command("arrow", "send", url, "--count", "10", "--delete"), SECONDS)
    assert end.code == 0
    assert end.stderr.count("\n") == 1
    assert "quiver-arrow: warning: '/queues/q0' is not deleted" in end.stderr
    assert "not yours" in end.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["pair", "--purge"], "--purge needs a URL"),
        (["pair", "--unique-queue"], "--unique-queue needs a URL"),
        (["pair", "--address", "q"], "--address needs a URL"),
        (["pair", "csp://h/q", "--purge"], "--purge does not go with a csp URL"),
        (["pair", "csp://h/q", "--declare"], "--declare does not go with a csp URL"),
        (["pair", "csp://h/q", "--delete"], "--delete does not go with a csp URL"),
        (["pair", "csp://h/q", "--address", "x"], "--address does not go with a csp URL"),
        (["pair", "q", "--purge", "--unique-queue"], "--purge does not go with --unique-queue"),
        (["pair", "q", "--address", ""], "has no address"),
        (["arrow", "send", "q", "--purge", "--server"], "--purge does not go with --server"),
        (["arrow", "send", "q", "--delete", "--passive"], "--delete does not go with --passive"),
        (["arrow", "send", "q", "--unique-queue"], "unrecognized arguments: --unique-queue"),
    ],
)
def test_misuse(words: list[str], says: str) -> None:
    assert_error(run(command(*words), SECONDS), says, code=2)


def test_no_broker(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        port = server.port
    end = quiver(f"//127.0.0.1:{port}/q0", "--unique-queue", "--count", "10")
    assert end.code == 1
    assert "Connection refused" in end.stderr.splitlines()[-1]
