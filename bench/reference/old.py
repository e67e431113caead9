"""The tree before the data plane, a reference for the data plane.

It comes out of the repository's own history into ``build/old``, with an environment of its
own, and is built once.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from bench.reference.build import ROOT, BuildError

COMMIT = "e223107812ef777d58caa5d2665f6d757e0a771f"
FOLDER = ROOT / "build" / "old"


class Tree(NamedTuple):
    """A tree with its programs, and the Python that has them installed."""

    root: Path
    python: str

    @property
    def arrow(self) -> list[str]:
        """The command of its arrow."""
        return [self.python, str(self.root / "impls" / "quiver-arrow-pyfast")]

    def server(self, port: int) -> list[str]:
        """Return the command line of its server."""
        program = str(self.root / "impls" / "quiver-server-pyfast")
        where = ["host=127.0.0.1", f"port={port}", "path=q", "ready-file=-", "quiet=1"]
        return [self.python, program, *where]


def tree(folder: Path = FOLDER, commit: str = COMMIT) -> Tree:
    """Return the tree of a commit, built if it is missing.

    Raises:
        BuildError: the history lacks the commit, or it cannot be built; one line has the reason.
    """
    if not (folder / ".venv" / ".installed").exists():
        unpack(folder, commit)
        _build(folder)
    return Tree(folder, str(folder / ".venv" / "bin" / "python"))


def unpack(folder: Path, commit: str) -> None:
    """Extract the files of a commit into a folder.

    Raises:
        BuildError: the history lacks the commit.
    """
    with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
        command = ["git", "-C", str(ROOT), "archive", f"--output={archive.name}", commit]
        try:
            subprocess.run(command, stderr=subprocess.DEVNULL, check=True)
        except (OSError, subprocess.CalledProcessError):
            raise BuildError(
                f"no tree of {commit[:7]}: it needs git and the whole history "
                "(git fetch --unshallow)"
            ) from None
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["tar", "-xf", archive.name, "-C", str(folder)], check=True)


def _build(folder: Path) -> None:
    command = ["make", "-C", str(folder), ".venv/.installed"]
    environment = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")
    }
    made = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if made.returncode != 0:
        last = (made.stderr.strip().splitlines() or ["no reason"])[-1]
        raise BuildError(f"the tree of {COMMIT[:7]} cannot be built in {folder}: {last}")
