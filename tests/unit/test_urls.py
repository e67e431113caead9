"""The one reader of URLs: users and hosts, and what is hidden of them."""

from __future__ import annotations

import itertools
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.errors import UsageError
from quiver_fast.urls import hide_user, split_url

NAME, PASSWORD = "zelda", "hunter2"

# Characters that a user's name or password cannot have as they are, and their codes.
UNFIT = {
    "#": "%23", "?": "%3F", "/": "%2F", "[": "%5B", "]": "%5D", " ": "%20", "\t": "%09",
    "\n": "%0A", "%_": "%25",
}  # fmt: skip
SCHEMES = ["amqp:", "amqps:", "csp:", "AMQP:", "tcp:", ""]
SERVERS = ["h", "h:5672", "localhost", "127.0.0.1:1", "[::1]:5672"]


@pytest.mark.parametrize(("character", "code"), UNFIT.items())
@pytest.mark.parametrize(
    "user",
    [
        "zelda:{}hunter2", "zelda:hunter2{}", "zelda:hun{}ter2", "zelda:12{}34", "zelda:{}",
        "zel{}da:hunter2", "zelda:hun@{}ter2", "zelda:1{}2@3{}hunter2", "zelda:1:2{}3",
    ],
)  # fmt: skip
def test_a_character_to_encode_is_named(character: str, code: str, user: str) -> None:
    wrong = user.format(character, character)
    for scheme, server in itertools.product(SCHEMES, SERVERS):
        with pytest.raises(UsageError, match="percent-encode it") as caught:
            split_url(f"{scheme}//{wrong}@{server}/q0")
        message = str(caught.value)
        assert code in message
        assert not any(part in message for part in (NAME, PASSWORD, "hun", "ter2", "12", "34"))


@pytest.mark.parametrize("text", ["zelda:12@h/q", "amqp:zelda:12@h/q", "amqp:/zelda:12@h/q"])
def test_a_user_without_slashes(text: str) -> None:
    with pytest.raises(UsageError, match="lacks the '//'") as caught:
        split_url(text)
    assert "zelda" not in str(caught.value)
    assert "12" not in str(caught.value)


@given(st.text(st.sampled_from(string.printable), min_size=1))
def test_a_password_is_read_whole_or_refused(password: str) -> None:
    try:
        parts = split_url(f"amqp://{NAME}:{password}@h/q0")
    except UsageError:
        return
    assert (parts.username, parts.host, parts.port, parts.rest) == (NAME, "h", None, "/q0")
    assert "%" in password or parts.password == password
    assert parts.shown == f"amqp://{NAME}:***@h/q0"


@pytest.mark.parametrize(
    ("text", "host", "rest"),
    [
        ("a@b", "", "a@b"),
        ("amqp:a@b", "", "a@b"),
        ("//h/a@b", "h", "/a@b"),
        ("//localhost:5672/a@b", "localhost", "/a@b"),
        ("//10.0.0.1:5672/urn:a@b", "10.0.0.1", "/urn:a@b"),
        ("//[::1]:5672/a@b", "::1", "/a@b"),
        ("//u:p@localhost:5672/a@b", "localhost", "/a@b"),
        ("//u@h/a@b", "h", "/a@b"),
        ("//H.example/q?x#y", "h.example", "/q?x#y"),
        ("//[fe80::1%eth0]/q", "fe80::1%eth0", "/q"),
        ("//[fe80::1%25eth0]/q", "fe80::1%eth0", "/q"),
        ("//[fe80::1%25]/q", "fe80::1%25", "/q"),
        ("//[fe80::1%7]/q", "fe80::1%7", "/q"),
    ],
)
def test_hosts_and_addresses(text: str, host: str, rest: str) -> None:
    parts = split_url(text)
    assert (parts.host, parts.rest) == (host, rest)


@pytest.mark.parametrize("text", ["//u:%ff@h/q", "//%c3:p@h/q"])
def test_an_encoded_name_or_password_is_text(text: str) -> None:
    with pytest.raises(UsageError, match="not percent-encoded UTF-8"):
        split_url(text)


@pytest.mark.parametrize("text", ["//u:p@h:port/q", "//u:p@h:99999/q", "//u:p@[::1/q", "//h:port"])
def test_no_host_and_port_is_quoted(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        split_url(text)
    assert not any(part in str(caught.value) for part in ("u:", "99999", "'port'"))


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("no 'amqp://u:p w@h/q'", "no 'amqp://***@h/q'"),
        ("no '//u:p/w#@h/q'", "no '//***@h/q'"),
        ("connect=u:p@h", "connect=***@h"),
        ("x: 'a@b'", "x: 'a@b'"),
        ("//h:1/q is wrong", "//h:1/q is wrong"),
    ],
)
def test_messages_hide_users(message: str, shown: str) -> None:
    assert hide_user(message) == shown
