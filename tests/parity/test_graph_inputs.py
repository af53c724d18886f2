"""What a graph says of its inputs, where there is no spec of the module that it was exported from."""

from __future__ import annotations

from ffn_export.exporter.tensor_spec import Dim, TensorSpec
from ffn_export.parity.references import graph_inputs
from tests.fusion.graphs import model

BODY = "e = Gather(table, ids) m = Cast<to = 1>(attention_mask) y = Mul(e, m) z = Neg(n)"
INPUTS = "int64[batch,seq] ids, int64[batch,seq] attention_mask, int32[2] n, float[batch,?] x"


def test_integers_are_within_what_they_index_and_masks_are_masks() -> None:
    of = model(BODY, "float[5] table = {0,0,0,0,0}", inputs=INPUTS, outputs="float[batch,seq] y, int32[2] z")
    both = (Dim("batch"), Dim("seq"))
    assert graph_inputs(of) == (
        TensorSpec("ids", "int64", both, (0, 4)),
        TensorSpec("attention_mask", "int64", both, (0, 1), is_mask=True),
        TensorSpec("n", "int32", (2,), (0, 1)),
        TensorSpec("x", "float32", (Dim("batch"), Dim("x_1"))),
    )
