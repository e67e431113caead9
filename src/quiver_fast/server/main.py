"""The pyfast server's process: it reads the contract, and serves until it is told to stop."""

from __future__ import annotations

import resource
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from quiver_fast import arguments
from quiver_fast.errors import QuiverError, one_line
from quiver_fast.loop import balance, interrupt
from quiver_fast.loop.memory import MemoryLimit
from quiver_fast.loop.opener import Opener
from quiver_fast.loop.reactor import Reactor
from quiver_fast.loop.syncer import Syncer
from quiver_fast.program import describe, run_program, warn_of_unknown
from quiver_fast.queuefile.directory import QueueDirectory
from quiver_fast.queuefile.lock import QueueInUseError, locked
from quiver_fast.queuefile.reserve import keep_descriptors
from quiver_fast.ready_file import ready_file, write_ready
from quiver_fast.security.security import Security
from quiver_fast.server.config import ServerConfig, parse, usage
from quiver_fast.server.machine import memory_of_machine
from quiver_fast.server.server import (
    Broker,
    Connector,
    Listener,
    Readings,
    Turn,
    restore_subscriptions,
)
from quiver_fast.sockets import listen

if TYPE_CHECKING:
    from quiver_fast.remote.serve.service import Service
    from quiver_fast.server.metrics import ServerMetrics

PROGRAM = "quiver-server-pyfast"
# The most connections that may wait to be accepted; the system may allow fewer.
BACKLOG = 4096
# Descriptors that are kept free of connections and new queues.
RESERVED = 16
# Connections may hold this part of the machine's memory besides the contents of queues.
MEMORY_SHARE = 4


def main(argv: list[str] | None = None) -> int:
    """Run the server with ``argv`` (default: the process's) and return its exit code."""
    return run_program(PROGRAM, argv, usage, lambda: describe(PROGRAM, "queues", "topics"), start)


def start(words: list[str]) -> None:
    """Serve with the arguments ``words``.

    Raises:
        QuiverError: the arguments are wrong, or the server cannot begin.
    """
    config = parse(words)
    warn_of_unknown(PROGRAM, config.unknown)
    serve(config)


def serve(config: ServerConfig) -> None:
    """Serve until SIGINT or SIGTERM, then shut down in order.

    Raises:
        QuiverError: the server cannot begin; the subclass tells why.
    """
    interrupt.install()
    raise_descriptor_limit()
    reactor = Reactor()
    with ready_file(config.ready_file), queue_files(config) as files:
        serve_on(reactor, config, files)


def raise_descriptor_limit() -> None:
    """Raise the limit of descriptors as far as allowed: connections and files need one each."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@contextmanager
def queue_files(config: ServerConfig) -> Iterator[QueueDirectory | None]:
    """Lock the directory of the queues' files. Without a store, remote queues get a temporary one.

    Raises:
        QuiverError: the directory cannot be used.
    """
    with ExitStack() as stack:
        store = config.store
        if config.is_temporary:
            store = stack.enter_context(tempfile.TemporaryDirectory(prefix="quiver-queues-"))
        files = None
        if store is not None:
            from quiver_fast.remote.wire.textwire import text_check

            files = QueueDirectory(
                store,
                roll=config.roll,
                durability=config.durability,
                retain=config.retain,
                verify=config.verify,
                text_check=text_check(),
            )
            stack.enter_context(locked(files.path))
            stack.callback(files.close)
        yield files


def serve_on(reactor: Reactor, config: ServerConfig, files: QueueDirectory | None) -> None:
    """Serve AMQP, remote queues, or both, on one loop.

    Raises:
        QuiverError: the server cannot begin.
    """
    syncer = None if files is None else Syncer(reactor)
    opener = None if files is None else Opener(reactor, files)
    amqp = None
    if config.scheme != "csp":
        amqp = AmqpService(reactor, config, files, syncer, opener)
    # Its hook runs after AMQP's, so tailers get the AMQP messages of the same turn.
    remote = None
    if config.csp_port and files is not None:
        remote = open_remote_queues(reactor, config, files, syncer, opener)
    # Its hook comes last: it checks the memory when all others have run.
    limit = MemoryLimit(reactor, config.memory_limit or memory_of_machine() // MEMORY_SHARE)
    metrics = open_metrics(reactor, config, amqp, syncer, remote)
    announce(config)
    keep_descriptors(RESERVED)
    reactor.run()
    if metrics is not None:
        metrics.close()
    if amqp is not None:
        amqp.close()
    if remote is not None:
        remote.close()
    limit.close()
    if opener is not None:
        opener.stop()
    if syncer is not None:
        syncer.stop()
    if unfreed := balance.left():
        sys.stderr.write(f"{PROGRAM}: not freed: {unfreed}\n")


def open_metrics(
    reactor: Reactor,
    config: ServerConfig,
    amqp: AmqpService | None,
    syncer: Syncer | None,
    remote: Service | None,
) -> ServerMetrics | None:
    """Serve metrics if the configuration asks for it, and print the URL.

    Raises:
        QuiverError: a library is missing, or the address cannot be used.
    """
    if config.metrics_port < 0:
        return None
    from quiver_fast.server.metrics import ServerMetrics

    readings = Readings(reactor, None if amqp is None else amqp.broker, syncer)
    metrics = ServerMetrics(config.metrics_host, config.metrics_port, readings, remote)
    if not config.quiet or config.metrics_port == 0:
        sys.stderr.write(f"{PROGRAM}: metrics at {metrics.url}\n")
    return metrics


def open_remote_queues(
    reactor: Reactor,
    config: ServerConfig,
    files: QueueDirectory,
    syncer: Syncer | None,
    opener: Opener | None,
) -> Service:
    """Listen for clients of the remote queues in ``files``.

    Raises:
        QuiverError: the address cannot be used.
    """
    from quiver_fast.remote.serve.service import Service
    from quiver_fast.remote.serve.store import Store

    if config.scheme == "csp":
        # Verify queues and delete old files now, and not at the first use.
        at_start = files.names() if config.verify or config.retain else []
        for name in config.addresses:
            files.appender(name)
        for name in at_start:
            open_or_say(files, name)
    store = Store(
        files,
        create=not config.no_create,
        syncer=syncer,
        opener=opener,
        max_queues=config.max_queues,
        max_links=config.max_links,
    )
    service = Service(
        reactor,
        store,
        max_connections=config.max_connections,
        idle_timeout=config.idle_timeout,
    )
    for sock in listen(config.host, config.csp_port, backlog=BACKLOG):
        service.listen(sock)
    return service


def open_or_say(files: QueueDirectory, name: str) -> None:
    """Open an existing queue, or report why it is refused; the others work.

    Raises:
        QueueInUseError: another server has the store.
    """
    try:
        files.appender(name)
    except QueueInUseError:
        raise
    except QuiverError as error:
        sys.stderr.write(f"{PROGRAM}: queue {name!r} is not served: {one_line(str(error))}\n")


class AmqpService:
    """The AMQP side of a server: its addresses, listeners and connectors.

    Args:
        reactor: the loop.
        config: the server's configuration.
        files: the directory of durable messages; None to keep none.
        syncer: syncs the files; None without files.
        opener: opens the files; None without files.

    Attributes:
        broker: its addresses.

    Raises:
        QuiverError: certificates, files or the address cannot be used.
    """

    def __init__(
        self,
        reactor: Reactor,
        config: ServerConfig,
        files: QueueDirectory | None,
        syncer: Syncer | None,
        opener: Opener | None,
    ) -> None:
        security = Security(
            tls=config.scheme == "amqps",
            username=config.user,
            password=config.password,
            certificate=config.cert,
            key=config.key,
            trust_store=config.trust_store,
            mechanisms=config.sasl_mechanisms,
            allow_insecure_plain=config.allow_insecure_plain,
            allow_old_tls=config.allow_old_tls,
        )
        security.prepare_server()
        # The keys are derived: nothing needs the password any more.
        config.password = None
        self.broker = Broker(reactor, config, security, files, syncer, opener)
        if files is not None:
            restore_subscriptions(self.broker)
        self.broker.complete()
        sockets = listen(config.host, config.port, backlog=BACKLOG)
        self._listeners = [Listener(self.broker, sock) for sock in sockets]
        self._turn = Turn(self.broker)
        self._connectors = connect(self.broker, config)

    def close(self) -> None:
        """Refuse new connections, close the others in order, and free the queues."""
        for listener in self._listeners:
            listener.close()
        for connector in self._connectors:
            connector.close()
        self._turn.drain()
        self.broker.close()


def connect(broker: Broker, config: ServerConfig) -> list[Connector]:
    """Begin to connect to the other servers, with the configured number of connections each."""
    made = []
    for target in config.connect:
        security = Security(
            tls=target.scheme == "amqps",
            username=config.connect_user,
            password=config.connect_password,
            trust_store=config.connect_trust_store,
            verify=config.connect_tls_verify,
        )
        made += [Connector(broker, target, security) for _ in range(config.connect_count)]
    return made


def announce(config: ServerConfig) -> None:
    """Announce that connections are accepted: write the ready file.

    Raises:
        OutputError: the ready file cannot be written.
    """
    if not config.quiet:
        kept = "; its queues end when it stops" if config.is_temporary else ""
        url = f"{config.scheme}://{arguments.endpoint(config.host, config.port)}"
        sys.stderr.write(f"{PROGRAM}: listening on {url}{kept}\n")
    if config.ready_file is not None:
        write_ready(config.ready_file)


if __name__ == "__main__":
    sys.exit(main())
