"""Tensor inputs and outputs of an exported program, with their symbolic shapes."""

from __future__ import annotations

import torch
from torch.export.graph_signature import InputKind, OutputKind, TensorArgument


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
