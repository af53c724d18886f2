"""Plot of a quantisation: error of the model over the time that its 8-bit products save, as an SVG file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from ffn_export.quantization.result import ROWS, QuantizationReport

_WIDTH, _HEIGHT, _MARGIN = 640, 400, 60


def sensitivity_plot(report: QuantizationReport) -> str:
    """Return the curve as SVG: a point for each input whose products go to 8 bits, and the chosen point filled.

    Errors of different products add up as squares.
    """
    ranked = report.sensitivities
    saved = [0.0, *accumulate(max(each.saved, 0.0) * 1e3 for each in ranked)]
    error = [square**0.5 for square in (0.0, *accumulate(each.error**2 for each in ranked))]
    across, up = _placed(saved, _MARGIN, _WIDTH - _MARGIN), _placed(error, _HEIGHT - _MARGIN, _MARGIN)
    points = list(zip(across, up, strict=True))
    chosen = sum(each.chosen for each in ranked)
    marks = [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{6 if index == chosen else 3}" '
        f'fill="{"#0b6" if index == chosen else "#fff"}" stroke="#036"/>'
        for index, (x, y) in enumerate(points)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    label = (
        f"chosen: {chosen} of {len(ranked)} inputs in 8 bits, {saved[chosen]:.3g} ms saved, error {error[chosen]:.3g}"
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
            'font-size="13">',
            f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
            f'<polyline points="{line}" fill="none" stroke="#036"/>',
            *marks,
            f'<text x="{_WIDTH / 2}" y="24" text-anchor="middle">{label}</text>',
            f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 16}" text-anchor="middle">milliseconds saved for {ROWS} rows, '
            f"up to {saved[-1]:.3g}</text>",
            f'<text x="20" y="{_HEIGHT / 2}" transform="rotate(-90 20 {_HEIGHT / 2})" text-anchor="middle">relative L2 '
            f"error, up to {error[-1]:.3g}</text>",
            "</svg>\n",
        ]
    )


def _placed(numbers: Sequence[float], low: float, high: float) -> list[float]:
    """Scale numbers from 0 to the largest finite one to pixels; infinite ones are as far out as that."""
    largest = max(filter(math.isfinite, numbers)) or 1.0
    return [low + (high - low) * min(number / largest, 1.0) for number in numbers]
