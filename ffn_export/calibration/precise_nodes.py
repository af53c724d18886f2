"""Choose the nodes that native kernels compute more precisely than the rest, so that a model keeps its budget.

Each node of ``FeedForward`` and ``Linear`` is measured alone: the error of the model's outputs with this node in the
lower precision and all others in float32. The nodes that save most products for the error that they add stay in the
lower precision, as many as the budget allows; the others take the next precision.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ffn_export.calibration.node_smoothing import smoothed
from ffn_export.calibration.within_budget import longest_beginning, relative_error
from ffn_export.core.types import Array, Progress
from ffn_export.fusion.functions.contract import PRECISION, nodes_with, state
from ffn_export.runtimes.in_place import load_in_place
from ffn_export.runtimes.ort_native import INT8, OrtNative

_HIGHER = {"int8": "bf16", "bf16": "f32"}


@dataclass(frozen=True)
class Kept:
    """A model that keeps its budget.

    Attributes:
        model: The model, whose nodes state their precision.
        raised: Names of the nodes in the higher precision.
        told: The number and the names of these, in words.
    """

    model: ir.Model
    raised: tuple[str, ...]
    told: str


def keep_budget(
    model: ir.Model,
    runtime: OrtNative,
    feeds: Mapping[str, Array],
    budget: float,
    threads: int,
    progress: Progress,
    passes: Callable[[ir.Model], bool] = lambda made: True,
) -> Kept | None:
    """Return the model with the fewest nodes in the next precision that fits.

    Args:
        model: A model in nodes of the contract that is over the budget; it is not modified.
        runtime: The runtime in the lower precision.
        feeds: Inputs on which the model is judged.
        budget: Largest relative L2 error of an output.
        threads: Intra-op threads.
        progress: Called with a line for each step.
        passes: Whether a model that keeps the budget on these inputs keeps it on others, too.

    Returns:
        None if no node may stay in the lower precision, or the model as it is keeps the budget.
    """
    lower, higher = runtime.precision, _HIGHER[runtime.precision]

    def run(names: Collection[str], others: str) -> tuple[ir.Model, Mapping[str, Array]]:
        made = with_precisions(model, names, lower, others)
        return made, load_in_place(made, threads, runtime.provider).run(feeds)

    _, before = run((), "f32")
    nodes = nodes_with(model, PRECISION)
    worth = {}
    for index, node in enumerate(nodes):
        progress(f"measuring node {index + 1} of {len(nodes)} in {lower}")
        name = str(node.name)
        error = relative_error(before, run([name], "f32")[1])
        worth[name] = _size(node) / max(error, float(np.finfo(np.float32).eps)) ** 2
    ranked = sorted(worth, key=lambda name: -worth[name])

    def within(count: int) -> ir.Model | None:
        progress(f"judging {count} of {len(ranked)} nodes in {lower}")
        made, after = run(ranked[:count], higher)
        return made if relative_error(before, after) <= budget and passes(made) else None

    if within(len(ranked)) is not None:
        return None
    kept, made = longest_beginning(len(ranked), within)
    if made is None:
        return None
    raised = tuple(str(node.name) for node in nodes if node.name in ranked[kept:])
    told = f"{len(raised)} of {len(nodes)} nodes compute in {higher} to keep the budget: {', '.join(raised)}"
    return Kept(made, raised, told)


def in_precision(
    model: ir.Model, precision: str | None, raised: Collection[str], feeds: Mapping[str, Array], threads: int
) -> ir.Model:
    """Return a model in nodes of the contract as it is computed in a precision; the model itself if nothing changes.

    Nodes that are named as raised take the next precision. For 8-bit integers, channels are measured on the feeds and
    smoothed. Without native kernels, the precision is None.
    """
    if precision == INT8.precision:
        model = smoothed(model, feeds, threads)
    if precision is None or not raised:
        return model
    lower = [str(node.name) for node in model.graph.all_nodes() if node.name not in raised]
    return with_precisions(model, lower, precision, _HIGHER[precision])


def with_precisions(model: ir.Model, lower: Collection[str], precision: str, higher: str) -> ir.Model:
    """Return a copy of a model whose nodes state ``precision`` if they are named in ``lower``, else ``higher``."""
    copy = model.clone()
    for node in nodes_with(copy, PRECISION):
        state(copy, node, ir.AttrString(PRECISION, precision if node.name in lower else higher))
    return copy


def _size(node: ir.Node) -> int:
    """Return the number of weights of a node: the products of a token."""
    shapes = [value.shape for value in node.inputs[1:] if value is not None and value.const_value is not None]
    return sum(int(np.prod(shape.numpy())) for shape in shapes if shape is not None)
