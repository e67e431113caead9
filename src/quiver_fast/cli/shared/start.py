"""Starting an implementation: its command line, its environment, and how it gets its password."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from quiver_fast.cli.shared.common import require_output
from quiver_fast.cli.shared.implementations import Implementation
from quiver_fast.errors import QuiverError, UsageError
from quiver_fast.process import STOP_GRACE, Child, open_pipe


def start_implementation(
    implementation: Implementation,
    arguments: Callable[[int | None], list[str]],
    *,
    password: str | None = None,
    secrets: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
    prelude: Sequence[str] = (),
    verbose: bool = False,
    output: Path | None = None,
    errors: TextIO | None = None,
    merge_errors: bool = False,
    grace: float = STOP_GRACE,
    withheld: str = "",
) -> Child:
    """Start an implementation and return its process.

    Args:
        implementation: what to start.
        arguments: returns the contract arguments; it gets the descriptor of the password,
            or None.
        password: the password, if the implementation reads it from a descriptor.
        secrets: further secrets, by the contract keys that take their descriptors.
        pass_fds: further descriptors that it inherits; the caller closes them.
        prelude: words before those of the implementation.
        verbose: have it be verbose.
        output: see :class:`quiver_fast.process.Child`, also for the next four.
        errors: takes the lines of standard error.
        merge_errors: send standard error to the same place as standard output.
        grace: seconds to end after a first signal.
        withheld: see ``Child``.

    Raises:
        QuiverError: it cannot be started.
    """
    password_fd = None if password is None else secret_pipe(password)
    secret_fds = {key: secret_pipe(secret) for key, secret in (secrets or {}).items()}
    words = [*arguments(password_fd), *(f"{key}={fd}" for key, fd in secret_fds.items())]
    command = [*prelude, *implementation.command, *words]
    fds = (*(() if password_fd is None else (password_fd,)), *secret_fds.values())
    try:
        return Child(
            command,
            implementation.environment(verbose),
            output=output,
            errors=errors,
            merge_errors=merge_errors,
            pass_fds=(*fds, *pass_fds),
            grace=grace,
            withheld=withheld,
        )
    except OSError as error:
        raise QuiverError(f"cannot start '{command[0]}': {error.strerror}") from error
    finally:
        for fd in fds:
            os.close(fd)


def print_information(implementation: Implementation) -> int:
    """Have an implementation print its details, and return its exit code.

    Raises:
        OutputError: our standard output was closed.
    """
    require_output()
    environ = implementation.environment()
    return subprocess.run(implementation.command, env=environ, check=False).returncode


def prelude_words(prelude: str) -> tuple[str, ...]:
    """Split the value of ``--prelude`` as a shell does.

    Raises:
        UsageError: a quoted part has no end.
    """
    try:
        return tuple(shlex.split(prelude))
    except ValueError as error:
        raise UsageError(f"--prelude: {error}") from None


def secret_pipe(password: str) -> int:
    """Return a descriptor from which the child reads the password, and nobody else can."""
    read_end, write_end = open_pipe()
    with os.fdopen(write_end, "wb") as pipe:
        pipe.write(password.encode(errors="surrogateescape"))
    return read_end
