"""From options to the arguments of the arrow contract."""

import argparse
from dataclasses import replace
from pathlib import Path

import pytest

from quiver_fast.cli.arrow.options import ArrowOptions
from quiver_fast.cli.arrow.plan import ArrowPlan, contract_arguments, summary_config
from quiver_fast.cli.shared.common import add_arrow_options, add_tls_options
from quiver_fast.cli.shared.implementations import Implementation
from quiver_fast.cli.shared.url import parse_url
from quiver_fast.errors import UsageError

OURS = Implementation("pyfast", ("pyfast",), extensions=True)
FOREIGN = Implementation("foreign", ("/impls/quiver-arrow-foreign",))


def options_of(words, url):
    parser = argparse.ArgumentParser()
    add_arrow_options(parser)
    add_tls_options(parser)
    return ArrowOptions.from_arguments(parser.parse_args(words), parse_url(url))


def plan_of(*words, url="q0", impl=OURS, operation="send", **fields):
    return ArrowPlan(operation, impl, parse_url(url), options_of(words, url), "id0", **fields)


UPSTREAM_DEFAULTS = [
    "connection-mode=client", "channel-mode=active", "operation=send", "id=id0", "scheme=amqp",
    "host=localhost", "port=5672", "path=q0", "duration=30", "count=0", "rate=0",
    "body-size=100", "credit-window=1000", "transaction-size=0", "durable=0", "set-message-id=0",
]  # fmt: skip


@pytest.mark.parametrize("impl", [OURS, FOREIGN])
def test_defaults_are_upstreams_and_nothing_else(impl):
    assert contract_arguments(plan_of(impl=impl)) == UPSTREAM_DEFAULTS


def test_every_upstream_option():
    words = (
        "-d 2m -c 3k --rate 1m --body-size 7k --credit 10 --transaction-size 5 --durable "
        "--set-message-id --cert c.pem --key k.pem --username u --expose-password"
    )
    plan = plan_of(*words.split(), url="amqps://h:1/a/b", impl=FOREIGN, operation="receive",
                   server=True, passive=True)  # fmt: skip
    assert contract_arguments(plan) == [
        "connection-mode=server", "channel-mode=passive", "operation=receive", "id=id0",
        "scheme=amqps", "host=h", "port=1", "path=a/b", "duration=120", "count=3000",
        "rate=1000000", "body-size=7000", "credit-window=10", "transaction-size=5", "durable=1",
        "set-message-id=1", "username=u", "key=k.pem", "cert=c.pem",
    ]  # fmt: skip


EXTENSIONS = [
    (["--presettled"], ["presettled=1"]),
    (["--body-file", __file__], [f"body-file={__file__}"]),
    (["--streaming"], ["streaming=1"]),
    (["--priority", "7"], ["priority=7"]),
    (["--ttl", "5k"], ["ttl=5000"]),
    (["--subject", "s"], ["subject=s"]),
    (["--group-id", "g"], ["group-id=g"]),
    (["--properties", "a=1,b=x"], ["properties=a=1,b=x"]),
    (["--record-format", "v1"], ["record-format=v1"]),
    (["--receive-delay", "5ms"], ["receive-delay=5000"]),
    (["--pause-receivers", "10s:500ms"], ["pause=10s:500ms"]),
    (["--time-unit", "us"], ["time-unit=us"]),
    (["--max-frame-size", "64k"], ["max-frame-size=64000"]),
    (["--sasl-mechanisms", "PLAIN ANONYMOUS"], ["sasl-mechanisms=PLAIN ANONYMOUS"]),
    (["--trust-store", "ca.pem"], ["trust-store=ca.pem", "tls-verify=1"]),
    (["--tls-insecure"], ["tls-verify=0"]),
]


@pytest.mark.parametrize(("words", "arguments"), EXTENSIONS)
def test_extensions(words, arguments):
    url = "amqps://h/q0"
    base = contract_arguments(plan_of(url=url))
    ours = contract_arguments(plan_of(*words, url=url))
    assert [word for word in ours if word not in base] == [
        word for word in arguments if word not in base
    ]
    with pytest.raises(UsageError, match=f"'foreign' does not support {words[0]}"):
        plan_of(*words, url=url, impl=FOREIGN)


def test_a_mix_of_sizes_is_for_our_senders():
    words = ("--body-size", "100:80%,10k:20%")
    assert "body-size=100:80%,10k:20%" in contract_arguments(plan_of(*words))
    assert "body-size=10000" in contract_arguments(
        plan_of(*words, impl=FOREIGN, operation="receive")
    )
    with pytest.raises(UsageError, match="'foreign' does not support a mix of --body-size"):
        plan_of(*words, impl=FOREIGN)
    with pytest.raises(UsageError, match="--body-size is at most"):
        plan_of("--body-size", "1..20m", url="csp://h/q0")


def test_a_rate_that_is_not_whole_is_for_our_senders():
    assert "rate=0.5" in contract_arguments(plan_of("--rate", "0.5"))
    assert "rate=1500" in contract_arguments(plan_of("--rate", "1.5k", impl=FOREIGN))
    assert "rate=0" in contract_arguments(plan_of("--rate", "0.5", operation="receive"))
    with pytest.raises(UsageError, match="'foreign' does not support a --rate that is not whole"):
        plan_of("--rate", "0.5", impl=FOREIGN)


def test_a_timeout_is_longer_than_the_time_between_two_messages():
    for words in (["--rate", "0.1"], ["--rate-steps", "9:1s,0.1..9:9s"]):
        with pytest.raises(UsageError, match=r"--timeout 10: at 0\.1 messages/s the sender sends"):
            plan_of(*words)
        plan_of(*words, "--timeout", "11")
        plan_of(*words, "--timeout", "0")
        plan_of(*words, operation="receive")


@pytest.mark.parametrize("words", [["1k..2k:3s"], ["0.5..7:1m"]])
def test_a_ramp_is_one_step(words):
    assert options_of(["--ramp", *words], "q0") == options_of(["--rate-steps", *words], "q0")


@pytest.mark.parametrize("words", [["1k:3s"], ["1k..1k:3s"], ["1..2:3s,3:1s"], [""]])
def test_other_steps_are_no_ramp(words):
    with pytest.raises(UsageError, match=r"--ramp: '.*' is not RATE\.\.RATE"):
        options_of(["--ramp", *words], "q0")


def test_the_file_tells_the_size(tmp_path):
    body = tmp_path / "body"
    body.write_bytes(b"y" * 70)
    plan = plan_of("--body-file", str(body))
    assert summary_config(plan, tmp_path)["body_size"] == 70
    assert "body-size=100" not in contract_arguments(plan)
    assert "body-size=70" in contract_arguments(replace(plan, operation="receive"))


def test_settlement_is_asked_of_any_implementation():
    arguments = contract_arguments(plan_of("--settlement"))
    assert arguments[-2:] == ["record-format=v2", "settlement=1"]
    # Only our arrows have formats to choose from; lines of other arrows tell their format.
    for operation in ("send", "receive"):
        plan = plan_of("--settlement", impl=FOREIGN, operation=operation)
        assert contract_arguments(plan)[-1] == "settlement=1"
        assert plan.record_format is None


def test_a_pair_of_ours_has_fine_times_unless_asked_otherwise():
    for words, expected in (([], ("us", "sleep")), (["--time-unit", "ms"], ("ms", None)),
                            (["--time-unit", "ns"], ("ns", None))):  # fmt: skip
        options = options_of(words, "q0").in_fine_units()
        assert (options.time_unit, options.pacing) == expected
    fine = replace(plan_of(), options=options_of([], "q0").in_fine_units())
    assert contract_arguments(fine)[-2:] == ["time-unit=us", "pacing=sleep"]
    receiver = replace(fine, operation="receive")
    assert contract_arguments(receiver)[-1] == "time-unit=us"


def test_presettled_messages_have_no_settlement():
    with pytest.raises(UsageError, match="--presettled does not go with --settlement: no "):
        plan_of("--settlement", "--presettled")


def test_keys_that_only_a_pair_passes():
    pair = {"run_start": 1472344673324, "clock_base": 1472000000000000000, "drain_timeout": 30}
    receiver = plan_of(operation="receive", **pair)
    arguments = contract_arguments(receiver, control_fd=5)
    clock = "clock-base=1472000000000000000"
    assert arguments[-3:] == [clock, "run-start=1472344673324", "control-fd=5"]
    sender = plan_of(**pair)
    assert contract_arguments(sender) == [*UPSTREAM_DEFAULTS, clock]
    foreign = plan_of(operation="receive", impl=FOREIGN, **pair)
    assert contract_arguments(foreign)[-1] == "set-message-id=0"
    controlled = [plan.controlled for plan in (receiver, sender, foreign, plan_of())]
    assert controlled == [True, True, False, False]
    config = summary_config(sender, Path("out"))
    assert (config["run_start"], config["drain_timeout"]) == (1472344673324, 30)


def test_receivers_are_not_asked_for_settlement():
    arguments = contract_arguments(plan_of("--settlement", operation="receive"))
    assert "record-format=v2" in arguments
    assert "settlement=1" not in arguments


def test_only_senders_presettle():
    assert "presettled=1" not in contract_arguments(plan_of("--presettled", operation="receive"))
    receiver = plan_of("--presettled", operation="receive", impl=FOREIGN)
    assert contract_arguments(receiver)[2] == "operation=receive"


def test_run_id_and_report_go_only_to_ours():
    report = Path("/tmp/report")
    assert contract_arguments(plan_of(run_id="ab"), None, report)[-2:] == [
        "run-id=ab", "report-file=/tmp/report",
    ]  # fmt: skip
    assert contract_arguments(plan_of(impl=FOREIGN), None, report) == UPSTREAM_DEFAULTS


def test_our_password_goes_through_a_descriptor():
    arguments = contract_arguments(plan_of(url="amqp://u:secret@h/q"), password_fd=7)
    assert "password-fd=7" in arguments
    assert "secret" not in " ".join(arguments)


def test_foreign_passwords_need_consent():
    url = "amqp://u:secret@h/q"
    with pytest.raises(UsageError, match="--expose-password") as caught:
        plan_of(url=url, impl=FOREIGN)
    assert "secret" not in str(caught.value)
    arguments = contract_arguments(plan_of("--expose-password", url=url, impl=FOREIGN))
    assert arguments[-2:] == ["username=u", "password=secret"]


def test_password_file(tmp_path):
    file = tmp_path / "password"
    file.write_text("secret words\nmore\n")
    assert options_of(["--password-file", str(file)], "q").password == "secret words"
    with pytest.raises(UsageError, match="both give a password"):
        options_of(["--password-file", str(file)], "amqp://u:p@h/q")
    with pytest.raises(UsageError, match=r"--password-file: .*No such file"):
        options_of(["--password-file", str(tmp_path / "absent")], "q")


@pytest.mark.parametrize(
    ("words", "url", "message"),
    [
        (["--settlement", "--record-format", "v3"], "q", "--settlement needs --record-format v2"),
        (["--cert", "c"], "amqps://h/q", "--cert needs --key"),
        (["--key", "k"], "amqps://h/q", "--key needs --cert"),
        (["--cert", "c", "--key", "k"], "amqp://h/q", "--cert needs an amqps URL"),
        (["--trust-store", "t"], "amqp://h/q", "--trust-store needs an amqps URL"),
        (["--tls-insecure"], "q", "--tls-insecure needs an amqps URL"),
        (["--username", "u"], "amqp://v@h/q", "both name a user"),
    ],
)
def test_contradictions(words, url, message):
    with pytest.raises(UsageError, match=message):
        plan_of(*words, url=url)


SHAPES = [
    ["--receive-delay", "5ms"], ["--pause-receivers", "10s:5s"], ["--release", "1%"],
    ["--reject", "0.1%"], ["--modify", "1%:failed"],
]  # fmt: skip


@pytest.mark.parametrize("words", SHAPES)
@pytest.mark.parametrize("others", [["--streaming"], ["--transaction-size", "5"]])
def test_options_that_only_plain_receivers_have(words, others):
    with pytest.raises(UsageError, match=f"{words[0]} does not go with {others[0]}"):
        plan_of(*words, *others, operation="receive")


@pytest.mark.parametrize("words", SHAPES)
def test_shapes_of_receivers_are_of_amqp(words):
    with pytest.raises(UsageError, match=f"a csp URL does not go with {words[0]}"):
        plan_of(*words, url="csp://h/q", operation="receive")


@pytest.mark.parametrize("words", SHAPES[2:])
def test_nobody_sends_again_between_peers(words):
    plan_of(*words, operation="receive")
    with pytest.raises(UsageError, match=f"{words[0]} needs a URL of a server"):
        plan_of(*words, operation="receive", server=True, passive=True)
    assert contract_arguments(plan_of(*words)) == UPSTREAM_DEFAULTS
    assert f"{words[0][2:]}={words[1]}" in contract_arguments(plan_of(*words, operation="receive"))


def test_a_backlog_is_the_senders():
    words = ("--rate", "1k")
    assert "backlog=5" in contract_arguments(plan_of(*words, backlog=5))
    assert "backlog=5" not in contract_arguments(plan_of(*words, backlog=5, operation="receive"))
    with pytest.raises(UsageError, match="'foreign' does not support --backlog"):
        plan_of(*words, backlog=5, impl=FOREIGN)
    with pytest.raises(UsageError, match="a csp URL does not go with --backlog"):
        plan_of(*words, backlog=5, url="csp://h/q")


def test_an_asked_silence_is_no_fault():
    assert options_of([], "q").patience == 10
    assert options_of(["--receive-delay", "500ms"], "q").patience == 10.5
    assert options_of(["--pause-receivers", "1s:1m30s"], "q").patience == 100
    assert options_of(["--pause-receivers", "1s:1m30s", "--timeout", "0"], "q").patience == 0


@pytest.mark.parametrize("text", ["5s", "5s:", ":5s", "0s:5s", "5s:0", "1h:9999999999h", "1:2:3"])
def test_pauses_that_are_none(text):
    with pytest.raises(UsageError, match="--pause-receivers: "):
        options_of(["--pause-receivers", text], "q")


def test_unknown_scheme_is_ours_to_refuse_but_upstreams_to_take():
    with pytest.raises(UsageError, match="scheme must be amqp or amqps or csp, not 'tcp'"):
        plan_of(url="tcp://h/q")
    assert "scheme=tcp" in contract_arguments(plan_of(url="tcp://h/q", impl=FOREIGN))


def test_jms_arrows_have_a_default_port_of_their_own():
    jms = Implementation("activemq-artemis-jms", ("x",), client_only=True)
    assert "port=61616" in contract_arguments(plan_of(impl=jms))
    assert "port=1" in contract_arguments(plan_of(impl=jms, url="//h:1/q"))


def test_client_only_arrows_cannot_listen():
    jms = Implementation("qpid-jms", ("x",), client_only=True)
    with pytest.raises(UsageError, match="no server mode"):
        plan_of(impl=jms, operation="receive", server=True)


def test_config_has_upstreams_keys_first_and_no_secret():
    config = summary_config(plan_of(url="amqp://u:secret@h/q"), Path("/tmp/out"))
    assert list(config)[:18] == [
        "impl", "url", "output_dir", "timeout", "connection_mode", "channel_mode", "operation",
        "id", "host", "port", "path", "duration", "count", "rate", "body_size", "credit_window",
        "transaction_size", "durable",
    ]  # fmt: skip
    assert config["url"] == "amqp://u:***@h/q"
    assert "secret" not in str(config)
