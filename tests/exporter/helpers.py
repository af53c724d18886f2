"""What the tests of the exporter share: modules from a function, ONNX Runtime as it stands, refusals."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from ffn_export.core import onnx_file
from ffn_export.core.drawing import draw_all
from ffn_export.core.tensor_spec import InputSpecs
from ffn_export.errors import ExportError, FfnExportError
from ffn_export.exporter.export import export_source
from ffn_export.exporter.module_state import evaluation_mode
from ffn_export.exporter.outputs import tensors_of
from ffn_export.exporter.source import Source, from_module
from ffn_export.exporter.torch_inputs import to_torch

X = {"x": "float32[batch,seq,4]"}


def module_of(forward: Callable[..., Any], **members: Any) -> nn.Module:
    """A module with this ``forward``, and these submodules, parameters or buffers as attributes."""
    module: nn.Module = type("User", (nn.Module,), {"forward": forward})()
    for name, member in members.items():
        setattr(module, name, member)
    return module


def exported(module: nn.Module, inputs: InputSpecs, opset: int = 20) -> ir.Model:
    return export_source(from_module(module, inputs), opset)


def ops(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph]


def shapes(values: Iterable[ir.Value]) -> dict[str | None, str]:
    return {value.name: str(value.shape) for value in values}


def run(model: ir.Model, feeds: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
    """Run a model as it stands, without ONNX Runtime's own optimiser."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "model.onnx"
        onnx_file.save(model, path)
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        results: list[NDArray[Any]] = session.run(None, dict(feeds))
    return results


def assert_same_function(source: Source, model: ir.Model, *sizes: Mapping[str, int], tolerance: float = 1e-5) -> None:
    """The graph gives what the module gives, at each of the sizes."""
    for each in sizes:
        feeds = draw_all(source.inputs, each, seed=1)
        args, kwargs = source.call.arguments(to_torch(feeds))
        with torch.no_grad(), evaluation_mode(source.module):
            expected = [tensor.numpy() for tensor in tensors_of(source.module(*args, **kwargs))]
        actual = run(model, feeds)
        assert [a.shape for a in actual] == [e.shape for e in expected]
        for got, want in zip(actual, expected, strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=tolerance, atol=tolerance)


def refusal(expected: type[FfnExportError], call: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """The message of the error that a call must raise: one line."""
    with pytest.raises(expected) as caught:
        call(*args, **kwargs)
    message = str(caught.value)
    assert type(caught.value) is expected
    assert message
    assert message.splitlines() == [message]
    return message


def refused(module: nn.Module, inputs: Any = None, opset: int = 20) -> str:
    """The message with which a module cannot be exported."""
    return refusal(ExportError, exported, module, inputs or X, opset)
