"""An architecture as an ONNX file."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from pathlib import Path

import onnx
import onnx_ir as ir
import torch

import ffn_export as fx
from corpus.entry import EXAMPLE, Architecture
from ffn_export.core import onnx_file

# The tables of positions have 64 rows, some used up by padding; a convolution needs as many samples as its kernel.
_BOUNDED = {"seq": "seq<=48", "target": "target<=24", "samples": "40<=samples<=4000"}


def export(entry: Architecture, module: torch.nn.Module, path: Path) -> None:
    """Write the graph of the module, made by the exporter that the architecture names."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), torch.no_grad():
        warnings.simplefilter("ignore")
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        if entry.exporter == "fx":
            _with_ffn_export(entry, module, path)
        elif entry.exporter == "dynamo":
            _with_dynamo(entry, module, path)
        else:
            _with_torchscript(entry, module, path)
    written = {opset.domain: opset.version for opset in onnx.load(path).opset_import}
    if written[""] != entry.opset:
        raise ValueError(f"asked for opset {entry.opset}, got {written['']}")


def _with_ffn_export(entry: Architecture, module: torch.nn.Module, path: Path) -> None:
    samples = entry.feeds(EXAMPLE)
    specs = {
        name: f"{samples[name].dtype}[{','.join(_BOUNDED.get(str(axis), str(axis)) for axis in given.shape)}]"
        for name, given in entry.inputs.items()
    }
    model = fx.export(module, specs, samples=samples, opset=entry.opset)
    onnx_file.save(model, path)


def _with_dynamo(entry: Architecture, module: torch.nn.Module, path: Path) -> None:
    dynamic = {name: dict.fromkeys(given.axes, torch.export.Dim.DYNAMIC) for name, given in entry.inputs.items()}
    program = torch.onnx.export(
        module,
        (),
        kwargs=_tensors(entry),
        dynamo=True,
        dynamic_shapes=dynamic,
        opset_version=entry.opset,
        input_names=list(entry.inputs),
        verbose=False,
    )
    assert program is not None
    onnx_file.strip_machine_metadata(program.model)
    ir.save(program.model, path)


def _with_torchscript(entry: Architecture, module: torch.nn.Module, path: Path) -> None:
    axes = {name: given.axes for name, given in entry.inputs.items()}

    torch.onnx.export(
        module,
        tuple(_tensors(entry).values()),
        path,
        dynamo=False,
        opset_version=entry.opset,
        input_names=list(entry.inputs),
        output_names=["output"],
        dynamic_axes=axes,
    )


def _tensors(entry: Architecture) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array) for name, array in entry.feeds(EXAMPLE).items()}
