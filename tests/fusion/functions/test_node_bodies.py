"""Bodies of nodes whose activation is a formula."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from ffn_export.core.activations import TABLE, Activation, gelu
from ffn_export.fusion.functions import node_bodies
from ffn_export.fusion.functions.contract import FEED_FORWARD, Call


def test_an_activation_with_a_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    new = Activation("new", formula="gelu(x)**2 + x / 4 - 1 / Exp(x)")
    monkeypatch.setattr(node_bodies, "TABLE", {**TABLE, "new": new})
    names = ("x", "w1", "b1", "w2")
    given = {name: ir.Value(name=name) for name in names}
    call = Call(FEED_FORWARD, given, {"activation": "new"}, (ir.Value(name="y"),), ())
    body = ReferenceEvaluator(ir.serde.serialize_function(node_bodies.function_of(call, 20)))
    draw = np.random.default_rng(0)
    arrays = [draw.standard_normal(shape).astype(np.float32) for shape in ((3, 4), (4, 8), (8,), (8, 4))]
    x, w1, b1, w2 = (array.astype(np.float64) for array in arrays)
    h = x @ w1 + b1
    results = body.run(None, dict(zip(names, arrays, strict=True)), {"activation": "new"})
    np.testing.assert_allclose(np.asarray(results)[0], (gelu(h) ** 2 + h / 4 - np.exp(-h)) @ w2, rtol=1e-4, atol=1e-4)
