"""Sensitivity of a model to 8 bits: error and time of the products of each input, measured one input at a time."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import onnx_ir as ir

from ffn_export.core import onnx_file
from ffn_export.core.types import Progress
from ffn_export.latency.interleaving import interleave
from ffn_export.quantization.int8 import Known
from ffn_export.quantization.options import QuantizationOptions
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
    for index, products in enumerate(groups.values()):
        progress(f"measuring the products of input {index + 1} of {len(groups)}")
        names = tuple(str(each.node.outputs[0].name) for each in products)
        alone, _ = quantize(model, options, known, names)
        widths = (products[0].shape[0], *(each.shape[1] for each in products))
        found.append(Sensitivity(names, error(alone), saved(widths, threads)))
    return sorted(found, key=lambda each: -each.worth)


@cache
def saved(widths: tuple[int, ...], threads: int) -> float:
    """Return the seconds that 8 bits save for the products of an input: its width, then those of their outputs."""
    d_in, *d_outs = widths
    draw = np.random.default_rng(0)
    x = ir.val("x", ir.DataType.FLOAT, [ROWS, d_in])
    drawn = [ir.tensor(draw.standard_normal((d_in, d_out), np.float32), name=f"w{i}") for i, d_out in enumerate(d_outs)]
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
