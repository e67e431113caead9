"""The wall clock of processes, which a test sets while they run."""

from __future__ import annotations

from pathlib import Path

from support.preload import compile_preload, preloading


def compile_clock(folder: Path) -> Path:
    """Compile the library that steps the clock of a process; return its path."""
    return compile_preload(Path(__file__).with_name("clock_steps.c"), folder)


class SteppedClock:
    """A wall clock: that of the system, and the sum of all steps.

    Args:
        folder: the folder for its file.
        library: the result of :func:`compile_clock`.
    """

    def __init__(self, folder: Path, library: Path) -> None:
        self.path = folder / "clock"
        self.environment = {"QUIVER_CLOCK": str(self.path), **preloading(library)}
        self.ahead = 0
        self.step(0)

    def step(self, seconds: float) -> None:
        """Step by so many seconds, at once."""
        self.ahead += int(seconds * 1e9)
        data = self.ahead.to_bytes(8, "little", signed=True)
        # In place: the processes have the file in their memory.
        with self.path.open("r+b" if self.path.exists() else "wb") as file:
            file.write(data)
