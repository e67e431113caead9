"""What the launchers write for their brokers, and what they refuse."""

import base64
import hashlib
import json
import re
import socket
import threading
import xml.etree.ElementTree as ElementTree

import pytest

from quiver_fast.brokers import artemis, launcher, rabbitmq, skrouterd
from quiver_fast.brokers.probe import accepts_amqp
from quiver_fast.errors import QuiverError, UsageError
from quiver_fast.server.config import parse

BASE = ("host=h", "port=1", "path=q0", "ready-file=-")
TLS = ("scheme=amqps", "cert=c.pem", "key=k.pem")


def config_of(*words):
    return parse([*BASE, *words])


@pytest.mark.parametrize(
    "word", ["store=d", "addresses=a", "queue-limit=65536", "sasl-mechanisms=PLAIN", "verify=1"]
)
def test_what_only_our_server_does_is_refused(word, capsys):
    assert launcher.main(skrouterd.BROKER, [*BASE, word]) == 2
    error = capsys.readouterr().err
    assert error.splitlines() == [
        f"quiver-server-skrouterd: error: {skrouterd.BROKER.product} cannot be given "
        f"{word.split('=')[0]} by this launcher"
    ]


@pytest.mark.parametrize(
    "words",
    [
        ["durability=none", "retain=0", "csp-port=0"],
        ["verify=0", "no-create=0"],
        ["store=", "user="],
    ],
)
def test_what_asks_for_nothing_is_taken(words):
    assert launcher._parse(skrouterd.BROKER, [*BASE, *words]).unknown == ()


def test_an_unknown_key_is_a_warning(capsys, monkeypatch, tmp_path):
    """The launcher goes on to the router, which is not here."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert launcher.main(skrouterd.BROKER, [*BASE, "colour=red", "key-password=secret"]) == 1
    program = "quiver-server-skrouterd"
    assert capsys.readouterr().err.splitlines() == [
        f"{program}: warning: unknown arguments ignored: colour, key-password",
        f"{program}: error: {skrouterd.BROKER.unavailable()}",
    ]


def test_without_a_queue(capsys):
    words = [word for word in BASE if not word.startswith("path")]
    assert launcher.main(skrouterd.BROKER, [*words, "path="]) == 2
    assert "path must name a queue" in capsys.readouterr().err


@pytest.mark.parametrize("module", [artemis, rabbitmq, skrouterd])
def test_a_broker_that_is_not_here_says_so_in_one_line(module, capsys, monkeypatch, tmp_path):
    for name in ("PATH", "ARTEMIS_HOME", "RABBITMQ_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    assert module.start([]) == 0
    told = capsys.readouterr().out.splitlines()
    reason = module.BROKER.unavailable()
    assert told[-1] == f"Unavailable: {reason}"
    assert module.start(list(BASE)) == 1
    program = f"quiver-server-{module.BROKER.name}"
    assert capsys.readouterr().err.splitlines() == [f"{program}: error: {reason}"]


@pytest.mark.parametrize("module", [artemis, rabbitmq, skrouterd])
def test_help(module, capsys):
    assert module.start(["--help"]) == 0
    assert set(re.findall(r"\b([a-z-]+)=", capsys.readouterr().out)) == set(launcher.KEYS)


def test_rabbitmq_users_and_queue():
    definitions = rabbitmq._definitions(config_of("user=ü", "password=geheim"))
    [user] = definitions["users"]
    salted = base64.b64decode(user["password_hash"])
    assert user["name"] == "ü"
    # rabbit_password_hashing_sha256: four bytes of salt before what is hashed with it.
    assert salted[4:] == hashlib.sha256(salted[:4] + b"geheim").digest()
    assert [queue["name"] for queue in definitions["queues"]] == ["q0"]
    assert rabbitmq._definitions(config_of())["users"][0]["name"] == "guest"


def test_rabbitmq_lets_nobody_in_without_a_name_where_there_is_a_user(tmp_path):
    file = tmp_path / "definitions"
    assert "{default_user, none}" in rabbitmq._configuration(
        config_of("user=u", "password=p"), file
    )
    assert f"{{default_user, {rabbitmq._text('guest')}}}" in rabbitmq._configuration(
        config_of(), file
    )


def test_rabbitmq_listens_with_tls_or_without(tmp_path):
    plain = rabbitmq._configuration(config_of(), tmp_path)
    assert "{tcp_listeners, [{[104], 1}]}, {ssl_listeners, []}" in plain
    secure = rabbitmq._configuration(config_of(*TLS, "trust-store=t"), tmp_path)
    assert "{tcp_listeners, []}, {ssl_listeners, [{[104], 1}]}" in secure
    assert "{fail_if_no_peer_cert, true}" in secure
    assert "verify" not in rabbitmq._configuration(config_of(*TLS), tmp_path)


CREATED = """<configuration><core>
<acceptors>
  <acceptor name="artemis">tcp://0.0.0.0:61616</acceptor>
  <acceptor name="amqp">tcp://0.0.0.0:5672?protocols=AMQP</acceptor>
</acceptors>
<address-settings><address-setting match="#"><x/></address-setting></address-settings>
<addresses><address name="DLQ"/></addresses>
</core></configuration>"""


def test_artemis_has_our_acceptor_alone_and_the_queue(tmp_path):
    acceptor = artemis._acceptor(config_of(), tmp_path)
    text = artemis._configuration(CREATED, acceptor, 'a "b" & <c>')
    core = ElementTree.fromstring(text)[0]
    assert [one.text for one in core.find("acceptors")] == [acceptor]
    assert acceptor.startswith("tcp://h:1?protocols=AMQP")
    address, other = core.find("addresses")
    assert (address.get("name"), other.get("name")) == ('a "b" & <c>', "DLQ")
    assert address.find("anycast/queue").get("name") == 'a "b" & <c>'
    settings = core.find("address-settings/address-setting")
    assert settings.find("default-queue-routing-type").text == "ANYCAST"


def test_artemis_of_another_layout():
    with pytest.raises(QuiverError, match=r"broker\.xml without <addresses>"):
        artemis._configuration(CREATED.replace("<addresses>", "<other>"), "tcp://h:1", "q")


def test_artemis_passwords(tmp_path):
    assert artemis._property("a=\\ü😀") == "\\u0061\\u003d\\u005c\\u00fc\\ud83d\\ude00"
    with pytest.raises(UsageError, match=r"begins with ENC\("):
        artemis.BROKER.prepare(config_of("user=u", "password=ENC(x)"), tmp_path)


def test_skrouterd_configuration(tmp_path):
    config = config_of(*TLS, "trust-store=t.pem")
    [daemon] = skrouterd.BROKER.prepare(config, tmp_path)
    entities = json.loads((tmp_path / "skrouterd.json").read_text())
    found = dict(entities)
    assert daemon.command[1:] == ["--conf", str(tmp_path / "skrouterd.json")]
    assert found["address"] == {"prefix": "q0", "distribution": "balanced"}
    assert found["sslProfile"] == {
        "name": "server", "certFile": "c.pem", "privateKeyFile": "k.pem", "caCertFile": "t.pem",
    }  # fmt: skip
    assert found["listener"]["authenticatePeer"] is True
    assert found["listener"]["saslMechanisms"] == "EXTERNAL"
    plain = dict(skrouterd._entities(config_of()))
    assert "sslProfile" not in plain
    assert plain["listener"]["saslMechanisms"] == "ANONYMOUS"


def test_skrouterd_takes_no_passwords(tmp_path):
    with pytest.raises(UsageError, match="cannot be given user"):
        skrouterd.BROKER.prepare(config_of("user=u", "password=p"), tmp_path)


@pytest.mark.parametrize(
    ("answer", "accepts"), [(b"AMQP\x03\x01\x00\x00", True), (b"HTTP/1.1", False), (b"AM", False)]
)
def test_the_probe_wants_an_amqp_header(answer, accepts):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection:
                connection.recv(8)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        port = listener.getsockname()[1]
        config = parse(["host=127.0.0.1", f"port={port}", "path=q", "ready-file=-"])
        assert accepts_amqp(config) is accepts
        thread.join(5)
    assert accepts_amqp(config) is False
