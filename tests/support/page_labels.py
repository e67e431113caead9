"""The labels of a page, and the glossary of the documents."""

from __future__ import annotations

import html
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = "### Words of the page"


def unknown_labels(page: str) -> list[str]:
    """Return the labels of a page that neither its glossary nor the table of options has."""
    text = (ROOT / "docs" / "analysis.md").read_text()
    known = {
        word.strip().lower()
        for row in re.findall(r"^\| (.+?) \|", text.split(GLOSSARY)[1], re.MULTILINE)
        for word in row.split(", ")
    }
    labels = re.findall(r"<(dt|th|h3|h2|figcaption)[^>]*>(.*?)</\1>", page)
    options = (ROOT / "docs" / "options.md").read_text()
    missing = []
    for _, label in labels:
        shown = html.unescape(re.sub(r"<[^>]+>", "", label))
        if shown.startswith("Run "):
            continue  # the name of a folded run
        # A chart has a verdict or a number after its name.
        shown = re.sub(r"(: (?!shares).*| of each run| over \d+ runs?)$", "", shown)
        word = re.sub(r" of the (sender|receiver|candidate|baseline)$", "", shown)
        word = re.sub(r"^[\d.]+ %(?= latency$|$)", "N %", word)
        word = re.sub(r" (p[\d.]+|max|[\d.]+%)$", " N", word)
        if word.startswith("--"):
            if f"`{word} " not in options and f"`{word}`" not in options:
                missing.append(shown)
        elif not {word.lower()} <= known and not {*re.split(", |: ", word.lower())} <= known:
            missing.append(shown)
    return missing
