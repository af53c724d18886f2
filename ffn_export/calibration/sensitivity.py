"""Sensitivity of a model to 8 bits: error and time of the products of each input, measured one input at a time."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import onnx_ir as ir

from ffn_export.core import onnx_file
from ffn_export.core.types import Progress
from ffn_export.latency.interleaving import interleave
from ffn_export.quantization.int8 import Known
from ffn_export.quantization.options import QuantizationOptions
from ffn_export.quantization.products import read
from ffn_export.quantization.quantize import groups_of, quantize
from ffn_export.quantization.result import ROWS, Sensitivity
from ffn_export.runtimes.ort_session import OrtRunner, make_session
from ffn_export.runtimes.session_options import SessionSettings

# Seconds of timed runs of both forms of one shape.
_SECONDS = 0.1


def sensitivities(
    model: ir.Model,
    options: QuantizationOptions,
    known: Known,
    error: Callable[[ir.Model], float],
    threads: int,
    progress: Progress,
) -> list[Sensitivity]:
    """Return the products of each input with their error and their saving, the best worth first.

    ``error`` runs a model on the samples, and returns the relative L2 error of its outputs.
    """
    found = []
    groups = groups_of(model, options)
    for index, (_, nodes) in enumerate(groups):
        progress(f"measuring the products of input {index + 1} of {len(groups)}")
        products = tuple(str(node.outputs[0].name) for node in nodes)
        alone, _ = quantize(model, options, known, products)
        found.append(Sensitivity(products, error(alone), saved(_shape(nodes, options), threads)))
    return sorted(found, key=lambda each: -each.worth)


def _shape(nodes: Sequence[ir.Node], options: QuantizationOptions) -> tuple[int, ...]:
    """Return the width of an input, and those of the outputs of its products."""
    sizes = []
    for node in nodes:
        product = read(node, options)
        assert not isinstance(product, str)
        sizes.append(product.shape)
    return (sizes[0][0], *(d_out for _, d_out in sizes))


@cache
def saved(shape: tuple[int, ...], threads: int) -> float:
    """Return the seconds that products of these widths save in 8 bits, timed in turn with float32."""
    d_in, *widths = shape
    draw = np.random.default_rng(0)
    x = ir.val("x", ir.DataType.FLOAT, [ROWS, d_in])
    drawn = [ir.tensor(draw.standard_normal((d_in, d_out), np.float32), name=f"w{i}") for i, d_out in enumerate(widths)]
    weights = [ir.val(tensor.name, const_value=tensor) for tensor in drawn]
    nodes = [ir.node("MatMul", [x, weight], name=f"product{i}") for i, weight in enumerate(weights)]
    for index, node in enumerate(nodes):
        node.outputs[0].name = f"y{index}"
        node.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    outputs = [node.outputs[0] for node in nodes]
    graph = ir.Graph([x], outputs, nodes=nodes, initializers=weights, opset_imports={"": 20}, name="products")
    plain = ir.Model(graph, ir_version=10)
    integers, _ = quantize(plain, QuantizationOptions(all_products=True, int8=True))
    feeds = {"x": draw.standard_normal((ROWS, d_in), np.float32)}
    with tempfile.TemporaryDirectory(prefix="ffn-export-") as scratch:
        calls = {}
        for name, each in (("float32", plain), ("int8", integers)):
            path = Path(scratch) / f"{name}.onnx"
            onnx_file.save(each, path)
            calls[name] = [OrtRunner(make_session(path, SessionSettings(), threads=threads)).prepare(feeds)]
        runs = interleave(calls, _SECONDS)
    return statistics.median(runs["float32"].seconds) - statistics.median(runs["int8"].seconds)
