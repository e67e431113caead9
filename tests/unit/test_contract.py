"""The three revisions of the arrow contract and every argument of each."""

from __future__ import annotations

import os

import pytest

from quiver_fast.contract import parse
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


def test_a_password_can_come_through_a_descriptor() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"s3cret\n")
    os.close(writing)
    assert parse(words(username="u", password_fd=str(reading))).password == "s3cret"


def test_the_rate_is_the_senders() -> None:
    assert parse(words(operation="receive", rate="5")).rate == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (words(colour="red", speed="1"), "unknown arguments: colour, speed"),
        ([*words(), "loose"], "unknown argument: loose"),
        (words(host=None), "missing argument: host"),
        (words(host=None, id=None), "missing arguments: id, host"),
        ([*words(), "host=b"], "host is given twice"),
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
        (words(settlement="1", rate="0"), "settlement=1 needs records with ids"),
        (words(settlement="1", presettled="1"), "presettled=1 leaves no settlement"),
        (words(presettled="1", transaction_size="1"), "presettled=1 and transactions"),
        (words(connection_mode="server", scheme="amqps"), "needs cert"),
        (words(cert="c.pem"), "need scheme=amqps"),
        (words(password="p"), "a password needs a username"),
        (words(username="u", password="p", password_fd="0"), "exclude each other"),
        (words(username="u", password_fd="999"), "cannot read a password"),
        (words(run_id="é"), "run-id must be ASCII"),
        (["a", "b"], "expected KEY=VALUE arguments or the 9 positional ones"),
    ],
)
def test_bad_arguments_are_named(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError, match="^.*" + message.replace("(", r"\(")) as caught:
        parse(arguments)
    assert caught.value.exit_code == 2
