"""A map of messages by time and latency, as an image that a page holds within itself."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.model.distribution import Float64Array, distinct
from quiver_fast.analysis.model.units import per_millisecond, short_text
from quiver_fast.analysis.show.scales import Scale
from quiver_fast.analysis.tables.latencies import Histogram

Pixels = NDArray[np.uint8]
"""Rows of red, green, blue and opacity."""

_ROWS, _COLUMNS, _BINS = 160, 600, 80
# From few to many: ever darker on white, and none near black; the colour-blind can tell them.
_ANCHORS = np.array([(150, 200, 235), (70, 130, 200), (125, 80, 160), (205, 75, 60)], np.float64)


@dataclass(frozen=True)
class Heat:
    """How many messages there are by time and latency.

    Attributes:
        edges: of the columns, epoch seconds, float64[c + 1].
        rows: edges of the rows, ticks of the clock, float64[r + 1].
        cells: messages, float64[c, r].
        ticks: of the clock in a millisecond.
    """

    edges: Float64Array
    rows: Float64Array
    cells: Float64Array
    ticks: int

    def columns(self) -> Iterator[tuple[float, float, float]]:
        """Yield begin, end and number of messages of each column."""
        sums = self.cells.sum(axis=1).tolist()
        edges = self.edges.tolist()
        yield from zip(edges[:-1], edges[1:], sums, strict=True)

    def pixels(self, scale: Scale) -> Pixels:
        """Return the colours of the image, its rows equally high on ``scale``."""
        limits = scale.places(self.rows / self.ticks)
        centres = (np.arange(_ROWS)[::-1] + 0.5) / _ROWS
        places = np.clip(np.searchsorted(limits, centres, "right") - 1, 0, len(self.rows) - 2)
        shown = self.cells.T[places]
        return _coloured(shown)

    def key(self) -> str:
        """Return the meaning of the darkest colour; the lightest one is one message."""
        most = self.cells.max()
        return f"{short_text(float(most))} message{'' if most == 1 else 's'} in a cell"


def key_html(meaning: str) -> str:
    """Return the colours from one message to ``meaning``."""
    colours = ", ".join(f"rgb({r:.0f} {g:.0f} {b:.0f})" for r, g, b in _ANCHORS)
    style = f"background:linear-gradient(to right, {colours})"
    return f'<p class="note key">1 <i style="{style}"></i> {meaning}</p>'


def heat_image(histogram: Histogram) -> Heat:
    """Return the map of ``histogram``, which has one message at least."""
    columns, rows = _time_edges(histogram), _latency_edges(histogram)
    cells = np.zeros((len(columns) - 1, len(rows) - 1))
    for part in histogram.parts():
        added, _, _ = np.histogram2d(
            part.seconds, part.latencies, (columns, rows), weights=part.counts
        )
        cells += added
    return Heat(columns, rows, cells, per_millisecond(histogram.unit))


def _time_edges(histogram: Histogram) -> Float64Array:
    ends = [(int(part.seconds[0]), int(part.seconds[-1])) for part in histogram.parts()]
    first, end = ends[0][0], ends[-1][1] + 1
    width = -(-(end - first) // _COLUMNS)
    return np.arange(first, end + width, width, dtype=np.float64)


def _latency_edges(histogram: Histogram) -> Float64Array:
    """Return edges at whole ticks, ever wider away from zero on both sides.

    They begin with the least latency and end after the greatest, so that the map is filled.
    """
    latencies = histogram.distribution()
    low, high = latencies.minimum, latencies.maximum
    if low > 0:
        return distinct(np.rint(np.geomspace(low, high + 1, _BINS)))
    upper = distinct(np.rint(np.geomspace(1, max(high, 1) + 1, _BINS)))
    lower = -distinct(np.rint(np.geomspace(1, -low, _BINS)))[::-1] if low < 0 else np.empty(0)
    return np.concatenate((lower, [0.0], upper))


def png_url(pixels: Pixels) -> str:
    """Return an image as a ``data:`` URL."""
    return "data:image/png;base64," + base64.b64encode(_png(pixels)).decode()


def _coloured(cells: Float64Array) -> Pixels:
    """Return red, green, blue and opacity of each cell, by the logarithm of its messages."""
    share = np.log(np.maximum(cells, 1)) / max(np.log(cells.max()), 1e-9)
    steps = np.linspace(0, 1, len(_ANCHORS))
    image = np.zeros((*cells.shape, 4), np.uint8)
    for channel in range(3):
        image[..., channel] = np.interp(share, steps, _ANCHORS[:, channel]).round()
    image[..., 3] = np.where(cells > 0, 255, 0)
    return image


def _png(image: Pixels) -> bytes:
    """Return rows of red, green, blue and opacity as PNG (RFC 2083)."""
    height, width, _ = image.shape
    # Each row has the number of its filter before it: none.
    rows = np.zeros((height, 1 + 4 * width), np.uint8)
    rows[:, 1:] = image.reshape(height, 4 * width)
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    parts = (
        _chunk(b"IHDR", header),
        _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)),
        _chunk(b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
