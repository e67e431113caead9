"""Charts as images: matplotlib draws the axes, marks and shapes of a page without a display."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from quiver_fast.analysis.show.chart import Chart, Float64Array, Shape
from quiver_fast.analysis.show.style import STYLE
from quiver_fast.extras import optional_module

if TYPE_CHECKING:
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
    module = optional_module("matplotlib.figure", "drawing plots")
    figure: Figure = module.Figure(
        figsize=(_WIDTH, _HEIGHT * max(1, 0.7 * len(charts))), layout="constrained"
    )
    places = figure.subplots(len(charts), squeeze=False)[:, 0]
    for axes, chart in zip(places, charts, strict=True):
        _draw(axes, chart)
    return figure


def _draw(axes: Axes, chart: Chart) -> None:
    axes.set_title(chart.title, loc="left")
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
    for shape in chart.shapes:
        _draw_shape(axes, shape, chart.x.places(shape.xs), chart.y.places(shape.ys))
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    if once:
        axes.legend(once.values(), once.keys(), frameon=False)


def _draw_shape(axes: Axes, shape: Shape, xs: Float64Array, ys: Float64Array) -> None:
    colour = _COLOURS[f"c{shape.colour}"]
    if shape.kind == "line":
        style, width = ":" if "dashed" in shape.form else "-", 0.8 if "thin" in shape.form else 1.3
        # The dots are for points between gaps, which have no line.
        axes.plot(xs, ys, style, color=colour, lw=width, label=shape.label, marker=".", ms=2.5)
    elif shape.kind == "dots":
        fill = "white" if shape.form else colour
        axes.plot(xs, ys, "o", color=colour, mfc=fill, ms=4.5, label=shape.label, clip_on=False)
    elif shape.kind == "span":
        axes.hlines(ys, xs[0], xs[1], color=colour, lw=2)
    elif shape.kind == "band":
        axes.axvspan(xs[0], xs[1], color=_BAND, alpha=0.12, lw=0, label=shape.label)
    elif shape.kind == "rule":
        axes.axvline(xs[0], color=_RULE, ls="--", lw=1, label=shape.label)
