"""Proposals for options that a command does not have."""

import importlib

import pytest

from quiver_fast.cli.shared import other_tools
from quiver_fast.cli.shared.other_tools import operation_like, proposal, with_advice

COMMANDS = ("analyze", "arrow", "bench", "fleet", "pair", "queue", "server")
TAKING_URLS = ("arrow", "pair", "server")


def flags_of(command):
    parser = importlib.import_module(f"quiver_fast.cli.{command}.command").make_parser()
    return [flag for action in parser._actions for flag in action.option_strings]


FLAGS = {command: flags_of(command) for command in COMMANDS}


def proposed(command, typed):
    return proposal(f"unrecognized arguments: {typed}", FLAGS[command], command in TAKING_URLS)


@pytest.mark.parametrize("word", other_tools._OTHER_WORDS)
def test_each_word_of_others_has_one_of_ours_somewhere(word):
    """Else the table has a word that no command has."""
    without_it = [command for command in COMMANDS if word not in FLAGS[command]]
    assert any(proposed(command, word) for command in without_it)


@pytest.mark.parametrize(
    ("command", "typed"),
    [
        ("arrow", "--connections 2"),
        ("arrow", "--vus=2"),
        ("analyze", "--list"),
        ("queue", "--threads 2"),
        ("queue", "--host h"),
        ("fleet", "-x 2"),
        ("pair", "--colour"),
        ("pair", "-j 4"),
        ("pair", "q0 --count"),
    ],
)
def test_nothing_is_proposed_where_nothing_fits(command, typed):
    assert proposed(command, typed) == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_letters_in_another_order(command):
    known = [flag for flag in FLAGS[command] if len(flag) >= len("--count")]
    for flag in known:
        typo = f"{flag[:4]}{flag[5]}{flag[4]}{flag[6:]}"
        if typo not in known:
            assert proposed(command, typo) == flag


@pytest.mark.parametrize(
    ("command", "typed", "ours"),
    [
        ("pair", "--dur 5s", "--duration or --durable or --durable-queue"),
        ("pair", "--format=json", "--json"),
        ("analyze", "--format=html", "--html FILE"),
        ("analyze", "-o x", "--html FILE"),
        ("bench", "--list", "--help, which lists what --include-servers takes"),
        ("pair", "-insecure", "--tls-insecure"),
        ("pair", "-x2", "--senders"),
    ],
)
def test_proposals(command, typed, ours):
    assert proposed(command, typed) == ours


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--baseline", "--credit", "10"], "; if '--credit 10' is its value, write "
         "--baseline='--credit 10'"),
        (["--runs", "2", "--baseline"], ""),
    ],
)  # fmt: skip
def test_a_value_with_dashes(argv, told):
    error = "argument --baseline: expected one argument"
    assert with_advice(f"{error} (see quiver --help)", argv) == f"{error}{told} (see quiver --help)"


@pytest.mark.parametrize(
    ("word", "operation"),
    [("recieve", "receive"), ("sned", "send"), ("produce", "send"), ("q0", ""), ("host", "")],
)
def test_operations(word, operation):
    assert operation_like(word) == operation
