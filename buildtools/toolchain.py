"""The C compiler, pkg-config and OpenSSL of the building machine."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import NamedTuple

# Errors of GCC 14 are errors with every compiler, because they are faults.
FAULTS = [
    "-Werror=implicit-function-declaration", "-Werror=implicit-int",
    "-Werror=incompatible-pointer-types", "-Werror=int-conversion", "-Werror=return-type",
]  # fmt: skip


class BuildError(RuntimeError):
    """The build cannot go on; the message has the remedy."""


class OpenSSL(NamedTuple):
    """Flags that compile and link against OpenSSL."""

    compile_flags: list[str]
    link_flags: list[str]
    version: str


def compiler() -> list[str]:
    """Return the C compiler's command: ``CC``, else the one that built this Python."""
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return shlex.split(command)


def cached(command: list[str]) -> list[str]:
    """Return a compiler's command that goes through ccache, where that is installed and works.

    Its key has the paths within a checkout alone, so a fresh clone finds what another one compiled.
    """
    if shutil.which("ccache") is None:
        return command
    words = ["env", f"CCACHE_BASEDIR={Path.cwd()}", "CCACHE_NOHASHDIR=1", "ccache", *command]
    with tempfile.TemporaryDirectory() as scratch:
        output = ["-o", str(Path(scratch, "probe.o"))]
        try:
            run([*words, "-c", "-x", "c", os.devnull, *output])
        except BuildError as error:
            # Its folder may be on a full disk or belong to somebody else.
            sys.stderr.write(f"quiver-fast: building without ccache: {error}\n")
            return command
    return words


def compiler_version() -> str:
    """Return the first line of ``cc --version``.

    Raises:
        BuildError: there is no such compiler.
    """
    return run([*compiler(), "--version"]).partition("\n")[0]


def is_gcc() -> bool:
    """Say whether the compiler is GCC, whatever its command is called.

    Raises:
        BuildError: there is no such compiler.
    """
    return "Free Software Foundation" in run([*compiler(), "--version"])


def environment_flags(name: str) -> list[str]:
    """Return the flags in ``CFLAGS`` or ``LDFLAGS``, which distributions and sanitizers set."""
    return shlex.split(os.environ.get(name, ""))


def optimization(*usual: str) -> list[str]:
    """Return the level of optimization in ``CFLAGS``, else the ``usual`` flags.

    Builds for sanitizers and fuzzing use a lower level.
    """
    asked = [flag for flag in environment_flags("CFLAGS") if flag.startswith("-O")]
    return asked[-1:] or list(usual)


def run(command: list[str]) -> str:
    """Run ``command`` and return its standard output.

    Raises:
        BuildError: the program is missing or failed; the message has its diagnostics.
    """
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise BuildError(f"{command[0]}: not found (Debian: gcc libc6-dev)") from None
    if result.returncode != 0:
        raise BuildError(f"{shlex.join(command)}\n{result.stderr}")
    return result.stdout


def pkg_config(*arguments: str) -> str | None:
    """Return the output of pkg-config, or None if it or the package is missing."""
    tool = shlex.split(os.environ.get("PKG_CONFIG", "pkg-config"))
    try:
        result = subprocess.run([*tool, *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return result.stdout.strip() if result.returncode == 0 else None


def openssl() -> OpenSSL | None:
    """Return the flags for OpenSSL, or None if its headers or libraries are missing."""
    compile_flags = pkg_config("--cflags", "openssl")
    link_flags = pkg_config("--libs", "openssl")
    version = pkg_config("--modversion", "openssl")
    if compile_flags is None or link_flags is None or version is None:
        # pkg-config does not know it; the compiler may still find it by itself.
        compile_flags, link_flags, version = "", "-lssl -lcrypto", "unknown"
    found = OpenSSL(shlex.split(compile_flags), shlex.split(link_flags), version)
    return found if _links_openssl(found) else None


def _links_openssl(found: OpenSSL) -> bool:
    source = "#include <openssl/ssl.h>\nint main(void) { return !SSL_CTX_new(TLS_method()); }\n"
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "probe.c")
        path.write_text(source)
        output = ["-o", str(Path(scratch, "probe"))]
        flags = [*environment_flags("CFLAGS"), *found.compile_flags]
        libraries = [*environment_flags("LDFLAGS"), *found.link_flags]
        try:
            run([*compiler(), *flags, str(path), *output, *libraries])
        except BuildError:
            return False
    return True


def demand_tls() -> bool:
    """Say whether ``QUIVER_FAST_TLS`` makes the absence of OpenSSL an error.

    Raises:
        BuildError: the variable is neither empty, ``0`` nor ``1``.
    """
    value = os.environ.get("QUIVER_FAST_TLS", "")
    if value not in {"", "0", "1"}:
        raise BuildError(f"QUIVER_FAST_TLS={value}: expected 0 or 1")
    return value == "1"


def report_no_tls() -> None:
    """Warn that this build has no TLS.

    Raises:
        BuildError: ``QUIVER_FAST_TLS=1`` forbids such a build.
    """
    message = "OpenSSL headers not found (Debian: libssl-dev): building WITHOUT TLS"
    if demand_tls():
        raise BuildError(f"{message}, which QUIVER_FAST_TLS=1 forbids")
    line = "*" * (len(message) + 4)
    sys.stderr.write(f"\n{line}\n* {message} *\n{line}\n\n")
