"""The commands on a terminal of several widths, and without a terminal."""

import os
import subprocess
import sys
from functools import partial

import pytest
from support.server import running_server
from support.terminal import Terminal


def environment(**changes):
    # The terminal knows its size; a runner of tests in parallel says another in COLUMNS.
    ours = ("NO_COLOR", "COLUMNS", "LINES")
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return kept | {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"} | changes


def command(name, *arguments):
    script = f"import sys; from quiver_fast.cli import commands; sys.exit(commands.{name}())"
    return [sys.executable, "-c", script, *arguments]


quiver = partial(command, "pair")


@pytest.mark.parametrize("columns", [40, 70, 80, 140])
def test_the_table_fits_the_terminal(columns, tmp_path):
    seen = Terminal(columns).run(
        quiver("--count", "1000", "--rate", "1000", "--output", str(tmp_path)), environment()
    )
    assert seen.returncode == 0, seen.lines
    heading = seen.find("Received/s")
    headline = seen.find("messages/s")
    rows = [row for row in seen.lines[heading + 1 : headline] if row]
    # Numbers end where their names end: nothing was wrapped.
    assert {len(row) for row in rows} == {len(seen.lines[heading])}, "\n".join(seen.lines)
    assert not seen.cursor_hidden
    assert "Running" not in "\n".join(seen.lines)
    assert b"Running" in seen.raw
    assert heading < headline < seen.find("Target") < seen.find("Files")
    # With the prompt, the summary of a run at a rate is on one screen.
    assert len(seen.lines) - headline < 24 or columns < 80
    assert "RESULTS" not in "\n".join(seen.lines)
    assert "p50" in seen.lines[headline] or columns < 70
    assert seen.styles[seen.find("1,000 sent, 1,000 received")] == {"green"}


def test_verbose_prints_all_of_upstreams_text_below_the_headline(tmp_path):
    arguments = ["--count", "100", "--verbose", "--output", str(tmp_path)]
    seen = Terminal(100).run(quiver(*arguments), environment())
    assert seen.find("messages/s") < seen.find("CONFIGURATION") < seen.find("Negative latency")


def test_an_analysis_is_one_screen_too(tmp_path):
    runs = [tmp_path / name for name in ("one", "two")]
    for run in runs:
        words = quiver("--count", "100", "--quiet", "--output", str(run))
        subprocess.run(words, env=environment(), check=True)
    alone = Terminal(100).run(command("analyze", str(runs[0])), environment())
    assert alone.find("100 sent, 100 received") < alone.find("State") < 24
    both = Terminal(100).run(command("analyze", *map(str, runs)), environment())
    assert both.find("RUNS") < both.find("Unreceived") < both.find("two ") < both.find("Target")


def test_an_arrow_says_what_it_did(tmp_path):
    with running_server(tmp_path) as server:
        seen = Terminal(100).run(
            command("arrow", "send", f"amqp://127.0.0.1:{server.port}/q", "--count", "1"),
            environment(),
        )
    assert seen.lines[seen.find("too few messages for a rate") + 1] == "1 message sent"
    assert "Target" not in "\n".join(seen.lines)


def test_a_resized_window_has_a_new_heading(tmp_path):
    terminal = Terminal(120)

    def narrow(raw):
        # The heading and the first row have been shown: the window gets narrow before the second.
        if raw.partition(b"Received/s")[2].count(b"\r\n") >= 2 and not resized:
            resized.append(True)
            terminal.resize(60)

    resized = []
    seen = terminal.run(
        quiver("--count", "3000", "--rate", "1000", "--output", str(tmp_path)), environment(),
        narrow,
    )  # fmt: skip
    assert seen.returncode == 0, seen.lines
    assert seen.raw.count(b"Received/s") == 2


@pytest.mark.parametrize(
    ("changes", "options"),
    [({"NO_COLOR": "1"}, []), ({"TERM": "dumb"}, []), ({}, ["--format", "upstream"])],
)
def test_upstreams_text_where_it_is_wanted(changes, options, tmp_path):
    arguments = ["--count", "100", "--output", str(tmp_path), *options]
    seen = Terminal(140).run(quiver(*arguments), environment(**changes))
    assert seen.returncode == 0, seen.lines
    assert seen.lines[0].startswith("---------------------- Sender ---")
    assert b"\x1b" not in seen.raw
    # The rows end with an empty line; there are two where the machine was slow.
    assert seen.lines[seen.find("CONFIGURATION") - 1] == ""
    assert "Running" not in "\n".join(seen.lines)


def test_pipes_get_upstreams_text(tmp_path):
    ended = subprocess.run(
        quiver("--count", "100", "--output", str(tmp_path)),
        env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ended.stdout.startswith("---------------------- Sender ---")
    assert "\x1b" not in ended.stdout + ended.stderr


def test_errors_come_last_and_whole(tmp_path):
    url = "amqp://127.0.0.1:1/q0"
    seen = Terminal(80).run(quiver(url, "--output", str(tmp_path)), environment())
    assert seen.returncode == 1
    told = [text for text in seen.lines if text]
    assert told[-1].startswith("quiver: error: ") or told[-2].startswith("quiver: error: ")
    assert not seen.cursor_hidden
    assert "Received/s" not in "\n".join(seen.lines)


def test_ascii_terminals_get_ascii(tmp_path):
    seen = Terminal(100).run(
        quiver("--count", "1000", "--rate", "1000", "--output", str(tmp_path)),
        environment(LC_ALL="C", PYTHONIOENCODING="ascii", PYTHONUTF8="0"),
    )
    assert seen.returncode == 0, seen.lines
    assert seen.raw.isascii()
    assert seen.find("Received/s")
