"""The documents as a site: every page is in its navigation, and every link leads somewhere.

`make docs-site` has MkDocs check the same, and the places in pages, which takes an installation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from buildtools.site_hooks import BESIDE, site_links

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *(ROOT / name for name in BESIDE.values())])
LINK = re.compile(r"\[[^]]*\]\((?!\w+:)([^)\s]+)\)")


def navigation() -> list[str]:
    config: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    return [*places(config["nav"])]


def places(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, list):
        for one in part:
            yield from places(one)
    else:
        yield from places([*part.values()])


def test_every_page_is_in_the_navigation_once() -> None:
    there = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")]
    assert sorted(navigation()) == sorted([*there, *BESIDE])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = without_code(page.read_text(encoding="utf-8"))
    for target in LINK.findall(text):
        name, _, place = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.exists(), target
        if place:
            assert place in anchors(path.read_text(encoding="utf-8")), target


def without_code(text: str) -> str:
    """Return a page without what is shown as it stands."""
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^ {4}.*$|`[^`\n]*`", "", text, flags=re.MULTILINE)


def anchors(text: str) -> set[str]:
    """Return the places of a page that a link can name."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


def test_links_of_the_first_page_are_those_of_the_site() -> None:
    assert site_links("[a](docs/load.md#x) ![b](docs/pictures/c.png)") == (
        "[a](load.md#x) ![b](pictures/c.png)"
    )
    assert site_links("[CONTRIBUTING.md](CONTRIBUTING.md) [d](src/x.py) [e](https://x/y)") == (
        "[CONTRIBUTING.md](CONTRIBUTING.md) d [e](https://x/y)"
    )
