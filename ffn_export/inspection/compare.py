"""Compare two models: interface, operators, weights and wiring."""

from __future__ import annotations

from pathlib import Path

from ffn_export.core import onnx_file
from ffn_export.inspection import facts, node_changes
from ffn_export.inspection.difference import Difference, Side
from ffn_export.inspection.open_model import OpenModel, file_bytes, read
from ffn_export.inspection.weights import Paired, pair
from ffn_export.inspection.wiring import Wiring


def compare(a: Path, b: Path) -> Difference:
    """Compare two ONNX files; neither is run.

    Raises:
        UsageError: If a file is missing or is not an ONNX model.
    """
    left, right = read(a), read(b)
    pairs = pair(left, right)
    tokens_a = {one.a.value: _token(number, one) for number, one in enumerate(pairs) if one.a is not None}
    tokens_b = {one.b.value: _token(number, one) for number, one in enumerate(pairs) if one.b is not None}
    wiring_a, wiring_b = Wiring(left.model, tokens_a), Wiring(right.model, tokens_b)
    same = wiring_a.fingerprint == wiring_b.fingerprint
    return Difference(
        _side(left),
        _side(right),
        tuple(one.report for one in pairs),
        same,
        () if same else node_changes.between(left.model, wiring_a, right.model, wiring_b),
    )


def _token(number: int, paired: Paired) -> str:
    """Return a token that both weights of a pair share: their content if they are equal, else a number.

    Content makes the token independent of how several equal weights are paired.
    """
    if paired.a is not None and paired.report.status == "equal":
        return repr(paired.a.content)
    return str(number)


def _side(opened: OpenModel) -> Side:
    graph = opened.model.graph
    return Side(
        model=str(opened.path),
        inputs=tuple(facts.describe_value(value) for value in graph.inputs),
        outputs=tuple(facts.describe_value(value) for value in graph.outputs),
        opset_imports=dict(opened.model.opset_imports),
        operators=facts.operators(opened.model),
        file_bytes=file_bytes(opened),
        weights_bytes=sum(facts.stored_bytes(tensor) for _, tensor in onnx_file.weights(opened.model)),
        note=opened.note,
    )
