"""Options are declared once: contracts, commands, plans and completion follow from that."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest

from quiver_fast.arrow import contract
from quiver_fast.cli.analyze import command as analyze
from quiver_fast.cli.arrow import command as arrow
from quiver_fast.cli.arrow.options import ArrowOptions
from quiver_fast.cli.arrow.plan import ArrowPlan, summary_config
from quiver_fast.cli.bench import command as bench
from quiver_fast.cli.conform import command as conform
from quiver_fast.cli.fleet import command as fleet
from quiver_fast.cli.pair import command as pair
from quiver_fast.cli.queue import command as queue
from quiver_fast.cli.server import command as server
from quiver_fast.cli.shared.common import initial_text
from quiver_fast.cli.shared.implementations import Implementation
from quiver_fast.cli.shared.url import parse_url
from quiver_fast.options.arrow import ARROW_OPTIONS, LOAD, MESSAGE, PAIR, RECEIVER
from quiver_fast.options.option import (
    CHOICE,
    NUMBER,
    RATE,
    SIZES,
    SWITCH,
    Option,
    usage,
    values,
)
from quiver_fast.options.server import SERVER_OPTIONS
from quiver_fast.schemas import schema_text

COMMANDS = {
    "quiver": pair, "quiver-analyze": analyze, "quiver-arrow": arrow, "quiver-bench": bench,
    "quiver-conform": conform, "quiver-fleet": fleet, "quiver-queue": queue,
    "quiver-server": server,
}  # fmt: skip


def test_a_summary_has_every_option_that_is_no_secret() -> None:
    args = arrow.make_parser().parse_args(["send", "q"])
    url = parse_url("q")
    plan = ArrowPlan(
        "send", Implementation("x", ("x",)), url, ArrowOptions.from_arguments(args, url), "id"
    )
    config = summary_config(plan, Path("out"))
    groups = (LOAD, MESSAGE, PAIR, RECEIVER)
    expected = {one.name for one in ARROW_OPTIONS if one.flag and one.group in groups}
    assert expected <= config.keys()
    schema = json.loads(schema_text("arrow-summary"))
    assert config.keys() <= schema["$defs"]["config"]["properties"].keys()


@pytest.mark.parametrize("options", [ARROW_OPTIONS, SERVER_OPTIONS])
def test_no_option_is_declared_twice(options) -> None:
    for attribute in ("key", "flag", "alias", "letter"):
        names = [getattr(one, attribute) for one in options if getattr(one, attribute)]
        assert len(names) == len(set(names))


@pytest.mark.parametrize("option", [*ARROW_OPTIONS, *SERVER_OPTIONS], ids=lambda one: one.name)
def test_a_declaration_is_whole(option: Option) -> None:
    assert option.kind != CHOICE or option.choices
    if option.kind == NUMBER and option.key and option.default != -1:
        assert option.least <= option.default <= option.most
    if option.flag:
        assert option.help
        assert option.kind in (SWITCH, CHOICE) or option.metavar
        # A number that is none for the command would be a surprise.
        assert option.initial is None or option.kind in (NUMBER, RATE, SIZES)
    assert not option.inverted or option.default is True


@pytest.mark.parametrize("module", [arrow, pair, bench, server], ids=lambda one: one.__name__)
def test_help_tells_the_default_of_every_declared_option(module) -> None:
    parser = module.make_parser()
    declared = {one.flag: one for one in (SERVER_OPTIONS if module is server else ARROW_OPTIONS)}
    seen = 0
    for action in parser._actions:
        option = declared.get(action.option_strings[-1]) if action.option_strings else None
        if option is None or (module is bench and option.name in ("cert", "key")):
            continue
        seen += 1
        text_of_a_number = option.kind == NUMBER and isinstance(action.default, str)
        initial = action.type(action.default) if text_of_a_number else action.default
        # A list of none stands for no value.
        assert (None if initial == [] else initial) == (
            False if option.kind == SWITCH else option.initial
        )
        text = initial_text(option)
        if text and option.kind != SWITCH:
            assert f"default {text}" in action.help
    assert seen > 15


def test_values_are_checked_and_have_their_types() -> None:
    options = (
        Option("a", NUMBER, default=3, most=9),
        Option("b", SWITCH, default=True),
        Option("c", CHOICE, choices=("x", "y")),
        Option("", NUMBER, flag="--d", metavar="N"),
    )
    assert values(options, {}) == {"a": 3, "b": True, "c": None}
    assert values(options, {"a": "9", "b": "0", "c": "y"}) == {"a": 9, "b": False, "c": "y"}
    for wrong in ({"a": "10"}, {"b": "yes"}, {"c": "z"}):
        with pytest.raises(contract.UsageError, match=f"{next(iter(wrong))} must be"):
            values(options, wrong)


def test_usage_has_sections_in_order_and_wraps() -> None:
    options = (
        Option("one", NUMBER, "BYTES", "first", 1 << 20, section="A"),
        Option("two", NUMBER, "SECONDS", "second", 0, zero="never", section="B"),
        Option("three", NUMBER, "SECONDS", "third " * 20, 5, zero="never", section="A"),
    )
    text = usage("Usage: x\n", options)
    assert text.index("one=BYTES (1 MiB)") < text.index("three=SECONDS (5)") < text.index("\nB:")
    assert "two=SECONDS (0: never)" in text
    assert "0: never\n\nB:" in text
    assert max(map(len, text.splitlines())) <= 100


COMPLETIONS = pytest.mark.parametrize(
    ("command", "words", "expected"),
    [
        ("quiver", ["--dur"], ["--durable", "--durable-queue", "--duration"]),
        ("quiver-arrow", ["--record-format", "v"], ["v1", "v2", "v3"]),
        ("quiver-server", ["--impl", "rabb"], ["rabbitmq", "rabbitmq-4"]),
        ("quiver-bench", ["--rate", ""], []),
        ("quiver-analyze", ["--engine", "lo"], ["local"]),
        ("quiver-conform", ["--stri"], ["--strict"]),
        ("quiver-queue", ["--j"], ["--json"]),
        ("quiver", ["--completion", "f"], ["fish"]),
    ],
)
# The script of `quiver` is for all commands.
OTHERS = pytest.mark.parametrize("command", sorted(COMMANDS))


def completed(shell: str, script: str) -> list[str]:
    """Return the words that a shell prints; its standard error must be empty."""
    options = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    done = subprocess.run(
        [shell, *options, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


def completion_script(command: str, capsys: pytest.CaptureFixture[str], *shell: str) -> str:
    assert COMMANDS[command].main(["--completion", *shell]) == 0
    return capsys.readouterr().out


@COMPLETIONS
def test_bash_completes(
    command: str, words: list[str], expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    script = completion_script(command, capsys, "bash")
    assert completion_script(command, capsys) == script
    line = " ".join(f"'{word}'" for word in [command, *words])
    function = "_shtab_" + command.replace("-", "_")
    script += f"\nCOMP_WORDS=({line}); COMP_CWORD={len(words)}; {function}\n"
    assert sorted(completed("bash", script + 'echo "${COMPREPLY[@]}"')) == expected


@OTHERS
def test_bash_completes_all_with_one_script(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    script = completion_script("quiver", capsys)
    function = f"$(complete -p {command} | sed 's/.*-F \\([^ ]*\\).*/\\1/')"
    script += f"\nCOMP_WORDS=({command} --vers); COMP_CWORD=1; {function}\n"
    assert completed("bash", script + 'echo "${COMPREPLY[@]}"') == ["--version"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh")
@OTHERS
def test_zsh_completes_all_with_one_script(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "script").write_text(completion_script("quiver", capsys, "zsh"))
    script = f'autoload -U compinit; compinit -D; eval "$(cat {tmp_path}/script)"\n'
    expected = "_shtab_" + command.replace("-", "_")
    assert completed("zsh", f"{script} echo $_comps[{command}]") == [expected]


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish")
@OTHERS
def test_fish_completes_all_with_one_script(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    script = completion_script("quiver", capsys, "fish")
    script += f"\ncomplete --do-complete '{command} --vers' | string split -f 1 \\t; true"
    assert completed("fish", script) == ["--version"]


# zsh completes only at a terminal. The key ^G keeps the line in a file.
ZSH_START = """\
autoload -U compinit && compinit -D
eval "$(cat script)"
keep() { print -r -- "$BUFFER" > line; exit; }
zle -N keep && bindkey '^G' keep
"""


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh")
@COMPLETIONS
def test_zsh_completes(
    command: str,
    words: list[str],
    expected: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "script").write_text(completion_script(command, capsys, "zsh"))
    (tmp_path / ".zshrc").write_text(ZSH_START)
    ours, theirs = pty.openpty()
    environment = {**os.environ, "ZDOTDIR": str(tmp_path), "TERM": "dumb"}
    with subprocess.Popen(
        ["zsh", "-d", "-i"], cwd=tmp_path, env=environment, stdin=theirs, stdout=theirs,
        stderr=theirs, start_new_session=True,
    ) as shell:  # fmt: skip
        os.write(ours, " ".join([command, *words]).encode() + b"\t\x07")
        shell.wait(timeout=30)
    for end in (ours, theirs):
        os.close(end)
    # It types what all answers begin with.
    found = (tmp_path / "line").read_text().split()
    common = os.path.commonprefix(expected)  # noqa: RUF071 (of words, not of paths)
    assert found == [command, *words[:-1], *(common or words[-1]).split()]


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish")
@COMPLETIONS
def test_fish_completes(
    command: str, words: list[str], expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    script = completion_script(command, capsys, "fish")
    line = " ".join([command, *words])
    # Each line has a word, a tab, and a description.
    script += f"complete --do-complete '{line}' | string split -f 1 \\t; true"
    assert completed("fish", script) == expected


def test_helps_are_plain_text() -> None:
    """`argparse` wants a percent sign twice: the commands see to that, documents have it once."""
    assert not [one.flag for one in (*ARROW_OPTIONS, *SERVER_OPTIONS) if "%%" in one.help]
