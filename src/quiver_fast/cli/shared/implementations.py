"""Finding arrow and server implementations: ours, and those in upstream's layout."""

from __future__ import annotations

import difflib
import importlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from quiver_fast.errors import UsageError
from quiver_fast.options.server import SERVER_EXTENSIONS
from quiver_fast.own_process import own_command, own_environment

DEFAULT_IMPLEMENTATION = "pyfast"

_ARROW, _SERVER = "quiver-arrow-", "quiver-server-"

# The name that `make install` gives our server in an upstream tree. Upstream has one table of
# names for arrows and servers, so the server cannot have the arrow's name.
_INSTALLED_SERVER = "pyfast-server"

ARROW_ALIASES = {
    "activemq-artemis-jms": ("artemis-jms",),
    "activemq-jms": (),
    "qpid-jms": ("jms",),
    "qpid-proton-c": ("c",),
    "qpid-proton-cpp": ("cpp",),
    "qpid-proton-python": ("python", "py"),
    "qpid-protonj2": ("protonj2",),
    "qpid-proton-dotnet": ("proton-dotnet", "dotnet"),
    "rhea": ("javascript", "js"),
    "vertx-proton": ("java",),
}
"""The arrows that upstream knows, each with its aliases."""

SERVER_ALIASES = {
    "activemq-artemis": ("artemis",),
    "activemq-classic": ("classic",),
    "builtin": (),
    "qpid-broker-j": ("broker-j",),
    "qpid-dispatch": ("qdrouterd", "dispatch"),
    "rabbitmq": (),
    "rabbitmq-4": ("rabbitmq4",),
    "skrouterd": (),
}
"""The servers that upstream knows or that we can launch, each with its aliases."""

BROKERS = {
    "activemq-artemis": "quiver_fast.brokers.artemis",
    "activemq-classic": "quiver_fast.brokers.classic",
    "qpid-broker-j": "quiver_fast.brokers.broker_j",
    "rabbitmq": "quiver_fast.brokers.rabbitmq",
    "rabbitmq-4": "quiver_fast.brokers.rabbitmq4",
    "skrouterd": "quiver_fast.brokers.skrouterd",
}
"""Our launchers of other projects' brokers, by the name of the server, and their modules."""

CLIENT_ONLY = frozenset({
    "activemq-artemis-jms", "activemq-jms", "qpid-jms", "qpid-proton-dotnet", "qpid-protonj2",
    "vertx-proton",
})  # fmt: skip
"""The arrows that have no server mode."""


@dataclass(frozen=True)
class Implementation:
    """An executable that understands the arrow or server contract.

    Attributes:
        name: without ``quiver-arrow-`` or ``quiver-server-``.
        command: the words that start it.
        extensions: whether it takes our own contract keys besides upstream's.
        client_only: whether it is known to have no server mode.
        keys: the keys of :data:`quiver_fast.options.server.SERVER_EXTENSIONS` that it takes.
        unavailable: why it cannot run here, in one line; None if it can.
    """

    name: str
    command: tuple[str, ...]
    extensions: bool = False
    client_only: bool = False
    keys: frozenset[str] = frozenset()
    unavailable: str | None = None

    def environment(self, verbose: bool = False) -> dict[str, str]:
        """Return our environment variables and those that the implementation needs."""
        environ = own_environment() if self.extensions else dict(os.environ)
        if verbose:
            environ["QUIVER_VERBOSE"] = "1"
        return environ


def find_arrow(name: str, environ: Mapping[str, str] = os.environ) -> Implementation:
    """Return the arrow implementation called ``name``, which may be an alias.

    ``pyfast`` is always this installation's own. Others are executables
    ``quiver-arrow-NAME`` in the directories of ``QUIVER_IMPL_PATH``, then in
    ``$QUIVER_HOME/impls``.

    Raises:
        UsageError: there is none; the message has the directories that were searched.
    """
    if name == DEFAULT_IMPLEMENTATION:
        command = own_command("quiver_fast.arrow.main")
        return Implementation(name, command, extensions=True)
    name = arrow_name(name)
    file = _find_file(_ARROW, name, ARROW_ALIASES, environ)
    return Implementation(name, (str(file),), client_only=name in CLIENT_ONLY)


def find_server(name: str, environ: Mapping[str, str] = os.environ) -> Implementation:
    """Return the server implementation called ``name``, found as :func:`find_arrow` does.

    A broker that has a launcher of ours is started by it, unless the user's own
    directories have another executable of that name.

    Raises:
        UsageError: there is none.
    """
    name = server_name(name)
    if name == DEFAULT_IMPLEMENTATION:
        command = own_command("quiver_fast.server.main")
        return Implementation(name, command, extensions=True, keys=SERVER_EXTENSIONS)
    if name not in BROKERS or _SERVER + name in _executables(_SERVER, environ):
        return Implementation(name, (str(_find_file(_SERVER, name, SERVER_ALIASES, environ)),))
    module = BROKERS[name]
    reason: str | None = importlib.import_module(module).BROKER.unavailable()
    command = own_command(module)
    return Implementation(name, command, extensions=True, unavailable=reason)


def all_arrows(environ: Mapping[str, str] = os.environ) -> list[Implementation]:
    """Return every arrow implementation that is found, by name."""
    names = {DEFAULT_IMPLEMENTATION, *_names(_ARROW, environ)}
    return [find_arrow(name, environ) for name in sorted(names)]


def all_servers(environ: Mapping[str, str] = os.environ) -> list[Implementation]:
    """Return every server implementation that is found, by name; some may be unavailable."""
    found = map(server_name, _names(_SERVER, environ))
    names = {DEFAULT_IMPLEMENTATION, *BROKERS, *found}
    return [find_server(name, environ) for name in sorted(names)]


def arrow_name(name: str) -> str:
    """Return the full name of the arrow that ``name`` or an alias stands for."""
    return _without_alias(name, ARROW_ALIASES)


def server_name(name: str) -> str:
    """Return the full name of the server that ``name`` or an alias stands for."""
    if name == _INSTALLED_SERVER:
        return DEFAULT_IMPLEMENTATION
    return _without_alias(name, SERVER_ALIASES)


def _without_alias(name: str, aliases: Mapping[str, tuple[str, ...]]) -> str:
    return next((full for full, others in aliases.items() if name in others), name)


def _names(prefix: str, environ: Mapping[str, str]) -> list[str]:
    return [name.removeprefix(prefix) for name in _executables(prefix, environ)]


def _executables(prefix: str, environ: Mapping[str, str]) -> dict[str, Path]:
    """Return the executables whose names begin with ``prefix``; the first directory wins."""
    found: dict[str, Path] = {}
    for directory in _search_path(environ):
        for file in directory.glob(f"{prefix}*"):
            if file.is_file() and os.access(file, os.X_OK):
                found.setdefault(file.name, file.absolute())
    return found


def _find_file(
    prefix: str, name: str, aliases: Mapping[str, tuple[str, ...]], environ: Mapping[str, str]
) -> Path:
    found = _executables(prefix, environ)
    if prefix + name in found:
        return found[prefix + name]
    if prefix == _ARROW and server_name(name) in {*SERVER_ALIASES, *_names(_SERVER, environ)}:
        raise UsageError(
            f"'{name}' is a server: start it by quiver-server --impl {name} //localhost/q0, and "
            "measure it by quiver //localhost/q0"
        )
    where = os.pathsep.join(map(str, _search_path(environ)))
    where = where or "QUIVER_IMPL_PATH and QUIVER_HOME are not set"
    there = _short_names(prefix, found)
    known = [*there, *aliases, *chain.from_iterable(aliases.values())]
    close = difflib.get_close_matches(name, [] if name in aliases else known, 1)
    hint = f"did you mean {close[0]}?" if close else f"available: {', '.join(there)}"
    raise UsageError(f"no implementation '{prefix}{name}' found ({where}); {hint}")


def _short_names(prefix: str, found: Iterable[str]) -> list[str]:
    """Return the names of the implementations that are found, with ours and our launchers'."""
    ours = () if prefix == _ARROW else BROKERS
    names = {DEFAULT_IMPLEMENTATION, *ours, *(file.removeprefix(prefix) for file in found)}
    return sorted(names)


def _search_path(environ: Mapping[str, str]) -> list[Path]:
    entries = environ.get("QUIVER_IMPL_PATH", "").split(os.pathsep)
    directories = [Path(entry) for entry in entries if entry]
    home = environ.get("QUIVER_HOME")
    return directories + ([Path(home) / "impls"] if home else [])
