"""Checks for every error of the arrow."""

from __future__ import annotations

from support.processes import Finished

# An error is known at once; the rest is the start of Python on a loaded machine, or under QEMU.
ERROR_SECONDS = 30.0


def assert_error(
    end: Finished, *fragments: str, code: int = 1, within: float = ERROR_SECONDS
) -> None:
    """The arrow ended with one line on stderr that has the error and the place.

    Args:
        end: How it ended.
        fragments: Each must be in that line, in any case.
        code: The exit code due.
        within: Seconds that it may take.
    """
    assert "Traceback" not in end.stderr, end.stderr
    lines = end.stderr.splitlines()
    assert len(lines) == 1, f"not one line on stderr: {end}"
    assert end.stderr.endswith("\n")
    missing = [fragment for fragment in fragments if fragment.lower() not in lines[0].lower()]
    assert not missing, f"stderr lacks {missing}: {lines[0]!r}"
    assert end.code == code, end
    assert end.seconds < within, f"took {end.seconds:.1f} s: {end.stderr!r}"


def assert_clean(end: Finished) -> None:
    """The arrow succeeded and had nothing to say."""
    assert (end.code, end.stderr) == (0, ""), end
