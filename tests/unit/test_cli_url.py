import pytest

from quiver_fast.cli.shared.url import parse_url
from quiver_fast.errors import UsageError


@pytest.mark.parametrize(
    ("text", "scheme", "host", "port", "path"),
    [
        ("queue0", "amqp", "localhost", 5672, "queue0"),
        ("/queue0", "amqp", "localhost", 5672, "queue0"),
        ("//localhost/queue0", "amqp", "localhost", 5672, "queue0"),
        ("amqp://example.net:10000/jobs", "amqp", "example.net", 10000, "jobs"),
        ("amqps://10.0.0.10/jobs/alpha", "amqps", "10.0.0.10", 5671, "jobs/alpha"),
        ("amqps://10.0.0.10:5672/jobs", "amqps", "10.0.0.10", 5672, "jobs"),
        ("amqp://[::1]:7/q", "amqp", "::1", 7, "q"),
        ("amqp://h//q", "amqp", "h", 5672, "/q"),
        ("amqp:queue0", "amqp", "localhost", 5672, "queue0"),
        ("amqp://h/q?x=1#y", "amqp", "h", 5672, "q?x=1#y"),
        ("csp://h/q", "csp", "h", 9876, "q"),
        ("tcp://h/q", "tcp", "h", 5672, "q"),
    ],
)
def test_parts(text, scheme, host, port, path):
    url = parse_url(text)
    assert (url.scheme, url.host, url.port, url.path) == (scheme, host, port, path)
    assert url.shown == text
    assert url.username is url.password is None


def test_credentials_are_decoded_and_redacted():
    url = parse_url("amqps://us%40er:p%2Fss@10.0.0.10/jobs")
    assert (url.username, url.password) == ("us@er", "p/ss")
    assert url.shown == "amqps://us%40er:***@10.0.0.10/jobs"
    assert "p/ss" not in repr(url)


def test_user_without_password_is_shown_as_given():
    url = parse_url("amqp://user@h/q")
    assert (url.username, url.password, url.shown) == ("user", None, "amqp://user@h/q")


@pytest.mark.parametrize(
    "text", ["", "amqp://h", "amqp://h/", "amqp://h:x/q", "amqp://h:99999/q", "amqp://[::1/q"]
)
def test_malformed(text):
    with pytest.raises(UsageError):
        parse_url(text)


@pytest.mark.parametrize("zone", ["%eth0", "%25eth0"])
def test_both_forms_of_a_zone(zone):
    """RFC 9844 and RFC 6874."""
    url = parse_url(f"amqp://[fe80::1{zone}]:7/q")
    assert (url.host, url.port) == ("fe80::1%eth0", 7)


def test_an_address_given_apart_does_not_excuse_the_url():
    with pytest.raises(UsageError, match="percent-encode"):
        parse_url("amqp://user:12/3@h", address="q")
    assert parse_url("amqp://user:12%2F3@h/", address="a@b").path == "a@b"


def test_a_malformed_url_does_not_tell_its_password():
    with pytest.raises(UsageError) as caught:
        parse_url("amqp://user:secret@h:secret2/q")
    assert "secret" not in str(caught.value)
