"""Wrong arguments: exit 2, one line that names the argument, nothing started."""

from __future__ import annotations

import pytest
from support.arrows import arguments, pyfast, run_pyfast
from support.judgement import assert_clean, assert_error
from support.processes import Running, free_port, wait_until
from support.scripted_peer import ScriptedPeer

from quiver_fast.proton.info import engine_version

REQUIRED = ["connection-mode", "channel-mode", "operation", "host", "path"]


def test_no_arguments_tell_about_the_program() -> None:
    end = run_pyfast()
    assert_clean(end)
    assert "quiver" in end.stdout.lower()
    assert "python" in end.stdout.lower()
    assert engine_version() in end.stdout


def test_unknown_keys_are_named_once_and_the_run_goes_on() -> None:
    with ScriptedPeer(to_send=10) as peer:
        words = arguments("receive", peer.port, count=10, colour="blue", size_of_body=3)
        end = run_pyfast(*words)
    assert (end.code, len(end.lines)) == (0, 10)
    assert end.stderr == (
        "quiver-arrow-pyfast: warning: unknown arguments ignored: colour, size-of-body\n"
    )


def test_wrong_arguments_are_the_only_line() -> None:
    words = arguments("send", free_port(), colour="blue", rate="x")
    assert_error(run_pyfast(*words), "rate", "'x'", code=2)


@pytest.mark.parametrize("key", REQUIRED)
def test_missing_key_is_named(key: str) -> None:
    words = [word for word in arguments("send", 5672) if not word.startswith(f"{key}=")]
    assert_error(run_pyfast(*words), key, code=2)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("count", "many"),
        ("count", "-1"),
        ("count", "1.5"),
        ("duration", "1h"),
        ("body-size", "-5"),
        ("body-size", "0x10"),
        ("credit-window", "0"),
        ("credit-window", "-1"),
        ("transaction-size", "x"),
        ("rate", "fast"),
        ("durable", "yes"),
        ("set-message-id", "2"),
        ("port", "70000"),
        ("port", "amqp"),
        ("operation", "destroy"),
        ("connection-mode", "both"),
        ("channel-mode", "lazy"),
        ("scheme", "http"),
        ("record-format", "v9"),
        ("time-unit", "s"),
        ("tls-verify", "maybe"),
        ("max-frame-size", "1"),
        ("idle-timeout", "soon"),
    ],
)
def test_bad_value_is_named(key: str, value: str) -> None:
    words = [word for word in arguments("send", free_port()) if not word.startswith(f"{key}=")]
    words.append(f"{key}={value}")
    assert_error(run_pyfast(*words), key, value, code=2)


@pytest.mark.parametrize(
    "words",
    [
        ["send"],
        ["/tmp", "client", "send", "localhost", "5672", "queue0", "10", "100"],
        ["/tmp", "client", "send", "localhost", "5672", "queue0", "10", "100", "10", "11"],
        ["/tmp", "peer", "send", "localhost", "5672", "queue0", "10", "100", "10"],
        ["/tmp", "client", "destroy", "localhost", "5672", "queue0", "10", "100", "10"],
        ["/tmp", "client", "send", "localhost", "5672", "queue0", "ten", "100", "10"],
    ],
    ids=lambda words: f"{len(words)}-{words[-3]}" if len(words) > 3 else words[0],
)
def test_bad_positional_arguments(words: list[str]) -> None:
    assert_error(run_pyfast(*words), code=2)


def test_word_without_an_equals_sign_is_named() -> None:
    assert_error(run_pyfast(*arguments("send", 5672), "verbose"), "'verbose' is not KEY", code=2)


@pytest.mark.parametrize("half", [{"cert": "/tmp/cert.pem"}, {"key": "/tmp/key.pem"}])
def test_half_an_identity(half: dict[str, str]) -> None:
    assert_error(run_pyfast(*arguments("send", 5671, scheme="amqps", **half)), code=2)


def test_tls_server_without_a_certificate() -> None:
    words = arguments("receive", free_port(), scheme="amqps", connection_mode="server")
    assert_error(run_pyfast(*words), "cert", code=2)


def test_count_beyond_32_bits_is_not_truncated() -> None:
    """2**32 + 3 truncated to 32 bits would be a run of three messages, and a success."""
    with ScriptedPeer(to_send=10) as peer:
        words = arguments("receive", peer.port, count=2**32 + 3)
        with Running(pyfast(*words)) as running:
            wait_until(lambda: running.stdout_so_far().count("\n") == 10, "ten records")
            assert running.process.poll() is None


@pytest.mark.parametrize("scheme", ["amqp", "amqps"])
def test_port_hyphen_is_the_default_of_the_scheme(scheme: str) -> None:
    """The error names the port that was tried, at an address where nobody can listen."""
    port = {"amqp": "5672", "amqps": "5671"}[scheme]
    end = run_pyfast(*arguments("send", "-", scheme=scheme, host="255.255.255.255"))
    assert_error(end, f"255.255.255.255:{port}")


def test_password_is_never_repeated() -> None:
    secrets = {"password": "hunter2", "key_password": "hunter3"}
    end = run_pyfast(*arguments("send", free_port(), username="alice", **secrets))
    assert end.code == 1
    assert "key-password" in end.stderr, "a key that the arrow does not know"
    assert "hunter" not in end.stderr + end.stdout
