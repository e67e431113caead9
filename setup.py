"""The package's libraries and Cython modules, which pyproject.toml cannot describe."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

if sys.platform != "linux":
    # Its loops use epoll, eventfd, accept4 and ppoll.
    raise SystemExit("quiver-fast needs Linux; on macOS and Windows, use its container or WSL")

from setuptools import Distribution, Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from buildtools import (  # noqa: E402
    cython_build,
    declarations,
    modules,
    proton_engine,
    shared_library,
    stubs,
    toolchain,
)
from buildtools.cython_build import COVERAGE, SOURCE  # noqa: E402

BUILD = ROOT / "build"
IN_PLACE = BUILD / f"in-place-{sys.implementation.cache_tag}"

# Debug information would name the machine that built the wheel. A product and a sum stay two
# operations, also where the processor has one for both: every machine calculates the same bits.
COMPILE_ARGS = [
    "-g0", "-fno-plt", "-fno-semantic-interposition", "-fvisibility=hidden", "-ffp-contract=off",
    *toolchain.FAULTS,
]  # fmt: skip

# Flags of the user that change a module.
FLAGS = ("CFLAGS", "CPPFLAGS", "LDFLAGS")

# Threads count without the interpreter's lock, so counters have to be atomic.
COVERAGE_ARGS = ["--coverage", "-fprofile-update=atomic", "-O0"] if COVERAGE else []


def amqp_library() -> shared_library.Library:
    """Declare the library of the C in amqp/, with OpenSSL or with a stub that has no TLS.

    Raises:
        BuildError: OpenSSL is missing, and ``QUIVER_FAST_TLS=1`` demands it.
    """
    folder = SOURCE / modules.AMQP_FOLDER
    tls, stub = set(folder.glob("tls_*.c")), folder / "tls_absent.c"
    openssl = toolchain.openssl()
    if openssl is None:
        toolchain.report_no_tls()
        openssl = toolchain.OpenSSL([], [], "none")
        left_out = tls - {stub}
    else:
        left_out = {stub}
    # Link-time optimization saves 3 % of the instructions of a message.
    optimization = COVERAGE_ARGS or toolchain.optimization("-O3", "-flto=auto")
    return shared_library.Library(
        "quiver-amqp",
        sorted({*folder.glob("*.[ch]")} - left_out),
        [*optimization, *openssl.compile_flags],
        openssl.link_flags,
        openssl.version,
    )


def declare() -> None:
    """Write Cython's declarations of the engine and of the data plane, and the modules' stubs.

    Raises:
        SystemExit: the headers are missing, or cannot be read.
    """
    try:
        engine_headers = proton_engine.headers(BUILD / "engine")
        declarations.write(SOURCE, modules.AMQP_FOLDER, engine_headers)
        stubs.write(SOURCE)
    except proton_engine.BuildError as error:
        raise SystemExit(f"quiver-fast: {error}") from None


def remove_all(paths: set[Path]) -> None:
    """Delete files of an earlier build that this one would not write."""
    for path in paths:
        path.unlink()


class BuildPackage(build_py):
    """Copy the modules into a folder without files of deleted sources."""

    def run(self) -> None:
        """Empty the build folder of all but compiled modules, then copy."""
        declare()
        if not self.editable_mode:
            files = {path for path in Path(self.build_lib).rglob("*") if path.is_file()}
            remove_all({path for path in files if path.suffix != ".so"})
        super().run()


class BuildWithLibraries(build_ext):
    """Build the libraries first, then the modules against them."""

    def run(self) -> None:
        """Compile everything; a failure of a library is one clear message."""
        declare()
        in_place = self.inplace or self.editable_mode
        if in_place:
            # Not the folder of the wheel, which is optimized; setuptools would use a new folder for
            # each editable installation.
            self.build_lib, self.build_temp = str(IN_PLACE / "lib"), str(IN_PLACE / "temp")
        package = SOURCE if in_place else Path(self.build_lib)
        if not in_place:
            expected = {Path(self.get_ext_fullpath(item.name)) for item in self.extensions}
            remove_all(set(package.rglob("*.so")) - expected)
        try:
            amqp = shared_library.compile_once(amqp_library(), Path(self.build_temp, "amqp"))
            engine = proton_engine.prepare(BUILD / "engine", package / modules.ENGINE_FOLDER)
        except proton_engine.BuildError as error:
            raise SystemExit(f"quiver-fast: {error}") from None
        shared_library.install(amqp, package / modules.AMQP_FOLDER)
        flags = [toolchain.compiler(), *map(os.environ.get, FLAGS)]
        flags_stamp = self._stamp("flags", repr(flags))
        engine_stamp = self._stamp("engine", repr(engine))
        for extension in self.extensions:
            source = Path(extension.sources[0])
            extension.extra_compile_args += [
                *toolchain.optimization(cython_build.optimization(extension)),
                *COMPILE_ARGS, *COVERAGE_ARGS,
            ]  # fmt: skip
            extension.extra_link_args += COVERAGE_ARGS
            extension.depends.append(flags_stamp)
            for folder in modules.include_dirs(source, SOURCE):
                extension.include_dirs.append(str(folder))
                extension.depends += map(str, sorted(folder.glob("*.h")))
            if modules.needs_amqp(source, SOURCE):
                self._link(extension, amqp, modules.AMQP_FOLDER)
            if modules.needs_engine(source, SOURCE):
                self._link_engine(extension, engine, engine_stamp)
        super().run()

    def build_extensions(self) -> None:
        """Translate and compile the modules, without the run path of this Python's own build.

        It is a folder of the building machine, and a module needs no libpython.
        """
        own = shlex.split(sysconfig.get_config_var("LDSHARED") or "")
        foreign = {word for word in own if word.startswith("-Wl,-rpath")}
        self.compiler.linker_so = [w for w in self.compiler.linker_so if w not in foreign]
        self.compiler.compiler_so = toolchain.cached(self.compiler.compiler_so)
        cython_build.build(self)

    def _stamp(self, name: str, facts: str) -> str:
        """Return a file that is newer than modules built with other ``facts``."""
        path = Path(self.build_temp, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text() != facts:
            path.write_text(facts)
        return str(path)

    @staticmethod
    def _link(extension: Extension, library: Path, folder: Path) -> None:
        """Link a module with a library of the package, which is in ``folder`` of it."""
        run_path = modules.run_path(extension.name, folder, "$ORIGIN")
        extension.extra_link_args += [str(library), f"-Wl,-rpath,{run_path}"]

    def _link_engine(self, extension: Extension, engine: proton_engine.Engine, stamp: str) -> None:
        extension.extra_compile_args += engine.compile_args
        extension.extra_link_args += engine.link_args
        if engine.library:
            self._link(extension, engine.library, modules.ENGINE_FOLDER)
        extension.define_macros.append(("QUIVER_ENGINE_BUNDLED", str(int(bool(engine.library)))))
        extension.depends.append(stamp)


class InstallManual(Distribution().get_command_class("install_data")):  # type: ignore[misc]
    """Put manual pages and completions into the wheel, written by the modules that it has."""

    def run(self) -> None:
        """Write them from the parsers of the built commands, then copy."""
        built = Path(self.get_finalized_command("build").build_lib).resolve()
        share = BUILD / "share"
        # An isolated pip gives the requirements of a build by sys.path alone.
        places = [str(built), str(ROOT), *filter(None, sys.path)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
        command = [sys.executable, "-m", "buildtools.manual", str(share)]
        subprocess.run(command, env=environment, cwd=BUILD, check=True)
        files = sorted(path for path in share.rglob("*") if path.is_file())
        self.data_files = [
            (str("share" / path.parent.relative_to(share)), [str(path)]) for path in files
        ]
        super().run()


# Two Pythons building from one tree share generated C and setuptools' bdist folder.
with proton_engine.locked(BUILD / ".lock"):
    setup(
        ext_modules=cython_build.declared(ROOT),
        # The list of copied files would bury the error of a failed build.
        verbose=0,
        # Setuptools installs data only if some are named; `InstallManual` finds the files.
        data_files=[("share", [])],
        cmdclass={
            "build_ext": BuildWithLibraries,
            "build_py": BuildPackage,
            "install_data": InstallManual,
        },
    )
