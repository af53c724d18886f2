"""Bundles as they are built, and changed ones."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from executed import executed_kernels
from ffn_export.bundle.build import build_bundle
from ffn_export.bundle.build_options import BuildOptions
from ffn_export.bundle.manifest import read_manifest
from ffn_export.core import vectors
from ffn_export.exporter.source import Source, from_module, resolve
from ffn_export.fusion.forms.by_rows.row_chunks import ROW_CHUNKS
from ffn_export.modules.block import FeedForwardBlock
from ffn_export.modules.feed_forward import FeedForward
from ffn_export.modules.norms import make_norm
from ffn_export.quantization.options import QuantizationOptions
from ffn_export.runtimes.session_options import SessionSettings

NAMES = ("plain", "contrib operators", "two inputs")
# What tuning may choose, with nodes inside of nodes or weights in few bits.
FORMS = ("by rows", "few bits")


def build(name: str, directory: Path) -> None:
    """Build the bundle of a name: the block of BERT, narrow, in several forms; a norm of a sum."""
    judged = BuildOptions(runtimes=["ort-cpu"], bench_budget=0)
    options = {
        "contrib operators": replace(judged, target="ort"),
        "by rows": replace(judged, forms=frozenset({ROW_CHUNKS.name})),
        "few bits": replace(judged, quantization=QuantizationOptions(block=16), budget=0.05),
    }
    built = build_bundle(_source(name), directory, options.get(name, judged))
    assert built.passed, built.failures


def _source(name: str) -> Source:
    if name == "two inputs":
        return resolve("d2l-addnorm")
    with torch.random.fork_rng():
        torch.manual_seed(0)  # bundles of equal modules share an export
        layer, norm = FeedForward(16, 64, "gelu"), make_norm("layer_norm", 16, eps=1e-12)
    if name == "half":
        return from_module(layer.half().eval(), {"x": "float16[batch,seq,16]"})
    return from_module(FeedForwardBlock(layer, norm, "post").eval(), {"x": "float32[batch,seq,16]"})


def copy(bundle: Path, to: Path) -> Path:
    """Copy a bundle; large files are linked, and so must not be written to but replaced."""
    return Path(shutil.copytree(bundle, to, copy_function=os.link))


def with_manifest(bundle: Path, to: Path, **entries: Any) -> Path:
    """Copy a bundle under a manifest with other entries."""
    manifest = json.loads((copy(bundle, to) / "manifest.json").read_text())
    (to / "manifest.json").unlink()
    (to / "manifest.json").write_text(json.dumps({**manifest, **entries}))
    return to


def with_options(bundle: Path, to: Path, settings: SessionSettings) -> Path:
    """Copy a bundle under other session options."""
    return with_manifest(bundle, to, session_options=settings.to_dict())


def with_vector(bundle: Path, to: Path, kind: str, array: np.ndarray) -> Path:
    """Copy a bundle with another first input or output vector."""
    file = copy(bundle, to) / vectors.DIRECTORY / f"{kind}_0.pb"
    proto = onnx.numpy_helper.from_array(array, onnx.load_tensor(file).name)
    file.unlink()
    file.write_bytes(proto.SerializeToString())
    return to


def with_identity(bundle: Path, to: Path) -> Path:
    """Copy a bundle whose model has a node more that does nothing, which every level but one takes away."""
    model = onnx.load(copy(bundle, to) / "model.onnx")
    (output,) = model.graph.output
    for node in model.graph.node:
        node.output[:] = ["inner" if name == output.name else name for name in node.output]
    model.graph.node.append(onnx.helper.make_node("Identity", ["inner"], [output.name]))
    (to / "model.onnx").unlink()
    onnx.save(model, to / "model.onnx")
    return to


def in_bfloat16(bundle: Path, to: Path) -> Path:
    """Copy a bundle with a model of one input and output in bfloat16, of which the CPU's provider has few operators."""
    make = onnx.helper.make_tensor_value_info
    x, y = (make(name, onnx.TensorProto.BFLOAT16, ["n"]) for name in "xy")
    wide, back = onnx.TensorProto.FLOAT, onnx.TensorProto.BFLOAT16
    nodes = [
        onnx.helper.make_node("Cast", ["x"], ["wide"], to=wide),
        onnx.helper.make_node("Neg", ["wide"], ["negative"]),
        onnx.helper.make_node("Cast", ["negative"], ["y"], to=back),
    ]
    graph = onnx.helper.make_graph(nodes, "negative", [x], [y])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10)
    (copy(bundle, to) / "model.onnx").unlink()
    onnx.save(model, to / "model.onnx")
    dtype = onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.BFLOAT16)
    numbers = np.array([1.5, -2.0, 3e38], dtype=dtype)
    for kind, name, array in (("input", "x", numbers), ("output", "y", -numbers)):
        file = to / vectors.DIRECTORY / f"{kind}_0.pb"
        file.unlink()
        file.write_bytes(onnx.numpy_helper.from_array(array, name).SerializeToString())
    return to


def vector(bundle: Path, kind: str) -> np.ndarray:
    """Return the first input or output vector, in an array of its own."""
    inputs, outputs = vectors.read(bundle)
    return np.array(next(iter((inputs if kind == "input" else outputs).values())))


def executed_in_python(bundle: Path) -> list[str]:
    """Return the operators that ONNX Runtime runs under the bundle's own options, in order."""
    settings = read_manifest(bundle).session_options
    kernels = executed_kernels(bundle / "model.onnx", settings, vectors.read(bundle)[0])
    return [kernel.operator for kernel in kernels]
