"""`quiver-server-activemq-classic`: an ActiveMQ Classic broker with one AMQP connector."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from xml.sax.saxutils import quoteattr

from quiver_fast.brokers import java
from quiver_fast.brokers.launcher import Daemon
from quiver_fast.server.config import ServerConfig

_MEMORY = "-Xms64M -Xmx1G"
"""The memory options of the broker's own script; ACTIVEMQ_OPTS_MEMORY overrides them."""

_FRAME_SIZE = 104_857_600
"""The largest message, as in the configuration that the broker comes with."""

_OPENED = (
    "java.base/java.lang", "java.base/java.net", "java.base/java.security", "java.base/java.util",
    "java.base/java.util.concurrent", "java.base/java.util.concurrent.atomic",
    "java.naming/javax.naming.spi", "java.rmi/sun.rmi.transport.tcp",
)  # fmt: skip
"""The parts of Java that the broker needs opened, as its own script opens them."""

_LOGGING = """\
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = Console
appender.console.type = Console
appender.console.name = Console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p | %m%n%throwable{short}
"""


class Classic(java.JavaBroker):
    """A broker with one connector and one queue; others come into being on demand."""

    name = "activemq-classic"
    product = "ActiveMQ Classic"
    variable = "ACTIVEMQ_HOME"
    folder = "apache-activemq-5.17.6"
    program = "bin/activemq.jar"

    def prepare(self, config: ServerConfig, directory: Path) -> list[Daemon]:
        """Write the broker's configuration; see :meth:`Broker.prepare`."""
        conf = directory / "conf"
        conf.mkdir()
        (conf / "log4j2.properties").write_text(_LOGGING)
        file = conf / "activemq.xml"
        file.write_text(_configuration(config, directory, _tls(config, conf)), encoding="utf-8")
        # The script in bin/ would leave Java as a grandchild that outlives a killed launcher.
        command = [
            "java", *os.environ.get("ACTIVEMQ_OPTS_MEMORY", _MEMORY).split(),
            *(word for name in _OPENED for word in ("--add-opens", f"{name}=ALL-UNNAMED")),
            f"-Dactivemq.home={self.home()}", f"-Dactivemq.base={directory}",
            f"-Dactivemq.conf={conf}", f"-Dactivemq.data={directory / 'data'}",
            f"-Dactivemq.classpath={conf}", "-jar", str(self.file),
            "start", f"xbean:{file.as_uri()}",
        ]  # fmt: skip
        return [Daemon("activemq", command)]


def _configuration(config: ServerConfig, directory: Path, tls: str) -> str:
    """Return the broker's beans."""
    return f"""\
<beans xmlns="http://www.springframework.org/schema/beans"
       xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
       xsi:schemaLocation="http://www.springframework.org/schema/beans
         http://www.springframework.org/schema/beans/spring-beans.xsd
         http://activemq.apache.org/schema/core
         http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="quiver-fast-{config.port}"
          dataDirectory={quoteattr(str(directory / "data"))} useJmx="false">
    <destinations><queue physicalName={quoteattr(config.addresses[0])}/></destinations>
    {_plugins(config)}
    {tls}
    <transportConnectors>
      <transportConnector name="clients" uri={quoteattr(_connector(config))}/>
    </transportConnectors>
  </broker>
</beans>
"""


def _connector(config: ServerConfig) -> str:
    scheme = "amqp+ssl" if config.scheme == "amqps" else "amqp"
    host = f"[{config.host}]" if ":" in config.host else config.host
    options = [f"wireFormat.maxFrameSize={_FRAME_SIZE}"]
    if config.trust_store is not None:
        options.append("transport.needClientAuth=true")
    return f"{scheme}://{host}:{config.port}?{'&'.join(options)}"


def _plugins(config: ServerConfig) -> str:
    """Return the element of users; without it the broker takes any name and password."""
    if config.user is None:
        return ""
    # The broker still offers ANONYMOUS, and refuses clients that choose it.
    user, password = quoteattr(config.user), quoteattr(config.password or "")
    return (
        '<plugins><simpleAuthenticationPlugin anonymousAccessAllowed="false"><users>'
        f'<authenticationUser username={user} password={password} groups="users,admins"/>'
        "</users></simpleAuthenticationPlugin></plugins>"
    )


def _tls(config: ServerConfig, conf: Path) -> str:
    """Write the stores that Java reads, and return the element that names them."""
    if config.scheme != "amqps":
        return ""
    password = secrets.token_hex(16)
    stores = {"key": conf / "server.p12"}
    java.pkcs12(config, stores["key"], password)
    if config.trust_store is not None:
        stores["trust"] = conf / "trust.p12"
        java.trusted_pkcs12(config, stores["trust"], password)
    attributes = [
        f'{kind}Store={quoteattr(store.as_uri())} {kind}StoreType="PKCS12" '
        f'{kind}StorePassword="{password}"'
        for kind, store in stores.items()
    ]
    return f"<sslContext><sslContext {' '.join(attributes)}/></sslContext>"


BROKER = Classic()

if __name__ == "__main__":
    sys.exit(BROKER.main())
