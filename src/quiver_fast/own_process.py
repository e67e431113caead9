"""The start of our own programs: quiet at Ctrl-C, and with this package.

A program that another one starts runs this file by its path. ``python -m`` would import a user's
``secrets.py`` from the current folder in place of the library's, and the package may be on the
``sys.path`` of this process alone.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_VARIABLE = "QUIVER_FAST_PATH"
_STANDARD = {
    os.path.basename(os.path.dirname(os.__file__)),
    "lib-dynload",
    "python{}{}.zip".format(*sys.version_info[:2]),
}


def own_command(module: str) -> tuple[str, ...]:
    """Return the words that run a module of this package."""
    return sys.executable, os.path.abspath(__file__), module


def own_environment() -> dict[str, str]:
    """Return our environment variables, with the folders in which the module may look as well."""
    folders = (_absolute(folder) for folder in sys.path if isinstance(folder, str))
    return os.environ | {_VARIABLE: "\n".join(filter(None, folders))}


def _absolute(folder: str) -> str:
    """Return the absolute path of a folder; empty if it is within a working folder now removed."""
    try:
        return os.path.abspath(folder)
    except OSError:
        return ""


def search_path(found: list[str], inherited: list[str]) -> list[str]:
    """Return the folders in which a process of ours looks for modules.

    Args:
        found: the folders of this process.
        inherited: the folders of the process that started it.
    """
    package = os.path.dirname(os.path.abspath(__file__))
    standard = [folder for folder in found if os.path.basename(folder) in _STANDARD]
    # The folder of a program comes first where Python has no -P, as before 3.11.
    others = [folder for folder in found if folder != package]
    return list(dict.fromkeys([*standard, os.path.dirname(package), *others, *inherited]))


def leave_if_interrupted() -> None:
    """End at Ctrl-C without a word, until the program has a handler of its own.

    A program has nothing to save or report while it imports. A signal that is ignored, as in a
    shell's background, stays ignored.
    """
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # The code that shells have for it; `errors` is not imported yet.
        signal.signal(signal.SIGINT, lambda number, _frame: os._exit(128 + number))


def _program(place: str) -> Callable[[], int]:
    """Return the entry point of a program, a function ``MODULE:NAME`` of this package."""

    def start() -> int:
        leave_if_interrupted()
        from pkgutil import resolve_name

        code: int = resolve_name(f"quiver_fast.{place}")()
        return code

    return start


quiver = _program("cli.commands:pair")
quiver_analyze = _program("cli.commands:analyze")
quiver_arrow = _program("cli.commands:arrow")
quiver_bench = _program("cli.commands:bench")
quiver_conform = _program("cli.commands:conform")
quiver_fleet = _program("cli.commands:fleet")
quiver_queue = _program("cli.commands:queue")
quiver_server = _program("cli.commands:server")
arrow_pyfast = _program("arrow.main:main")
server_activemq_artemis = _program("brokers.artemis:BROKER.main")
server_activemq_classic = _program("brokers.classic:BROKER.main")
server_pyfast = _program("server.main:main")
server_qpid_broker_j = _program("brokers.broker_j:BROKER.main")
server_rabbitmq = _program("brokers.rabbitmq:BROKER.main")
server_rabbitmq_4 = _program("brokers.rabbitmq4:BROKER.main")
server_skrouterd = _program("brokers.skrouterd:BROKER.main")


def main() -> None:
    """Run the module that the first argument names."""
    inherited = os.environ.pop(_VARIABLE, "")
    sys.path[:] = search_path(sys.path, inherited.split("\n") if inherited else [])
    # Only now, because these modules may have namesakes, too.
    leave_if_interrupted()
    import runpy

    runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
