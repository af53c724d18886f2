"""Tensor inputs and outputs of an exported program, with their symbolic shapes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import InputKind, OutputKind, TensorArgument

from ffn_export.core.tensor_spec import TensorSpec

if TYPE_CHECKING:
    from ffn_export.exporter.source import Source


def user_inputs(program: torch.export.ExportedProgram) -> list[torch.Tensor]:
    """Return the inputs as fake tensors, in the order of the call, without constants."""
    specs = program.graph_signature.input_specs
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    return [values[s.arg.name] for s in specs if s.kind is InputKind.USER_INPUT and isinstance(s.arg, TensorArgument)]


def user_outputs(program: torch.export.ExportedProgram) -> list[torch.Tensor]:
    """Return the outputs as fake tensors, in the order of the result, without None."""
    specs = program.graph_signature.output_specs
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    return [values[s.arg.name] for s in specs if s.kind is OutputKind.USER_OUTPUT and isinstance(s.arg, TensorArgument)]


def spec_at(source: Source, path: str) -> TensorSpec:
    """Return the input at a path of torch.export such as ``['args'][0]``, named ``args_0`` in a program from a file."""
    keys = [key or int(index) for key, index in re.findall(r"\['(\w+)'\]|\[(\d+)\]", path)]
    with source.call.spelled_out(source.module):
        parameters = source.by_parameter({spec.name: spec for spec in source.inputs})
    entry: Any = parameters.get("_".join(map(str, keys)), parameters)
    for key in keys if entry is parameters else ():
        entry = entry[key]
    assert isinstance(entry, TensorSpec)
    return entry
