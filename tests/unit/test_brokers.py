"""The launchers' files for their brokers, and their refusals."""

import base64
import hashlib
import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from quiver_fast.brokers import (
    artemis,
    broker_j,
    classic,
    java,
    launcher,
    rabbitmq,
    rabbitmq4,
    rendering,
    skrouterd,
)
from quiver_fast.brokers.debian_root import DebianRoot
from quiver_fast.errors import QuiverError, UsageError
from quiver_fast.server.config import parse

BASE = ("host=h", "port=1", "path=q0", "ready-file=-")
TLS = ("scheme=amqps", "cert=c.pem", "key=k.pem")
LAUNCHERS = [artemis, broker_j, classic, rabbitmq, rabbitmq4, skrouterd]


def config_of(*words):
    return parse([*BASE, *words])


@pytest.mark.parametrize(
    "word", ["store=d", "addresses=a", "queue-limit=65536", "sasl-mechanisms=PLAIN", "verify=1"]
)
def test_keys_of_our_server_alone_are_refused(word, capsys):
    assert skrouterd.BROKER.main([*BASE, word]) == 2
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
        ["store=", "csp-port="],
    ],
)
def test_keys_that_ask_for_nothing_are_taken(words):
    assert launcher._parse(skrouterd.BROKER, [*BASE, *words]).unknown == ()


def test_an_unknown_key_is_a_warning(capsys, monkeypatch, tmp_path):
    """The launcher goes on to the router, which is not here."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert skrouterd.BROKER.main([*BASE, "colour=red", "key-password=secret"]) == 1
    program = "quiver-server-skrouterd"
    assert capsys.readouterr().err.splitlines() == [
        f"{program}: warning: unknown arguments ignored: colour, key-password",
        f"{program}: error: {skrouterd.BROKER.unavailable()}",
    ]


def test_without_a_queue(capsys):
    words = [word for word in BASE if not word.startswith("path")]
    assert skrouterd.BROKER.main([*words, "path="]) == 2
    assert "path must name a queue" in capsys.readouterr().err


@pytest.mark.parametrize("module", LAUNCHERS)
def test_a_broker_that_is_not_here_says_so_in_one_line(module, capsys, monkeypatch, tmp_path):
    for name in ("PATH", "XDG_CACHE_HOME", "RABBITMQ_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    assert module.BROKER.main([]) == 0
    told = capsys.readouterr().out.splitlines()
    reason = module.BROKER.unavailable()
    assert told[-1] == f"Unavailable: {reason}"
    assert module.BROKER.main(list(BASE)) == 1
    program = f"quiver-server-{module.BROKER.name}"
    assert capsys.readouterr().err.splitlines() == [f"{program}: error: {reason}"]


@pytest.mark.parametrize("module", LAUNCHERS)
def test_help(module, capsys):
    assert module.BROKER.main(["--help"]) == 0
    assert set(re.findall(r"\b([a-z-]+)=", capsys.readouterr().out)) == set(launcher.KEYS)


def rabbitmq_in(directory, version):
    """Return the server's script of a RabbitMQ that is only as much as says its version."""
    (directory / "plugins" / f"rabbit-{version}").mkdir(parents=True)
    (directory / "plugins" / "rabbit_common-9.9.9").mkdir()
    script = directory / "sbin" / "rabbitmq-server"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    return script


@pytest.mark.parametrize(("version", "major"), [("3.10.8", 3), ("4.0.5", 4), ("10.1.0-rc.1", 10)])
def test_rabbitmq_of_every_version_is_told(version, major, tmp_path):
    assert rabbitmq.major_version(rabbitmq_in(tmp_path, version)) == major


def test_rabbitmq_without_a_version(tmp_path):
    with pytest.raises(QuiverError, match=r"is unknown: no .*/plugins/rabbit-VERSION"):
        rabbitmq.major_version(tmp_path / "sbin" / "rabbitmq-server")


@pytest.fixture
def node(tmp_path, monkeypatch):
    """Return a function that prepares a node of a version and returns one of its files."""

    def written(major, file, *words):
        home = tmp_path / str(major)
        rabbitmq_in(home, f"{major}.9.9")
        monkeypatch.setenv("RABBITMQ_HOME", str(home))
        run = home / "run"
        run.mkdir()
        rabbitmq.BROKER.prepare(config_of(*words), run)
        text = (run / file).read_text()
        shutil.rmtree(home)
        return text

    return written


@pytest.mark.parametrize("major", [3, 4])
def test_rabbitmq_users_and_queue(major, node):
    definitions = json.loads(node(major, "definitions.json", "user=ü", "password=geheim"))
    [user] = definitions["users"]
    salted = base64.b64decode(user["password_hash"])
    assert user["name"] == "ü"
    # rabbit_password_hashing_sha256: four bytes of salt before the hash.
    assert salted[4:] == hashlib.sha256(salted[:4] + b"geheim").digest()
    assert [queue["name"] for queue in definitions["queues"]] == ["q0"]
    assert [queue["durable"] for queue in definitions["queues"]] == [major == 4]
    assert json.loads(node(major, "definitions.json"))["users"][0]["name"] == "guest"


@pytest.mark.parametrize(
    ("path", "major", "queue"),
    [
        ("q0", 3, "q0"), ("q0", 4, "q0"),
        ("queues/q0", 4, "q0"), ("/queues/q0", 4, "q0"), ("/queues/a%2Fb%25", 4, "a/b%"),
        # 3.x knows no such address: a queue may well be called so.
        ("queues/q0", 3, "queues/q0"), ("a%2Fb", 4, "a%2Fb"),
    ],
)  # fmt: skip
def test_rabbitmq_has_the_queue_that_the_path_reaches(path, major, queue):
    assert rabbitmq._queue(path, major) == queue


@pytest.mark.parametrize(("name", "arguments"), [("quorum", {"x-queue-type": "quorum"}), ("", {})])
def test_rabbitmq_makes_a_queue_of_the_type_that_is_named(name, arguments, node, monkeypatch):
    monkeypatch.setenv("RABBITMQ_QUEUE_TYPE", name)
    [queue] = json.loads(node(4, "definitions.json"))["queues"]
    assert queue["arguments"] == arguments


@pytest.mark.parametrize(("name", "major"), [("quorum", 3), ("fast", 4)])
def test_rabbitmq_without_the_type_that_is_named(name, major, node, monkeypatch):
    monkeypatch.setenv("RABBITMQ_QUEUE_TYPE", name)
    with pytest.raises(UsageError, match=r"^RABBITMQ_QUEUE_TYPE is classic, quorum or stream"):
        node(major, "definitions.json")


def test_rabbitmq_lets_nobody_in_without_a_name_where_there_is_a_user(node):
    file, user = "advanced.config", ("user=u", "password=p")
    assert "{default_user, none}" in node(3, file, *user)
    assert "{default_user,[103,117,101,115,116]}" in node(3, file).replace(" ", "")  # guest
    secured, opened = node(4, file, *user), node(4, file)
    assert "{auth_mechanisms, ['PLAIN']}, {anonymous_login_user, none}" in secured
    assert '{anonymous_login_user, <<"guest">>}' in opened
    # The other version refuses to start with settings of unknown applications.
    assert "rabbitmq_amqp1_0" not in secured + opened


@pytest.mark.parametrize("major", [3, 4])
def test_rabbitmq_listens_with_tls_or_without(major, node):
    plain = node(major, "advanced.config")
    assert "{tcp_listeners, [{[104], 1}]}, {ssl_listeners, []}" in plain
    secure = node(major, "advanced.config", *TLS, "trust-store=t")
    assert "{tcp_listeners, []}, {ssl_listeners, [{[104], 1}]}" in secure
    assert "{fail_if_no_peer_cert, true}" in secure
    assert "verify" not in node(major, "advanced.config", *TLS)


@pytest.mark.parametrize(("version", "plugins"), [("3.13.7", "rabbitmq_amqp1_0"), ("4.1.0", "")])
def test_rabbitmq_where_the_environment_says(version, plugins, tmp_path, monkeypatch):
    script = rabbitmq_in(tmp_path / "home", version)
    monkeypatch.setenv("RABBITMQ_HOME", str(tmp_path / "home"))
    directory = tmp_path / "run"
    directory.mkdir()
    epmd, server = rabbitmq.BROKER.prepare(config_of(), directory)
    assert (epmd.command, server.command) == (["epmd"], [str(script)])
    assert (directory / "enabled_plugins").read_text() == f"[{plugins}].\n"
    assert json.loads((directory / "definitions.json").read_text())["queues"]


def test_rabbitmq_out_of_another_system(tmp_path, monkeypatch):
    """The root that is named wins over a home, for both launchers; its own server is run."""
    installed = tmp_path / "root" / "usr" / "lib" / "rabbitmq"
    rabbitmq_in(installed / "lib" / "rabbitmq_server-4.0.5", "4.0.5")
    (installed / "bin").mkdir()
    link = installed / "bin" / "rabbitmq-server"
    link.symlink_to("../lib/rabbitmq_server-4.0.5/sbin/rabbitmq-server")
    monkeypatch.setenv("RABBITMQ_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("RABBITMQ_HOME", str(tmp_path / "home"))
    for number, broker in enumerate((rabbitmq.BROKER, rabbitmq4.BROKER)):
        assert broker.home() == link
        directory = tmp_path / str(number)
        directory.mkdir()
        commands = [daemon.command for daemon in broker.prepare(config_of(), directory)]
        assert [command[0] for command in commands] == ["unshare", "unshare"]
        assert [command[-2:] for command in commands] == [
            [str(tmp_path / "root"), "epmd"],
            [str(tmp_path / "root"), "/usr/lib/rabbitmq/bin/rabbitmq-server"],
        ]


def test_without_a_mount_namespace(tmp_path, monkeypatch):
    """Where a container forbids it, one line has the system's own words."""
    forbidding = tmp_path / "unshare"
    forbidding.write_text("#!/bin/sh\necho 'unshare failed: Operation not permitted' >&2; exit 1\n")
    forbidding.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert DebianRoot(tmp_path).unavailable() == (
        f"programs in {tmp_path} need a mount namespace: unshare failed: Operation not permitted"
    )


CREATED = """<configuration><core>
<acceptors>
  <acceptor name="artemis">tcp://0.0.0.0:61616</acceptor>
  <acceptor name="amqp">tcp://0.0.0.0:5672?protocols=AMQP</acceptor>
</acceptors>
<address-settings><address-setting match="#"><x/></address-setting></address-settings>
<addresses><address name="DLQ"/></addresses>
</core></configuration>"""


@pytest.fixture
def instance(tmp_path, monkeypatch):
    """Return the folder of an instance's files; its making is left out."""
    etc = tmp_path / "broker" / "etc"
    etc.mkdir(parents=True)
    (etc / "broker.xml").write_text(CREATED)
    monkeypatch.setattr(artemis.Artemis, "_create", lambda *_: None)
    return etc


def test_artemis_has_our_acceptor_alone_and_the_queue(instance, tmp_path):
    config = parse(["host=::1", "port=1", 'path=a "b" & <c>', "user=ü", "password=a=\\😀"])
    [daemon] = artemis.BROKER.prepare(config, tmp_path)
    assert daemon.command == [str(tmp_path / "broker" / "bin" / "artemis"), "run"]
    [core] = ElementTree.parse(instance / "broker.xml").getroot()
    [acceptor] = core.find("acceptors")
    assert acceptor.text == (
        "tcp://[::1]:1?protocols=AMQP,CORE;amqpCredits=1000;amqpLowCredits=300;saslMechanisms=PLAIN"
    )
    address, other = core.find("addresses")
    assert (address.get("name"), other.get("name")) == ('a "b" & <c>', "DLQ")
    assert address.find("anycast/queue").get("name") == 'a "b" & <c>'
    settings = core.find("address-settings/address-setting")
    assert settings.find("default-queue-routing-type").text == "ANYCAST"
    users = (instance / "artemis-users.properties").read_text()
    assert users == "\\u00fc = \\u0061\\u003d\\u005c\\ud83d\\ude00\n"


def test_artemis_of_another_layout(instance, tmp_path):
    (instance / "broker.xml").write_text(CREATED.replace("<addresses>", "<other>"))
    with pytest.raises(QuiverError, match=r"broker\.xml without <addresses>"):
        artemis.BROKER.prepare(config_of(), tmp_path)


def test_artemis_takes_no_encoded_password(tmp_path):
    with pytest.raises(UsageError, match=r"begins with ENC\("):
        artemis.BROKER.prepare(config_of("user=u", "password=ENC(x)"), tmp_path)


def test_artemis_needs_the_key_and_the_certificate(instance, tmp_path):
    for name in ("c.pem", "k.pem"):
        (tmp_path / name).write_text("no PEM")
    words = ["scheme=amqps", f"cert={tmp_path}/c.pem", f"key={tmp_path}/k.pem"]
    with pytest.raises(QuiverError, match=r"^key: .*k\.pem: "):
        artemis.BROKER.prepare(config_of(*words), tmp_path)


CLASSIC = "{http://activemq.apache.org/schema/core}"


def test_classic_has_one_connector_and_the_queue(tmp_path):
    config = parse(["host=::1", "port=7", 'path=a "b" & <c>', "ready-file=-"])
    [daemon] = classic.BROKER.prepare(config, tmp_path)
    file = tmp_path / "conf" / "activemq.xml"
    assert daemon.command[-2:] == ["start", f"xbean:{file.as_uri()}"]
    [broker] = ElementTree.parse(file).getroot()
    [connector] = broker.find(f"{CLASSIC}transportConnectors")
    assert connector.get("uri") == "amqp://[::1]:7?wireFormat.maxFrameSize=104857600"
    assert broker.find(f"{CLASSIC}destinations")[0].get("physicalName") == 'a "b" & <c>'
    assert broker.find(f"{CLASSIC}plugins") is None


def test_classic_users_are_not_on_its_command_line(tmp_path):
    [daemon] = classic.BROKER.prepare(config_of("user=ü", 'password=p"<&'), tmp_path)
    [broker] = ElementTree.parse(tmp_path / "conf" / "activemq.xml").getroot()
    [plugin] = broker.find(f"{CLASSIC}plugins")
    assert plugin.get("anonymousAccessAllowed") == "false"
    [[user]] = plugin
    assert (user.get("username"), user.get("password")) == ("ü", 'p"<&')
    assert not any('p"<&' in word for word in daemon.command)


@pytest.mark.skipif(shutil.which("keytool") is None, reason="keytool of Java is not on the PATH")
def test_classic_demands_certificates_where_it_trusts(secured, tmp_path):
    classic.BROKER.prepare(secured, tmp_path)
    [broker] = ElementTree.parse(tmp_path / "conf" / "activemq.xml").getroot()
    [connector], [context] = (
        broker.find(f"{CLASSIC}{name}") for name in ("transportConnectors", "sslContext")
    )
    assert connector.get("uri") == (
        "amqp+ssl://h:1?wireFormat.maxFrameSize=104857600&transport.needClientAuth=true"
    )
    stores = [(tmp_path / "conf" / f"{name}.p12").as_uri() for name in ("server", "trust")]
    assert [context.get("keyStore"), context.get("trustStore")] == stores


def broker_j_file(config, directory):
    broker_j.BROKER.prepare(config, directory)
    return json.loads((directory / "config.json").read_text())


def test_broker_j_has_one_port_and_makes_queues(tmp_path):
    [daemon] = broker_j.BROKER.prepare(config_of(), tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    assert daemon.command[3:5] == ["-icp", str(tmp_path / "config.json")]
    [port], [users] = written["ports"], written["authenticationproviders"]
    assert (port["port"], port["bindingAddress"], port["transports"]) == (1, "h", ["TCP"])
    assert users["type"] == "Anonymous"
    host = json.loads(written["virtualhostnodes"][0]["virtualHostInitialConfiguration"])
    assert [queue["name"] for queue in host["queues"]] == ["q0"]
    [policy] = host["nodeAutoCreationPolicies"]
    assert (policy["createdOnPublish"], policy["createdOnConsume"]) == (True, True)


def test_broker_j_users(tmp_path):
    configuration = broker_j_file(config_of("user=ü", "password=p"), tmp_path)
    [users] = configuration["authenticationproviders"]
    assert (users["type"], users["secureOnlyMechanisms"]) == ("Plain", [])
    assert users["users"] == [{"name": "ü", "type": "managed", "password": "p"}]


@pytest.fixture
def secured(certificates):
    server = certificates.server.keys()
    return config_of(
        "scheme=amqps", f"cert={server['cert']}", f"key={server['key']}",
        f"trust-store={certificates.authority}",
    )  # fmt: skip


def test_broker_j_has_certificates_in_the_forms_that_it_reads(secured, tmp_path):
    configuration = broker_j_file(secured, tmp_path)
    [port], [key], [trust] = (configuration[x] for x in ("ports", "keystores", "truststores"))
    assert (port["transports"], port["keyStore"], port["trustStores"]) == (
        ["SSL"], "server", ["trusted"],
    )  # fmt: skip
    assert port["needClientAuth"] is True
    words = ["openssl", "pkcs12", "-in", key["storeUrl"], "-passin", f"pass:{key['password']}"]
    told = subprocess.run([*words, "-nodes"], check=True, capture_output=True, text=True).stdout
    assert "BEGIN PRIVATE KEY" in told
    assert trust["certificatesUrl"] == secured.trust_store


@pytest.mark.skipif(shutil.which("keytool") is None, reason="keytool of Java is not on the PATH")
def test_every_trusted_certificate_is_in_the_store_that_java_reads(secured, tmp_path):
    both = tmp_path / "both.pem"
    with both.open("w") as file:
        for one in (secured.trust_store, secured.cert):
            file.write(f"Some words before.\n{Path(one).read_text()}")
    config = config_of(*TLS, f"trust-store={both}")
    store = tmp_path / "trust.p12"
    java.trusted_pkcs12(config, store, "secret")
    listing = ["keytool", "-list", "-keystore", str(store), "-storepass", "secret"]
    told = subprocess.run(listing, check=True, capture_output=True, text=True).stdout
    assert told.count("trustedCertEntry") == 2


def test_a_trust_store_without_certificates(tmp_path):
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    with pytest.raises(QuiverError, match="there is no certificate in PEM"):
        java.trusted_pkcs12(config_of(*TLS, f"trust-store={empty}"), tmp_path / "x", "p")
    with pytest.raises(QuiverError, match=r"gone\.pem: No such file"):
        java.trusted_pkcs12(config_of(*TLS, f"trust-store={tmp_path}/gone.pem"), tmp_path, "p")


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
    skrouterd.BROKER.prepare(config_of(), tmp_path)
    plain = dict(json.loads((tmp_path / "skrouterd.json").read_text()))
    assert "sslProfile" not in plain
    assert plain["listener"]["saslMechanisms"] == "ANONYMOUS"
    # More than a message of 1 MB needs at the default frame size of 16 KiB.
    assert plain["listener"]["maxSessionFrames"] == 128


def test_skrouterd_takes_no_passwords(tmp_path):
    with pytest.raises(UsageError, match="cannot be given user"):
        skrouterd.BROKER.prepare(config_of("user=u", "password=p"), tmp_path)


ODD = "ü= \t\n\r'\"<&>\\{{ x }}{% é😀"
"""A name may be any text; a template must not take it for its own."""


def test_values_of_json_and_xml_may_be_any_text(tmp_path):
    users = [f"user={ODD}", f"password={ODD}", f"path={ODD}"]
    config = parse(["host=h", "port=1", "ready-file=-", *users])
    [user] = broker_j_file(config, tmp_path)["authenticationproviders"][0]["users"]
    assert (user["name"], user["password"]) == (ODD, ODD)
    classic.BROKER.prepare(config, tmp_path)
    [broker] = ElementTree.parse(tmp_path / "conf" / "activemq.xml").getroot()
    [[[user]]] = broker.find(f"{CLASSIC}plugins")
    assert (user.get("username"), user.get("password")) == (ODD, ODD)
    assert broker.find(f"{CLASSIC}destinations")[0].get("physicalName") == ODD


@pytest.mark.parametrize("name", ["skrouterd.json", "rabbitmq/advanced.config"])
def test_a_template_without_its_values_is_a_failure(name):
    with pytest.raises(UndefinedError):
        rendering.text(name, {"tls": False})
