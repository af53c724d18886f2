"""Give each output of a graph the dtype that it has in PyTorch.

torch's exporter adds half precision up in float32, and leaves out the cast back where the sum is an output of the
module: ``x.sum(-1)`` and ``cosine_similarity`` of float16 return float32.
"""

from __future__ import annotations

import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import from_torch_dtype

from ffn_export.exporter.traced import user_outputs


def keep(model: ir.Model, program: torch.export.ExportedProgram) -> None:
    """Cast the outputs that have another dtype than those of the program."""
    outputs = model.graph.outputs
    for place, (value, tensor) in enumerate(zip(list(outputs), user_outputs(program), strict=True)):
        dtype = from_torch_dtype(tensor.dtype)
        if value.dtype is None or value.dtype == dtype:
            continue
        cast = ir.node("Cast", [value], {"to": dtype.value}, name=f"{value.name}_cast")
        cast.outputs[0].name, value.name = value.name, f"{value.name}_before_cast"
        cast.outputs[0].shape, cast.outputs[0].dtype = value.shape, dtype
        model.graph.append(cast)
        outputs[place] = cast.outputs[0]
