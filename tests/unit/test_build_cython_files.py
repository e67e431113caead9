"""Cython's output counts as translated only when it is whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from setuptools import Extension

from buildtools import cython_build


def test_half_of_a_file_is_not_translated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = Path("src", "toy.pyx")
    source.parent.mkdir()
    source.write_text("def one() -> int:\n    return 1\n")
    extension = Extension("toy", [str(source)])
    translated = cython_build.cython_compile

    def killed(*given: object, **options: object) -> None:
        translated(*given, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(cython_build, "cython_compile", killed)
    with pytest.raises(KeyboardInterrupt):
        cython_build._translate(extension)
    assert cython_build._is_changed(source)
    monkeypatch.setattr(cython_build, "cython_compile", translated)
    cython_build._translate(extension)
    assert not cython_build._is_changed(source)
