"""Hooks of MkDocs for the site: pages from outside of docs/, and links out of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
# Pages beside docs/, by their names on the site.
BESIDE = {
    "index.md": "README.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
}
_LINK = re.compile(r"(!?)\[([^]]*)\]\((?!\w+:|#)([^)\s]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages beside docs/."""
    from mkdocs.structure.files import File

    for name, source in BESIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=site_links(text)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace links that leave docs/ with their text, because the site lacks their targets."""
    depth = page.file.src_uri.count("/")
    return _LINK.sub(lambda link: link[2] if link[3].startswith("../" * (depth + 1)) else link[0],
                     markdown)  # fmt: skip


def site_links(text: str) -> str:
    """Return a page beside docs/ with its links rewritten for the site."""
    return _LINK.sub(_on_the_site, text)


def _on_the_site(link: re.Match[str]) -> str:
    target, _, anchor = link[3].partition("#")
    if target.startswith("docs/"):
        return f"{link[1]}[{link[2]}]({link[3].removeprefix('docs/')})"
    for name, source in BESIDE.items():
        if target == source:
            return f"{link[1]}[{link[2]}]({name}{'#' if anchor else ''}{anchor})"
    return link[2]
