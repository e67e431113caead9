"""Charts of a page: lines of SVG that stretch, and labels of HTML that do not.

The drawing has no size of its own: it fills the width of a phone and of a wide screen, and its
words keep theirs. Colours are the page's, which has those for light and for dark. Below a mouse
a shape shows its figures in a tooltip (``<title>``), without a script.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from quiver_fast.analysis.model.distribution import Float64Array
from quiver_fast.analysis.model.ranks import exists
from quiver_fast.analysis.model.units import average_text
from quiver_fast.analysis.show.heatmap import Pixels, key_html, png_url
from quiver_fast.analysis.show.html import escape
from quiver_fast.analysis.show.scales import Scale, latency_scale, percentile_scale

COLOURS = 8
"""How many colours of lines a page has: ``c0`` to ``c7``."""

_SIDE = 1000
_FINEST = 1e-3  # one microsecond: for figures without a clock of their own
# A line of more points than this would be finer than any screen.
_BUCKETS = 700
_MOST_TIPS = 240
# If there are more marks, a phone shows every second one.
_FEW_MARKS = 5


@dataclass(frozen=True, eq=False)
class Shape:
    """Something that is drawn between the axes of a chart.

    Attributes:
        kind: ``line``, ``dots``, ``band``, ``fault``, ``rule``, ``span`` or ``tip``.
        xs, ys: values of the axes: of points, or where a shape begins and ends.
        titles: its tooltips.
        colour: 0 to 7.
        form: how it is drawn: of ``dashed``, ``thin`` and ``hollow``.
        label: its name in the legend, None for none.
    """

    kind: str
    xs: Float64Array
    ys: Float64Array
    titles: Sequence[str] = ()
    colour: int = 0
    form: str = ""
    label: str | None = None

    @property
    def css(self) -> str:
        """Its classes in the style of a page."""
        if self.kind in ("band", "fault", "rule"):
            return self.kind
        return f"c{self.colour}" + (" round" if self.kind == "dots" else "") + self.form


@dataclass
class Chart:
    """A chart: its axes, and the shapes between them. A page and an image are made of it.

    Attributes:
        name: the id of its figure.
        title: its heading.
        x, y: its axes.
        note: a sentence below it.
        wide: the marks of the y axis are words.
        shapes: in the order in which they are drawn.
        picture: colours of pixels that fill the height, their begin and end on the x axis, and
            the meaning of the darkest colour.
        size: width and height of the drawing in its own units.
    """

    name: str
    title: str
    x: Scale
    y: Scale
    note: str = ""
    wide: bool = False
    shapes: list[Shape] = field(default_factory=list)
    picture: tuple[Pixels, float, float, str] | None = None
    size: tuple[float, float] = (_SIDE, _SIDE)

    def _draw(
        self,
        kind: str,
        xs: ArrayLike,
        ys: ArrayLike,
        titles: Sequence[str] = (),
        colour: int = 0,
        form: str = "",
        label: str | None = None,
    ) -> None:
        places = np.asarray(xs, np.float64), np.asarray(ys, np.float64)
        places = thinned(*places) if kind == "line" else places
        self.shapes.append(Shape(kind, *places, titles, colour % COLOURS, form, label))

    def line(
        self,
        xs: ArrayLike,
        ys: ArrayLike,
        colour: int,
        label: str | None,
        *,
        dashed: bool = False,
        thin: bool = False,
        title: str = "",
    ) -> None:
        """Draw a line through points, with a gap at each NaN.

        ``title`` is its tooltip; by default that is the label. Many lines are ``thin``, so that
        they can be told apart.
        """
        form = (" dashed" if dashed else "") + (" thin" if thin else "")
        self._draw("line", xs, ys, [title or label or self.title], colour, form, label)

    def dots(
        self,
        xs: Sequence[float],
        ys: Sequence[float],
        colour: int,
        label: str | None,
        titles: Sequence[str],
        *,
        hollow: bool = False,
    ) -> None:
        """Draw a dot at each point, with its tooltip."""
        self._draw("dots", xs, ys, titles, colour, " hollow" if hollow else "", label)

    def band(self, first: float, last: float, label: str) -> None:
        """Shade the part between two values of the x axis."""
        self._draw("band", [first, last], [], label=label)

    def fault(self, first: float, last: float, title: str) -> None:
        """Shade the time of a fault; one without a length gets a width that can be seen."""
        last = max(last, first + (self.x.high - self.x.low) / 250)
        self._draw("fault", [first, last], [], [title], label="fault")

    def rule(self, value: float, label: str) -> None:
        """Draw a vertical line at a value of the x axis."""
        self._draw("rule", [value], [], label=label)

    def span(self, y: float, low: float, high: float, colour: int, title: str) -> None:
        """Draw an interval: a horizontal bar at ``y`` of the y axis."""
        self._draw("span", [low, high], [y], [title], colour)

    def tips(self, spans: Sequence[tuple[float, float, str]]) -> None:
        """Give columns their tooltips: from and to on the x axis, and a text; of many, some."""
        every = -(-len(spans) // _MOST_TIPS)
        for first, last, text in spans[::every]:
            self._draw("tip", [first, first + (last - first) * every], [], [text])

    def html(self) -> str:
        """Return the chart as a ``figure``."""
        named = ", ".join(self.legend)
        label = f"{self.title}: {self.y.name} over {self.x.name}" + (f"; {named}" if named else "")
        kind = "chart words" if self.wide else "chart"
        many = " many" if len(self.x.marks) > _FEW_MARKS else ""
        note = f'<p class="note">{escape(self.note)}</p>' if self.note else ""
        key = "" if self.picture is None else key_html(self.picture[-1])
        return (
            f'<figure id="{escape(self.name)}"><figcaption>{escape(self.title)}</figcaption>'
            f"{_legend_html(self.legend)}"
            f'<div class="{kind}" role="img" aria-label="{escape(label)}">'
            f'<div class="y-name">{escape(self.y.name)}</div>'
            f'<div class="y-marks">{self._y_marks()}</div>'
            f'<div class="plot"><svg viewBox="0 0 {_SIDE} {_SIDE}" preserveAspectRatio="none">'
            f"{self.drawing()}</svg></div>"
            f'<div class="x-marks{many}">{self._x_marks()}</div>'
            f'<div class="x-name">{escape(self.x.name)}</div></div>{key}{note}</figure>'
        )

    @property
    def legend(self) -> dict[str, Shape]:
        """The last shape of each name."""
        return {shape.label: shape for shape in self.shapes if shape.label is not None}

    def drawing(self) -> str:
        """Return grid and shapes as SVG; those with a tooltip of their own are above others."""
        layers = (("band", "fault"), ("line", "rule"), ("dots", "span", "tip"))
        shapes = (one for kinds in layers for one in self.shapes if one.kind in kinds)
        return self._grid() + self._picture() + "".join(map(self._shape_svg, shapes))

    def _across(self, place: float) -> str:
        return _at(place * self.size[0])

    def _down(self, place: float) -> str:
        return _at((1 - place) * self.size[1])

    def _picture(self) -> str:
        if self.picture is None:
            return ""
        pixels, left, right, _ = self.picture
        # Its first and last column may begin before the axes, and end after them.
        ends = self.x.places([left, right]).tolist()
        return (
            f'<svg width="{self.size[0]}" height="{self.size[1]}"><image href="{png_url(pixels)}" '
            f'x="{self._across(ends[0])}" y="0" width="{self._across(ends[1] - ends[0])}" '
            f'height="{self.size[1]}" preserveAspectRatio="none"/></svg>'
        )

    def _shape_svg(self, shape: Shape) -> str:
        titles = [f"<title>{escape(title)}</title>" for title in shape.titles]
        if shape.kind == "line":
            path = self._path(shape.xs, shape.ys)
            kind = f"c{shape.colour}{shape.form}"
            return f'<path class="line {kind}" d="{path}">{titles[0]}</path>' if path else ""
        if shape.kind == "rule":
            place = self._across(self.x.places(shape.xs)[0])
            return f'<path class="rule" d="M{place} 0v{self.size[1]}"/>'
        if shape.kind == "dots":
            return "".join(self._dots(shape, titles))
        left, right = self.x.places(shape.xs).clip(0, 1).tolist()
        if shape.kind == "span":
            return (
                f'<path class="span c{shape.colour}" d="M{self._across(left)} '
                f'{self._down(self.y.places(shape.ys)[0])}H{self._across(right)}">{titles[0]}</path>'
            )
        width = self._across(right - left)
        box = f'class="{shape.kind}" x="{self._across(left)}" y="0" width="{width}"'
        end = f">{titles[0]}</rect>" if titles else "/>"
        return f'<rect {box} height="{self.size[1]}"{end}'

    def _dots(self, shape: Shape, titles: Sequence[str]) -> Iterable[str]:
        places = self.x.places(shape.xs).tolist(), self.y.places(shape.ys).tolist()
        for x, y, title in zip(*places, titles, strict=True):
            spot = f"M{self._across(x)} {self._down(y)}h0"
            hole = f'<path class="hole" d="{spot}"/>' if shape.form else ""
            yield f'<g>{title}<path class="dot c{shape.colour}" d="{spot}"/>{hole}</g>'

    def _path(self, xs: Float64Array, ys: Float64Array) -> str:
        words, pen_down = [], False
        places = zip(self.x.places(xs).tolist(), self.y.places(ys).tolist(), strict=True)
        for x, y in places:
            if y != y:
                pen_down = False
                continue
            words.append(f"{'L' if pen_down else 'M'}{self._across(x)} {self._down(y)}")
            pen_down = True
        alone = [n for n, word in enumerate(words) if word[0] == "M" and _ends(words, n + 1)]
        for number in alone:
            # A point between two gaps is a dot: a line without length, with round ends.
            words[number] += "h0"
        return "".join(words)

    def _grid(self) -> str:
        width, height = self.size
        lines = [f"M0 {self._down(self.y.place(value))}H{width}" for value, _ in self.y.marks]
        lines += [f"M{self._across(self.x.place(value))} 0V{height}" for value, _ in self.x.marks]
        return f'<path class="grid" d="{"".join(lines)}"/>'

    def _y_marks(self) -> str:
        return "".join(
            f'<span style="top:{100 - 100 * self.y.place(value):.2f}%">{escape(text)}</span>'
            for value, text in self.y.marks
        )

    def _x_marks(self) -> str:
        return "".join(
            f'<span style="left:{100 * self.x.place(value):.2f}%">{escape(text)}</span>'
            for value, text in self.x.marks
        )


def percentile_chart(
    name: str,
    title: str,
    curves: Mapping[str, tuple[int, Mapping[float, float]]],
    note: str,
    *,
    quantity: str = "latency",
    colour: int = 0,
) -> Chart:
    """Return a chart of known percentiles: lines lead from one to the next, the maximum is last.

    Args:
        name: the id of its figure.
        title: its heading.
        curves: by label the number of values, and milliseconds by rank.
        note: a sentence below it.
        quantity: the name of the y axis.
        colour: of the first curve; the others have the next ones.
    """
    values = [value for _, latencies in curves.values() for value in latencies.values()]
    x = percentile_scale(max(count for count, _ in curves.values()))
    chart = Chart(name, title, x, latency_scale(min(values), max(values), _FINEST, quantity), note)
    for number, (label, (count, latencies)) in enumerate(curves.items(), start=colour):
        known = [
            (1 / (1 - rank / 100), value, f"{rank:g} %")
            for rank, value in sorted(latencies.items())
            if rank < 100 and exists(f"{rank:g}", count)
        ]
        if 100 in latencies:
            known.append((float(max(count, 10)), latencies[100], "maximum"))
        xs, ys = [point[0] for point in known], [point[1] for point in known]
        chart.line(xs, ys, number, label)
        texts = [f"{label}, {rank}: {average_text(y, 'ms')}" for _, y, rank in known]
        chart.dots(xs, ys, number, None, texts)
    return chart


def _legend_html(legend: Mapping[str, Shape]) -> str:
    if not legend:
        return ""
    items = (f'<li><i class="{one.css}"></i>{escape(label)}</li>' for label, one in legend.items())
    return f'<ul class="legend">{"".join(items)}</ul>'


def sparkline(values: ArrayLike, label: str) -> str:
    """Return a small line without axes, from zero to the greatest of ``values``."""
    ys = np.asarray(values, np.float64)
    xs, ys = thinned(np.arange(len(ys), dtype=np.float64), ys)
    top = float(np.nanmax(ys)) if len(ys) and not np.isnan(ys).all() else 0.0
    width = float(xs[-1]) if len(xs) > 1 else 1.0
    points = [(x / width, 1 - y / top) for x, y in zip(xs, ys, strict=True) if y == y and top]
    places = [f"{_at(x * _SIDE)} {_at(y * _SIDE)}" for x, y in points]
    path = "".join(f"{'L' if n else 'M'}{place}" for n, place in enumerate(places))
    if len(points) == 1:
        path = f"M0 {_at(points[0][1] * _SIDE)}H{_SIDE}"
    return (
        f'<svg class="spark" role="img" aria-label="{escape(label)}" '
        f'viewBox="0 -60 {_SIDE} {_SIDE + 120}" preserveAspectRatio="none">'
        f'<path class="line c0" d="{path}"/></svg>'
    )


def thinned(xs: Float64Array, ys: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Return of many points the least and the greatest of each bucket, in their order.

    A bucket that has a NaN keeps one, so that a gap stays one.
    """
    if len(xs) <= 2 * _BUCKETS:
        return xs, ys
    size = -(-len(xs) // _BUCKETS)
    kept: set[int] = {0, len(xs) - 1}
    for first in range(0, len(xs), size):
        kept.update(_extremes(ys[first : first + size], first))
    places = sorted(kept)
    return xs[places], ys[places]


def _extremes(part: Float64Array, first: int) -> Iterable[int]:
    gaps = np.isnan(part)
    if not gaps.all():
        yield first + int(np.nanargmin(part))
        yield first + int(np.nanargmax(part))
    if gaps.any():
        yield first + int(gaps.argmax())


def _ends(words: Sequence[str], number: int) -> bool:
    return number == len(words) or words[number][0] == "M"


def _at(place: float) -> str:
    """Return a place in the units of the drawing."""
    return f"{place:.1f}".removesuffix(".0")
