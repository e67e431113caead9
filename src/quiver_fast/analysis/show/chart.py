"""Charts of a page: lines of SVG that stretch, and labels of HTML that do not.

The drawing has no size of its own: it fills the width of a phone and of a wide screen, and its
words keep theirs. Colours are the page's, which has those for light and for dark. What a mouse
rests on says its figures in a tooltip (``<title>``), without a script.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quiver_fast.analysis.show.scales import Scale

Float64Array = NDArray[np.float64]

COLOURS = 8
"""How many colours of lines a page has: ``c0`` to ``c7``."""

_SIDE = 1000
# A line of more points than this would be finer than any screen.
_BUCKETS = 700
_MOST_TIPS = 240
# A phone has every second of more marks than this.
_FEW_MARKS = 5


@dataclass
class Chart:
    """A chart: its axes, and what is drawn between them.

    Attributes:
        name: the id of its figure.
        title: what it shows.
        x, y: its axes.
        note: a sentence below it.
        wide: the marks of the y axis are words.
    """

    name: str
    title: str
    x: Scale
    y: Scale
    note: str = ""
    wide: bool = False
    _shapes: list[str] = field(default_factory=list)
    _tips: list[str] = field(default_factory=list)
    _legend: dict[str, str] = field(default_factory=dict)
    _words: list[str] = field(default_factory=list)
    _image: str = ""
    _key: str = ""

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
        """Draw a line; it has a gap at each NaN.

        Args:
            xs: float64[n].
            ys: float64[n].
            colour: 0 to 7.
            label: its name in the legend, None for none.
            dashed: it is one.
            thin: it is, so that many can be told apart.
            title: its tooltip; its label, if empty.
        """
        points = thinned(np.asarray(xs, np.float64), np.asarray(ys, np.float64))
        path = self._path(*points)
        kind = f"c{colour % COLOURS}" + (" dashed" if dashed else "") + (" thin" if thin else "")
        if path:
            inner = f"<title>{escape(title or label or self.title)}</title>"
            self._shapes.append(f'<path class="line {kind}" d="{path}">{inner}</path>')
        if label is not None:
            self._legend[label] = kind

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
        kind = f"c{colour % COLOURS}"
        spots = zip(self.x.places(xs).tolist(), self.y.places(ys).tolist(), titles, strict=True)
        for x, y, title in spots:
            spot = f"M{_at(x)} {_at(1 - y)}h0"
            inner = f'<path class="hole" d="{spot}"/>' if hollow else ""
            self._tips.append(
                f'<g><title>{escape(title)}</title><path class="dot {kind}" d="{spot}"/>{inner}</g>'
            )
        if label is not None:
            self._legend[label] = f"{kind} round" + (" hollow" if hollow else "")

    def band(self, first: float, last: float, label: str) -> None:
        """Shade what is between two values of the x axis."""
        left, right = self.x.places([first, last]).clip(0, 1).tolist()
        self._shapes.insert(
            0,
            f'<rect class="band" x="{_at(left)}" y="0" '
            f'width="{_at(right - left)}" height="{_SIDE}"/>',
        )
        self._legend[label] = "band"

    def rule(self, value: float, label: str) -> None:
        """Draw a vertical line at a value of the x axis."""
        self._shapes.append(f'<path class="rule" d="M{_at(self.x.place(value))} 0v{_SIDE}"/>')
        self._legend[label] = "rule"

    def span(self, y: float, low: float, high: float, colour: int, title: str) -> None:
        """Draw an interval: a horizontal bar at ``y`` of the y axis."""
        left, right = self.x.places([low, high]).clip(0, 1).tolist()
        self._tips.append(
            f'<path class="span c{colour % COLOURS}" d="M{_at(left)} '
            f'{_at(1 - self.y.place(y))}H{_at(right)}"><title>{escape(title)}</title></path>'
        )

    def image(self, source: str, left: float, right: float, key: str) -> None:
        """Fill the height with an image between two values of the x axis.

        Args:
            source: a ``data:`` URL.
            left: where it begins, a value of the x axis.
            right: where it ends.
            key: HTML that says what its colours mean.
        """
        ends = self.x.places([left, right]).tolist()
        # Its first and last column may begin before the axes, and end after them.
        self._image = (
            f'<svg width="{_SIDE}" height="{_SIDE}"><image href="{source}" '
            f'x="{_at(ends[0])}" y="0" width="{_at(ends[1] - ends[0])}" '
            f'height="{_SIDE}" preserveAspectRatio="none"/></svg>'
        )
        self._key = key

    def tips(self, spans: Sequence[tuple[float, float, str]]) -> None:
        """Give columns their tooltips: from and to on the x axis, and a text; of many, some."""
        every = -(-len(spans) // _MOST_TIPS)
        for first, last, text in spans[::every]:
            left, right = self.x.places([first, first + (last - first) * every]).clip(0, 1).tolist()
            self._tips.append(
                f'<rect class="tip" x="{_at(left)}" y="0" width="{_at(right - left)}" '
                f'height="{_SIDE}"><title>{escape(text)}</title></rect>'
            )

    def html(self) -> str:
        """Return the chart as a ``figure``."""
        named = ", ".join(self._legend)
        label = f"{self.title}: {self.y.name} over {self.x.name}" + (f"; {named}" if named else "")
        kind = "chart words" if self.wide else "chart"
        many = " many" if len(self.x.marks) > _FEW_MARKS else ""
        note = f'<p class="note">{escape(self.note)}</p>' if self.note else ""
        return (
            f'<figure id="{escape(self.name)}"><figcaption>{escape(self.title)}</figcaption>'
            f"{self._legend_html()}"
            f'<div class="{kind}" role="img" aria-label="{escape(label)}">'
            f'<div class="y-name">{escape(self.y.name)}</div>'
            f'<div class="y-marks">{self._y_marks()}</div>'
            f'<div class="plot"><svg viewBox="0 0 {_SIDE} {_SIDE}" preserveAspectRatio="none">'
            f"{self._grid()}{self._image}{''.join(self._shapes)}{''.join(self._tips)}</svg></div>"
            f'<div class="x-marks{many}">{self._x_marks()}</div>'
            f'<div class="x-name">{escape(self.x.name)}</div></div>{self._key}{note}</figure>'
        )

    def _path(self, xs: Float64Array, ys: Float64Array) -> str:
        words, pen_down = [], False
        places = zip(self.x.places(xs).tolist(), self.y.places(ys).tolist(), strict=True)
        for x, y in places:
            if y != y:
                pen_down = False
                continue
            words.append(f"{'L' if pen_down else 'M'}{_at(x)} {_at(1 - y)}")
            pen_down = True
        alone = [n for n, word in enumerate(words) if word[0] == "M" and _ends(words, n + 1)]
        for number in alone:
            # A point between two gaps is a dot: a line without length, with round ends.
            words[number] += "h0"
        return "".join(words)

    def _grid(self) -> str:
        lines = [f"M0 {_at(1 - self.y.place(value))}H{_SIDE}" for value, _ in self.y.marks]
        lines += [f"M{_at(self.x.place(value))} 0V{_SIDE}" for value, _ in self.x.marks]
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

    def _legend_html(self) -> str:
        if not self._legend:
            return ""
        items = (f'<li><i class="{kind}"></i>{escape(label)}</li>'
                 for label, kind in self._legend.items())  # fmt: skip
        return f'<ul class="legend">{"".join(items)}</ul>'


def sparkline(values: ArrayLike, label: str) -> str:
    """Return a small line without axes, from zero to the greatest of ``values``."""
    ys = np.asarray(values, np.float64)
    xs, ys = thinned(np.arange(len(ys), dtype=np.float64), ys)
    top = float(np.nanmax(ys)) if len(ys) and not np.isnan(ys).all() else 0.0
    width = float(xs[-1]) if len(xs) > 1 else 1.0
    points = [(x / width, 1 - y / top) for x, y in zip(xs, ys, strict=True) if y == y and top]
    path = "".join(f"{'L' if n else 'M'}{_at(x)} {_at(y)}" for n, (x, y) in enumerate(points))
    if len(points) == 1:
        path = f"M0 {_at(points[0][1])}H{_SIDE}"
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
    """Return a place from 0 to 1 in the units of the drawing."""
    return f"{place * _SIDE:.1f}".removesuffix(".0")
