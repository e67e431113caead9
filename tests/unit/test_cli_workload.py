"""Options from the environment, a workload file and the command line."""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.cli.pair.command import main, make_parser
from quiver_fast.cli.pair.workload import options_of, read_arguments, workload_text
from quiver_fast.errors import UsageError

FILE = """\
url = "//localhost/q0"
duration = "5m"
rate = 10_000
durable = true
fail-if = ["p99>10ms", "lost>0"]
"""


def read(folder: Path, text: str = "", *words: str, **environ: str) -> argparse.Namespace:
    file = folder / "load.toml"
    file.write_text(text, encoding="utf-8")
    return read_arguments(make_parser(), ["--workload", str(file), *words], environ)


def test_a_file(tmp_path: Path) -> None:
    args = read(tmp_path, FILE)
    assert (args.url, args.duration, args.rate, args.durable) == (
        "//localhost/q0",
        300,
        10000,
        True,
    )
    assert [limit.condition for limit in args.fail_if] == ["p99>10ms", "lost>0"]
    assert args.body_size == 100
    assert args.workload == {
        "url": "//localhost/q0", "duration": 300, "rate": 10000, "durable": True,
        "fail-if": ["p99>10ms", "lost>0"],
    }  # fmt: skip


def test_a_file_of_another_editor(tmp_path: Path) -> None:
    """A byte-order mark is no part of it; another encoding is named."""
    assert read(tmp_path, f"\ufeff{FILE}") == read(tmp_path, FILE)
    file = tmp_path / "load.toml"
    file.write_bytes(FILE.encode("utf-16"))
    with pytest.raises(UsageError, match=r"load.toml is no TOML: it is no text in UTF-8"):
        read_arguments(make_parser(), ["--workload", str(file)], {})


def test_the_command_line_is_above_the_file_and_that_above_the_environment(tmp_path: Path) -> None:
    environ = {"QUIVER_RATE": "1", "QUIVER_BODY_SIZE": "2", "QUIVER_CREDIT": "3"}
    args = read(tmp_path, "rate = 10\nbody-size = 20\n", "--rate", "100", **environ)
    assert (args.rate, args.body_size, args.credit) == (100, 20, 3)


STEPS = "rate-steps = '10k:10s,1..9:1m'\n"


@pytest.mark.parametrize(
    ("text", "words", "environ", "duration"),
    [
        ("", [], {}, 30),
        (STEPS, [], {}, 70),
        (STEPS + "duration = 30\n", [], {}, 30),
        ("duration = 30\n" + STEPS, [], {}, 30),
        (STEPS, ["--duration", "9s"], {}, 9),
        ("duration = 9\n", ["--rate-steps", "10k:10s"], {}, 10),
        ("", ["--rate-steps", "10k:10s", "--duration", "30"], {}, 30),
        ("", ["--duration", "30", "--rate-steps", "10k:10s"], {}, 30),
        ("", ["--rate-steps", ""], {}, 30),
        (STEPS, [], {"QUIVER_DURATION": "7"}, 70),
        ("", [], {"QUIVER_DURATION": "7", "QUIVER_RATE_STEPS": "10k:10s"}, 7),
    ],
)
def test_a_run_takes_as_long_as_its_steps(
    tmp_path: Path, text: str, words: list[str], environ: dict[str, str], duration: int
) -> None:
    """But for a duration that is given as well, there or further up."""
    assert read(tmp_path, text, *words, **environ).duration == duration


def test_a_list_is_replaced_and_not_added_to(tmp_path: Path) -> None:
    args = read(tmp_path, FILE, "--fail-if", "rate<1k", QUIVER_FAIL_IF="lost>1")
    assert args.workload["fail-if"] == ["rate<1k"]
    assert read(tmp_path, "fail-if = []", QUIVER_FAIL_IF="lost>1").fail_if == []


def test_a_url_of_the_command_line_replaces_the_files(tmp_path: Path) -> None:
    assert read(tmp_path, FILE, "//other/q1").url == "//other/q1"
    assert read(tmp_path, "", QUIVER_URL="//here/q").url == "//here/q"


def test_an_implementation_of_both_ends_replaces_those_of_each(tmp_path: Path) -> None:
    text = 'sender = "rhea"\nreceiver = "qpid-jms"\n'
    args = read(tmp_path, text, "--impl", "pyfast")
    assert (args.impl, args.sender, args.receiver) == ("pyfast", None, None)
    args = read(tmp_path, text, "--sender", "pyfast")
    assert (args.sender, args.receiver) == ("pyfast", "qpid-jms")


@pytest.mark.parametrize(
    ("word", "expected"), [("1", True), ("Yes", True), ("on", True), ("0", False), ("", False)]
)
def test_switches_of_the_environment(tmp_path: Path, word: str, expected: bool) -> None:
    assert read(tmp_path, "", QUIVER_DURABLE=word).durable is expected
    assert read(tmp_path, "durable = false", QUIVER_DURABLE=word).durable is False


def test_a_rate_may_be_a_fraction_and_steps_a_ramp(tmp_path: Path) -> None:
    assert read(tmp_path, "rate = 0.5").rate == 0.5
    args = read(tmp_path, "ramp = '1..2:3s'")
    assert (args.rate_steps, args.duration) == ("1..2:3s", 3)
    assert args.workload == {"duration": 3, "rate-steps": "1..2:3s"}
    assert read(tmp_path, "ramp = '1..2:3s'", "--rate-steps", "5:1s").rate_steps == "5:1s"


def test_other_variables_are_nobodys(tmp_path: Path) -> None:
    assert read(tmp_path, "", QUIVER_HOME="/opt", QUIVER_IMPL_PATH="x").workload == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ratee = 1", "there is no option 'ratee'; did you mean rate?"),
        ("version = true", "there is no option 'version'"),
        ("workload = 'other.toml'", "there is no option 'workload'"),
        ("rate = 'fast'", "rate: argument --rate: rate 'fast' is no number"),
        ("count = 1.5", "count: argument -c/--count: '1.5' is not"),
        ("ramp = '1..2:3s'\nrate-steps = '5:1s'", "rate-steps: the option excludes ramp"),
        ("rate = true", "rate: the option takes text or a number"),
        ("rate = [1, 2]", "rate: the option takes text or a number"),
        ("[rate]\nsteps = 1", "rate: the option takes text or a number"),
        ("durable = 1", "durable: the option takes true or false"),
        ("durable = 'yes'", "durable: the option takes true or false"),
        ("fail-if = 'p77'", "fail-if: argument --fail-if"),
        ("time-unit = 'h'", "time-unit: argument --time-unit: invalid choice"),
        ("rate =", "is no TOML"),
    ],
)
def test_mistakes_in_a_file(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(tmp_path, text)
    assert str(raised.value).startswith(str(tmp_path / "load.toml"))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("variable", "text"), [("QUIVER_RATE", "fast"), ("QUIVER_DURABLE", "perhaps")]
)
def test_mistakes_in_the_environment(tmp_path: Path, variable: str, text: str) -> None:
    with pytest.raises(UsageError, match=f"^{variable}: .*'{text}'"):
        read(tmp_path, "", **{variable: text})


@pytest.mark.parametrize("words", [[], ["--baseline=//h/q1", "--runs=2"], ["--sweep=rate=1,2"]])
def test_a_result_is_measured_again(tmp_path: Path, words: list[str]) -> None:
    """Options of a single call, such as the folder of its files, are left out."""
    own = ["--output", "out", "--json", "--quiet", "--metrics-port", "0"]
    load = ["//localhost/q0", "--rate=0.5", "--receive-delay=5ms", "--fail-if=lost>0", *words]
    args = read_arguments(make_parser(), [*load, *own], {})
    text = json.dumps({"schema": {}, "workload": args.workload})
    assert vars(read(tmp_path, text)) | {"workload_file": None} == vars(
        read_arguments(make_parser(), load, {})
    )


def test_a_result_keeps_no_password(tmp_path: Path) -> None:
    url = "amqp://user:secret@host/q"
    words = [url, "--runs=2", f"--baseline=--credit  10 {url}"]
    args = read_arguments(make_parser(), words, {})
    assert args.workload["baseline"] == "--credit 10 'amqp://user:***@host/q'"
    with pytest.raises(UsageError, match=r"--print-workload: the url has a password"):
        workload_text(make_parser(), args)
    text = json.dumps({"workload": args.workload})
    with pytest.raises(UsageError, match=r"load.toml: url: the password was not kept: give the"):
        read(tmp_path, text)
    with pytest.raises(UsageError, match=r"load.toml: baseline: the password was not kept"):
        read(tmp_path, text, url)
    assert read(tmp_path, text, url, "--baseline=--durable").url == url


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"workload": ', "is no JSON: Expecting value"),
        ("{" + '"a":[' * 99_999, "is no JSON: "),
        ('{"config": {}}', "has no workload: it is no result of a measurement"),
        ('{"workload": null}', "has no workload"),
        ('{"workload": {"ratee": 1}}', "there is no option 'ratee'; did you mean rate?"),
        ('{"workload": {"rate": null}}', "rate: the option takes text or a number"),
    ],
)
def test_files_that_are_no_results(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(tmp_path, text)
    assert str(raised.value).startswith(str(tmp_path / "load.toml"))
    assert message in str(raised.value)


@pytest.mark.parametrize("content", [None, b"\xff"])
def test_files_that_cannot_be_read(
    tmp_path: Path, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "load.toml"
    if content is not None:
        file.write_bytes(content)
    assert main(["--workload", str(file)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("quiver: error: ")
    assert str(file) in line


def test_passwords_are_not_shown(tmp_path: Path) -> None:
    args = read(tmp_path, 'url = "amqp://user:secret@host/q"')
    assert args.workload["url"] == "amqp://user:***@host/q"
    with pytest.raises(UsageError, match="has a password"):
        workload_text(make_parser(), args)


def test_it_prints_the_options_it_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "load.toml").write_text(FILE)
    words = ["--workload", str(tmp_path / "load.toml"), "--rate", "20k", "--print-workload"]
    assert main(words) == 0
    assert capsys.readouterr().out == (
        'url = "//localhost/q0"\nduration = 300\nrate = 20000\ndurable = true\n'
        'fail-if = ["p99>10ms", "lost>0"]\n'
    )


@pytest.mark.parametrize(
    ("text", "printed"), [("5ms", "5ms"), ("1", "1s"), ("1h1us", "3600s1us"), ("0", "0")]
)
def test_a_fine_duration_is_printed_with_its_unit(text: str, printed: str) -> None:
    args = read_arguments(make_parser(), ["--receive-delay", text], {})
    assert args.workload == {"receive-delay": printed}


def test_a_small_rate_may_have_an_exponent(tmp_path: Path) -> None:
    assert read(tmp_path, "rate = 1e-5").rate == 0.00001


def test_no_file_can_have_a_text_of_other_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--subject", "\udcff", "--print-workload"]) == 2
    assert capsys.readouterr().err == (
        "quiver: error: --print-workload: the value of subject is no text in UTF-8\n"
    )


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
IMPLEMENTATIONS = st.sampled_from(["pyfast", "rhea"])
PARTS = st.sampled_from(["500ms", "1m1s500ms", "1us"])
SECONDS = st.sampled_from(["0", "30", "90s", "1m30s", "2h"])
COUNTS = st.sampled_from(["1", "500", "1k"])
SHARES = st.sampled_from(["1%", "0.1%"])
CONDITIONS = st.lists(st.sampled_from(["p99>1ms", "lost>0", "rate<5k/s"]), min_size=1)
HOLDING = st.lists(st.sampled_from(["p99<1ms", "lost<=0", "rate<5k/s"]), min_size=1)
STEPS = st.sampled_from(["10k:10s,1..9:20s", "1..2:3s"])

VALUES: dict[str, st.SearchStrategy[object]] = {
    "url": st.sampled_from(["q0", "//localhost/q0", "amqps://user@host:1/a?b%20"]),
    **dict.fromkeys(["impl", "sender", "receiver"], IMPLEMENTATIONS),
    "duration": SECONDS,
    **dict.fromkeys(["warmup", "timeout", "drain-timeout"], st.one_of(SECONDS, PARTS)),
    "within": st.sampled_from(["1", "30m"]),
    "warm-up": st.sampled_from(["0", "30s"]),
    **dict.fromkeys(["count", "credit", "backlog", "ttl", "runs", "senders", "receivers"], COUNTS),
    **dict.fromkeys(["queues", "processes", "transaction-size", "metrics-port"], COUNTS),
    "max-frame-size": st.integers(512, 2**31 - 1),
    "priority": st.integers(0, 9),
    **dict.fromkeys(["churn", "hold"], st.sampled_from(["1", "10k"])),
    "churn-of": st.sampled_from(["connection", "session", "link"]),
    "rate": st.sampled_from(["0", "10k", "0.5", "0.00001", "999999.123456789"]),
    "ramp": st.just("1..2:3s"),
    "rate-steps": STEPS,
    **dict.fromkeys(["sessions", "links"], st.sampled_from(["1", "2", "10k"])),
    "arrivals": st.sampled_from(["poisson", "poisson:7"]),
    "body-size": st.sampled_from(["100", "10k", "1..64k", "100:80%,10k:20%"]),
    "receive-delay": st.sampled_from(["0", "5ms", "200us", "7", "1h2m3s4ms5us", "2147483648"]),
    "pause-receivers": st.just("10s:5s"),
    **dict.fromkeys(["work", "reply-timeout"], st.sampled_from(["5ms", "2s"])),
    "away": st.sampled_from(["1", "30m"]),
    **dict.fromkeys(["release", "reject", "detect", "relevant"], SHARES),
    **dict.fromkeys(["filter", "filter-properties", "stream-filter"], TEXTS),
    "stream-offset": st.sampled_from(["first", "9", "10m"]),
    "record-format": st.sampled_from(["v1", "v2", "v3"]),
    "time-unit": st.sampled_from(["ms", "us", "ns"]),
    "format": st.sampled_from(["auto", "upstream"]),
    "fail-if": CONDITIONS,
    "find-rate": HOLDING,
    "abort-if": st.lists(st.sampled_from(["p99>1ms", "rate<5k/s", "mean>=1s"]), min_size=1),
    "exit-when": st.just("empty"),
    "modify": st.sampled_from(["1%", "0.5%:failed:undeliverable", "1%:x-why=a b"]),
    "dead-letter-queue": st.just("DLQ"),
    "queue-type": st.sampled_from(["classic", "quorum", "stream"]),
    "queue-argument": st.lists(st.sampled_from(["x-max-length=9", "a=b c"]), min_size=1),
    "routing": st.sampled_from(["anycast", "multicast"]),
    "reconnect-for": SECONDS,
    "reconnect-pause": st.just("5ms,2s"),
    "fault": st.lists(st.sampled_from(["10s kill 5s", "20s run 'echo it'"]), min_size=1),
    "fault-pid": st.just("server.pid"),
    "server": st.just("pyfast --durability group"),
    "failover": st.lists(st.just("//other:5672"), min_size=1),
    "sweep": st.lists(st.sampled_from(["rate=1,2", "credit=1..9:3"]), min_size=1),
    **dict.fromkeys(["subject", "group-id", "properties", "address", "body-file"], TEXTS),
    **dict.fromkeys(["user", "username", "password-file", "key", "cert", "trust-store"], TEXTS),
    **dict.fromkeys(["sasl-mechanisms", "output", "baseline", "metrics-host"], TEXTS),
    **dict.fromkeys(["html", "markdown", "junit"], st.sampled_from(["new.md", "/tmp/of run.xml"])),
}
"""Values of all options that take one, as people write them."""

OPTIONS = options_of(make_parser())
SWITCHES = {name for name, action in OPTIONS.items() if action.nargs == 0}


def test_all_options_have_values_here() -> None:
    """So that the next test leaves none out: add the new option's to ``VALUES``."""
    assert {*VALUES} == {*OPTIONS} - SWITCHES


@given(
    st.fixed_dictionaries({}, optional=VALUES | dict.fromkeys(sorted(SWITCHES), st.just(True))),
    st.randoms(use_true_random=False),
)
def test_a_printed_workload_means_the_same(
    tmp_path_factory: pytest.TempPathFactory, chosen: dict[str, object], order: random.Random
) -> None:
    if "ramp" in chosen:
        chosen.pop("rate-steps", None)
    words = []
    names = [*chosen]
    order.shuffle(names)
    for name in names:
        each = chosen[name] if isinstance(chosen[name], list) else [chosen[name]]
        words += [f"--{name}" if one is True else f"--{name}={one}" for one in each]
    words = [word.removeprefix("--url=") for word in words]
    args = vars(read_arguments(make_parser(), words, {}))
    text = workload_text(make_parser(), argparse.Namespace(**args))
    again = vars(read(tmp_path_factory.getbasetemp(), text))
    assert again | {"workload_file": None} == args
