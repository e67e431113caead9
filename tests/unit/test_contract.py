"""The three revisions of the arrow contract and every argument of each."""

from __future__ import annotations

import os

import pytest

from quiver_fast.arrow.contract import KNOWN, REQUIRED, parse
from quiver_fast.errors import UsageError

BASE = {
    "connection-mode": "client",
    "channel-mode": "active",
    "operation": "send",
    "id": "arrow-1",
    "host": "example.net",
    "port": "-",
    "path": "jobs",
}


def words(**changes: str | None) -> list[str]:
    values: dict[str, str | None] = dict(BASE)
    values.update({key.replace("_", "-"): value for key, value in changes.items()})
    return [f"{key}={value}" for key, value in values.items() if value is not None]


def test_v1_is_nine_positional_arguments() -> None:
    config = parse(["out", "server", "receive", "h", "5673", "q=1", "100", "10", "50"])
    assert (config.revision, config.record_format) == ("v1", "v1")
    assert config.server
    assert config.passive
    assert not config.sends
    assert (config.host, config.port, config.path) == ("h", 5673, "q=1")
    assert (config.count, config.body_size, config.credit_window) == (100, 10, 50)


def test_v1_client_is_active_with_default_port() -> None:
    config = parse(["out", "client", "send", "h", "-", "q", "100", "10", "50"])
    assert not config.server
    assert not config.passive
    assert config.port == 5672


@pytest.mark.parametrize(
    ("changes", "revision"),
    [
        ({"settlement": "0"}, "v2"),
        ({"settlement": "1"}, "v2"),
        ({"set_message_id": "0"}, "v3"),
        ({"rate": "0"}, "v3"),
        ({"rate": "0", "settlement": "0"}, "v3"),
        ({}, "v3"),
    ],
)
def test_the_arguments_tell_the_revision(changes: dict[str, str], revision: str) -> None:
    assert parse(words(**changes)).revision == revision


def test_record_format_overrides_the_revision() -> None:
    config = parse(words(set_message_id="1", record_format="v2", settlement="1"))
    assert (config.revision, config.record_format, config.with_ids) == ("v3", "v2", True)


def test_unknown_keys_are_told_and_ignored() -> None:
    config = parse([*words(colour="red", rate="5"), "speed=1", "colour=blue", "size="])
    assert config.unknown == ("colour", "speed")
    assert config.rate == 5
    assert parse(words()).unknown == ()


# Every key of the three revisions, and ours; those that must have a value are not among them.
OPTIONAL = sorted(KNOWN - set(REQUIRED))


@pytest.mark.parametrize("key", OPTIONAL)
def test_an_optional_key_with_an_empty_value_is_as_absent(key: str) -> None:
    given = [word for word in words() if not word.startswith(f"{key}=")]
    # Settlement is a key of v2 alone: a wrapper that passes it speaks v2, with a value or not.
    format_of_both = [] if key == "record-format" else ["record-format=v3"]
    empty = vars(parse([*given, *format_of_both, f"{key}="]))
    assert empty.pop("revision") == ("v2" if key == "settlement" else "v3")
    absent = vars(parse([*given, *format_of_both]))
    assert empty.items() <= absent.items()


def test_all_optional_keys_at_once_may_be_empty() -> None:
    required = [word for word in words() if word.partition("=")[0] in REQUIRED]
    empty = [f"{key}=" for key in OPTIONAL]
    config = parse([*empty, *required])
    assert (config.port, config.scheme, config.record_format) == (5672, "amqp", "v3")
    assert config.id == f"quiver-send-{os.getpid()}"


@pytest.mark.parametrize("key", ["connection-mode", "channel-mode", "operation"])
def test_a_required_choice_may_not_be_empty(key: str) -> None:
    with pytest.raises(UsageError, match=f"{key} must be"):
        parse(words(**{key: ""}))


def test_a_value_may_end_in_an_equals_sign() -> None:
    assert parse(words(username="u", password="cGFzcw==")).password == "cGFzcw=="


def test_v1_takes_empty_words_for_the_defaults() -> None:
    config = parse(["", "client", "send", "h", "", "q", "", "", ""])
    assert (config.port, config.count, config.body_size, config.credit_window) == (
        5672, 0, 100, 1000
    )  # fmt: skip


@pytest.mark.parametrize(("scheme", "port"), [("amqp", 5672), ("amqps", 5671)])
def test_a_hyphen_is_the_default_port_of_the_scheme(scheme: str, port: int) -> None:
    assert parse(words(scheme=scheme)).port == port


def test_every_number_arrives() -> None:
    config = parse(
        words(
            duration="7", count="5000000000", rate="1000000", body_size="1", credit_window="2",
            transaction_size="3", max_frame_size="1024", idle_timeout="9",
        )
    )  # fmt: skip
    assert (config.duration, config.count, config.rate) == (7, 5_000_000_000, 1_000_000)
    assert (config.body_size, config.credit_window, config.transaction_size) == (1, 2, 3)
    assert (config.max_frame_size, config.idle_timeout) == (1024, 9)


def test_defaults_are_the_wrappers_defaults() -> None:
    config = parse(words())
    assert (config.duration, config.count, config.rate, config.body_size) == (0, 0, 0, 100)
    assert (config.credit_window, config.transaction_size) == (1000, 0)
    assert not any((config.durable, config.set_message_id, config.settlement, config.presettled))
    assert config.tls_verify
    assert (config.username, config.password, config.sasl_mechanisms) == (None, None, None)


def test_switches_and_texts_arrive() -> None:
    config = parse(
        words(
            durable="1", set_message_id="1", scheme="amqps", username="u", password="p=w",
            cert="c.pem", key="k.pem", trust_store="t.pem", tls_verify="0",
            sasl_mechanisms="plain scram-sha-256", run_id="ab12", time_unit="us",
        )
    )  # fmt: skip
    assert config.durable
    assert config.set_message_id
    assert not config.tls_verify
    assert (config.username, config.password) == ("u", "p=w")
    assert (config.cert, config.key, config.trust_store) == ("c.pem", "k.pem", "t.pem")
    assert config.sasl_mechanisms == ["PLAIN", "SCRAM-SHA-256"]
    assert (config.id_prefix, config.time_unit) == ("ab12-", "us")


def test_shares_are_in_millionths() -> None:
    config = parse(words(release="12.5%", reject="0.0001%"))
    assert (config.release, config.reject, config.is_shaped) == (125_000, 1, True)
    assert not parse(words(release="0%")).is_shaped


def test_modified_messages_have_a_share_and_fields() -> None:
    config = parse(words(modify="1%:undeliverable:x-why=a=b:x-n="))
    assert config.modify == (10_000, False, True, (("x-why", "a=b"), ("x-n", "")))
    assert config.is_shaped
    assert parse(words(modify="1%:failed")).modify == (10_000, True, False, ())
    assert not parse(words()).is_shaped


def test_a_password_can_come_through_a_descriptor() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"s3cret\n")
    os.close(writing)
    assert parse(words(username="u", password_fd=str(reading))).password == "s3cret"


def test_the_rate_is_the_senders() -> None:
    assert parse(words(operation="receive", rate="5")).rate == 0
    assert parse(words(operation="receive", rate_steps="5:1s")).rate_steps == ()
    assert parse(words(rate_steps="5:1s,5..9:2m")).rate_steps == ((5, 5, 1), (5, 9, 120))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*words(), "loose"], "'loose' is not KEY=VALUE"),
        (words(host=None), "missing argument: host"),
        (words(host=None, path=None), "missing arguments: host, path"),
        ([*words(), "host=b"], "host is given twice"),
        (words(rate="5", rate_steps="5:1s"), "rate does not go with rate-steps"),
        (words(rate_steps="5"), "rate-steps: '5' is not RATE:DURATION"),
        (words(operation="sned"), "operation must be send or receive, not 'sned'"),
        (words(connection_mode="both"), "connection-mode must be client or server"),
        (words(channel_mode=""), "channel-mode must be active or passive"),
        (words(scheme="http"), "scheme must be amqp or amqps"),
        (words(count="-1"), "count must be a whole number"),
        (words(count="1.5"), "count must be a whole number"),
        (words(count="٣"), "count must be a whole number"),
        (words(credit_window="0"), "credit-window must be a whole number from 1"),
        (words(durable="yes"), "durable must be 0 or 1"),
        (words(port="0"), "port must be 1 to 65535"),
        (words(port="amqp"), "port must be 1 to 65535"),
        (words(settlement="1", rate="0"), "settlement needs record-format=v2"),
        (words(settlement="1", presettled="1"), "presettled does not go with settlement: no"),
        (
            words(presettled="1", transaction_size="1"),
            "presettled does not go with transaction-size",
        ),
        (words(connection_mode="server", scheme="amqps"), "needs cert"),
        (words(cert="c.pem"), "cert needs scheme=amqps"),
        (words(password="p"), "password needs username"),
        (
            words(username="u", password="p", password_fd="0"),
            "password does not go with password-fd",
        ),
        (words(username="u", password_fd="999"), "cannot read a password"),
        (words(receive_delay="5ms"), "receive-delay must be a whole number"),
        (words(receive_delay="5", streaming="1"), "receive-delay does not go with streaming"),
        (words(release="0.1%", transaction_size="5"), "release does not go with transaction-size"),
        (words(release="1"), "release: '1' is not a share, such as 1% or 0.1%"),
        (words(reject="0.00001%"), "reject: '0.00001%' is not a share"),
        (words(release="90%", reject="10%"), "release and reject: less than 100% together"),
        (words(release="90%", modify="10%"), "release and modify: less than 100% together"),
        (words(modify="100%"), "modify: less than 100%"),
        (words(modify="1%:bad"), "modify: 'bad' is not failed, undeliverable or KEY=VALUE"),
        (words(modify="1%:"), "modify: '' is not failed, undeliverable or KEY=VALUE"),
        (words(modify=":failed"), "modify: ':failed' is not a share"),
        (words(modify="1%:é=1"), "modify: 'é=1' is not failed"),
        (words(modify="1%", connection_mode="server"), "modify needs connection-mode=client"),
        (words(release="1%", connection_mode="server"), "release needs connection-mode=client: a"),
        (words(pause="5s"), "pause: '5s' is not RECEIVE:PAUSE"),
        (words(backlog="5"), "backlog needs rate or rate-steps"),
        (words(backlog="5", rate="1", count="9"), "backlog does not go with count"),
        (words(run_id="é"), "run-id must be ASCII"),
        (["a", "b"], "expected KEY=VALUE arguments or the 9 positional ones"),
    ],
)
def test_bad_arguments_are_named(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError, match="^.*" + message.replace("(", r"\(")) as caught:
        parse(arguments)
    assert caught.value.exit_code == 2
