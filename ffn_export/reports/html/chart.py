"""Common parts of all charts: matplotlib's SVG with the page's font and colours, reproducible byte for byte.

A colour of the palette is a placeholder. In the SVG it becomes a variable of the page's style sheet, so that
a chart follows the reader's light or dark scheme.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ffn_export.core.plain_text import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Placeholder colour -> variable of the style sheet.
INK, QUIET, RULE = "#010203", "#040506", "#070809"
GOOD, UNSURE, BAD, SERIES = "#0a0b0c", "#0d0e0f", "#101112", ("#131415", "#161718", "#191a1b", "#1c1d1e", "#1f2021")
_VARIABLES = {
    INK: "--ink",
    QUIET: "--quiet",
    RULE: "--rule",
    GOOD: "--good",
    UNSURE: "--unsure",
    BAD: "--bad",
    **{color: f"--series-{number}" for number, color in enumerate(SERIES, 1)},
}

# The width of a phone: a chart is never scaled down, so its text stays as large as the page's.
WIDTH_PIXELS = 350
_HEIGHT_PIXELS = 270
MOST_LINES = 4
_LONGEST_LABEL = 24
_LABEL_GAP = 0.075  # of the height of the axes
_PIXELS_PER_INCH = 72.0  # matplotlib's SVG backend counts in points

_STYLE: Any = {
    "text.parse_math": False,  # a name may contain a dollar sign
    "svg.fonttype": "none",
    "svg.hashsalt": "ffn-export",
    "font.family": "sans-serif",
    "font.size": 11,
    "axes.edgecolor": RULE,
    "axes.labelcolor": QUIET,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
}
_ID = re.compile(r'(\bid="|href="#|url\(#)')
_HEAD = re.compile(r"^.*?(?=<svg)", re.DOTALL)
_SIZE = re.compile(r'(<svg[^>]*?) width="([\d.]+)pt" height="([\d.]+)pt"', re.DOTALL)


@contextmanager
def figure() -> Iterator[tuple[Figure, Axes]]:
    """Yield a figure with one pair of axes."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        size = WIDTH_PIXELS / _PIXELS_PER_INCH, _HEIGHT_PIXELS / _PIXELS_PER_INCH
        drawn = Figure(figsize=size, layout="constrained")
        drawn.patch.set_visible(False)
        axes = drawn.add_subplot()
        axes.patch.set_visible(False)
        yield drawn, axes


def label(text: str) -> str:
    """Return a name as a label, with control characters escaped and long names cut."""
    shown = visible(text)
    return shown if len(shown) <= _LONGEST_LABEL else f"{shown[:_LONGEST_LABEL]}…"


def label_ends(axes: Axes, ends: Sequence[tuple[float, str, str]]) -> None:
    """Write the name of each line at its right end, moved apart where they would overlap.

    Args:
        axes: Axes with a logarithmic vertical axis.
        ends: Last number, name and colour of each line.
    """
    least, most = axes.get_ylim()
    wanted = sorted((math.log(y / least) / math.log(most / least), text, color) for y, text, color in ends)
    places: list[float] = []
    for place, _, _ in wanted:
        places.append(max(place, places[-1] + _LABEL_GAP) if places else max(place, 0.0))
    ceiling = 1.0
    for index in reversed(range(len(places))):
        places[index] = min(places[index], ceiling)
        ceiling = places[index] - _LABEL_GAP
    for place, (_, text, color) in zip(places, wanted, strict=True):
        axes.text(1.02, place, label(text), color=color, transform=axes.transAxes, verticalalignment="center")


def to_svg(drawn: Figure, name: str, title: str) -> str:
    """Return a figure as an SVG element for a page.

    Args:
        drawn: The figure.
        name: Name unique on the page, as the prefix of the chart's identifiers.
        title: Description of the chart for screen readers.
    """
    buffer = io.StringIO()
    nobody = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    drawn.savefig(buffer, format="svg", metadata=nobody)
    text = _HEAD.sub("", buffer.getvalue(), count=1)
    text = _SIZE.sub(r'\1 width="\2" height="\3" role="img" aria-labelledby="title"', text, count=1)
    text = text.replace(">", f'>\n <title id="title">{_escaped(title)}</title>', 1)
    text = _ID.sub(rf"\g<1>{name}-", text).replace('aria-labelledby="', f'aria-labelledby="{name}-')
    for color, variable in _VARIABLES.items():
        text = text.replace(color, f"var({variable})")
    return re.sub(r"font: ([\d.]+)px[^;\"]*", r"font-size: \1px", text)


def _escaped(text: str) -> str:
    from markupsafe import escape

    return str(escape(text))
