"""An arrow or server as a process of the contract: help, description, work, errors."""

from __future__ import annotations

import sys
from collections.abc import Callable

from quiver_fast import __version__
from quiver_fast.errors import EXIT_FAILURE, EXIT_OK, QuiverError, UsageError, one_line
from quiver_fast.standard_streams import (
    discard,
    flush_output,
    lost_output,
    missing_output,
    prepare_streams,
)


def run_program(
    name: str,
    argv: list[str] | None,
    usage: Callable[[], str],
    description: Callable[[], str],
    work: Callable[[list[str]], None],
) -> int:
    """Run a program of the contract and return its exit code.

    Without arguments it prints its description, which a command shows for ``--info``.

    Args:
        name: the program's name.
        argv: its arguments; None for the process's own.
        usage: returns the text of ``--help``.
        description: returns the program's description.
        work: does the work for the arguments.
    """
    prepare_streams()
    words = sys.argv[1:] if argv is None else argv
    try:
        if not words:
            return _tell(name, description())
        if "-h" in words or "--help" in words:
            return _tell(name, usage())
        if "--version" in words:
            return _tell(name, f"{name} {__version__}\n")
        work(words)
    except UsageError as error:
        # Imported late, because most arrows do not need it.
        from quiver_fast.urls import hide_user

        return _fail(name, hide_user(str(error)), error.exit_code)
    except QuiverError as error:
        return _fail(name, str(error), error.exit_code)
    except OSError as error:
        return _fail(name, error.strerror or str(error), EXIT_FAILURE)
    except MemoryError:
        return _fail(name, "out of memory", EXIT_FAILURE)
    return EXIT_OK


def _tell(name: str, text: str) -> int:
    """Print a text on standard output, and return the exit code."""
    try:
        sys.stdout.write(text)
        failed = flush_output() or missing_output()
    except OSError as error:
        failed = error
        discard(sys.stdout)
    lost = lost_output(failed)
    return EXIT_OK if lost is None else _fail(name, lost, EXIT_FAILURE)


def _fail(name: str, message: str, exit_code: int) -> int:
    """Print ``message`` on one line of standard error, and return ``exit_code``."""
    sys.stderr.write(f"{name}: error: {one_line(message)}\n")
    return exit_code


def warn_of_unknown(name: str, keys: tuple[str, ...]) -> None:
    """Warn of ignored arguments, if any, on one line of standard error.

    The line has only their keys: a value may be a secret.
    """
    if keys:
        warn(name, f"unknown argument{'s' * (len(keys) > 1)} ignored: {', '.join(keys)}")


def warn(name: str, what: str) -> None:
    """Write a warning as one line of standard error."""
    sys.stderr.write(f"{name}: warning: {one_line(what)}\n")


def describe(name: str, *extra_features: str) -> str:
    """Return the description of a program with our engine: its versions and features."""
    from quiver_fast import features
    from quiver_fast.proton import info

    python = ".".join(map(str, sys.version_info[:3]))
    engine = "bundled" if info.bundled() else "system"
    return (
        f"{name} {__version__}\n"
        f"Engine: Qpid Proton {info.engine_version()} ({engine})\n"
        f"Python: {python}\n"
        f"Features: {' '.join([*features(), *extra_features])}\n"
    )
