"""Options of `quiver-arrow` that act on one end only are refused at the other."""

import pytest

from quiver_fast.cli.arrow.command import main

OF_SENDERS = [
    "--rate=5", "--rate-steps=5:1s", "--body-size=5", "--durable", "--presettled", "--priority=5",
    "--ttl=5", "--subject=a", "--group-id=a", "--properties=a=1", "--settlement",
    f"--body-file={__file__}",
]  # fmt: skip
OF_RECEIVERS = [
    "--credit=5", "--receive-delay=5ms", "--pause-receivers=5s:5s", "--release=5%", "--reject=5%",
    "--modify=5%:failed",
]  # fmt: skip
OF_BOTH = [
    "--count=5", "--duration=5", "--warmup=2", "--transaction-size=5", "--set-message-id",
    "--timeout=5", "--record-format=v2", "--time-unit=us", "--max-frame-size=5k", "--no-spin",
]  # fmt: skip


def said_of(operation, option, capsys, *more):
    """Return the exit code of a command that only checks its options, and its errors."""
    code = main([operation, "//localhost/q0", option, "--init-only", *more])
    return code, capsys.readouterr().err


@pytest.mark.parametrize("option", OF_SENDERS)
def test_of_senders(option, capsys):
    flag = option.partition("=")[0]
    assert said_of("send", option, capsys) == (0, "")
    error = f"quiver-arrow: error: {flag} is for senders\n"
    assert said_of("receive", option, capsys) == (2, error)


@pytest.mark.parametrize("option", OF_RECEIVERS)
def test_of_receivers(option, capsys):
    flag = option.partition("=")[0]
    assert said_of("receive", option, capsys) == (0, "")
    error = f"quiver-arrow: error: {flag} is for receivers\n"
    assert said_of("send", option, capsys) == (2, error)


@pytest.mark.parametrize("option", OF_BOTH)
@pytest.mark.parametrize("operation", ["send", "receive"])
def test_of_both(option, operation, capsys):
    assert said_of(operation, option, capsys) == (0, "")


def test_a_purge_has_a_credit_window(capsys):
    assert said_of("send", "--credit=5", capsys, "--purge") == (0, "")


def test_a_sender_of_csp_has_a_window(capsys):
    assert main(["send", "csp://localhost/q0", "--credit", "5", "--init-only"]) == 0
    assert capsys.readouterr().err == ""
