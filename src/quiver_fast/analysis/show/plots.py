"""Charts as images: matplotlib draws the axes, marks and shapes of a page without a display."""

from __future__ import annotations

import os
import re
from types import ModuleType
from typing import TYPE_CHECKING

from quiver_fast.analysis.show.chart import Chart, Float64Array, Shape
from quiver_fast.analysis.show.style import STYLE
from quiver_fast.errors import visible
from quiver_fast.extras import optional_module

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT = 9.0, 3.6
# The light ones: an image has a white ground.
_COLOURS = dict(reversed(re.findall(r"--(c\d): (#\w+)", STYLE)))
_BAND, _RULE = _COLOURS["c2"], _COLOURS["c7"]


def drawn(*charts: Chart) -> Figure:
    """Return an image of charts, one below the other.

    Raises:
        QuiverError: matplotlib is not installed.
    """
    matplotlib = _matplotlib()
    # A user's own settings are for the user's own plots.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        figure: Figure = matplotlib.figure.Figure(
            figsize=(_WIDTH, _HEIGHT * max(1, 0.7 * len(charts))), layout="constrained"
        )
        places = figure.subplots(len(charts), squeeze=False)[:, 0]
        for axes, chart in zip(places, charts, strict=True):
            _draw(axes, chart)
    return figure


def _matplotlib() -> ModuleType:
    # An image needs no display. The import fails if the variable names a display of other tools.
    backend = os.environ.pop("MPLBACKEND", None)
    try:
        optional_module("matplotlib.figure", "drawing plots")
        return optional_module("matplotlib", "drawing plots")
    finally:
        if backend is not None:
            os.environ["MPLBACKEND"] = backend


def _draw(axes: Axes, chart: Chart) -> None:
    # With math, "$" and "^" in a name would have a meaning.
    axes.set_title(chart.title, loc="left", parse_math=False)
    axes.set(xlabel=chart.x.name, xlim=(0, 1), ylim=(0, 1))
    axes.set_ylabel(chart.y.name, fontsize="small")
    for axis, scale in ((axes.xaxis, chart.x), (axes.yaxis, chart.y)):
        axis.set_ticks(
            [scale.place(at) for at, _ in scale.marks], [text for _, text in scale.marks]
        )
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="#dddddd", lw=0.5)
    axes.set_axisbelow(True)
    if chart.picture is not None:
        pixels, left, right, key = chart.picture
        ends = chart.x.places([left, right])
        axes.imshow(pixels, extent=(*ends, 0, 1), aspect="auto", interpolation="nearest")
        axes.set_xlim(0, 1)
        words = re.sub(r"<[^>]*>", "", key.replace("</i>", "to"))
        axes.set_title(words, loc="right", fontsize="small")
    once: dict[str | None, Artist | None] = {}
    for shape in chart.shapes:
        once[shape.label] = _draw_shape(
            axes, shape, chart.x.places(shape.xs), chart.y.places(shape.ys)
        )
    named = {label: artist for label, artist in once.items() if label is not None and artist}
    if named:
        _add_legend(axes, named)


def _add_legend(axes: Axes, handles: dict[str, Artist]) -> None:
    # A label that begins with "_" is left out of a legend, but not the text of another label.
    legend = axes.legend(handles.values(), map(str, range(len(handles))), frameon=False)
    for text, label in zip(legend.get_texts(), handles, strict=True):
        text.set(text=visible(label), parse_math=False)


def _draw_shape(axes: Axes, shape: Shape, xs: Float64Array, ys: Float64Array) -> Artist | None:
    """Draw a shape, and return the part of it that a legend shows."""
    colour = _COLOURS[f"c{shape.colour}"]
    if shape.kind == "line":
        style, width = ":" if "dashed" in shape.form else "-", 0.8 if "thin" in shape.form else 1.3
        # The dots are for points between gaps, which have no line.
        return axes.plot(xs, ys, style, color=colour, lw=width, marker=".", ms=2.5)[0]
    if shape.kind == "dots":
        fill = "white" if shape.form else colour
        return axes.plot(xs, ys, "o", color=colour, mfc=fill, ms=4.5, clip_on=False)[0]
    if shape.kind == "span":
        return axes.hlines(ys, xs[0], xs[1], color=colour, lw=2)
    if shape.kind == "band":
        return axes.axvspan(xs[0], xs[1], color=_BAND, alpha=0.12, lw=0)
    if shape.kind == "rule":
        return axes.axvline(xs[0], color=_RULE, ls="--", lw=1)
    return None  # the text of a pointer
