"""What pyproject.toml cannot say: the Proton engine and the Cython modules."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from buildtools import proton_engine  # noqa: E402

SOURCE = Path("src")
# Modules on these floors are plain C; all others talk to the engine.
WITHOUT_ENGINE = {"records", "queuefile"}

# Hot modules trust their own bounds; the tests hold them to slow twins.
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "embedsignature": True,
    "freethreading_compatible": False,
}
COMPILE_ARGS = ["-O3", "-fno-plt", "-fno-semantic-interposition", "-fvisibility=hidden"]


def needs_engine(path: Path) -> bool:
    """Say whether the module at ``path`` calls the engine."""
    return path.parent.name not in WITHOUT_ENGINE


def extensions() -> list[Extension]:
    """Declare one extension per .pyx file; the file's place is its module name."""
    found = []
    for path in sorted((ROOT / SOURCE).rglob("*.pyx")):
        relative = path.relative_to(ROOT / SOURCE)
        module = ".".join(relative.with_suffix("").parts)
        found.append(
            Extension(
                module, [str(SOURCE / relative)], extra_compile_args=list(COMPILE_ARGS)
            )
        )
    return found


class BuildWithEngine(build_ext):
    """Build the engine first, then the modules against it."""

    def run(self) -> None:
        """Compile everything; an engine failure is one clear message."""
        package = SOURCE if self.inplace else Path(self.build_lib)
        try:
            engine = proton_engine.prepare(
                ROOT / "build" / "engine", package / "quiver_fast" / "proton"
            )
        except proton_engine.BuildError as error:
            raise SystemExit(f"quiver-fast: {error}") from None
        for extension in self.extensions:
            if needs_engine(Path(extension.sources[0])):
                self._link_engine(extension, engine)
        super().run()

    @staticmethod
    def _link_engine(extension: Extension, engine: proton_engine.Engine) -> None:
        extension.include_dirs += engine.include_dirs
        extension.library_dirs += engine.library_dirs
        extension.libraries += engine.libraries
        extension.extra_compile_args += engine.compile_args
        extension.extra_link_args += engine.link_args
        extension.define_macros += [
            ("QUIVER_ENGINE_BUNDLED", str(int(engine.bundled))),
            # The work list is deprecated in favour of events, which cost more.
            ("PN_USE_DEPRECATED_API", "1"),
        ]


setup(
    ext_modules=cythonize(
        extensions(),
        compiler_directives=DIRECTIVES,
        include_path=[str(SOURCE)],
        build_dir="build/cython",
        annotate=os.environ.get("QUIVER_FAST_ANNOTATE") == "1",
        nthreads=os.cpu_count() or 1,
    ),
    cmdclass={"build_ext": BuildWithEngine},
)
