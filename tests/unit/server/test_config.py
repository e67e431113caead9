"""The server contract: what is accepted, what it means, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.errors import UsageError
from quiver_fast.options.option import NUMBER
from quiver_fast.options.server import SERVER_OPTIONS
from quiver_fast.server import config as config_module
from quiver_fast.server.config import KNOWN, ServerConfig, parse, usage

NUMBERS = {option.key: option for option in SERVER_OPTIONS if option.kind == NUMBER}
REQUIRED = ["host=h", "port=1", "path=q", "ready-file=r"]


def config(*words: str) -> ServerConfig:
    return parse([*REQUIRED, *words])


def test_required_alone() -> None:
    found = config()
    assert (found.host, found.port, found.ready_file) == ("h", 1, "r")
    assert found.addresses == ["q"]
    assert not found.pinned
    assert found.user is None
    assert found.scheme == "amqp"


@pytest.mark.parametrize("missing", ["host", "path"])
def test_each_required_key(missing: str) -> None:
    with pytest.raises(UsageError, match=f"missing argument: {missing}"):
        parse([word for word in REQUIRED if not word.startswith(missing)])


def test_port_and_ready_file_have_defaults() -> None:
    found = parse(["host=h", "path=q"])
    assert (found.port, found.ready_file) == (5672, None)


@pytest.mark.parametrize("key", sorted(KNOWN - set(config_module.REQUIRED) - config_module.GUARDS))
def test_an_optional_key_with_an_empty_value_is_as_absent(key: str) -> None:
    given = [word for word in REQUIRED if not word.startswith(f"{key}=")]
    assert vars(parse([*given, f"{key}="])) == vars(parse(given))


@pytest.mark.parametrize(
    "key",
    [
        "user", "password", "password-fd", "trust-store", "sasl-mechanisms", "connect-user",
        "connect-password", "connect-password-fd", "connect-trust-store",
    ],
)  # fmt: skip
def test_an_unset_variable_opens_no_door(key: str) -> None:
    with pytest.raises(UsageError, match=f"{key}: empty"):
        config(f"{key}=")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["sasl-mechanisms=SCRAM-SHA-256"], "SCRAM-SHA-256 needs user"),
        (["sasl-mechanisms=PLAIN"], "PLAIN needs user"),
        (["sasl-mechanisms=ANONYMOUS PLAIN"], "PLAIN needs user"),
        (["sasl-mechanisms=EXTERNAL"], "EXTERNAL needs trust-store"),
        (["sasl-mechanisms=ANONYMOUS", "user=u", "password=p"], "nobody is ANONYMOUS"),
        (["sasl-mechanisms=SCRAM-SHA-1", "user=u", "password=p"], "'SCRAM-SHA-1' is none of"),
        (["sasl-mechanisms=  "], "names none"),
    ],
)
def test_mechanisms_that_the_server_cannot_offer(words: list[str], why: str) -> None:
    """Such a list could offer nothing, and let in whoever skips SASL."""
    with pytest.raises(UsageError, match=why):
        config(*words)


def test_an_empty_password_of_a_descriptor(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("\n")
    with open(tmp_path / "password") as stream:
        fd = os.dup(stream.fileno())
        with pytest.raises(UsageError, match="the password is empty"):
            config("user=u", f"password-fd={fd}")


def test_a_server_may_begin_without_a_queue_and_on_every_address() -> None:
    found = parse(["host=", "path="])
    assert (found.host, found.addresses) == ("", [])


def test_unknown_keys_are_told_and_ignored() -> None:
    assert config("max-speed=1", "credit=7", "colour=").unknown == ("max-speed",)
    assert config("max-speed=1", "credit=7").credit == 7


@pytest.mark.parametrize(("scheme", "port"), [("amqp", 5672), ("amqps", 5671)])
def test_the_schemes_default_port(scheme: str, port: int) -> None:
    words = ["host=h", "port=-", "path=q", "ready-file=-", f"scheme={scheme}", "cert=c", "key=k"]
    if scheme == "amqp":
        words = words[:-2]
    found = parse(words)
    assert (found.port, found.ready_file) == (port, None)


@pytest.mark.parametrize(
    ("word", "addresses"),
    [
        ("addresses=,", ["q"]),
        ("addresses=a", ["q", "a"]),
        ("addresses=a,b,,c", ["q", "a", "b", "c"]),
    ],
)
def test_pinned_addresses(word: str, addresses: list[str]) -> None:
    found = config(word)
    assert found.pinned
    assert found.addresses == addresses


@given(key=st.sampled_from(sorted(NUMBERS)), value=st.integers(-10, 2**51))
def test_numbers_have_bounds(key: str, value: int) -> None:
    least, most = NUMBERS[key].least, NUMBERS[key].most
    # Remote queues are files, so their port needs a store; only they forget by age.
    needs = {"retain": ["scheme=csp"], "connect-count": ["connect=h"]}
    words = [f"{key}={value}", "store=s", *needs.get(key, [])]
    if least <= value <= most:
        assert getattr(config(*words), key.replace("-", "_")) == value
    else:
        with pytest.raises(UsageError, match=key):
            config(*words)


@pytest.mark.parametrize("key", sorted(KNOWN))
def test_every_key_is_in_the_usage(key: str) -> None:
    assert f"{key}=" in usage()


@pytest.mark.parametrize(
    ("words", "about"),
    [
        (["scheme=amqps"], "cert"),
        (["cert=c", "key=k"], "amqps"),
        (["trust-store=t"], "amqps"),
        (["user=u"], "password"),
        (["password=p"], "user"),
        (["quiet=2"], "quiet"),
        (["host=again"], "host"),
        (["credit=1.5"], "credit"),
        (["nonsense"], "nonsense"),
        (["csp-port=7"], "csp-port needs store"),
        (
            ["csp-port=7", "store=s", "user=u", "password=p"],
            "csp-port does not go with user: it has no users and no TLS",
        ),
        (
            ["csp-port=7", "store=s", "scheme=amqps", "cert=c", "key=k"],
            "csp-port does not go with scheme=amqps: it has no users and no TLS",
        ),
        (
            ["csp-port=7", "store=s", "scheme=amqps", "cert=c", "key=k", "trust-store=t"],
            "csp-port does not go with trust-store: it has no users and no TLS",
        ),
        (["retain=1", "store=s"], "retain needs scheme=csp"),
        (["retain=1", "store=s", "csp-port=7"], "retain needs scheme=csp"),
    ],
)
def test_refused(words: list[str], about: str) -> None:
    with pytest.raises(UsageError, match=about):
        config(*words)


@pytest.mark.parametrize(
    ("word", "needed"),
    [
        ("cert=c", "scheme=amqps"),
        ("key=k", "scheme=amqps"),
        ("trust-store=t", "scheme=amqps"),
        ("allow-old-tls=1", "scheme=amqps"),
        ("allow-insecure-plain=1", "user"),
        ("durability=group", "store"),
        ("roll-size=65536", "store"),
        ("verify=1", "store"),
        ("csp-port=7", "store"),
        ("no-create=1", "csp-port"),
        ("roll=FAST_HOURLY", "csp-port"),
        ("connect-count=2", "connect"),
        ("connect-user=u", "connect"),
        ("connect-trust-store=t", "connect=amqps://HOST"),
        ("connect-tls-verify=0", "connect=amqps://HOST"),
        ("metrics-host=h", "metrics-port"),
    ],
)
def test_a_key_without_effect(word: str, needed: str) -> None:
    key = word.partition("=")[0]
    with pytest.raises(UsageError, match=f"^{key} needs {needed}"):
        config(word)


@pytest.mark.parametrize(
    "word",
    [
        "allow-old-tls=0", "allow-insecure-plain=0", "durability=none", "verify=0", "no-create=0",
        "connect-count=1", "connect-tls-verify=1", "metrics-host=127.0.0.1", "csp-port=0",
    ],
)  # fmt: skip
def test_a_default_needs_nothing(word: str) -> None:
    assert vars(config(word)) == vars(config())


@pytest.mark.parametrize("words", [["scheme=csp"], ["csp-port=7", "store=s"]])
def test_remote_queues_have_their_keys(words: list[str]) -> None:
    found = config(*words, "no-create=1", "roll=FAST_HOURLY")
    assert (found.no_create, found.roll) == (True, "FAST_HOURLY")


def test_keys_of_a_server_with_tls_to_connect_to() -> None:
    tls = ["connect-trust-store=t", "connect-tls-verify=0"]
    assert config("connect=a,amqps://b", *tls).connect_trust_store == "t"
    with pytest.raises(UsageError, match="needs connect=amqps"):
        config("connect=a,amqp://b", *tls)


@pytest.mark.parametrize("key", ["password-file", "connect-password-file", "username"])
@pytest.mark.parametrize("value", ["", "x"])
@pytest.mark.parametrize("quiet", [0, 1])
def test_flags_of_the_command_that_would_serve_everybody(key: str, value: str, quiet: int) -> None:
    """Unknown keys are ignored, without a word if the server is quiet."""
    with pytest.raises(UsageError, match=f"^{key}"):
        config(f"{key}={value}", f"quiet={quiet}")


@pytest.mark.parametrize("names", ["a", "a;b", "CN=a,O=b;c", r"CN=a\\,b", "*"])
def test_trunks(names: str) -> None:
    assert config(f"trunks={names}").trunks == frozenset(names.split(";"))


@pytest.mark.parametrize("names", ["a,b", "a;b,c", ","])
def test_trunks_between_commas(names: str) -> None:
    """A comma may be in a certificate's subject alone."""
    with pytest.raises(UsageError, match="separated by ';'"):
        config(f"trunks={names}")


def test_mechanisms() -> None:
    guarded = ["user=u", "password=p", "trust-store=t", "scheme=amqps", "cert=c", "key=k"]
    found = config("sasl-mechanisms=plain external", *guarded)
    assert found.sasl_mechanisms == ["PLAIN", "EXTERNAL"]
