"""GELU -> ``com.microsoft::Gelu`` or ``FastGelu``, if the graph cannot be raised to the opset of ``Gelu``.

ONNX Runtime has both at any opset; the standard has ``Gelu`` from opset 20 on.
"""

from __future__ import annotations

import onnx_ir as ir

from ffn_export.fusion.builder import Builder
from ffn_export.fusion.canonicalise.gelu import Gelu


class OrtGelu(Gelu):
    """Both kinds of GELU as operators of ONNX Runtime."""

    writes = "com.microsoft::Gelu"

    def write(self, op: Builder, x: ir.Value, approximate: str) -> ir.Value:
        """Write the operator of that kind."""
        return op.write("com.microsoft::Gelu" if approximate == "none" else "com.microsoft::FastGelu", x)
