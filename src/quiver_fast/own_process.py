"""A process of our own programs: it finds this package, whatever else is where Python looks.

The file runs by its path. ``python -m`` would import a user's ``secrets.py`` from the current
folder in place of the library's, and the package may be on the ``sys.path`` of this process alone.
"""

import os
import sys

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


def main() -> None:
    """Run the module that the first argument names."""
    inherited = os.environ.pop(_VARIABLE, "")
    sys.path[:] = search_path(sys.path, inherited.split("\n") if inherited else [])
    # Only now, because this module may have a namesake, too.
    import runpy

    runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
