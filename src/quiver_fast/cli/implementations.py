"""Finding arrow and server implementations: ours, and any that upstream's layout has."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from quiver_fast.errors import UsageError

__all__ = [
    "ARROW_ALIASES",
    "DEFAULT_IMPLEMENTATION",
    "SERVER_ALIASES",
    "Implementation",
    "find_arrow",
    "find_server",
]

DEFAULT_IMPLEMENTATION = "pyfast"

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
    "builtin": (),
    "qpid-dispatch": ("qdrouterd", "dispatch"),
}
"""The servers that upstream knows, each with its aliases."""

_CLIENT_ONLY = frozenset(
    {
        "activemq-artemis-jms",
        "activemq-jms",
        "qpid-jms",
        "qpid-protonj2",
        "qpid-proton-dotnet",
        "vertx-proton",
    }
)


@dataclass(frozen=True)
class Implementation:
    """An executable that understands the arrow or server contract.

    Attributes:
        name: without ``quiver-arrow-`` or ``quiver-server-``.
        command: the words that start it.
        extensions: whether it takes our own contract keys besides upstream's.
        client_only: whether it is known to have no server mode.
    """

    name: str
    command: tuple[str, ...]
    extensions: bool = False
    client_only: bool = False

    def environment(self, verbose: bool = False) -> dict[str, str]:
        """Return the environment variables to run it with: ours, and what it needs besides."""
        environ = dict(os.environ)
        if verbose:
            environ["QUIVER_VERBOSE"] = "1"
        if self.extensions:
            # `python -m` would otherwise import from the current directory first.
            environ["PYTHONSAFEPATH"] = "1"
        return environ


def find_arrow(name: str, environ: Mapping[str, str] = os.environ) -> Implementation:
    """Return the arrow implementation called ``name``, which may be an alias.

    ``pyfast`` is always this installation's own. Others are executables
    ``quiver-arrow-NAME`` in the directories of ``QUIVER_IMPL_PATH``, then in
    ``$QUIVER_HOME/impls``.

    Raises:
        UsageError: there is none; the message says where it was looked for.
    """
    if name == DEFAULT_IMPLEMENTATION:
        # -m finds the arrow beside this very module in every kind of installation.
        command = (sys.executable, "-m", "quiver_fast.arrow")
        return Implementation(name, command, extensions=True)
    name = _without_alias(name, ARROW_ALIASES)
    file = _find_file(f"quiver-arrow-{name}", environ)
    return Implementation(name, (str(file),), client_only=name in _CLIENT_ONLY)


def find_server(name: str, environ: Mapping[str, str] = os.environ) -> Implementation:
    """Return the server implementation called ``name``, found as :func:`find_arrow` does.

    Raises:
        UsageError: there is none.
    """
    if name == DEFAULT_IMPLEMENTATION:
        raise UsageError(
            "this version has no server of its own yet; "
            "name another with --impl (see quiver-server --help)"
        )
    name = _without_alias(name, SERVER_ALIASES)
    return Implementation(name, (str(_find_file(f"quiver-server-{name}", environ)),))


def _without_alias(name: str, aliases: Mapping[str, tuple[str, ...]]) -> str:
    return next((full for full, others in aliases.items() if name in others), name)


def _find_file(file_name: str, environ: Mapping[str, str]) -> Path:
    directories = _search_path(environ)
    for directory in directories:
        file = directory / file_name
        if file.is_file() and os.access(file, os.X_OK):
            return file.absolute()
    where = os.pathsep.join(map(str, directories)) or "QUIVER_IMPL_PATH and QUIVER_HOME are not set"
    raise UsageError(f"no implementation '{file_name}' found ({where})")


def _search_path(environ: Mapping[str, str]) -> list[Path]:
    entries = environ.get("QUIVER_IMPL_PATH", "").split(os.pathsep)
    directories = [Path(entry) for entry in entries if entry]
    home = environ.get("QUIVER_HOME")
    return directories + ([Path(home) / "impls"] if home else [])
