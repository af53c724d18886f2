"""The products of a block and nothing else: what fusing cannot get below in the same runtime, with these widths."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx
import torch

from ffn_export.core.types import Array
from ffn_export.errors import UsageError
from ffn_export.modules.block import FeedForwardBlock
from ffn_export.modules.feed_forward import FeedForward
from ffn_export.modules.gated import GatedFeedForward
from ffn_export.runtimes.session_options import SessionSettings
from peers.ours import Made
from peers.subject import Subject


def bare(subject: Subject, threads: int) -> Made:
    """Write the two products of a feed-forward, or the three of a gated one, one after the other.

    Raises:
        UsageError: If the subject is a whole model.
    """
    del threads
    module = subject.source.module
    if not isinstance(module, FeedForwardBlock):
        raise UsageError("a whole model has more products than those of feed-forwards")
    graph = _graph(_matrices(module.feed_forward))
    return subject.file("bare", partial(onnx.save, graph)), SessionSettings()


def _matrices(feed_forward: torch.nn.Module) -> dict[str, Array]:
    """Return name -> matrix ``[d_in, d_out]``, the one to ``d_model`` last."""
    if isinstance(feed_forward, FeedForward):
        weights = {"up": feed_forward.linear_1.weight, "down": feed_forward.linear_2.weight}
    elif isinstance(feed_forward, GatedFeedForward):
        gate, up = feed_forward.gate_and_up()
        weights = {"gate": gate["weight"], "up": up["weight"], "down": feed_forward.down.weight}
    else:
        raise UsageError(f"the products of {type(feed_forward).__name__} are not known here")
    return {name: np.ascontiguousarray(weight.detach().numpy().T) for name, weight in weights.items()}


def _graph(matrices: dict[str, Array]) -> onnx.ModelProto:
    """The hidden values of a second product into ``d_ff`` are an output: else it would be left out."""
    into = [name for name in matrices if name != "down"]
    d_model, d_ff = matrices[into[0]].shape
    others = "".join(f", float[batch,seq,{d_ff}] {name}_x" for name in into[1:])
    products = "".join(f"{name}_x = MatMul(x, {name}) " for name in into)
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 20]> bare (float[batch,seq,{d_model}] x) => '
        f"(float[batch,seq,{d_model}] y{others}) {{ {products} y = MatMul({into[0]}_x, down) }}"
    )
    model.graph.initializer.extend(onnx.numpy_helper.from_array(matrix, name) for name, matrix in matrices.items())
    return model
