"""Hints of what to install: they work as they are printed, and as the documents have them."""

from __future__ import annotations

import shlex
import sys
from importlib import metadata
from pathlib import Path

import pytest

from quiver_fast.extras import how_to_install

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize(
    ("extra", "pages"),
    [
        ("analysis", ["analysis"]),
        ("metrics", ["metrics"]),
        ("pandas", ["api"]),
        ("spark", ["spark", "fleet"]),
    ],
)
def test_a_hint_names_the_libraries_of_an_extra(extra: str, pages: list[str]) -> None:
    words = shlex.split(how_to_install(extra))
    assert words[:4] == [sys.executable, "-m", "pip", "install"]
    wanted = [line.split(";")[0] for line in metadata.requires("quiver-fast") or []
              if f'extra == "{extra}"' in line]  # fmt: skip
    assert words[4:] == wanted != []
    for page in pages:
        text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
        assert shlex.join(["pip", "install", *wanted]) in text
        assert f"quiver-fast[{extra}]" not in text


def test_a_source_tree_without_metadata_has_a_hint_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", missing)
    assert how_to_install("spark") == "install the extra 'spark' of quiver-fast's pyproject.toml"
