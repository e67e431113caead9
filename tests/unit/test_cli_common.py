import argparse
import os

import pytest

from quiver_fast.cli.arrow import command as arrow
from quiver_fast.cli.bench import command as bench
from quiver_fast.cli.pair import command as pair
from quiver_fast.cli.server import command as server
from quiver_fast.cli.shared.common import report_error, report_warning, run_command
from quiver_fast.cli.shared.quantities import count, duration, fine_duration, part_duration
from quiver_fast.errors import LinkError, PeerError, QuiverError, UsageError


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("1", 1), ("1k", 1000), ("1m", 1_000_000), ("3000000000", 3 * 10**9)],
)
def test_count(text, value):
    assert count(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("5s", 5), ("2m", 120), ("1h", 3600), ("1m30s", 90), ("2000ms", 2), ("1h1s", 3601)],
)
def test_duration(text, value):
    assert duration(text) == value
    assert fine_duration(text) == value * 1_000_000
    assert part_duration(text) == value


@pytest.mark.parametrize(
    ("text", "value"), [("5ms", 5000), ("1s500ms", 1_500_000), ("200us", 200), ("1ms1us", 1001)]
)
def test_fine_duration(text, value):
    assert fine_duration(text) == value
    assert part_duration(text) == value / 1_000_000
    with pytest.raises(
        argparse.ArgumentTypeError, match=f"must be whole seconds, 1s at least, not {text}"
    ):
        duration(text)


@pytest.mark.parametrize("text", ["", "k", "-1", "1.5", "1g", "1 k", "²", "5s1m", "1mm"])
@pytest.mark.parametrize("parse", [count, duration, fine_duration, part_duration])
def test_not_a_number(parse, text):
    with pytest.raises(argparse.ArgumentTypeError):
        parse(text)


def test_errors_of_the_system_name_the_file(capsys):
    error = FileNotFoundError(2, "No such file or directory", "/proc/x")
    assert run_command("tool", fail(error), []) == 1
    assert capsys.readouterr().err == "tool: error: /proc/x: No such file or directory\n"


def fail(error):
    def command(_argv):
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (QuiverError("no\npeer"), 1, "tool: error: no peer"),
        (QuiverError("\x1b[2J\u009b2J\u202eup"), 1, r"tool: error: \x1b[2J\x9b2J\u202eup"),
        (UsageError("bad"), 2, "tool: error: bad"),
        (OSError(2, "no", "\x1b[2J"), 1, r"tool: error: \x1b[2J: no"),
        (
            OSError(28, "No space left on device"),
            1,
            "tool: error: No space left on device",
        ),
    ],
)
def test_errors_are_one_line_and_a_code(error, code, line, capsys):
    assert run_command("tool", fail(error), []) == code
    assert capsys.readouterr().err.splitlines() == [line]


def test_interruption_outside_of_a_run(capsys):
    assert run_command("tool", fail(KeyboardInterrupt()), []) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_colour_only_on_terminals_that_want_it(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    report_error("tool", "bad")
    assert "\033[" in capsys.readouterr().err
    monkeypatch.setenv("NO_COLOR", "1")
    report_error("tool", "bad")
    assert capsys.readouterr().err == "tool: error: bad\n"


@pytest.mark.parametrize("command", [arrow, pair, server])
def test_help_names_everything(command, capsys):
    assert command.main(["--help"]) == 0
    text = capsys.readouterr().out
    for word in ("--quiet", "--verbose", "--init-only", "--version", "--impl", "pyfast",
                 "amqps://username:password@10.0.0.10/jobs/alpha", "QUIVER_IMPL_PATH"):  # fmt: skip
        assert word in text
    flags = {
        arrow: "--output --force --json --summary --info --id --server --passive --prelude",
        pair: "--output --force --json --sender --receiver",
        server: "--info --ready-file --prelude --user --password --password-file --cert --key "
        "--trust-store --store --durability --csp-port --queue-limit --max-message-size "
        "--max-connections --idle-timeout --addresses --allow-insecure-plain --no-create --connect",
    }
    measuring = (
        "--duration --count --rate --body-size --credit --transaction-size --durable "
        "--set-message-id --timeout --cert --key --trust-store --tls-insecure --sasl-mechanisms "
        "--presettled --record-format --settlement --time-unit --max-frame-size --no-spin "
        "--username --password-file --expose-password"
    )
    words = flags[command] + ("" if command is server else f" {measuring}")
    assert [
        word for word in words.split() if f"  {word}" not in text and f", {word}" not in text
    ] == []


def test_help_of_the_bench_names_everything(capsys):
    assert bench.main(["--help"]) == 0
    text = capsys.readouterr().out
    words = (
        "--output --force --json --resume --include-senders --include-receivers --include-servers "
        "--exclude-senders --exclude-receivers --exclude-servers --client-server --peer-to-peer "
        "--mixed-pairs --duration --count --rate --body-size --credit --transaction-size --durable "
        "--set-message-id --timeout --cert --key --quiet --verbose --init-only --version"
    )
    assert [
        word for word in words.split() if f"  {word}" not in text and f", {word}" not in text
    ] == []
    assert "rabbitmq" in text


@pytest.mark.parametrize("flag", ["--user", "--username"])
def test_client_and_server_call_a_user_the_same(flag):
    assert pair.make_parser().parse_args([flag, "alice"]).username == "alice"
    assert arrow.make_parser().parse_args([flag, "alice"]).username == "alice"
    assert server.make_parser().parse_args([flag, "alice"]).user == "alice"


@pytest.mark.parametrize("command", [arrow, bench, pair, server])
def test_version(command, capsys):
    assert command.main(["--version"]) == 0
    assert capsys.readouterr().out.split()[0].startswith("quiver")


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        (pair, ["--dur", "1"]),
        (pair, ["--duration", "x"]),
        (pair, ["--credit", "0"]),
        (pair, ["q", "extra"]),
        (pair, ["--impl", "absent"]),
        (pair, ["--settlement", "--record-format", "v1"]),
        (pair, ["amqp://h/"]),
        (pair, ["--trust-store", "x"]),
        (pair, ["--transaction-size", "10"]),
        (arrow, []),
        (arrow, ["send"]),
        (arrow, ["push", "q"]),
        (arrow, ["send", "q", "r"]),
        (arrow, ["receive", "q", "--settlement"]),
        (arrow, ["send", "q", "--prelude", "'"]),
        (arrow, ["--info", "--impl", "absent"]),
        (server, []),
        (server, ["q", "--impl", "absent"]),
        (server, ["--info", "--impl", "absent"]),
        (server, ["q", "--cert", "c"]),
        (server, ["q", "--prelude", "'"]),
        (server, ["amqp://u@h/q", "--user", "u"]),
        (server, ["q", "--impl", "rabbitmq", "--store", "d"]),
        (bench, ["--include-senders", "absent"]),
        (bench, ["--include-servers", "absent"]),
        (bench, ["--peer-to-peer", "--client-server"]),
        (bench, ["--exclude-senders", "pyfast", "--include-receivers", "pyfast"]),
        (bench, ["--transaction-size", "10"]),
        (bench, ["--cert", "c", "--key", "k"]),
        (bench, ["--client-server", "--cert", "c"]),
        (bench, ["--client-server", "--trust-store", "t"]),
        (bench, ["--resume"]),
        (bench, ["--resume", "--output", "/nonexistent"]),
    ],
)
def test_usage_errors(command, argv, capsys, monkeypatch):
    monkeypatch.delenv("QUIVER_HOME", raising=False)
    assert command.main(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert ": error: " in captured.err


@pytest.mark.parametrize(
    "argv", [["send", "q"], ["q", "--count", "5"], ["send", "-c", "5", "q", "impl=pyfast"]]
)
def test_init_only_starts_nothing(argv, capsys, tmp_path):
    command = arrow if argv[0] == "send" else pair
    directory = tmp_path / "out"
    assert command.main([*argv, "--init-only", "--output", str(directory)]) == 0
    assert not directory.exists()
    assert capsys.readouterr() == ("", "")


def test_environment_is_untouched():
    before = dict(os.environ)
    arrow.main(["send", "q", "--init-only", "--verbose"])
    assert dict(os.environ) == before


@pytest.mark.parametrize("kind", [QuiverError, UsageError, LinkError, PeerError])
def test_the_text_of_an_error_is_fit_for_a_terminal(kind):
    """It may quote a peer, and a program of the user's may print it."""
    assert str(kind("the peer says:\n\x1b[2J")) == r"the peer says: \x1b[2J"


def test_a_warning_is_fit_for_a_terminal(capsys):
    report_warning("tool", "\x1b[2J")
    assert capsys.readouterr().err == "tool: warning: \\x1b[2J\n"
