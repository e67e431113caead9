"""Programs of another Debian release, which run beside this system's own.

The other system is a folder with all files of that release. A mount puts its ``/usr`` in place of
this system's, for one program and its children: programs and libraries are the other system's,
while files, processes and ports are this system's. The kernel unmounts it with the last of the
processes, however they end.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from quiver_fast.brokers.launcher import cached

_CHECK_SECONDS = 10.0

_ENTER = 'mount --bind "$1/usr" /usr && shift && exec "$@"'


@dataclass(frozen=True)
class DebianRoot:
    """Another system.

    Attributes:
        path: its root.
    """

    path: Path

    def unavailable(self) -> str | None:
        """Return in one line why its programs cannot be run here, or None if they can."""
        if shutil.which("unshare") is None:
            return f"programs in {self.path} need unshare (of util-linux) on the PATH"
        done = subprocess.run(
            [*_namespace(), "true"], capture_output=True, text=True, timeout=_CHECK_SECONDS
        )
        if done.returncode != 0:
            return f"programs in {self.path} need a mount namespace: {done.stderr.strip()}"
        return None

    def command(self, words: Sequence[str]) -> list[str]:
        """Return the words that run the command ``words`` of the other system."""
        return [*_namespace(), "sh", "-c", _ENTER, "sh", str(self.path.absolute()), *words]


def cached_root() -> DebianRoot:
    """Return the system in the user's cache, where the project's own tests install RabbitMQ."""
    return DebianRoot(cached("rabbitmq-4"))


def _namespace() -> list[str]:
    # A user who is not root becomes root in a user namespace, where the system allows that.
    return ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
