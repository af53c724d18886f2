"""``x > 20 ? x : softplus(x)`` -> ``Softplus``, as torch's exporter writes ``F.softplus``.

From the threshold on, ``log(1 + exp(-x))`` is less than half a unit in the last place of ``x`` in float32 and all
narrower dtypes, so both branches give the same number. Covers: any threshold of 20 and more; ``>`` or ``>=``. Not
covered: float64, in which the branches differ up to 37; a lower threshold; ``beta`` other than 1.

Source: ``torch.nn.Softplus``.
"""

from __future__ import annotations

import onnx_ir as ir

from ffn_export.fusion import constants
from ffn_export.fusion.rule import Found, Rule, replacing, standard
from ffn_export.fusion.safety import FUSABLE_DTYPES
from ffn_export.fusion.views import input_at, producer, rank

_LEAST = 20.0  # exp(-20) is 2e-9, and half a unit in the last place of 20 in float32 1e-6


class Softplus(Rule):
    """Softplus with its linear branch for large numbers."""

    site = "feed_forward"
    writes = "Softplus"
    ends = standard("Where")

    def match(self, node: ir.Node) -> Found:
        """Recognise the ``Where``."""
        x = input_at(node, 1)
        is_above = producer(input_at(node, 0), "Greater", "GreaterOrEqual", within=node.graph)
        softplus = producer(input_at(node, 2), "Softplus", within=node.graph)
        if is_above is None or softplus is None or x is None or x.dtype not in FUSABLE_DTYPES:
            return None
        threshold = input_at(is_above, 1)
        number, width = constants.number(threshold), rank(x)
        if input_at(softplus, 0) is not x or input_at(is_above, 0) is not x or number is None or number < _LEAST:
            return None
        if threshold is None or width is None or constants.rank(threshold) > width:
            return None
        return replacing((node, is_above, softplus), node.outputs[0], lambda op, x: op.Softplus(x), x)
