"""Choose the nodes that native kernels compute more precisely than the rest, so that a model keeps its budget.

Each node of ``FeedForward`` and ``Linear`` is measured alone: the error of the model's outputs with this node in the
lower precision and all others in float32. The nodes that save most products for the error that they add stay in the
lower precision, as many as the budget allows; the others take the next precision.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import onnx_ir as ir

from ffn_export.calibration.within_budget import relative_error
from ffn_export.core.types import Array, Progress
from ffn_export.fusion.functions.contract import DOMAIN, PRECISION, kind_of
from ffn_export.runtimes.model_files import ModelFiles
from ffn_export.runtimes.ort_native import OrtNative
from ffn_export.runtimes.ort_session import OrtRunner, make_session
from ffn_export.runtimes.session_options import UNPACKED

HIGHER = {"int8": "bf16", "bf16": "f32"}


def within_budget(
    model: ir.Model, runtime: OrtNative, feeds: Mapping[str, Array], budget: float, threads: int, progress: Progress
) -> tuple[ir.Model, str] | None:
    """Return the model with the fewest nodes in the next precision that fits, and a line that tells how many these are.

    Args:
        model: A model in nodes of the contract; it is not modified.
        runtime: The runtime in the lower precision.
        feeds: Inputs on which the model is judged.
        budget: Largest relative L2 error of an output.
        threads: Intra-op threads.
        progress: Called with a line for each step.

    Returns:
        None if the model has no such node, or not even one of them may stay in the lower precision.
    """
    lower, higher = runtime.precision, HIGHER[runtime.precision]
    before = _outputs(with_precisions(model, (), lower, "f32"), runtime, feeds, threads)

    def error(names: Collection[str], others: str) -> float:
        return relative_error(before, _outputs(with_precisions(model, names, lower, others), runtime, feeds, threads))

    nodes = _products(model)
    worth = {}
    for index, node in enumerate(nodes):
        progress(f"measuring node {index + 1} of {len(nodes)} in {lower}")
        name = str(node.name)
        worth[name] = _size(node) / max(error([name], "f32"), float(np.finfo(np.float32).eps)) ** 2
    ranked = sorted(worth, key=lambda name: -worth[name])
    few, many = 0, len(ranked) + 1  # the largest number of nodes in the lower precision that fits, by halving
    while many - few > 1:
        middle = (few + many) // 2
        progress(f"judging {middle} of {len(ranked)} nodes in {lower}")
        if error(ranked[:middle], higher) <= budget:
            few = middle
        else:
            many = middle
    kept = with_precisions(model, ranked[:few], lower, higher)
    return (
        (kept, f"{len(ranked) - few} of {len(ranked)} nodes compute in {higher}, to keep the budget") if few else None
    )


def with_precisions(model: ir.Model, lower: Collection[str], precision: str, higher: str) -> ir.Model:
    """Return a copy of a model whose nodes state their precision.

    Args:
        model: A model in nodes of the contract.
        lower: Names of the nodes that compute in ``precision``; all others take ``higher``.
        precision: The precision of the session.
        higher: A more precise one.
    """
    copy = model.clone()
    for node in _products(copy):
        node.attributes[PRECISION] = ir.AttrString(PRECISION, precision if node.name in lower else higher)
        function = copy.functions[node.op_identifier()]
        if PRECISION not in function.attributes:
            function.attributes[PRECISION] = ir.Attr(PRECISION, ir.AttributeType.STRING, None)
    return copy


def _products(model: ir.Model) -> list[ir.Node]:
    ours = [(node, kind_of(node.op_type)) for node in model.graph.all_nodes() if node.domain == DOMAIN]
    return [node for node, kind in ours if kind is not None and PRECISION in kind.attributes]


def _size(node: ir.Node) -> int:
    """Return the number of weights of a node: the products of a token."""
    shapes = [value.shape for value in node.inputs[1:] if value is not None and value.const_value is not None]
    return sum(int(np.prod(shape.numpy())) for shape in shapes if shape is not None)


def _outputs(model: ir.Model, runtime: OrtNative, feeds: Mapping[str, Array], threads: int) -> Mapping[str, Array]:
    with tempfile.TemporaryDirectory(prefix="ffn-export-") as scratch:
        path, weights = ModelFiles(Path(scratch)).write_without_weights(model)
        session = make_session(path, UNPACKED, threads, weights=weights, provider=runtime.provider)
        return OrtRunner(session).run(feeds)
