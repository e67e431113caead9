"""Charts as images: a drawing of a page with its words around it, as SVG and as PNG."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from operator import methodcaller
from pathlib import Path

from quiver_fast.analysis.show.chart import Chart, Shape
from quiver_fast.analysis.show.html import escape
from quiver_fast.analysis.show.style import IMAGE_STYLE
from quiver_fast.errors import QuiverError
from quiver_fast.extras import optional_module
from quiver_fast.output_file import write_file

_WIDTH, _HEIGHT, _SMALL = 864, 346, 242
_LEFT, _RIGHT, _TOP, _BOTTOM = 110, 30, 68, 44
_SWATCH, _LINE = 18, 18
# Words are narrower than so many units a letter.
_LETTER = 7.5
_ZOOM = 1.5


def write_images(directory: Path, images: Mapping[str, str], form: str) -> list[Path]:
    """Write each image to ``directory/NAME.FORM`` and return the files.

    Args:
        directory: made if it is not there.
        images: SVG by name.
        form: ``png`` or ``svg``.

    Raises:
        QuiverError: PNG is asked for, and its renderer or a font is not installed.
    """
    if form == "png":
        _check_font()
    directory.mkdir(parents=True, exist_ok=True)
    files = []
    for name, text in images.items():
        files.append(directory / f"{name}.{form}")
        image = text.encode() if form == "svg" else _png(text)
        write_file(files[-1], methodcaller("write", image))
    return files


def _check_font() -> None:
    """Refuse to draw words that nobody would see: the renderer leaves out what no font has."""
    if _png(_svg(20, 20, _text(2, 15, "M"))) == _png(_svg(20, 20, "")):
        raise QuiverError("drawing PNG needs a font, such as DejaVu Sans; --svg needs none")


def _png(text: str) -> bytes:
    renderer = optional_module("resvg_py", "drawing PNG")
    return bytes(renderer.svg_to_bytes(svg_string=text, zoom=_ZOOM))


def image(*charts: Chart) -> str:
    """Return an image of charts, one below the other, as SVG."""
    drawn, bottom = "", 0
    for chart in charts:
        parts, height = _parts(chart, _HEIGHT if len(charts) == 1 else _SMALL)
        drawn += f'<g transform="translate(0 {bottom})">{"".join(parts)}</g>'
        bottom += height
    return _svg(_WIDTH, bottom, drawn)


def _svg(width: int, height: int, drawn: str) -> str:
    size = f'width="{width}" height="{height}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{IMAGE_STYLE}</style>'
        f'<rect class="paper" {size}/>{drawn}</svg>\n'
    )


def _parts(chart: Chart, height: int) -> tuple[list[str], int]:
    """Return the drawing and its words, and their height: names may need several lines."""
    names, lines = _names(chart)
    top, width, high = _TOP + (lines - 1) * _LINE, _WIDTH - _LEFT - _RIGHT, height - _TOP - _BOTTOM
    bottom, right = top + high, _LEFT + width
    parts = [
        _text(_LEFT, 18, chart.title, "title"),
        *names,
        _text(_LEFT, top - 10, chart.y.name),
        _text(right, bottom + 34, chart.x.name, "end"),
        *([] if chart.picture is None else [_text(right, 18, f"1 to {chart.picture[-1]}", "end")]),
    ]
    for value, text in chart.x.marks:
        parts.append(_text(_LEFT + width * chart.x.place(value), bottom + 17, text, "middle"))
    for value, text in chart.y.marks:
        parts.append(_text(_LEFT - 8, bottom - high * chart.y.place(value) + 4, text, "end"))
    inner = replace(chart, size=(width, high)).drawing()
    parts.append(f'<g transform="translate({_LEFT} {top})">{inner}</g>')
    return parts, bottom + _BOTTOM


def _names(chart: Chart) -> tuple[list[str], int]:
    """Return the legend, and the number of its lines."""
    parts, x, y = [], _LEFT, 34
    for label, shape in chart.legend.items():
        width = _SWATCH + 22 + round(_LETTER * len(label))
        if x > _LEFT and x + width > _WIDTH:
            x, y = _LEFT, y + _LINE
        parts += [_swatch(shape, x, y), _text(x + _SWATCH + 6, y + 4, label)]
        x += width
    return parts, (y - 34) // _LINE + 1


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{escape(text)}</text>'


def _swatch(shape: Shape, x: float, y: float) -> str:
    """Return the form of a shape beside its name."""
    if shape.kind in ("band", "fault"):
        return f'<rect class="{shape.kind}" x="{x}" y="{y - 6}" width="{_SWATCH}" height="12"/>'
    if shape.kind == "dots":
        return f'<path class="dot c{shape.colour}" d="M{x + _SWATCH / 2} {y}h0"/>'
    kind = "rule" if shape.kind == "rule" else f"line c{shape.colour}{shape.form}"
    return f'<path class="{kind}" d="M{x} {y}h{_SWATCH}"/>'
