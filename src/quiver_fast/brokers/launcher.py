"""The launcher of all brokers: start a broker for one run, tell when it serves, end it.

A broker lives in a temporary directory, private to its user, which goes with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from quiver_fast import __version__, arguments
from quiver_fast.brokers.probe import accepts_amqp
from quiver_fast.errors import QuiverError, SignalError, UsageError, one_line
from quiver_fast.loop import interrupt
from quiver_fast.process import Child, exit_text
from quiver_fast.program import run_program, warn_of_unknown
from quiver_fast.ready_file import WITHDRAWN, ready_file, write_ready
from quiver_fast.server.config import KNOWN, REQUIRED, ServerConfig, parse
from quiver_fast.sockets import listen

KEYS = (
    "host", "port", "path", "ready-file", "scheme", "user", "password", "password-fd", "cert",
    "key", "trust-store", "quiet", "verbose",
)  # fmt: skip
"""The keys that a launcher understands; others of the server contract are refused."""

_HARMLESS = {"durability": "none", "verify": "0", "csp-port": "0", "retain": "0", "no-create": "0"}
"""The values that any broker accepts, because they ask for nothing."""

START_SECONDS = 60.0
STOP_SECONDS = 20.0
_TICK_MS = 50
_LOG_NAME = "output"
_LOG_LINES = 20

_USAGE = """\
Usage: {program} KEY=VALUE...

Start {product} with a configuration and data of its own, and end it with this
process. Without arguments, print the broker and its place; with --version, the version.

Required:
  host=TEXT                    where to listen
  path=TEXT                    a queue that exists from the start

Also passed by wrappers (default):
  port=NUMBER|- (-)            '-' is the scheme's default port
  ready-file=FILE|- (-: none)  gets the line 'ready' when the broker accepts AMQP

Security:
  scheme=amqp|amqps (amqp)     user=TEXT  password=TEXT | password-fd=NUMBER
  cert=FILE  key=FILE          the server's certificate (required for amqps)
  trust-store=FILE             authorities: require clients to have a certificate of one
  quiet=0|1 (0)  verbose=0|1 (0)
"""


@dataclass(frozen=True)
class Daemon:
    """A process that a broker consists of.

    Attributes:
        name: the name of the process, and of its log.
        command: the words that start it.
        environment: variables that it needs besides ours.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


class Broker(ABC):
    """A kind of broker: its description, and the steps that a template cannot do.

    Attributes:
        name: after ``quiver-server-``.
        product: the name that its makers give it.
        templates: ``templates/NAME/`` has its files, and ``templates/NAME.json`` its processes in
            the order of their start.
        subfolders: folders that it needs in the run's directory.
        refused: keys that it cannot honour.
    """

    name: str
    product: str
    templates: str
    subfolders: Sequence[str] = ()
    refused: Sequence[str] = ()

    @abstractmethod
    def unavailable(self) -> str | None:
        """Return in one line why it cannot be started here, or None if it can."""

    @abstractmethod
    def home(self) -> Path:
        """Return where it is installed, for people to read."""

    def values(self, config: ServerConfig, directory: Path) -> dict[str, Any]:
        """Make the files that no template can make, and return the values for the templates.

        Raises:
            UsageError: the broker does not support the value of a key.
            QuiverError: a file cannot be written or made.
        """
        return {
            "broker": self,
            "config": config,
            "directory": directory,
            "endpoint": arguments.endpoint(config.host, config.port),
            "home": self.home(),
            "queue": config.addresses[0],
            "tls": config.scheme == "amqps",
        }

    def prepare(self, config: ServerConfig, directory: Path) -> list[Daemon]:
        """Write the broker's files to an empty directory, and return its processes.

        Raises:
            UsageError: the broker does not support a key.
            QuiverError: a file cannot be written or made.
        """
        # Jinja is slow to import, and other commands ask only which brokers are here.
        from quiver_fast.brokers import rendering

        for key in self.refused:
            if getattr(config, key.replace("-", "_")) is not None:
                raise UsageError(f"{self.product} cannot be given {key} by this launcher")
        for folder in self.subfolders:
            (directory / folder).mkdir()
        values = self.values(config, directory)
        rendering.write(self.templates, directory, values)
        processes = json.loads(rendering.text(f"{self.templates}.json", values))
        return [Daemon(**process) for process in processes]

    def main(self, argv: list[str] | None = None) -> int:
        """Launch it with ``argv`` (default: the process's) until a signal; return the exit code."""
        program = f"quiver-server-{self.name}"

        def work(words: list[str]) -> None:
            config = _parse(self, words)
            warn_of_unknown(program, config.unknown)
            # A signal is the ordinary end of a server.
            with contextlib.suppress(SignalError):
                _serve(self, config, program)

        def usage() -> str:
            return _USAGE.format(program=program, product=self.product)

        return run_program(program, argv, usage, lambda: _description(self, program), work)


def cached(folder: str) -> Path:
    """Return a folder of the project's own tests in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "quiver-fast" / folder


def _say(line: str) -> None:
    sys.stderr.write(f"{one_line(line)}\n")
    sys.stderr.flush()


def _description(broker: Broker, program: str) -> str:
    reason = broker.unavailable()
    state = f"Installed in: {broker.home()}" if reason is None else f"Unavailable: {reason}"
    return f"{program} {__version__}\nStarts: {broker.product}\n{state}\n"


def _parse(broker: Broker, words: list[str]) -> ServerConfig:
    given = arguments.split(words, KNOWN, REQUIRED).values
    # A launcher refuses the options of our own server, instead of ignoring them.
    unfit = [key for key in given if key not in KEYS and given[key] != _HARMLESS.get(key)]
    if unfit:
        raise UsageError(f"{broker.product} cannot be given {', '.join(unfit)} by this launcher")
    config = parse(words)
    if not config.addresses:
        raise UsageError("path must name a queue")
    return config


def _serve(broker: Broker, config: ServerConfig, program: str) -> NoReturn:
    reason = broker.unavailable()
    if reason is not None:
        raise QuiverError(reason)
    interrupt.install()
    with (
        ready_file(config.ready_file),
        tempfile.TemporaryDirectory(prefix=f"{program}-", ignore_cleanup_errors=True) as name,
    ):
        _check_port(config)
        for key in ("cert", "key", "trust_store"):
            if getattr(config, key):
                # The broker has a working folder of its own.
                setattr(config, key, os.path.abspath(getattr(config, key)))
        directory = Path(name)
        daemons = broker.prepare(config, directory)
        while True:
            with _running(daemons, directory, config.verbose) as children:
                _await_ready(children, config, directory)
                if not config.quiet:
                    where = f"{config.scheme}://{arguments.endpoint(config.host, config.port)}"
                    _say(f"{program}: listening on {where}")
                if config.ready_file is not None:
                    write_ready(config.ready_file)
                _watch(children, directory, config)
            while _is_withdrawn(config):
                _pause()


def _check_port(config: ServerConfig) -> None:
    """Refuse a port that is in use: the probe would take its owner for the broker."""
    for listener in listen(config.host, config.port):
        listener.close()


@contextlib.contextmanager
def _running(
    daemons: Sequence[Daemon], directory: Path, verbose: bool
) -> Iterator[dict[str, Child]]:
    """Run the processes until the end of the block; the last one started ends first."""
    children: dict[str, Child] = {}
    with contextlib.ExitStack() as stack:
        for daemon in daemons:
            try:
                child = Child(
                    list(daemon.command),
                    {**os.environ, **daemon.environment},
                    output=None if verbose else _log(directory, daemon.name),
                    merge_errors=True,
                    grace=STOP_SECONDS,
                    death_signal=signal.SIGKILL,
                    # A crash dump goes there.
                    folder=directory,
                )
            except OSError as error:
                raise QuiverError(
                    f"cannot start '{daemon.command[0]}': {error.strerror}"
                ) from error
            children[daemon.name] = child
            stack.callback(child.end)
        yield children


def _await_ready(children: Mapping[str, Child], config: ServerConfig, directory: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not accepts_amqp(config):
        _pause()
        _check_alive(children, directory)
        if time.monotonic() > deadline:
            _show_logs(directory)
            raise QuiverError(
                f"the broker does not accept AMQP on port {config.port} "
                f"after {START_SECONDS:.0f} seconds"
            )
    _check_alive(children, directory)


def _watch(children: Mapping[str, Child], directory: Path, config: ServerConfig) -> None:
    """Return when the broker ended, and was withdrawn before: the same one is to start again."""
    while not (_is_withdrawn(config) and any(child.poll() for child in children.values())):
        _pause()
        if not _is_withdrawn(config):
            _check_alive(children, directory)


def _is_withdrawn(config: ServerConfig) -> bool:
    with contextlib.suppress(OSError):
        return Path(config.ready_file or "").read_bytes() == WITHDRAWN.encode()
    return False


def _pause() -> None:
    """Wait a moment.

    Raises:
        SignalError: a signal came.
    """
    poller = select.poll()
    poller.register(interrupt.wake_fd(), select.POLLIN)
    poller.poll(_TICK_MS)
    interrupt.raise_if_pending()


def _check_alive(children: Mapping[str, Child], directory: Path) -> None:
    for name, child in children.items():
        if child.poll():
            _show_logs(directory)
            raise QuiverError(f"{name} ended by itself: {exit_text(child.returncode)}")


def _log(directory: Path, name: str) -> Path:
    return directory / f"{name}.{_LOG_NAME}"


def _show_logs(directory: Path) -> None:
    """Print the last lines of the broker's logs, before the directory is removed."""
    for log in sorted([*directory.glob(f"*.{_LOG_NAME}"), *directory.glob("log/*.log")]):
        for line in log.read_text(errors="replace").splitlines()[-_LOG_LINES:]:
            _say(f"{log.name}: {line}")
