"""Pages of HTML that need no network and run no script, and the tables in them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

__all__ = ["html_cell", "html_grid", "html_page", "html_verdict"]

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #222; max-width: 60rem;
       margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { margin-top: 2.5rem; border-bottom: 1px solid #ccc; }
h3 { margin-bottom: .3rem; }
table { border-collapse: collapse; margin: .5rem 0 1rem; }
th, td { padding: .15rem .9rem .15rem 0; text-align: left; vertical-align: top; }
th { font-weight: 600; } td.number { text-align: right; font-variant-numeric: tabular-nums; }
tr + tr td, tr + tr th { border-top: 1px solid #eee; }
figure { margin: 1rem 0; } figure svg { width: 100%; height: auto; }
.better, .ok { color: #00694e; } .worse, .breached, .mixed { color: #b03a00; font-weight: 600; }
.columns { display: flex; flex-wrap: wrap; gap: 0 3rem; }
"""
_NUMBER_STARTS = frozenset("+-0123456789")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def html_page(title: str, body: str) -> str:
    """Return a whole document; its Content-Security-Policy forbids to load anything.

    Args:
        title: text.
        body: HTML.
    """
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"{body}\n</body>\n</html>\n"
    )


def html_grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of texts under their heads; what begins as a number does stands right."""
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    lines = ("".join(html_cell(cell, cell[:1] in _NUMBER_STARTS) for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><tr>{head}</tr>{body}</table>"


def html_cell(text: str, numeric: bool) -> str:
    """Return one cell; ``numeric`` ones stand right."""
    kind = ' class="number"' if numeric else ""
    return f"<td{kind}>{html_verdict(text)}</td>"


def html_verdict(text: str) -> str:
    """Return ``text``, in the colour of what it says about a run."""
    if text in ("better", "worse", "mixed", "ok", "breached"):
        return f'<span class="{text}">{text}</span>'
    return escape(text)
