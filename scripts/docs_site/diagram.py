"""The data flow of docs/architecture.md as a picture: browsers draw no Mermaid, and its script is on another host."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from html import escape

from architecture_diagram import GIVES, readers

_BOX, _ROW, _WIDTH = (290, 44), 84, 940


def svg() -> str:
    """Return the folders in rows, each below those that it reads, as an SVG."""
    edges = readers()

    @cache
    def row(folder: str) -> int:
        return 1 + max((row(source) for source, found in edges.items() if folder in found), default=-1)

    rows: dict[int, list[str]] = {}
    for folder in sorted(edges):
        rows.setdefault(row(folder), []).append(folder)
    places = {
        folder: (round(_WIDTH * (index + 0.5) / len(folders)), _ROW * number + _BOX[1] // 2 + 4)
        for number, folders in rows.items()
        for index, folder in enumerate(folders)
    }
    lines = [*_arrows(edges, places), *_boxes(places)]
    return _FRAME.format(width=_WIDTH, height=_ROW * len(rows), content="\n".join(lines))


def _arrows(edges: dict[str, set[str]], places: dict[str, tuple[int, int]]) -> Iterator[str]:
    half = _BOX[1] // 2
    for source in sorted(edges):
        for reader in sorted(edges[source]):
            (x1, y1), (x2, y2) = places[source], places[reader]
            start, end = y1 + half, y2 - half - 6
            yield f'<path class="arrow" d="M{x1} {start} C{x1} {start + 30} {x2} {end - 30} {x2} {end}"/>'


def _boxes(places: dict[str, tuple[int, int]]) -> Iterator[str]:
    width, height = _BOX
    for folder, (x, y) in places.items():
        gives = GIVES.get(folder, "")
        yield f'<rect x="{x - width // 2}" y="{y - height // 2}" width="{width}" height="{height}" rx="6"/>'
        yield f'<text x="{x}" y="{y - 3}" class="name">{escape(folder)}</text>'
        yield f'<text x="{x}" y="{y + 13}">{escape(gives)}</text>'


_FRAME = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0L8 4L0 8z" fill="#57606a"/></marker></defs>
<style>rect {{fill: #e6f4f1; stroke: #0b6e4f}} text {{font-size: 10.5px; text-anchor: middle; fill: #24292f}}
.name {{font-size: 13px; font-weight: bold}} .arrow {{fill: none; stroke: #57606a; marker-end: url(#tip)}}</style>
<rect width="100%" height="100%" style="fill: white; stroke: none"/>
{content}
</svg>
"""
